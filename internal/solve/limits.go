package solve

import "slices"

// releaseLimits returns the capacity of a removed node to the limits of its pool.
func (s *state) releaseLimits(n int) {
	src := s.m.nodes[n].src
	at := slices.IndexFunc(s.m.pools, func(p pool) bool { return p.src.Name == src.Pool })
	if at < 0 {
		return
	}
	if s.nodesLeft[at] != unlimited {
		s.nodesLeft[at]++
	}
	for i, l := range s.m.pools[at].limits {
		more := max(0, src.Capacity.At(l.lane))
		s.limits[at][i] += max(0, min(more, unlimited-s.limits[at][i]))
	}
}

// allowance is what the limits of pools leave for moves that take more than they give back.
type allowance struct {
	limits [][]int64
	nodes  []int64
}

func (m *model) allowance() *allowance {
	a := &allowance{}
	for i := range m.pools {
		var left []int64
		for _, l := range m.pools[i].limits {
			left = append(left, l.remaining)
		}
		a.limits, a.nodes = append(a.limits, left), append(a.nodes, m.pools[i].nodeLimit)
	}
	return a
}

func (a *allowance) clone() *allowance {
	return &allowance{cloneAll(a.limits), slices.Clone(a.nodes)}
}

// withinAllowance reports whether the new nodes of a move are within the limits of their pools, with what the
// nodes give back that it removes, and takes the rest off the allowance. What other moves give back is
// not counted on: they may be left out.
func (v *mover) withinAllowance(m *Move, a *allowance) bool {
	type bill struct {
		limit *int64
		need  int64
	}
	var bills []bill
	for at := range v.m.pools {
		pl := &v.m.pools[at]
		if !slices.ContainsFunc(m.Create, func(c NewNode) bool { return c.Pool == pl.src.Name }) {
			continue
		}
		if a.nodes[at] != unlimited {
			bills = append(bills, bill{limit: &a.nodes[at], need: v.balance(m, at, -1)})
		}
		for i := range pl.limits {
			bills = append(bills, bill{limit: &a.limits[at][i], need: v.balance(m, at, pl.limits[i].lane)})
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

// balance is by how much a move makes a pool larger, in a lane or in nodes. A new node counts as the
// largest it could turn out to be.
func (v *mover) balance(m *Move, at, lane int) int64 {
	pl := &v.m.pools[at]
	cat := v.m.catalogues[pl.catalogue]
	sum := int64(0)
	for i := range m.Create {
		c := &m.Create[i]
		if c.Pool != pl.src.Name {
			continue
		}
		most := int64(1)
		if lane >= 0 {
			most = 0
			for t := range cat.types {
				if slices.Contains(c.Types, cat.types[t].it.Name) {
					most = max(most, cat.cap[t*v.m.lanes+lane])
				}
			}
		}
		sum += most
	}
	for _, name := range m.Remove {
		src := v.m.nodes[v.byName[name]].src
		switch {
		case src.Pool != pl.src.Name:
		case lane < 0:
			sum--
		default:
			sum -= max(0, src.Capacity.At(lane))
		}
	}
	return sum
}
