package inspect

import (
	"maps"
	"slices"

	karpv1 "github.com/dovetail-sh/dovetail/api/v1"
	"github.com/dovetail-sh/dovetail/internal/budget"
	"github.com/dovetail-sh/dovetail/internal/cluster"
	"github.com/dovetail-sh/dovetail/internal/disrupt"
)

// relax drops what passes with time: consolidateAfter, back-offs, expected pods, budgets with a schedule, and budgets
// that let a part begin, since one command follows another.
func (s *simulation) relax() {
	nodes, settled := slices.Clone(s.view.Nodes), map[string]bool{}
	for i := range nodes {
		n := &nodes[i]
		n.Nominated, n.ExpectsDisplaced, n.BackingOff, n.Settling = false, false, false, false
		settled[s.placeOf(n)] = true
	}
	s.view.Nodes = nodes
	view := *s.view.Cluster
	view.Nodes = slices.Clone(view.Nodes)
	for i := range view.Nodes {
		view.Nodes[i].Settling = view.Nodes[i].Settling && !settled[view.Nodes[i].Name]
	}
	s.view.Cluster = &view
	s.view.Tuning.MinAge, s.view.DriftBackoff = 0, nil
	pools := maps.Clone(s.view.Pools)
	// any order: each pool is changed by itself
	for name, p := range pools {
		p.Budgets = openBudgets(p.Budgets, &s.view)
		pools[name] = p
	}
	s.view.Pools = pools
}

// openBudgets are budgets that allow everything for the reasons for which some would ever be allowed.
func openBudgets(list []cluster.Budget, v *disrupt.View) []cluster.Budget {
	always := slices.DeleteFunc(slices.Clone(list), func(b cluster.Budget) bool { return b.Schedule != "" })
	var out []cluster.Budget
	for _, cause := range []karpv1.DisruptionReason{karpv1.ReasonUnhealthy, karpv1.ReasonEmpty, karpv1.ReasonDrifted, karpv1.ReasonUnderutilized} {
		_, broken := budget.Limit(list, string(cause), 1, v.Now)
		if allowed, _ := budget.Limit(always, string(cause), len(v.Nodes), v.Now); allowed == 0 || len(broken) > 0 {
			out = append(out, cluster.Budget{Nodes: "0", Reasons: []string{string(cause)}})
		}
	}
	return out
}

// ignoreDrift treats the drifted nodes that are left as if they had not drifted.
func (s *simulation) ignoreDrift() {
	s.replaced++
	rest := 0
	nodes := slices.Clone(s.view.Nodes)
	for i := range nodes {
		if nodes[i].Drift != "" {
			nodes[i].Drift = ""
			rest++
		}
	}
	s.view.Nodes = nodes
	if rest > 0 {
		s.out.Later = true
		s.out.Notes = append(s.out.Notes, count(rest, "more node has", "more nodes have")+" drifted. They are replaced one after another, by about the same nodes; the figures leave that out")
	}
}
