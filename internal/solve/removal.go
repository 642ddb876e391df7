package solve

import (
	"math"
	"slices"
)

// removalTooExpensive reports whether nodes certainly cannot be removed: the demand that fits on no other node needs
// a new node that costs too much. It considers sizes, labels and taints only, which is many times faster than
// placing the pods, and it rules out most nodes.
func (w *stepper) removalTooExpensive(g *removalSet) bool {
	if len(g.classes) == 0 || w.m.problem.Policy.Eager {
		return false
	}
	rest := w.unplaceableDemand(g)
	return slices.ContainsFunc(rest, func(v int64) bool { return v > 0 }) && !w.gains(g, w.leastPrice(rest))
}

// unplaceableDemand is what pods ask for at least that do not fit on the nodes that stay.
func (w *stepper) unplaceableDemand(g *removalSet) []int64 {
	lanes := w.m.lanes
	rest, all, room := make([]int64, lanes), make([]int64, lanes), make([]int64, lanes)
	open := make([]bool, len(w.m.nodes)) // has room for one of the pods
	w.setRemoved(g.nodes, true)
	defer w.setRemoved(g.nodes, false)
	for i, k := range g.classes {
		c := &w.m.classes[k]
		want := len(g.of[i])
		fits := w.countFitting(c, want, open)
		for _, l := range w.m.certain(c) {
			all[l] += int64(want) * c.req[l]
			rest[l] += int64(max(0, want-fits)) * c.req[l]
		}
	}
	for n, is := range open {
		for l := 0; is && l < lanes; l++ {
			room[l] = min(room[l]+max(0, w.s.free[n*lanes+l]), unlimited)
		}
	}
	for l := range rest {
		rest[l] = max(rest[l], all[l]-room[l])
	}
	return rest
}

func (v *mover) setRemoved(nodes []int, removed bool) {
	for _, n := range nodes {
		v.removed[n] = removed
	}
}

// countFitting is how many pods of a class fit on nodes at most, if no others come, and marks those nodes.
func (w *stepper) countFitting(c *class, want int, open []bool) int {
	s, m, fits := w.s, w.m, 0
	for n := 0; n < len(m.nodes); n++ {
		if b := n / block; n%block == 0 && (s.top[2*b] < c.req[0] || s.top[2*b+1] < c.req[1]) {
			n += block - 1
			continue
		}
		if w.removed[n] || m.nodes[n].full {
			continue
		}
		some := want
		if len(c.shared) == 0 {
			some = few(c, s.free[n*m.lanes:(n+1)*m.lanes], want)
		}
		if some > 0 && m.admits(c, &m.nodes[n]) {
			fits += some
			open[n] = true
		}
	}
	return fits
}

// admits reports whether a node takes pods of a class in by labels and taints, with some of their preferences relaxed.
func (m *model) admits(c *class, n *node) bool {
	return slices.ContainsFunc(c.variants, func(v variant) bool {
		p := m.profiles[v.profile]
		return m.tolerated(p.tol, n.taints) && m.onNode(p.need, n.sign)
	})
}

// leastPrice is what the cheapest node costs that has so much room.
func (w *stepper) leastPrice(room []int64) float64 {
	least := math.Inf(1)
	for i := range w.m.pools {
		pl := &w.m.pools[i]
		cat := w.m.catalogues[pl.catalogue]
		for _, t := range cat.order(pl.cols) {
			if pl.types.has(int(t)) && within(room, w.m.capacityFor(option{pool: i, kind: int(t)})) {
				price, _ := cat.cheapest(int(t), pl.cols)
				least = min(least, price)
				break
			}
		}
	}
	return least
}
