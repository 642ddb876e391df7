package consolidate

import (
	"slices"

	"github.com/dovetail-sh/dovetail/internal/solve/exact"
	"github.com/dovetail-sh/dovetail/internal/solve/model"
)

// allowance is what remains of the pool limits for moves that add more capacity than they remove.
type allowance struct {
	limits [][]int64
	nodes  []int64
}

func newAllowance(m *model.Model) *allowance {
	a := &allowance{}
	for i := range m.Pools {
		var left []int64
		for _, l := range m.Pools[i].Limits {
			left = append(left, l.Remaining)
		}
		a.limits, a.nodes = append(a.limits, left), append(a.nodes, m.Pools[i].NodeLimit)
	}
	return a
}

func (a *allowance) clone() *allowance {
	return &allowance{exact.CloneAll(a.limits), slices.Clone(a.nodes)}
}

// withinAllowance reports whether the new nodes of a move are within the limits of their pools, and subtracts them
// from the allowance. Nodes that the move removes count in its favour. Nodes that other moves remove do not, because
// those moves may be dropped.
func (v *mover) withinAllowance(m *Move, a *allowance) bool {
	type bill struct {
		limit *int64
		need  int64
	}
	var bills []bill
	for at := range v.model.Pools {
		pl := &v.model.Pools[at]
		if !slices.ContainsFunc(m.Create, func(c model.NewNode) bool { return c.Pool == pl.Source.Name }) {
			continue
		}
		if a.nodes[at] != model.Unlimited {
			bills = append(bills, bill{limit: &a.nodes[at], need: v.growthOfPool(m, at, -1)})
		}
		for i := range pl.Limits {
			bills = append(bills, bill{limit: &a.limits[at][i], need: v.growthOfPool(m, at, pl.Limits[i].Lane)})
		}
	}
	for _, b := range bills {
		if b.need > *b.limit {
			return false
		}
	}
	for _, b := range bills {
		*b.limit -= max(0, b.need)
	}
	return true
}

// growthOfPool returns by how much a move enlarges a pool, in a lane or in nodes. A new node counts with the largest
// type that it allows.
func (v *mover) growthOfPool(m *Move, at, lane int) int64 {
	pl := &v.model.Pools[at]
	cat := v.model.Catalogues[pl.Catalogue]
	sum := int64(0)
	for i := range m.Create {
		c := &m.Create[i]
		if c.Pool != pl.Source.Name {
			continue
		}
		most := int64(1)
		if lane >= 0 {
			most = 0
			for _, t := range cat.Named(c.Types) {
				most = max(most, cat.Capacity[t*v.model.Lanes+lane])
			}
		}
		sum += most
	}
	for _, name := range m.Remove {
		src := v.model.Nodes[v.byName[name]].Source
		switch {
		case src.Pool != pl.Source.Name:
		case lane < 0:
			sum--
		default:
			sum -= max(0, src.Capacity.At(lane))
		}
	}
	return sum
}
