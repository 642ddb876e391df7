package pool_test

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	karpv1 "github.com/dovetail-sh/dovetail/api/v1"
	"github.com/dovetail-sh/dovetail/internal/condition"
	"github.com/dovetail-sh/dovetail/internal/event"
	"github.com/dovetail-sh/dovetail/internal/pool"
)

// LC-52, API-9, S-175: a pool says what is wrong with its class, and what to do.
func TestNodeClassReady(t *testing.T) {
	t.Parallel()
	class := func(list ...metav1.Condition) *pool.Class { return &pool.Class{Generation: 3, Conditions: list} }
	ready := func(status metav1.ConditionStatus, reason, message string) metav1.Condition {
		return metav1.Condition{Type: "Ready", Status: status, Reason: reason, Message: message}
	}
	subnets := metav1.Condition{Type: "SubnetsReady", Status: isFalse, Message: "no subnet has the tag a=b"}
	for name, tc := range map[string]struct {
		class       *pool.Class
		wantStatus  metav1.ConditionStatus
		wantReason  string
		wantMessage string
		wantEvent   bool
		wantRoot    metav1.ConditionStatus
		wantSeen    int64
	}{
		"there is none": {
			wantStatus: isFalse, wantReason: "NodeClassNotFound", wantRoot: isFalse, wantSeen: 2, wantEvent: true,
			wantMessage: "EC2NodeClass c does not exist; create it, or name another one in spec.template.spec.nodeClassRef",
		},
		"it goes": {
			class:      &pool.Class{Generation: 3, Deleting: true, Conditions: []metav1.Condition{ready(isTrue, "Ready", "")}},
			wantStatus: isFalse, wantReason: "NodeClassTerminating", wantRoot: isFalse, wantSeen: 3, wantEvent: true,
			wantMessage: "EC2NodeClass c is being deleted; name another one in spec.template.spec.nodeClassRef, or create it again once it is deleted",
		},
		"it is new": {
			class: class(), wantStatus: isFalse, wantReason: "NodeClassReadinessUnknown", wantRoot: isFalse, wantSeen: 3,
			wantMessage: "EC2NodeClass c has not been checked yet; its conditions say what is missing",
		},
		"it is not known yet": {
			class: class(subnets, ready(isUnknown, "ReconcilingDependents", "")), wantStatus: isFalse, wantReason: "NodeClassReadinessUnknown", wantRoot: isFalse, wantSeen: 3,
			wantMessage: "EC2NodeClass c has not been checked completely: SubnetsReady: no subnet has the tag a=b",
		},
		"it is not ready": {
			class: class(subnets, ready(isFalse, "UnhealthyDependents", "SubnetsReady=False")), wantStatus: isFalse, wantReason: "UnhealthyDependents", wantRoot: isFalse, wantSeen: 3,
			wantMessage: "EC2NodeClass c is not ready: SubnetsReady=False (SubnetsReady: no subnet has the tag a=b)",
		},
		"it is not ready and does not say why": {
			class: class(ready(isFalse, "", "")), wantStatus: isFalse, wantReason: "NodeClassNotReady", wantRoot: isFalse, wantSeen: 3,
			wantMessage: "EC2NodeClass c is not ready",
		},
		"it is ready": {class: class(ready(isTrue, "Ready", "")), wantStatus: isTrue, wantReason: "NodeClassReady", wantRoot: isTrue, wantSeen: 3},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := facts(func(p *karpv1.NodePool) { p.Status.NodeClassObservedGeneration = 2 })
			f.Class = tc.class
			step := next(t, f)
			got := condition.Find(step.Conditions, karpv1.ConditionNodeClassReady)
			want := metav1.Condition{Type: "NodeClassReady", Status: tc.wantStatus, Reason: tc.wantReason, Message: tc.wantMessage, LastTransitionTime: got.LastTransitionTime, ObservedGeneration: 1}
			if diff := cmp.Diff(want, *got); diff != "" {
				t.Errorf("condition (-want +got):\n%s", diff)
			}
			if root := condition.Find(step.Conditions, karpv1.ConditionReady); root.Status != tc.wantRoot {
				t.Errorf("Ready is %s, want %s", root.Status, tc.wantRoot)
			}
			if step.ClassSeen != tc.wantSeen {
				t.Errorf("generation of the class seen is %d, want %d", step.ClassSeen, tc.wantSeen)
			}
			if tc.wantEvent != (len(step.Events) == 1 && step.Events[0].Reason == event.NodeClassNotFound && step.Events[0].Text == tc.wantMessage) {
				t.Errorf("events %v", step.Events)
			}
		})
	}
}

// API-9: an unchanged pool is not written again.
func TestNextReachesAFixedPoint(t *testing.T) {
	t.Parallel()
	f := facts(func(*karpv1.NodePool) {})
	f.Class = &pool.Class{Generation: 3, Conditions: []metav1.Condition{{Type: "Ready", Status: isTrue}}}
	first := next(t, f)
	f.Pool.Status.Conditions, f.Pool.Status.NodeClassObservedGeneration = first.Conditions, first.ClassSeen
	f.Now = metav1.NewTime(f.Now.Add(1e9))
	if diff := cmp.Diff(first.Conditions, next(t, f).Conditions); diff != "" {
		t.Errorf("conditions changed (-first +second):\n%s", diff)
	}
}

// One manifest makes a pool and its class, in any order: in the seconds in which the class is missing nothing is
// said about it. If it does not come, the pool says so.
func TestTrust_B06_PoolAndClassAreCreatedTogether(t *testing.T) {
	t.Parallel()
	f := facts(func(*karpv1.NodePool) {})
	f.Pool.CreationTimestamp = f.Now
	f.Now = metav1.NewTime(f.Now.Add(time.Second))
	step := next(t, f)
	if c := condition.Find(step.Conditions, karpv1.ConditionNodeClassReady); len(step.Events) > 0 || c.Status != isUnknown || step.After != 4*time.Second {
		t.Errorf("after a second: events %v, condition %+v, again after %s", step.Events, c, step.After)
	}
	f.Pool.Status.Conditions = step.Conditions
	f.Now = metav1.NewTime(f.Now.Add(step.After))
	step = next(t, f)
	if c := condition.Find(step.Conditions, karpv1.ConditionNodeClassReady); len(step.Events) != 1 || c.Reason != pool.NodeClassNotFound || step.After != 0 {
		t.Errorf("after five seconds: events %v, condition %+v, again after %s", step.Events, c, step.After)
	}
}
