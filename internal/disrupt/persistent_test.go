package disrupt_test

import (
	"testing"

	karpv1 "github.com/dovetail-sh/dovetail/api/v1"
	"github.com/dovetail-sh/dovetail/internal/disrupt"
	"github.com/dovetail-sh/dovetail/internal/reason"
)

// G13: what keeps a node until somebody does something is told apart from what passes.
func TestG13_StandingBlocks(t *testing.T) {
	t.Parallel()
	guarded := podBlockingDrain(disrupt.Pod{Name: "x/p", Moves: true, EvictCost: 1, Protected: true})
	budgeted := podBlockingDrain(disrupt.Pod{Name: "x/p", Moves: true, EvictCost: 1, Budgets: []string{"x/web"}, Blocked: true, Impossible: true})
	busy := podBlockingDrain(disrupt.Pod{Name: "x/p", Moves: true, EvictCost: 1})
	for name, tc := range map[string]struct {
		node []func(*disrupt.Node)
		pool func(*disrupt.Pool)
		want reason.Code // none: empty
	}{
		"nothing":                          {node: []func(*disrupt.Node){busy}},
		"a pod with the annotation":        {node: []func(*disrupt.Node){guarded}, want: reason.DoNotDisrupt},
		"the same, a pod is expected":      {node: []func(*disrupt.Node){guarded, func(n *disrupt.Node) { n.Nominated, n.BackingOff = true, true }}, want: reason.DoNotDisrupt},
		"a budget":                         {node: []func(*disrupt.Node){budgeted}, want: reason.EvictionImpossible},
		"the node itself":                  {node: []func(*disrupt.Node){func(n *disrupt.Node) { n.Protected = true }}, want: reason.DoNotDisrupt},
		"its pool":                         {pool: func(p *disrupt.Pool) { p.Protected = true }, want: reason.DoNotDisrupt},
		"the leader runs on it":            {node: []func(*disrupt.Node){func(n *disrupt.Node) { n.Leading = true }}, want: reason.LeaderAlone},
		"a pod is expected":                {node: []func(*disrupt.Node){func(n *disrupt.Node) { n.Nominated = true }}},
		"it starts":                        {node: []func(*disrupt.Node){guarded, func(n *disrupt.Node) { n.Initialized = false }}},
		"it goes":                          {node: []func(*disrupt.Node){guarded, func(n *disrupt.Node) { n.Deleting = true }}},
		"a command has it":                 {node: []func(*disrupt.Node){guarded, func(n *disrupt.Node) { n.Commanded = true }}},
		"consolidation is off":             {node: []func(*disrupt.Node){guarded}, pool: func(p *disrupt.Pool) { p.NeverConsolidate = true }},
		"only empty nodes are wanted":      {node: []func(*disrupt.Node){guarded}, pool: func(p *disrupt.Pool) { p.Policy = karpv1.ConsolidationWhenEmpty }},
		"off, but it drifted":              {node: []func(*disrupt.Node){guarded, func(n *disrupt.Node) { n.Drift = "AMIDrift" }}, pool: func(p *disrupt.Pool) { p.NeverConsolidate = true }, want: reason.DoNotDisrupt},
		"drift goes ahead within a bound":  {node: []func(*disrupt.Node){guarded, func(n *disrupt.Node) { n.Drift, n.Bounded = "AMIDrift", true }}},
		"drift is kept by the node itself": {node: []func(*disrupt.Node){func(n *disrupt.Node) { n.Drift, n.Bounded, n.Protected = "AMIDrift", true, true }}, want: reason.DoNotDisrupt},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			pool := general()
			if tc.pool != nil {
				tc.pool(&pool)
			}
			got := disrupt.PersistentBlocks(disrupt.View{Now: noon, Pools: map[string]disrupt.Pool{"general": pool}, Nodes: []disrupt.Node{node("a", tc.node...)}})
			if len(got) > 1 || got["claim-a"].Code != tc.want {
				t.Errorf("got %+v, want %q", got, tc.want)
			}
		})
	}
}
