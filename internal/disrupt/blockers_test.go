package disrupt_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	karpv1 "github.com/dovetail-sh/dovetail/api/v1"
	"github.com/dovetail-sh/dovetail/internal/cluster"
	"github.com/dovetail-sh/dovetail/internal/disrupt"
	"github.com/dovetail-sh/dovetail/internal/reason"
)

// EX-05: all that keeps a node is there, not only what a decision names.
func TestEX_05_Blockers(t *testing.T) {
	t.Parallel()
	held := func(n *cluster.ManagedNode) {
		n.Pods = append(n.Pods, cluster.ManagedPod{Pod: podOf("x/held", 1), Moves: true, ProtectedBy: karpv1.AnnotationDoNotDisrupt},
			cluster.ManagedPod{Pod: podOf("x/guarded", 1), Moves: true, Budgets: []string{"x/web"}, Blocked: true})
	}
	for name, tc := range map[string]struct {
		node cluster.ManagedNode
		pool func(*cluster.ManagedPool)
		want []reason.Code
	}{
		"nothing": {node: node("n")},
		"pods, the node, its pool, and the budget of the pool": {
			node: node("n", held, func(n *cluster.ManagedNode) { n.ProtectedBy = karpv1.AnnotationDoNotDisrupt }),
			pool: func(p *cluster.ManagedPool) {
				p.ProtectedBy = karpv1.AnnotationDoNotDisrupt
				p.Budgets = []cluster.Budget{{Nodes: "0"}}
			},
			want: []reason.Code{reason.DoNotDisrupt, reason.DoNotDisrupt, reason.DoNotDisrupt, reason.EvictionForbidden, reason.BudgetSpent},
		},
		"consolidateAfter, and a policy for empty nodes only": {
			node: node("n", func(n *cluster.ManagedNode) {
				n.Settling = true
				n.Pods = append(n.Pods, cluster.ManagedPod{Pod: podOf("x/a", 1), Moves: true})
			}),
			pool: func(p *cluster.ManagedPool) { p.Policy = karpv1.ConsolidationWhenEmpty },
			want: []reason.Code{reason.NodeSettling, reason.EmptyOnly},
		},
		"a drifted node does not wait for a policy": {
			node: node("n", func(n *cluster.ManagedNode) { n.Drift = "NodePoolDrifted" }),
			pool: func(p *cluster.ManagedPool) { p.NeverConsolidate = true },
		},
		"a node that is removed already": {
			node: node("n", func(n *cluster.ManagedNode) { n.Commanded = true }),
			pool: func(p *cluster.ManagedPool) { p.NeverConsolidate = true },
			want: []reason.Code{reason.NodeCommanded},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			pool := general()
			if tc.pool != nil {
				tc.pool(&pool)
			}
			v := disrupt.View{DisruptionView: cluster.DisruptionView{Now: noon, Pools: map[string]cluster.ManagedPool{"general": pool}, Nodes: []cluster.ManagedNode{tc.node}}}
			var got []reason.Code
			for _, r := range disrupt.Blockers(&v, &v.Nodes[0]) {
				got = append(got, r.Code)
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("blockers (-want +got):\n%s", diff)
			}
			d := disrupt.Next(v, nil)
			if len(d.Refused) > 0 && len(tc.want) > 0 && d.Refused[0].Why.Code != tc.want[0] {
				t.Errorf("the decision names %s, want %s", d.Refused[0].Why.Code, tc.want[0])
			}
		})
	}
}
