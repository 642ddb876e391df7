package pack

import (
	"cmp"
	"slices"

	"github.com/dovetail-sh/dovetail/internal/solve/exact"
	"github.com/dovetail-sh/dovetail/internal/solve/model"
	"github.com/dovetail-sh/dovetail/internal/solve/parallel"
)

// Place places pods as counts: on existing nodes first, then the rest packed onto new nodes by price. Pods that are
// coupled in other ways are left for exact.State.PlaceAll.
func Place(s *exact.State, left []int) {
	m := s.Model
	for k := range m.Classes {
		if left[k] > 0 && !s.ShouldStop() {
			left[k] -= fillNodes(s, k, left[k])
		}
	}
	if !s.ShouldStop() {
		PlaceOnNew(s, left)
	}
}

// PlaceOnNew packs pods onto new nodes by price, and leaves in left those that it has not placed.
func PlaceOnNew(s *exact.State, left []int) { packBatches(s, divide(s, left), left) }

// packBatches packs batches onto new nodes, pool by pool. Pools that are tried last come first, because the pods that
// fit anywhere belong to the other pools and may fill the free capacity.
func packBatches(s *exact.State, batches []Batch, left []int) {
	byPool := make([][]Batch, len(s.Model.Pools))
	slices.SortStableFunc(batches, func(a, b Batch) int { return cmp.Compare(a.pool, b.pool) })
	for first := 0; first < len(batches); {
		next := first
		for next < len(batches) && batches[next].pool == batches[first].pool {
			next++
		}
		byPool[batches[first].pool] = batches[first:next:next]
		first = next
	}
	for poolID := range slices.Backward(byPool) {
		if len(byPool[poolID]) == 0 || s.ShouldStop() {
			continue
		}
		first := len(s.Bins)
		buildNodes(s, packBest(s, poolID, byPool[poolID]), left)
		byPool[poolID] = nil
		for i := range byPool[:poolID] {
			byPool[i] = fillFromOtherPools(s, byPool[i], first)
		}
	}
	for _, pool := range byPool { // stopped before they were examined
		for _, l := range pool {
			left[l.Class] += l.Count
		}
	}
}

// fillNodes places pods of a class on existing nodes with all of its preferences.
func fillNodes(s *exact.State, k, want int) int {
	c := &s.Model.Classes[k]
	if len(c.Variants) == 0 || len(c.Shape.Invalid) > 0 || c.Shape.Refuses {
		return 0
	}
	return s.TryVariants(c.Variants[:c.EndOfStep(0)], want, func(id, want int) int { return s.PlaceOnNodes(k, s.Model.Profiles[id], want) })
}

// Batches up to fewBatches, and beyond manyBatches, are packed in two ways only. Few batches leave little to choose.
// Of very many, most with a size of their own, some always fit the free capacity of a node. In the scenarios, a third
// way found next to nothing cheaper for either.
const (
	fewBatches  = 40
	manyBatches = 4000
)

// packBest packs in several ways and returns the cheapest.
func packBest(s *exact.State, poolID int, batches []Batch) *packer {
	j := newJob(s, poolID, batches)
	if w := j.packAlike(); w != nil {
		return w
	}
	j.prepare()
	ways := []tuning{{sizeWeight: 10}, {sizeWeight: 10, dominantOnly: true}}
	if len(batches) > fewBatches && len(batches) <= manyBatches {
		ways = append(ways, tuning{sizeWeight: 3})
	}
	if most := j.fairWorth(); most > 0 {
		ways = append(ways, tuning{sizeWeight: 3, maxWorth: most})
	}
	tried := make([]*packer, len(ways))
	parallel.Each(len(ways), s.Model.Problem.Policy.Workers, func(i int) { tried[i] = j.pack(ways[i]) })
	return slices.MinFunc(tried, func(a, b *packer) int {
		return cmp.Or(cmp.Compare(model.SumCounts(a.left), model.SumCounts(b.left)), cmp.Compare(a.cost(), b.cost()))
	})
}

// buildNodes turns patterns into planned nodes. Pods that pool limits do not allow are added to left again.
func buildNodes(s *exact.State, w *packer, left []int) {
	for _, p := range w.patterns {
		w.narrowToHolders(p)
		for range p.times {
			if !buildNode(s, w, p) {
				for _, t := range p.portions {
					left[w.batches[t.batch].Class] += t.count
				}
			}
		}
	}
	for i, n := range w.left {
		left[w.batches[i].Class] += n
	}
}

func buildNode(s *exact.State, w *packer, p *pattern) bool {
	m := s.Model
	if s.NodesLeft[w.pool] <= 0 {
		return false
	}
	b := &exact.Bin{Pool: w.pool, Row: m.Pools[w.pool].Row.Clone(), Types: p.types.Clone(), Columns: p.cols, Used: slices.Clone(p.used), Largest: make([]int64, m.Lanes)}
	if len(m.Pools[w.pool].Limits) > 0 {
		b.Types.And(s.Affordable(w.pool))
		if b.Types.Empty() {
			return false
		}
	}
	var seen []int
	for _, t := range p.portions {
		if n := w.batches[t.batch].need; n > 0 && !slices.Contains(seen, n) {
			seen = append(seen, n)
			m.Table.Intersect(b.Row, b.Row, m.Needs[n].Row)
		}
	}
	b.Needs = seen
	b.Columns = m.Pools[w.pool].Columns
	for _, t := range p.portions {
		b.Columns = b.Columns.And(w.fits[t.batch].Columns)
	}
	place := int32(len(m.Nodes) + len(s.Bins))
	s.Bins = append(s.Bins, b)
	s.UpdateLargest(b)
	for _, t := range p.portions {
		l := &w.batches[t.batch]
		prof := m.Profiles[l.Profile]
		if len(prof.Groups) > 0 || len(prof.AntiAffinity) > 0 {
			s.CountPodsInBin(prof, b, place, t.count)
		}
		b.Pods = append(b.Pods, exact.BinPods{Class: int32(l.Class), Profile: int32(l.Profile), Count: int32(t.count)})
		b.Count += t.count
		s.Placed = append(s.Placed, exact.Placement{Class: int32(l.Class), Place: place, Count: int32(t.count)})
	}
	s.Charge(b)
	return true
}

// fillFromOtherPools lets pods that belong to another pool use the free capacity of the nodes from first on, where
// that makes no node more expensive. It returns the remaining batches.
func fillFromOtherPools(s *exact.State, batches []Batch, first int) []Batch {
	for i := range batches {
		l := &batches[i]
		for at := first; at < len(s.Bins) && l.Count > 0; at++ {
			l.Count -= s.JoinBin(l.Class, l.Profile, l.need, at, l.Count)
		}
	}
	return slices.DeleteFunc(batches, func(l Batch) bool { return l.Count == 0 })
}
