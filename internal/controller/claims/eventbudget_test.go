package claims_test

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"

	karpv1 "github.com/dovetail-sh/dovetail/api/v1"
	"github.com/dovetail-sh/dovetail/internal/catalog"
	"github.com/dovetail-sh/dovetail/internal/cluster"
	"github.com/dovetail-sh/dovetail/internal/condition"
	"github.com/dovetail-sh/dovetail/internal/disrupt"
	"github.com/dovetail-sh/dovetail/internal/drain"
	"github.com/dovetail-sh/dovetail/internal/event"
	"github.com/dovetail-sh/dovetail/internal/report"
)

// tally counts the events that leave the process.
type tally struct{ reasons []string }

func (s *tally) Eventf(_, _ runtime.Object, _, reason, _, _ string, _ ...any) {
	s.reasons = append(s.reasons, reason)
}

// within holds the events emitted since the last time against its budget.
func (s *tally) within(t *testing.T, what string, most int) {
	t.Helper()
	if len(s.reasons) > most {
		t.Errorf("%s: %d events, the budget is %d: %v", what, len(s.reasons), most, s.reasons)
	}
	s.reasons = nil
}

// A node comes up, is kept by an annotation for an hour, and goes slowly. Whatever is decided, and however
// often, its events stay within their budget.
func TestTrust_B06_EventsOfANodeHaveABudget(t *testing.T) {
	t.Parallel()
	w := newClaimWorld(t, newClaim())
	out := &tally{}
	events := report.New(out, func() time.Time { return w.now })
	w.reconciler.Events = events
	node := joinedNode()
	seen := cluster.ManagedNode{Node: cluster.Node{Name: "n", Claim: "c", Pool: "p"}, Created: claimBorn}
	pools := map[string]cluster.ManagedPool{"p": {Pool: cluster.Pool{Name: "p", Types: make([]catalog.InstanceType, 1)}}}
	judge := func() {
		for _, s := range disrupt.Next(disrupt.View{DisruptionView: cluster.DisruptionView{Now: w.now, Nodes: []cluster.ManagedNode{seen}, Pools: pools}}, nil).Events {
			events.Emit(node, s.Event)
			events.Emit(w.claim(t), s.Event)
		}
	}
	every := func(d, pass time.Duration, act func()) {
		for end := w.now.Add(d); w.now.Before(end); w.now = w.now.Add(pass) {
			act()
		}
	}

	every(40*time.Second, 10*time.Second, func() { w.pass(t) })
	node.Status.Conditions[0].Status = corev1.ConditionFalse
	if err := w.api.Create(t.Context(), node); err != nil {
		t.Fatal(err)
	}
	every(40*time.Second, 10*time.Second, func() { w.pass(t); judge() })
	if err := w.api.Get(t.Context(), types.NamespacedName{Name: "n"}, node); err != nil {
		t.Fatal(err)
	}
	node.Status.Conditions[0].Status = corev1.ConditionTrue
	if err := w.api.Status().Update(t.Context(), node); err != nil {
		t.Fatal(err)
	}
	seen.Registered, seen.Initialized, seen.Ready, seen.Nominated = true, true, true, true
	every(30*time.Second, 10*time.Second, func() { w.pass(t); judge() })
	if have := w.state(t, karpv1.ConditionReady); have != "True/Ready" {
		t.Fatalf("Ready is %s", have)
	}
	out.within(t, "coming up", event.NodeUp)

	seen.Nominated, seen.ProtectedBy = false, karpv1.AnnotationDoNotDisrupt
	every(time.Hour, 10*time.Second, func() { w.pass(t); judge() })
	out.within(t, "an hour with an annotation that keeps it", event.NodeHour)

	node.DeletionTimestamp, node.Finalizers = new(metav1.NewTime(w.now)), []string{karpv1.FinalizerTermination}
	claim := w.claim(t)
	claim.DeletionTimestamp, claim.Spec.TerminationGracePeriod = node.DeletionTimestamp, "1h"
	seen.BeingRemoved = true
	events.Emit(node, event.Event{Reason: event.DisruptionTerminating, Text: "it goes"})
	events.Emit(claim, event.Event{Reason: event.DisruptionTerminating, Text: "it goes"})
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "slow", UID: "slow", DeletionTimestamp: node.DeletionTimestamp, DeletionGracePeriodSeconds: new(int64(3600))}}
	every(15*time.Minute, time.Second, func() {
		judge()
		step := drain.Next(drain.Facts{Node: node, Claim: claim, Pods: []*corev1.Pod{pod}, Now: w.now})
		events.Emit(node, step.Events...)
		before := claim.DeepCopy()
		for _, m := range step.Marks {
			claim.Status.Conditions = setMark(claim.Status.Conditions, m)
		}
		events.Flips(claim, condition.Flips(before.Status.Conditions, claim.Status.Conditions))
	})
	out.within(t, "going", event.NodeDown-4) // the end of the drain, of the instance and of both objects are to come
}

func setMark(list []metav1.Condition, m drain.Mark) []metav1.Condition {
	if c := condition.Find(list, m.Type); c != nil {
		c.Status, c.Reason, c.Message = m.Status, m.Reason, m.Message
		return list
	}
	return append(list, metav1.Condition{Type: m.Type, Status: m.Status, Reason: m.Reason, Message: m.Message})
}

// A pod that waits for a node that was ordered gets an event, and not with every plan.
func TestTrust_B06_EventsOfAPodHaveABudget(t *testing.T) {
	t.Parallel()
	now := claimBorn
	out := &tally{}
	events := report.New(out, func() time.Time { return now })
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "w", UID: "w"}}
	for i := range 360 {
		place := "nodeclaim/a"
		if i%2 == 1 {
			place = "node/b" // plans that change their mind are no reason for more events
		}
		events.Emit(pod, event.Event{Reason: event.Nominated, Text: "Pod should schedule on: " + place})
		now = now.Add(10 * time.Second)
	}
	out.within(t, "an hour of waiting", event.PodHour)
	for range 60 {
		events.Emit(pod, event.Event{Reason: event.Evicted, Text: "evicted"})
		now = now.Add(time.Second)
	}
	out.within(t, "an eviction", event.PodMoved)
}

// Only claims that were launched have a node that pods could be on until a deadline.
func TestTrust_B06_NoDeadlineWithoutANode(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		provider string
		want     bool
	}{
		"launched":     {provider: claimInstance, want: true},
		"not launched": {},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			claim := newClaim()
			claim.Spec.TerminationGracePeriod, claim.Status.ProviderID = "10m", tc.provider
			claim.DeletionTimestamp, claim.Finalizers = new(metav1.NewTime(claimBorn)), []string{karpv1.FinalizerTermination}
			step := drain.NextClaim(drain.ClaimFacts{Claim: claim, Now: claimBorn.Add(time.Second)})
			got := false
			for _, e := range step.Events {
				got = got || e.Reason == event.TerminationGracePeriodExpiring
			}
			if got != tc.want || step.Stamp == "" {
				t.Errorf("event about a deadline: %v, want %v; stamp %q", got, tc.want, step.Stamp)
			}
		})
	}
}
