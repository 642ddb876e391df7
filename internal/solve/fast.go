package solve

import (
	"cmp"
	"slices"

	"github.com/dovetail-sh/dovetail/internal/reqs"
)

// fast places pods as numbers: existing nodes first, then the rest packed onto new nodes by price.
// What is coupled in other ways is left for greedy.
func (s *state) fast(left []int) {
	m := s.m
	for k := range m.classes {
		if left[k] > 0 && !s.shouldStop() {
			left[k] -= s.fillNodes(k, left[k])
		}
	}
	if !s.shouldStop() {
		s.placeOnNew(left)
	}
}

// placeOnNew packs pods onto new nodes by price, and leaves in left what it has not placed.
func (s *state) placeOnNew(left []int) { s.packLots(s.divide(left), left) }

// packLots packs lots onto new nodes, pool by pool: those that are asked last first, since the pods
// that could go anywhere have their home in the others, and may fill what is left.
func (s *state) packLots(lots []lot, left []int) {
	homes := make([][]lot, len(s.m.pools))
	slices.SortStableFunc(lots, func(a, b lot) int { return cmp.Compare(a.home, b.home) })
	for first := 0; first < len(lots); {
		next := first
		for next < len(lots) && lots[next].home == lots[first].home {
			next++
		}
		homes[lots[first].home] = lots[first:next:next]
		first = next
	}
	for poolID := range slices.Backward(homes) {
		if len(homes[poolID]) == 0 || s.shouldStop() {
			continue
		}
		first := len(s.bins)
		s.build(s.attempts(poolID, homes[poolID]), left)
		homes[poolID] = nil
		for i := range homes[:poolID] {
			homes[i] = s.fillFromOtherPools(homes[i], first)
		}
	}
	for _, home := range homes { // stopped before they were looked at
		for _, l := range home {
			left[l.class] += l.count
		}
	}
}

// fillNodes places pods of a class on existing nodes with all of its preferences.
func (s *state) fillNodes(k, want int) int {
	c := &s.m.classes[k]
	if len(c.variants) == 0 || len(c.shape.Invalid) > 0 || c.shape.Refuses {
		return 0
	}
	return s.tryVariants(c.variants[:c.step(0)], want, func(id, want int) int { return s.onNodes(k, s.m.profiles[id], want) })
}

// Lots up to fewLots, and beyond manyLots, are packed in two ways only. Few leave little to choose; of
// very many, most of a size of their own, some always fit what is left of a node. A third way found
// next to nothing cheaper for either in the scenarios.
const (
	fewLots  = 40
	manyLots = 4000
)

// attempts packs in several ways and returns the cheapest.
func (s *state) attempts(poolID int, lots []lot) *packer {
	j := s.newJob(poolID, lots)
	if w := j.packAlike(); w != nil {
		return w
	}
	j.study()
	ways := []tuning{{bend: 10}, {bend: 10, lead: true}}
	if len(lots) > fewLots && len(lots) <= manyLots {
		ways = append(ways, tuning{bend: 3})
	}
	if most := j.fair(); most > 0 {
		ways = append(ways, tuning{bend: 3, most: most})
	}
	tried := make([]*packer, len(ways))
	each(len(ways), s.m.problem.Policy.Workers, func(i int) { tried[i] = j.pack(ways[i]) })
	return slices.MinFunc(tried, func(a, b *packer) int {
		return cmp.Or(cmp.Compare(sum(a.left), sum(b.left)), cmp.Compare(a.cost(), b.cost()))
	})
}

// wants returns the part of a need that is about labels whose value a pool leaves to the pods: a node
// can have only one (scheduling 18.7).
func (m *model) wants(needID, poolID int) int {
	if needID == 0 {
		return 0
	}
	pl := &m.pools[poolID]
	cat := m.catalogues[pl.catalogue]
	free := reqs.Set{}
	for key, r := range m.needs[needID].set {
		k, known := m.table.Key(key)
		if !known || cat.keys[k].columns || cat.keys[k].typed || pl.row.Defined(k) && !pl.row.Open(k) && pl.row.Count(k) == 1 {
			continue
		}
		free[key] = r
	}
	if len(free) == 0 {
		return 0
	}
	return m.intern(free)
}

// build turns patterns into planned nodes. What limits do not allow goes back to left.
func (s *state) build(w *packer, left []int) {
	for _, p := range w.out {
		w.holders(p)
		for range p.times {
			if !s.buildOne(w, p) {
				for _, t := range p.takes {
					left[w.lots[t.lot].class] += t.count
				}
			}
		}
	}
	for i, n := range w.left {
		left[w.lots[i].class] += n
	}
}

