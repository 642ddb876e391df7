package nodes_test

import (
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	karpv1 "github.com/dovetail-sh/dovetail/api/v1"
)

// FM L17: another client deletes the Node first, as a cloud controller manager does when the instance is gone.
// The claim ends all the same, and everything is counted once, however often both are looked at.
func TestFM_L17_TheNodeIsDeletedFirst(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		before int  // passes over a claim that is being deleted already; 0: it is not
		alive  bool // the instance runs until it is requested to end
	}{
		"the instance is gone, the claim stands":         {},
		"the instance is gone, the claim goes already":   {before: 1},
		"the instance is gone, the drain is over":        {before: 3},
		"the instance still runs, the claim stands":      {alive: true},
		"the instance still runs, the claim goes":        {before: 1, alive: true},
		"the instance still runs, and the drain is over": {before: 3, alive: true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, interceptor.Funcs{}, endNodeObject(func(n *corev1.Node) {
				if !tc.alive {
					n.Status.Conditions[0].Status = corev1.ConditionUnknown
				}
			}), endClaimObject())
			w.cloud.alive = true
			if tc.before > 0 {
				w.delete(endClaimObject())
			}
			for range tc.before {
				w.pass()
				w.clock = w.clock.Add(5 * time.Second)
			}
			w.cloud.alive = tc.alive
			if w.has("n", &corev1.Node{}) {
				w.delete(endNodeObject())
			}
			for round := range 8 {
				w.pass()
				w.clock = w.clock.Add(5 * time.Second)
				if round == 3 {
					w.cloud.alive = false
				}
			}
			if w.has("n", &corev1.Node{}) || w.has("c", &karpv1.NodeClaim{}) {
				t.Errorf("the Node is there: %v, the claim: %v", w.has("n", &corev1.Node{}), w.has("c", &karpv1.NodeClaim{}))
			}
			for what, got := range map[string]float64{
				"NodesTerminated":      testutil.ToFloat64(w.metrics.NodesTerminated.WithLabelValues("default", "zone-a")),
				"NodeClaimsTerminated": testutil.ToFloat64(w.metrics.NodeClaimsTerminated.WithLabelValues("default", "spot", "zone-a")),
			} {
				if got != 1 {
					t.Errorf("%s is %v, want 1", what, got)
				}
			}
		})
	}
}
