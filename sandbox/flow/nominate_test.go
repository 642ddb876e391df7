package flow_test

import (
	"fmt"
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"

	karpv1 "github.com/dovetail-sh/dovetail/api/v1"
)

// A03: while nodes come up, each pod is nominated for one of those that were launched, no two for the same, and again
// after the scheduler took that back. Where pods that are alike end up is the scheduler's to say: what counts is that
// they need no other nodes than these.
func TestTrust_A03_PodsAreNominatedForWhatWasBought(t *testing.T) {
	t.Parallel()
	const pods, hold = 3, "example.com/not-yet"
	f := newFlow(t, exclusive)
	f.withRights([]string{"optionalRights.nominatePods=true"})
	f.pool("", func(p *karpv1.NodePool) {
		p.Spec.Template.Spec.StartupTaints = []corev1.Taint{{Key: hold, Effect: corev1.TaintEffectNoSchedule}}
	})
	f.deploy("inflate", pods, onePerNode("inflate"))
	f.waitUntil(soon, "each pod is nominated for a node of its own that is held", func() (bool, string) {
		ours, named := map[string]bool{}, map[string]bool{}
		for _, n := range f.nodes() {
			ours[n.Name] = len(n.Spec.Taints) == 1 // all others are gone, so that the patch below brings none back
		}
		for _, p := range f.pods("inflate") {
			if name := p.Status.NominatedNodeName; ours[name] {
				named[name] = true
			}
		}
		return len(named) == pods, fmt.Sprintf("%d of %d nodes", len(named), len(ours))
	})
	for _, n := range f.nodes() {
		patch(f, &n, func(n *corev1.Node) {
			n.Spec.Taints = slices.DeleteFunc(n.Spec.Taints, func(t corev1.Taint) bool { return t.Key == hold })
		})
	}
	f.waitForRunningPods("inflate", pods)
	f.ready(pods)
	if n := len(f.allInstances()); n != pods {
		t.Errorf("%d instances for %d pods", n, pods)
	}
}

// A03: without the right to patch pods/status pods run all the same, and one line of the log names the right.
func TestTrust_A03_WithoutTheRightPodsRunAllTheSame(t *testing.T) {
	t.Parallel()
	f := newFlow(t, exclusive)
	f.withFlags("--nominate-pods=true")
	f.pool("")
	f.deploy("denied", 2, onePerNode("denied"))
	f.waitForRunningPods("denied", 2)
	f.reportedOnce("allow the service account to patch pods/status")
}