func (s *state) buildOne(w *packer, p *pattern) bool {
	m := s.m
	if s.nodesLeft[w.pool] <= 0 {
		return false
	}
	b := &bin{pool: w.pool, row: m.pools[w.pool].row.Clone(), types: p.types.clone(), cols: p.cols, used: slices.Clone(p.used), top: make([]int64, m.lanes)}
	if len(m.pools[w.pool].limits) > 0 {
		b.types.and(s.affordable(w.pool))
		if b.types.empty() {
			return false
		}
	}
	var seen []int
	for _, t := range p.takes {
		if n := w.lots[t.lot].need; n > 0 && !slices.Contains(seen, n) {
			seen = append(seen, n)
			m.table.Intersect(b.row, b.row, m.needs[n].row)
		}
	}
	b.needs = seen
	b.cols = m.pools[w.pool].cols
	for _, t := range p.takes {
		b.cols = b.cols.and(w.fits[t.lot].cols)
	}
	place := int32(len(m.nodes) + len(s.bins))
	s.bins = append(s.bins, b)
	s.measure(b)
	for _, t := range p.takes {
		l := &w.lots[t.lot]
		prof := m.profiles[l.profile]
		if len(prof.counts) > 0 || len(prof.apart) > 0 {
			s.noteBin(prof, b, place, t.count)
		}
		b.pods = append(b.pods, share{int32(l.class), int32(l.profile), int32(t.count)})
		b.count += t.count
		s.placed = append(s.placed, placement{int32(l.class), place, int32(t.count)})
	}
	s.charge(b)
	return true
}

// fillFromOtherPools lets pods whose home is another pool use what is left on the nodes from first on, where that
// makes no node dearer. It returns what remains of the lots.
func (s *state) fillFromOtherPools(lots []lot, first int) []lot {
	for i := range lots {
		l := &lots[i]
		for at := first; at < len(s.bins) && l.count > 0; at++ {
			l.count -= s.join(l.class, l.profile, l.need, at, l.count)
		}
	}
	return slices.DeleteFunc(lots, func(l lot) bool { return l.count == 0 })
}

// join puts pods on a planned node without making it dearer, and returns how many.
func (s *state) join(k, profileID, needID, at, want int) int {
	m := s.m
	b, c, p := s.bins[at], &m.classes[k], m.profiles[profileID]
	asks := m.certain(c)
	for _, l := range asks {
		if b.used[l]+c.req[l] > b.top[l] {
			return 0
		}
	}
	if !m.tolerated(p.tol, m.pools[b.pool].taints) {
		return 0
	}
	t, col := s.cheapestOf(b)
	if t < 0 {
		return 0
	}
	room := m.pools[b.pool].rooms.room[t*m.lanes : (t+1)*m.lanes]
	for _, l := range asks {
		want = int(min(int64(want), (room[l]-b.used[l])/c.req[l]))
	}
	place := int32(len(m.nodes) + at)
	if want <= 0 {
		return 0
	}
	if want = s.binRules(c, p, place, want); want <= 0 {
		return 0
	}
	f := s.beginFrame(b)
	if !s.demand(&f, b, needID) || !f.types.has(t) || !f.cols.has(col) {
		return 0
	}
	if p.zoned && needID == p.need { // no domain was assigned to it
		if want = s.choose(p, b, &f, want); want <= 0 {
			return 0
		}
	}
	n := s.size(c, b, &f, want)
	if n == 0 || !f.types.has(t) || !f.cols.has(col) {
		return 0
	}
	s.takeBin(k, profileID, b, place, n, &f)
	return n
}

// cheapestOf returns the cheapest type of a planned node and how it is bought.
func (s *state) cheapestOf(b *bin) (t, col int) {
	if b.best >= 0 {
		return b.best, b.bestCol
	}
	cat := s.m.catalogues[s.m.pools[b.pool].catalogue]
	cols := s.launchColumns(b)
	t, col = -1, -1
	best := 0.0
	for i := b.types.next(0); i >= 0; i = b.types.next(i + 1) {
		if p, at := cat.cheapest(i, cols); at >= 0 && (t < 0 || p < best) {
			t, col, best = i, at, p
		}
	}
	b.best, b.bestCol = t, col
	return t, col
}
