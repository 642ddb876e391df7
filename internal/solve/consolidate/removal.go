package consolidate

import (
	"math"
	"slices"

	"github.com/dovetail-sh/dovetail/internal/solve/exact"
	"github.com/dovetail-sh/dovetail/internal/solve/model"
)

// removalTooExpensive reports whether nodes certainly cannot be removed: the demand that fits on no other node needs
// a new node that costs too much. It considers sizes, labels and taints only, which is many times faster than
// placing the pods, and it rules out most nodes.
func (w *stepper) removalTooExpensive(g *removalSet) bool {
	if len(g.classes) == 0 || w.model.Problem.Policy.Eager {
		return false
	}
	rest := w.unplaceableDemand(g)
	return slices.ContainsFunc(rest, func(v int64) bool { return v > 0 }) && !w.isWorth(g, w.leastPrice(rest))
}

// unplaceableDemand is the least that pods request that do not fit on the nodes that stay.
func (w *stepper) unplaceableDemand(g *removalSet) []int64 {
	lanes := w.model.Lanes
	rest, all, capacity := make([]int64, lanes), make([]int64, lanes), make([]int64, lanes)
	open := make([]bool, len(w.model.Nodes)) // has headroom for one of the pods
	w.setRemoved(g.nodes, true)
	defer w.setRemoved(g.nodes, false)
	for i, k := range g.classes {
		c := &w.model.Classes[k]
		want := len(g.of[i])
		fits := w.countFitting(c, want, open)
		for _, l := range w.model.CertainLanes(c) {
			all[l] += int64(want) * c.Requests[l]
			rest[l] += int64(max(0, want-fits)) * c.Requests[l]
		}
	}
	for n, is := range open {
		for l := 0; is && l < lanes; l++ {
			capacity[l] = min(capacity[l]+max(0, w.state.Free[n*lanes+l]), model.Unlimited)
		}
	}
	for l := range rest {
		rest[l] = max(rest[l], all[l]-capacity[l])
	}
	return rest
}

func (v *mover) setRemoved(nodes []int, removed bool) {
	for _, n := range nodes {
		v.removed[n] = removed
	}
}

// countFitting returns how many pods of a class fit on nodes at most, if they get no other pods, and marks those
// nodes.
func (w *stepper) countFitting(c *model.Class, want int, open []bool) int {
	s, m, fits := w.state, w.model, 0
	for n := 0; n < len(m.Nodes); n++ {
		if b := n / exact.BlockSize; n%exact.BlockSize == 0 && (s.BlockMax[2*b] < c.Requests[0] || s.BlockMax[2*b+1] < c.Requests[1]) {
			n += exact.BlockSize - 1
			continue
		}
		if w.removed[n] || m.Nodes[n].Full {
			continue
		}
		some := want
		if len(c.SharedClaims) == 0 {
			some = model.CountFitting(c, s.Free[n*m.Lanes:(n+1)*m.Lanes], want)
		}
		if some > 0 && nodeAdmits(m, c, &m.Nodes[n]) {
			fits += some
			open[n] = true
		}
	}
	return fits
}

// nodeAdmits reports whether the labels and taints of a node admit pods of a class, with some of their preferences
// relaxed.
func nodeAdmits(m *model.Model, c *model.Class, n *model.Node) bool {
	return slices.ContainsFunc(c.Variants, func(v model.Variant) bool {
		p := m.Profiles[v.Profile]
		return m.Tolerated(p.Tolerations, n.Taints) && m.NodeMeets(p.Need, n.Signature)
	})
}

// leastPrice returns the price of the cheapest node with the given capacity.
func (w *stepper) leastPrice(capacity []int64) float64 {
	least := math.Inf(1)
	for i := range w.model.Pools {
		pl := &w.model.Pools[i]
		cat := w.model.Catalogues[pl.Catalogue]
		for _, t := range cat.TypesByPrice(pl.Columns) {
			if pl.Types.Has(int(t)) && model.FitsWithin(capacity, capacityFor(w.model, option{pool: i, kind: int(t)})) {
				price, _ := cat.Cheapest(int(t), pl.Columns)
				least = min(least, price)
				break
			}
		}
	}
	return least
}
