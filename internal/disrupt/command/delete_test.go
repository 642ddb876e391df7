package command_test

import (
	"errors"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	karpv1 "github.com/dovetail-sh/dovetail/api/v1"
	"github.com/dovetail-sh/dovetail/internal/disrupt"
	"github.com/dovetail-sh/dovetail/internal/disrupt/command"
)

// FM C03: a command deletes a claim only while its node is held for it.
func TestFM_C03_CheckDelete(t *testing.T) {
	t.Parallel()
	forbidden := errors.New("annotation x=y now")
	for name, tc := range map[string]struct {
		reason karpv1.DisruptionReason
		change func(*command.HeldObjects)
		remove bool
		why    error
	}{
		"held":                     {change: func(*command.HeldObjects) {}, remove: true},
		"the claim is gone":        {change: func(o *command.HeldObjects) { o.Claim = nil }},
		"another claim of a name":  {change: func(o *command.HeldObjects) { o.UID = "other" }},
		"the claim is terminating": {change: func(o *command.HeldObjects) { o.Claim.DeletionTimestamp = &metav1.Time{Time: time.Unix(1, 0)} }},
		"the condition is gone":    {change: func(o *command.HeldObjects) { o.Claim.Status.Conditions = nil }, why: command.ErrNotHeld},
		"held for another command": {change: func(o *command.HeldObjects) { o.Node.Annotations[karpv1.AnnotationHeldBy] = "other" }, why: command.ErrNotHeld},
		"released":                 {change: func(o *command.HeldObjects) { o.Node.Annotations = nil }, why: command.ErrNotHeld},
		"the node is gone":         {change: func(o *command.HeldObjects) { o.Node = nil }, remove: true},
		"forbidden meanwhile":      {change: func(o *command.HeldObjects) { o.ProtectedBy = "annotation x=y" }, why: forbidden},
		"forbidden, but unhealthy": {reason: karpv1.ReasonUnhealthy, change: func(o *command.HeldObjects) { o.ProtectedBy = "annotation x=y" }, remove: true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := &disrupt.Running{Command: disrupt.Command{ID: "one", Reason: karpv1.ReasonDrifted}}
			if tc.reason != "" {
				r.Reason = tc.reason
			}
			o := command.HeldObjects{
				Claim: &karpv1.NodeClaim{ObjectMeta: metav1.ObjectMeta{Name: "c", UID: "known"}}, UID: "known",
				Node: &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n"}},
			}
			command.SetReason(o.Claim, r.Reason, time.Unix(0, 0))
			command.HoldNode(o.Node, r.Token())
			tc.change(&o)
			remove, why := command.CheckDelete(r, o)
			if remove != tc.remove || (why == nil) != (tc.why == nil) || why != nil && why.Error() != tc.why.Error() {
				t.Errorf("CheckDelete() = %v, %v, want %v, %v", remove, why, tc.remove, tc.why)
			}
		})
	}
}

// Few claims are deleted in the order of the plan.
func TestFewClaimsAreDeletedInOrder(t *testing.T) {
	t.Parallel()
	if few, many := command.DeletionWorkers(5), command.DeletionWorkers(6); few != 1 || many <= 1 {
		t.Errorf("%d workers for five claims and %d for six", few, many)
	}
}

// V15-26: the shorter of the two periods bounds the drain.
func TestV15_26_DrainDeadline(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	claim := &karpv1.NodeClaim{Spec: karpv1.NodeClaimSpec{TerminationGracePeriod: "10m"}}
	for name, tc := range map[string]struct {
		bound *time.Duration
		want  time.Time
	}{
		"no bound":             {},
		"shorter than its own": {bound: new(time.Minute), want: now.Add(time.Minute)},
		"longer than its own":  {bound: new(time.Hour), want: now.Add(10 * time.Minute)},
		"pods are deleted now": {bound: new(time.Duration(0)), want: now},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := &disrupt.Running{Command: disrupt.Command{Bound: tc.bound}}
			if got := command.DrainDeadline(r, claim, now); !got.Equal(tc.want) {
				t.Errorf("DrainDeadline() = %v, want %v", got, tc.want)
			}
		})
	}
}

// A conflict is looked at again at once, other failures wait, unless there are other nodes to disrupt.
func TestPassAfterFailure(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		failure command.Failure
		others  bool
		want    time.Duration
	}{
		"none":                    {command.NoFailure, false, time.Second},
		"conflicts":               {command.OnlyConflicts, true, command.AfterWrite},
		"other":                   {command.OtherFailure, false, command.PassInterval},
		"other, with other nodes": {command.OtherFailure, true, time.Second},
	} {
		if got := command.AfterFailure(tc.failure, time.Second, tc.others); got != tc.want {
			t.Errorf("%s: the next pass is in %v, want %v", name, got, tc.want)
		}
	}
}

// FM N06: nothing is decided with half a cache, or by a clock that is off.
func TestFM_N06_PassesNeedACacheAndAClock(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct{ complete, off, want bool }{
		"both are right":               {complete: true, want: true},
		"the cache is incomplete":      {},
		"the clock is off":             {complete: true, off: true},
		"neither of the two is usable": {off: true},
	} {
		if in, may := command.MayPass(tc.complete, tc.off); may != tc.want || in != command.Unsynced {
			t.Errorf("%s: MayPass() = %v, %v, want %v", name, in, may, tc.want)
		}
	}
}
