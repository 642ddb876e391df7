package disrupt_test

import (
	"testing"

	karpv1 "github.com/dovetail-sh/dovetail/api/v1"
	"github.com/dovetail-sh/dovetail/internal/cluster"
	"github.com/dovetail-sh/dovetail/internal/disrupt"
	"github.com/dovetail-sh/dovetail/internal/reason"
)

// G13: what keeps a node until the user acts is told apart from what passes.
func TestG13_StandingBlocks(t *testing.T) {
	t.Parallel()
	guarded := podBlockingDrain(cluster.ManagedPod{Pod: podOf("x/p", 1), Moves: true, ProtectedBy: karpv1.AnnotationDoNotDisrupt})
	budgeted := podBlockingDrain(cluster.ManagedPod{Pod: podOf("x/p", 1), Moves: true, Budgets: []string{"x/web"}, Blocked: true, Impossible: true})
	busy := podBlockingDrain(cluster.ManagedPod{Pod: podOf("x/p", 1), Moves: true})
	for name, tc := range map[string]struct {
		node []func(*cluster.ManagedNode)
		pool func(*cluster.ManagedPool)
		want reason.Code // none: empty
	}{
		"nothing":                         {node: []func(*cluster.ManagedNode){busy}},
		"a pod with the annotation":       {node: []func(*cluster.ManagedNode){guarded}, want: reason.DoNotDisrupt},
		"the same, a pod is expected":     {node: []func(*cluster.ManagedNode){guarded, func(n *cluster.ManagedNode) { n.Nominated, n.BackingOff = true, true }}, want: reason.DoNotDisrupt},
		"a budget":                        {node: []func(*cluster.ManagedNode){budgeted}, want: reason.EvictionImpossible},
		"the node itself":                 {node: []func(*cluster.ManagedNode){func(n *cluster.ManagedNode) { n.ProtectedBy = karpv1.AnnotationDoNotDisrupt }}, want: reason.DoNotDisrupt},
		"its pool":                        {pool: func(p *cluster.ManagedPool) { p.ProtectedBy = karpv1.AnnotationDoNotDisrupt }, want: reason.DoNotDisrupt},
		"the leader runs on it":           {node: []func(*cluster.ManagedNode){func(n *cluster.ManagedNode) { n.Leading = true }}, want: reason.LeaderAlone},
		"a pod is expected":               {node: []func(*cluster.ManagedNode){func(n *cluster.ManagedNode) { n.Nominated = true }}},
		"it starts":                       {node: []func(*cluster.ManagedNode){guarded, func(n *cluster.ManagedNode) { n.Initialized = false }}},
		"it goes":                         {node: []func(*cluster.ManagedNode){guarded, func(n *cluster.ManagedNode) { n.BeingRemoved = true }}},
		"a command has it":                {node: []func(*cluster.ManagedNode){guarded, func(n *cluster.ManagedNode) { n.Commanded = true }}},
		"consolidation is off":            {node: []func(*cluster.ManagedNode){guarded}, pool: func(p *cluster.ManagedPool) { p.NeverConsolidate = true }},
		"only empty nodes are wanted":     {node: []func(*cluster.ManagedNode){guarded}, pool: func(p *cluster.ManagedPool) { p.Policy = karpv1.ConsolidationWhenEmpty }},
		"off, but it drifted":             {node: []func(*cluster.ManagedNode){guarded, func(n *cluster.ManagedNode) { n.Drift = "AMIDrift" }}, pool: func(p *cluster.ManagedPool) { p.NeverConsolidate = true }, want: reason.DoNotDisrupt},
		"drift goes ahead within a bound": {node: []func(*cluster.ManagedNode){guarded, func(n *cluster.ManagedNode) { n.Drift, n.Bounded = "AMIDrift", true }}},
		"drift is kept by the node itself": {node: []func(*cluster.ManagedNode){func(n *cluster.ManagedNode) {
			n.Drift, n.Bounded, n.ProtectedBy = "AMIDrift", true, karpv1.AnnotationDoNotDisrupt
		}}, want: reason.DoNotDisrupt},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			pool := general()
			if tc.pool != nil {
				tc.pool(&pool)
			}
			got := disrupt.PersistentBlocks(disrupt.View{DisruptionView: cluster.DisruptionView{Now: noon, Pools: map[string]cluster.ManagedPool{"general": pool}, Nodes: []cluster.ManagedNode{node("a", tc.node...)}}})
			if len(got) > 1 || got["claim-a"].Code != tc.want {
				t.Errorf("got %+v, want %q", got, tc.want)
			}
		})
	}
}
