package disrupt_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	karpv1 "github.com/dovetail-sh/dovetail/api/v1"
	"github.com/dovetail-sh/dovetail/internal/cluster"
	"github.com/dovetail-sh/dovetail/internal/disrupt"
	"github.com/dovetail-sh/dovetail/internal/reason"
)

// G13: every node that cannot go is counted under what keeps it.
func TestG13_BlockedNodesAreCounted(t *testing.T) {
	t.Parallel()
	got := disrupt.Blocked(disrupt.View{DisruptionView: cluster.DisruptionView{Now: noon, Pools: map[string]cluster.ManagedPool{"general": general()}, Nodes: []cluster.ManagedNode{
		node("free"),
		node("a", func(n *cluster.ManagedNode) { n.ProtectedBy = karpv1.AnnotationDoNotDisrupt }),
		node("b", podBlockingDrain(cluster.ManagedPod{Pod: podOf("x/p", 0), ProtectedBy: karpv1.AnnotationDoNotDisrupt})),
		node("c", podBlockingDrain(cluster.ManagedPod{Pod: podOf("x/p", 0), Budgets: []string{"x/web"}, Blocked: true, Impossible: true})),
		node("d", func(n *cluster.ManagedNode) { n.BeingRemoved = true }),
		node("e", func(n *cluster.ManagedNode) { n.Pool = "gone" }),
	}}})
	want := map[string]map[reason.Code]int{
		"general": {reason.DoNotDisrupt: 2, reason.EvictionImpossible: 1},
		"gone":    {reason.PoolUnresolved: 1},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("blocked (-want +got):\n%s", diff)
	}
}
