package nodes_test

import (
	"errors"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	karpv1 "github.com/dovetail-sh/dovetail/api/v1"
	"github.com/dovetail-sh/dovetail/internal/cloud"
	"github.com/dovetail-sh/dovetail/internal/controller/write"
	"github.com/dovetail-sh/dovetail/internal/event"
)

func unlaunched(c *karpv1.NodeClaim) {
	c.Status.ProviderID, c.Status.Conditions = "", nil
}

func TestFM_L14_AClaimThatWasNeverLaunchedGoesAtOnce(t *testing.T) {
	t.Parallel()
	w := newWorld(t, interceptor.Funcs{}, endClaimObject(unlaunched))
	w.delete(endClaimObject())
	w.pass()
	if w.has("c", &karpv1.NodeClaim{}) || w.cloud.terminated != 0 {
		t.Errorf("claim still there, or something ended (%d)", w.cloud.terminated)
	}
}

func TestFM_A06_AnInstanceOnlyInTheCacheIsTerminated(t *testing.T) {
	t.Parallel()
	w := newWorld(t, interceptor.Funcs{}, endClaimObject(unlaunched))
	w.claims.Launched = func(uid types.UID) (cloud.Instance, bool) { return cloud.Instance{ID: instanceID}, uid == "c" }
	w.delete(endClaimObject())
	w.pass()
	if !w.has("c", &karpv1.NodeClaim{}) || w.cloud.terminated != 1 {
		t.Fatalf("claim gone, or the instance was terminated %d times, want 1", w.cloud.terminated)
	}
	w.cloud.alive = false
	w.clock = w.clock.Add(5 * time.Second)
	w.pass()
	if w.has("c", &karpv1.NodeClaim{}) {
		t.Error("the claim is still there")
	}
}

// FM A06: a launch that ends while its claim is looked at has either not ended, or has left its instance behind.
func TestFM_A06_ALaunchThatEndsInBetween(t *testing.T) {
	t.Parallel()
	w := newWorld(t, interceptor.Funcs{}, endClaimObject(func(c *karpv1.NodeClaim) { c.Status = karpv1.NodeClaimStatus{} }))
	ended := false // right after the first of the two questions
	w.claims.Launching = func(types.UID) bool {
		defer func() { ended = true }()
		return !ended
	}
	w.claims.Launched = func(types.UID) (cloud.Instance, bool) {
		defer func() { ended = true }()
		if !ended {
			return cloud.Instance{}, false
		}
		return cloud.Instance{ID: instanceID}, true
	}
	w.delete(endClaimObject())
	if _, err := w.endClaim(); err != nil {
		t.Fatal(err)
	}
	if !w.has("c", &karpv1.NodeClaim{}) {
		t.Error("the claim was released, and its instance runs on")
	}
}

// LC-15.6: before registration there is nothing to drain, and the Node is left to others.
func TestAnUnregisteredClaimIsNotDrained(t *testing.T) {
	t.Parallel()
	w := newWorld(t, interceptor.Funcs{}, endClaimObject(func(c *karpv1.NodeClaim) { c.Status.Conditions = nil }), endNodeObject(), endPod("web"))
	w.delete(endClaimObject())
	w.pass()
	n := &corev1.Node{}
	if !w.has("n", n) || n.DeletionTimestamp != nil || w.cloud.terminated != 1 {
		t.Errorf("node deleted at %v, instance ended %d times", n.DeletionTimestamp, w.cloud.terminated)
	}
	if got := w.mark(karpv1.ConditionInstanceTerminating); got != "True/InstanceTerminating" {
		t.Errorf("InstanceTerminating is %s", got)
	}
}

