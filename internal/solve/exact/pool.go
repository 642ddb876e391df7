package exact

import (
	"slices"

	"github.com/dovetail-sh/dovetail/internal/solve/bitset"
	"github.com/dovetail-sh/dovetail/internal/solve/model"
)

// Affordable returns the types of a pool that its limits still allow.
func (s *State) Affordable(poolID int) bitset.Set {
	m := s.Model
	pl := &m.Pools[poolID]
	types := pl.Types.Clone()
	cat := m.Catalogues[pl.Catalogue]
	for i, l := range pl.Limits {
		for t := types.Next(0); t >= 0; t = types.Next(t + 1) {
			if cat.Capacity[t*m.Lanes+l.Lane] > s.Limits[poolID][i] {
				types.Remove(t)
			}
		}
	}
	return types
}

// Charge subtracts the largest type that a new node may become from the limits of its pool.
func (s *State) Charge(b *Bin) {
	m := s.Model
	pl := &m.Pools[b.Pool]
	cat := m.Catalogues[pl.Catalogue]
	s.NodesLeft[b.Pool]--
	for i, l := range pl.Limits {
		most := int64(0)
		for t := b.Types.Next(0); t >= 0; t = b.Types.Next(t + 1) {
			most = max(most, cat.Capacity[t*m.Lanes+l.Lane])
		}
		s.Limits[b.Pool][i] -= most
	}
}

// ReleaseLimits returns the capacity of a removed node to the limits of its pool.
func (s *State) ReleaseLimits(n int) {
	src := s.Model.Nodes[n].Source
	at := slices.IndexFunc(s.Model.Pools, func(p model.Pool) bool { return p.Source.Name == src.Pool })
	if at < 0 {
		return
	}
	if s.NodesLeft[at] != model.Unlimited {
		s.NodesLeft[at]++
	}
	for i, l := range s.Model.Pools[at].Limits {
		more := max(0, src.Capacity.At(l.Lane))
		s.Limits[at][i] += max(0, min(more, model.Unlimited-s.Limits[at][i]))
	}
}

// CoupledPool stands for the pool of pods whose nodes depend on each other through minValues or reservations.
const CoupledPool = -2

// FirstPoolFor returns the first pool that can launch a node for a class, -1 if none can, or CoupledPool.
func (s *State) FirstPoolFor(k int, p *model.Profile, needID int) int {
	m := s.Model
	c := &m.Classes[k]
	for i := range m.Pools {
		pl := &m.Pools[i]
		if s.NodesLeft[i] <= 0 || !m.Tolerated(p.Tolerations, pl.Taints) {
			continue
		}
		f := m.FitPool(needID, i)
		if !f.OK || !s.hasTypeFor(c, i, f) {
			continue
		}
		if len(pl.Minimums) > 0 || !pl.Reserved.And(f.Columns).Empty() {
			return CoupledPool
		}
		return i
	}
	return -1
}

// hasTypeFor reports whether some type of a pool holds a pod of a class.
func (s *State) hasTypeFor(c *model.Class, poolID int, f *model.PoolFit) bool {
	m := s.Model
	pl := &m.Pools[poolID]
	cat, allocatable := m.Catalogues[pl.Catalogue], pl.Capacity.Allocatable
next:
	for t := f.Types.Next(0); t >= 0; t = f.Types.Next(t + 1) {
		if cat.Available[t].And(f.Columns).Empty() {
			continue
		}
		for i, l := range pl.Limits {
			if cat.Capacity[t*m.Lanes+l.Lane] > s.Limits[poolID][i] {
				continue next
			}
		}
		if model.CountFitting(c, allocatable[t*m.Lanes:(t+1)*m.Lanes], 1) == 1 {
			return true
		}
	}
	return false
}
