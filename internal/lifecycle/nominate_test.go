package lifecycle_test

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	karpv1 "github.com/dovetail-sh/dovetail/api/v1"
	"github.com/dovetail-sh/dovetail/internal/lifecycle"
)

// Pods are nominated when something that keeps pods off their node is about to go, and not later.
func TestTrust_A03_WhenPodsAreNominated(t *testing.T) {
	t.Parallel()
	unready := func(n *corev1.Node) *corev1.Node {
		n.Status.Conditions[0].Status = corev1.ConditionFalse
		return n
	}
	starting := usable()
	starting.Spec.Taints = append(starting.Spec.Taints, corev1.Taint{Key: corev1.TaintNodeNotReady, Effect: corev1.TaintEffectNoSchedule})
	for name, tc := range map[string]struct {
		claim *karpv1.NodeClaim
		nodes []*corev1.Node
		want  string
	}{
		"no node yet":                     {claim: launched()},
		"it registers":                    {claim: launched(), nodes: []*corev1.Node{joined("n")}, want: "n"},
		"it registers before it is ready": {claim: launched(), nodes: []*corev1.Node{unready(joined("n"))}, want: "n"},
		"it is not ready yet":             {claim: registered(), nodes: []*corev1.Node{unready(usable())}, want: "n"},
		"it is ready, with a taint":       {claim: registered(), nodes: []*corev1.Node{starting}, want: "n"},
		"it becomes usable":               {claim: registered(), nodes: []*corev1.Node{usable()}, want: "n"},
		"it was usable before":            {claim: with(registered(), after(time.Minute), yes(karpv1.ConditionInitialized)), nodes: []*corev1.Node{usable()}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if got := lifecycle.Next(lifecycle.Facts{Claim: tc.claim, Nodes: tc.nodes, Now: after(2 * time.Minute)}).Nominate; got != tc.want {
				t.Errorf("nominates for %q, want %q", got, tc.want)
			}
		})
	}
}