func TestFM_G3_OnlyNotFoundRemovesTheFinalizer(t *testing.T) {
	t.Parallel()
	no := errors.New("no")
	for name, failure := range map[string]cloud.Error{
		"outage":                         {Kind: cloud.Unknown, Err: no},
		"throttled":                      {Kind: cloud.Throttled, Err: no},
		"denied":                         {Kind: cloud.Denied, Err: no},
		"invalid":                        {Kind: cloud.Invalid, Err: no},
		"an object of ours is not found": {Kind: cloud.Unknown, Err: apierrors.NewNotFound(schema.GroupResource{Resource: "ec2nodeclasses"}, "default")},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, interceptor.Funcs{}, endClaimObject())
			w.cloud.err = &failure
			w.delete(endClaimObject())
			if _, err := w.endClaim(); err == nil {
				t.Error("no error")
			}
			if !w.has("c", &karpv1.NodeClaim{}) {
				t.Error("the claim went")
			}
		})
	}
}

// L12, crash point 17: the Node is gone, the claim is not.
func TestFM_L12_TheNodeIsAlreadyGone(t *testing.T) {
	t.Parallel()
	w := newWorld(t, interceptor.Funcs{}, endClaimObject())
	w.delete(endClaimObject())
	w.pass()
	w.cloud.alive = false
	w.clock = w.clock.Add(5 * time.Second)
	w.pass()
	if w.has("c", &karpv1.NodeClaim{}) {
		t.Error("the claim is still there")
	}
	if got := testutil.ToFloat64(w.metrics.NodeClaimsTerminated.WithLabelValues("default", "spot", "zone-a")); got != 1 {
		t.Errorf("terminated claims %v, want 1", got)
	}
	if got := testutil.CollectAndCount(w.metrics.NodeClaimsInstanceTerminationDuration); got != 1 {
		t.Errorf("series of the duration of the end of the instance: %d, want 1", got)
	}
}

func TestLC20_TheDeadlineIsWrittenOnce(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		period karpv1.Duration
		before string
		want   func(deleted time.Time) string
	}{
		"absent":                    {period: "1h", want: func(d time.Time) string { return d.Add(time.Hour).UTC().Format(time.RFC3339) }},
		"there":                     {period: "1h", before: "2026-01-01T00:00:00Z", want: func(time.Time) string { return "2026-01-01T00:00:00Z" }},
		"FM L18 garbage":            {period: "1h", before: "later", want: func(d time.Time) string { return d.Add(time.Hour).UTC().Format(time.RFC3339) }},
		"FM L18 garbage, no period": {before: "later", want: func(time.Time) string { return "" }},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, interceptor.Funcs{}, endNodeObject(), endClaimObject(func(c *karpv1.NodeClaim) {
				c.Spec.TerminationGracePeriod = tc.period
				if tc.before != "" {
					c.Annotations = map[string]string{karpv1.AnnotationTerminationTimestamp: tc.before}
				}
			}))
			w.delete(endClaimObject())
			if _, err := w.endClaim(); err != nil {
				t.Fatal(err)
			}
			c, n := &karpv1.NodeClaim{}, &corev1.Node{}
			if !w.has("c", c) || !w.has("n", n) {
				t.Fatal("something is gone")
			}
			if got, want := c.Annotations[karpv1.AnnotationTerminationTimestamp], tc.want(c.DeletionTimestamp.Time); got != want {
				t.Errorf("deadline %q, want %q", got, want)
			}
			if n.DeletionTimestamp == nil {
				t.Error("LC-21: the node is not being deleted")
			}
			emitted := w.emitted.Text("c", event.TerminationGracePeriodExpiring) != ""
			if want := tc.period != "" && tc.before != "2026-01-01T00:00:00Z"; emitted != want {
				t.Errorf("told about the deadline: %t, want %t", emitted, want)
			}
		})
	}
}

// LC-16..19: what is counted for an interruption, whose event is on the node alone.
func TestPodsToMove(t *testing.T) {
	t.Parallel()
	w := newWorld(t, interceptor.Funcs{}, endPod("a"), endPod("done", func(p *corev1.Pod) { p.Status.Phase = corev1.PodSucceeded }))
	count := write.PodsToMove(w.client)
	if here, elsewhere := count(t.Context(), endPod("a").Spec.NodeName), count(t.Context(), "other"); here != 1 || elsewhere != 0 {
		t.Errorf("%d pods move from their node and %d from another, want 1 and 0", here, elsewhere)
	}
}
