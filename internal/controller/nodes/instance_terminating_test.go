package nodes_test

import (
	"context"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	karpv1 "github.com/dovetail-sh/dovetail/api/v1"
	"github.com/dovetail-sh/dovetail/internal/cloud"
)

// A claim whose instance ends counts as disrupting until InstanceTerminating is on it, and another finalizer may
// hold its Node for hours. So the condition is written in the end, whatever write failed.
func TestTrust_A10_InstanceTerminatingIsNotLost(t *testing.T) {
	t.Parallel()
	held := func(n *corev1.Node) { n.Finalizers = append(n.Finalizers, "example.com/backup") }
	silent := func(n *corev1.Node) { n.Status.Conditions[0].Status = corev1.ConditionUnknown }
	for name, tc := range map[string]struct {
		change []func(*corev1.Node)
		alive  bool // when the write is tried again
		gone   bool // from the start
		passes int  // until it is written
	}{
		"the write after the call fails":                            {change: []func(*corev1.Node){held}, alive: true, passes: 1},
		"and the instance is gone when it is tried again":           {change: []func(*corev1.Node){held}, passes: 1},
		"the instance of a node that is not ready was gone already": {change: []func(*corev1.Node){held, silent}, gone: true, passes: 3},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			failing := false
			calls := interceptor.Funcs{SubResourcePatch: func(ctx context.Context, c client.Client, sub string, obj client.Object, patch client.Patch, opts ...client.SubResourcePatchOption) error {
				if failing {
					return apierrors.NewConflict(schema.GroupResource{Resource: "nodeclaims"}, "c", nil)
				}
				return c.SubResource(sub).Patch(ctx, obj, patch, opts...)
			}}
			w := newWorld(t, calls, endNodeObject(tc.change...), endClaimObject())
			w.cloud.alive = !tc.gone
			w.delete(endNodeObject())
			if !tc.gone {
				w.pass() // deletes the claim
				w.pass()
				w.clock = w.clock.Add(5 * time.Second)
				w.pass()
				w.clock = w.clock.Add(time.Second)
				w.nodes.Provider = callback{w.cloud, func() { failing = true }}
				w.pass()
				if got := w.mark(karpv1.ConditionInstanceTerminating); got != "absent" || w.cloud.terminated != 1 {
					t.Fatalf("the condition is %s, the instance was ended %d times; want a write that failed", got, w.cloud.terminated)
				}
				failing, w.cloud.alive = false, tc.alive
			}
			w.nodes.Provider = w.cloud
			for range tc.passes {
				w.clock = w.clock.Add(100 * time.Millisecond)
				w.pass()
			}
			if got := w.mark(karpv1.ConditionInstanceTerminating); got != "True/InstanceTerminating" {
				t.Errorf("the condition is %s", got)
			}
			w.cloud.alive = false
			w.wait(10 * time.Second)
			n := &corev1.Node{}
			if !w.has("n", n) || len(n.Finalizers) != 1 {
				t.Errorf("the Node has finalizers %v, want that of others", n.Finalizers)
			}
			if got := w.mark(karpv1.ConditionInstanceTerminating); got != "True/InstanceTerminating" {
				t.Errorf("the condition is %s in the end", got)
			}
		})
	}
}

// callback does something after an instance was requested to end.
type callback struct {
	*dyingCloud
	after func()
}

func (c callback) Terminate(ctx context.Context, id cloud.ID) error {
	defer c.after()
	return c.dyingCloud.Terminate(ctx, id)
}

// An instance that is gone at once does not hold its Node for five seconds; one that takes its time is not asked
// for every second.
func TestTrust_A10_TheEndOfAnInstanceIsSeenSoon(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		takes, within time.Duration
		calls         int
	}{
		"at once":      {0, time.Second, 2},
		"two seconds":  {2 * time.Second, 2 * time.Second, 3},
		"five seconds": {5 * time.Second, 8 * time.Second, 5},
		"a minute":     {time.Minute, 63 * time.Second, 16},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, interceptor.Funcs{}, endNodeObject(), endClaimObject())
			w.delete(endNodeObject())
			for range 20 {
				if w.cloud.terminated > 0 {
					break
				}
				w.wait(time.Second)
			}
			requestedAt := w.clock
			for w.has("n", &corev1.Node{}) && w.clock.Sub(requestedAt) < 2*time.Minute {
				w.cloud.alive = w.clock.Add(time.Second).Sub(requestedAt) < tc.takes
				w.wait(time.Second)
			}
			if took := w.clock.Sub(requestedAt); took > tc.within {
				t.Errorf("the Node went %s after its instance was requested to end, want %s", took, tc.within)
			}
			if w.cloud.terminated > tc.calls {
				t.Errorf("the cloud was called %d times, want %d", w.cloud.terminated, tc.calls)
			}
			w.wait(time.Second)
			if w.has("c", &karpv1.NodeClaim{}) {
				t.Error("the claim did not go with its Node")
			}
		})
	}
}
