package drain_test

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	karpv1 "github.com/dovetail-sh/dovetail/api/v1"
	"github.com/dovetail-sh/dovetail/internal/condition"
	"github.com/dovetail-sh/dovetail/internal/drain"
	"github.com/dovetail-sh/dovetail/internal/lifecycle"
)

// ending is a terminating node, second by second: its claim, its pod, and a cloud that ends the instance as soon
// as it is requested to.
type ending struct {
	claim    *karpv1.NodeClaim
	node     *corev1.Node
	pod      *corev1.Pod // nil: gone
	budgets  []*policyv1.PodDisruptionBudget
	instance drain.State

	requested                int           // evictions that the budget refused
	deleted, ended, released time.Duration // since the deletion of the claim
	grace                    time.Duration
}

// second does what is decided at one moment.
func (e *ending) second(t *testing.T, since time.Duration, stubborn bool) {
	t.Helper()
	now := after(since)
	if e.pod != nil && e.pod.DeletionTimestamp != nil && !now.Before(e.pod.DeletionTimestamp.Time) && !stubborn {
		e.pod = nil // its kubelet has ended it
	}
	end := drain.NextClaim(drain.ClaimFacts{Claim: e.claim, Launched: true, Nodes: []*corev1.Node{e.node}, Instance: e.instance, Now: now})
	if end.Stamp != "" {
		metav1.SetMetaDataAnnotation(&e.claim.ObjectMeta, karpv1.AnnotationTerminationTimestamp, end.Stamp)
	}
	facts := drain.Facts{Node: e.node, Claim: e.claim, Budgets: e.budgets, Instance: e.instance, Now: now}
	if e.pod != nil {
		facts.Pods = []*corev1.Pod{e.pod}
	}
	step := drain.Next(facts)
	object := condition.Object{Generation: e.claim.Generation, Created: e.claim.CreationTimestamp, Deleting: true}
	for _, m := range step.Marks {
		e.claim.Status.Conditions = lifecycle.Conditions().Apply(e.claim.Status.Conditions, object, metav1.NewTime(now),
			condition.Change{Type: m.Type, Status: m.Status, Reason: m.Reason, Message: m.Message})
	}
	e.requested += len(step.Pods.Evict) // 429 each time
	for _, d := range step.Pods.Delete {
		if e.deleted == 0 {
			e.deleted, e.grace = since, d.Grace
		}
		d.Pod.DeletionTimestamp, d.Pod.DeletionGracePeriodSeconds = new(metav1.NewTime(now.Add(d.Grace))), new(int64(d.Grace/time.Second))
	}
	switch {
	case step.Terminate && e.ended == 0:
		e.ended, e.instance = since, drain.Gone
	case step.Release:
		e.released = since
	}
}

// Disruption 25.16, LC-20, LC-36: terminationGracePeriod 1 h, a pod that requests 300 s of grace, and a budget that
// never allows its eviction. Its eviction is requested for 55 minutes, then deleted with all of its grace, and
// the instance is gone after an hour.
func TestAnHourOfGraceIsKept(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		change    func(*corev1.Pod)
		stubborn  bool // its kubelet never ends it
		deleted   time.Duration
		ended     time.Duration
		requested bool
	}{
		"a budget that blocks":      {change: func(*corev1.Pod) {}, deleted: 55 * time.Minute, ended: time.Hour, requested: true},
		"a pod that is protected":   {change: protected("true"), deleted: 55 * time.Minute, ended: time.Hour},
		"a pod that requests more":  {change: grace(2 * 3600), deleted: 0, ended: time.Hour},
		"a pod that requests less":  {change: grace(30), deleted: time.Hour - 30*time.Second, ended: time.Hour, requested: true},
		"a kubelet that is no more": {change: func(*corev1.Pod) {}, stubborn: true, deleted: 55 * time.Minute, ended: time.Hour + time.Minute, requested: true}, // LC-29
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			e := &ending{claim: claim(period("1h")), node: node(), pod: pod("db", grace(300), tc.change)}
			e.pod.Labels = map[string]string{"app": "db"}
			e.budgets = []*policyv1.PodDisruptionBudget{{
				ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "db"},
				Spec:       policyv1.PodDisruptionBudgetSpec{MaxUnavailable: new(intstr.FromInt32(0)), Selector: &metav1.LabelSelector{MatchLabels: e.pod.Labels}},
			}}
			for since := time.Duration(0); since <= 2*time.Hour && e.released == 0; since += time.Second {
				e.second(t, since, tc.stubborn)
			}
			near := func(what string, got, want time.Duration) {
				t.Helper()
				if got < want || got > want+2*time.Second { // one second is the step, another one that "after" is later than "at"
					t.Errorf("%s after %s, want %s", what, got, want)
				}
			}
			near("the pod is deleted", e.deleted, tc.deleted)
			near("the instance ends", e.ended, tc.ended)
			near("the Node goes", e.released, tc.ended)
			if left := time.Hour - e.deleted; e.grace != left {
				t.Errorf("the pod is given %s, want what is left, %s", e.grace, left)
			}
			if e.requested > 0 != tc.requested {
				t.Errorf("eviction requested %d times", e.requested)
			}
		})
	}
}
