package solve

import (
	"math"
	"slices"

	"github.com/dovetail-sh/dovetail/internal/reqs"
)

// choose narrows a frame to domains that the topology rules of a profile allow, and returns how many
// pods may go there, at most want. It is the last thing to narrow a node, since it may pin one domain.
func (s *state) choose(p *profile, b *bin, f *frame, want int) int {
	for i := range p.near {
		if !s.chooseNear(&p.near[i], b, f) {
			return 0
		}
	}
	for i := range p.apart {
		r := &p.apart[i]
		g := s.m.groups[r.group]
		if g.host {
			continue
		}
		if !s.avoid(b, f, g.key, s.sel[r.group]) {
			return 0
		}
		if r.self {
			want = min(want, 1)
		}
	}
	for _, id := range p.kept {
		if g := s.m.groups[id]; !g.host && !s.avoid(b, f, g.key, s.own[id]) {
			return 0
		}
	}
	for i := range p.spread {
		r := &p.spread[i]
		if s.m.groups[r.group].host {
			continue
		}
		if want = s.chooseSpread(r, b, f, want); want <= 0 {
			return 0
		}
	}
	if !s.certain(p, b, f) {
		return 0
	}
	return want
}

// certain pins one domain for pods that keep others away or that others must be with: while it is open
// it would block every domain, or help in none.
func (s *state) certain(p *profile, b *bin, f *frame) bool {
	for i := range p.apart {
		if g := s.m.groups[p.apart[i].group]; !g.host && p.apart[i].required && !s.pinFirst(b, f, g.key) {
			return false
		}
	}
	for _, id := range p.anchor {
		if !s.pinFirst(b, f, s.m.groups[id].key) {
			return false
		}
	}
	return true
}

func (s *state) pinFirst(b *bin, f *frame, k reqs.KeyID) bool {
	possible := s.m.possible(&s.m.pools[b.pool], f.row, f.types, f.cols, k)
	if v := possible.next(0); v < 0 || possible.next(v+1) < 0 {
		return true
	}
	v := s.cheapestDomain(b, f, k)
	return v >= 0 && s.choosePin(f, b, k, v)
}

// choosePin narrows a frame to one domain and notes that it was chosen.
func (s *state) choosePin(f *frame, b *bin, k reqs.KeyID, v int) bool {
	f.pinned = append(f.pinned, pinKey{k, reqs.ValueID(v)})
	return s.demand(f, b, s.m.pin(k, reqs.ValueID(v)))
}

// cheapestDomain returns the domain of a key in which a frame can be launched for least, or -1.
func (s *state) cheapestDomain(b *bin, f *frame, k reqs.KeyID) int {
	pl := &s.m.pools[b.pool]
	cat := s.m.catalogues[pl.catalogue]
	x := &cat.keys[k]
	open := s.open(b, f, k)
	best, low := -1, math.Inf(1)
	for v := open.next(0); v >= 0; v = open.next(v + 1) {
		types, cols := f.types, f.cols
		if x.columns {
			cols = cols.and(x.colWith[v])
		} else if x.typed {
			types = types.clone()
			types.and(x.with[v])
		}
		price := math.Inf(1)
		for t := types.next(0); t >= 0; t = types.next(t + 1) {
			p, _ := cat.cheapest(t, cols)
			price = min(price, p)
		}
		if best < 0 || price < low {
			best, low = v, price
		}
	}
	return best
}

// chooseSpread pins the valid domain with the fewest pods (SC-32).
func (s *state) chooseSpread(r *spreadRule, b *bin, f *frame, want int) int {
	g := s.m.groups[r.group]
	open := s.open(b, f, g.key)
	open.and(r.eligible)
	best := -1
	for v := open.next(0); v >= 0; v = open.next(v + 1) {
		if best < 0 || s.sel[r.group][v] < s.sel[r.group][best] {
			best = v
		}
	}
	if best < 0 {
		return 0
	}
	room := s.spreadCapacity(r, best)
	if room <= 0 || !s.choosePin(f, b, g.key, best) {
		return 0
	}
	return min(want, room)
}

// chooseNear narrows a frame to the domains where the pods are that must be near (SC-33).
func (s *state) chooseNear(r *groupRule, b *bin, f *frame) bool {
	g := s.m.groups[r.group]
	if g.host {
		return true
	}
	open := s.open(b, f, g.key)
	open.and(r.eligible)
	with, first := newSet(len(open)*64), -1
	for v := open.next(0); v >= 0; v = open.next(v + 1) {
		if first < 0 {
			first = v
		}
		if s.sel[r.group][v] > 0 {
			with.add(v)
		}
	}
	switch {
	case !with.empty():
		return s.demand(f, b, s.m.oneOf(g.key, with))
	case first >= 0 && s.mayStart(r):
		return s.choosePin(f, b, g.key, first)
	}
	return false
}

// avoid narrows a frame to the domains without any of the pods counted (SC-34, SC-35).
func (s *state) avoid(b *bin, f *frame, k reqs.KeyID, count []int32) bool {
	if !s.m.enumerable(&s.m.pools[b.pool], f.row, k) { // it will have some value, nobody knows which
		return false
	}
	possible := s.m.possible(&s.m.pools[b.pool], f.row, f.types, f.cols, k)
	if possible.empty() { // no such label on this node: nothing to share
		return true
	}
	all := true
	for v := possible.next(0); v >= 0; v = possible.next(v + 1) {
		all = all && count[v] == 0
	}
	if all {
		return true
	}
	open := s.open(b, f, k)
	for v := open.next(0); v >= 0; v = open.next(v + 1) {
		if count[v] > 0 {
			open.drop(v)
		}
	}
	return s.demand(f, b, s.m.oneOf(k, open))
}

// open returns the domains of a key that a frame can still be in.
func (s *state) open(b *bin, f *frame, k reqs.KeyID) set {
	open := s.m.openDomains(&s.m.pools[b.pool], f.row, f.types, f.cols, k)
	for _, p := range s.banned {
		if p.key == k {
			open.drop(int(p.value))
		}
	}
	return open
}

// enumerable reports whether the values that a planned node can have of a key are known: they are not
// if its pool demands the label and leaves the value open.
func (m *model) enumerable(pl *pool, row reqs.Row, k reqs.KeyID) bool {
	x := &m.catalogues[pl.catalogue].keys[k]
	return x.columns || x.typed || !row.Defined(k) || !row.Open(k)
}

// possible is openDomains with those that are sold out: capacity may come back before the launch.
func (m *model) possible(pl *pool, row reqs.Row, types set, cols columns, k reqs.KeyID) set {
	cat := m.catalogues[pl.catalogue]
	x := &cat.keys[k]
	if !x.columns {
		return m.openDomains(pl, row, types, cols, k)
	}
	var sold columns
	for t := types.next(0); t >= 0; t = types.next(t + 1) {
		sold = sold.or(cat.offer[t].and(cols))
	}
	out := newSet(m.table.ValueCount(k))
	for v, with := range x.colWith {
		if row.Allows(k, reqs.ValueID(v)) && !with.and(sold).empty() {
			out.add(v)
		}
	}
	return out
}

func (m *model) openDomains(pl *pool, row reqs.Row, types set, cols columns, k reqs.KeyID) set {
	cat := m.catalogues[pl.catalogue]
	x := &cat.keys[k]
	out := newSet(m.table.ValueCount(k))
	switch {
	case x.columns:
		var live columns
		for t := types.next(0); t >= 0; t = types.next(t + 1) {
			live = live.or(cat.avail[t].and(cols))
		}
		for v, with := range x.colWith {
			if row.Allows(k, reqs.ValueID(v)) && !with.and(live).empty() {
				out.add(v)
			}
		}
	case x.typed:
		for v, with := range x.with {
			if with != nil && row.Allows(k, reqs.ValueID(v)) && with.meets(types) {
				out.add(v)
			}
		}
	case row.Defined(k) && !row.Open(k):
		for v := range m.table.ValueCount(k) {
			if row.Allows(k, reqs.ValueID(v)) {
				out.add(v)
			}
		}
	}
	return out
}

// noteBin counts pods on a planned node. A domain counts for spreading and affinity once it is the
// only one left, for anti-affinity as soon as it is possible (SC-34).
func (s *state) noteBin(p *profile, b *bin, place int32, count int) {
	m := s.m
	values := make([]int32, m.table.Len())
	for k := range values {
		values[k] = -1
		if !m.domains[k].used {
			continue
		}
		open := m.possible(&m.pools[b.pool], b.row, b.types, b.cols, reqs.KeyID(k))
		if v := open.next(0); v >= 0 && open.next(v+1) < 0 {
			values[k] = int32(v)
			s.countFixedDomain(b, k, v)
		} else {
			s.noteOpen(p, k, open, count)
		}
	}
	b.unsure = slices.DeleteFunc(b.unsure, func(id int) bool { // more may be certain now
		v := values[s.m.groups[id].key]
		if v < 0 || !s.meets(b, id, p) {
			return false
		}
		s.countAll(b, id, int(v))
		return true
	})
	s.note(p, place, values, count, nil, b)
}

// countAll counts the pods that were put on a planned node so far.
func (s *state) countAll(b *bin, id, v int) {
	for _, h := range b.pods {
		if slices.Contains(s.m.profiles[h.profile].counts, id) {
			s.sel[id][v] += h.count
		}
	}
}

// meets reports whether a planned node certainly meets the node filter of a spread constraint
// (SC-28), with pods of a profile on it: those that have the constraint themselves see to it. A node
// that may not meet it in the end must not raise the smallest count that others go by.
func (s *state) meets(b *bin, id int, p *profile) bool {
	f := s.m.groups[id].filter
	if f == nil || f.needs == nil && f.tol < 0 || slices.Contains(b.sure, id) {
		return true
	}
	if f.tol >= 0 && !s.m.tolerated(f.tol, s.m.pools[b.pool].taints) {
		return false
	}
	if f.needs != nil && !p.owns(id) && !slices.ContainsFunc(f.needs, func(n int) bool { return s.surely(b, n) }) {
		return false
	}
	b.sure = append(b.sure, id)
	return true
}

// surely reports whether a planned node meets a need whatever it turns out to be.
func (s *state) surely(b *bin, needID int) bool {
	m := s.m
	if slices.Contains(b.needs, needID) {
		return true
	}
	pl, row := &m.pools[b.pool], m.needs[needID].row
	for i := range m.table.Len() {
		k := reqs.KeyID(i)
		if !row.Defined(k) {
			continue
		}
		x := &m.catalogues[pl.catalogue].keys[k]
		if x.columns && !x.colNone.and(b.cols).empty() || x.typed && (x.free.meets(b.types) || x.absent.meets(b.types)) {
			return false // it may come without the label
		}
		values := m.possible(pl, b.row, b.types, b.cols, k)
		if values.empty() {
			return false
		}
		for v := values.next(0); v >= 0; v = values.next(v + 1) {
			if !row.Allows(k, reqs.ValueID(v)) {
				return false
			}
		}
	}
	return true
}

// countFixedDomain counts the pods that were put on a planned node before its domain was certain.
func (s *state) countFixedDomain(b *bin, k, v int) {
	if b.domainCounted == nil {
		b.domainCounted = make([]bool, s.m.table.Len())
	}
	if b.domainCounted[k] {
		return
	}
	b.domainCounted[k] = true
	var done []int
	for _, h := range b.pods {
		for _, id := range s.m.profiles[h.profile].counts {
			if g := s.m.groups[id]; g.host || int(g.key) != k || g.kind == apart || slices.Contains(done, id) {
				continue
			}
			done = append(done, id)
			if slices.ContainsFunc(b.pods, func(o share) bool { return s.meets(b, id, s.m.profiles[o.profile]) }) {
				s.countAll(b, id, v)
			} else {
				b.unsure = append(b.unsure, id)
			}
		}
	}
}

// noteOpen counts pods for anti-affinity in every domain they could end up in.
func (s *state) noteOpen(p *profile, k int, open set, count int) {
	for _, id := range p.counts {
		if g := s.m.groups[id]; !g.host && int(g.key) == k && g.kind == apart {
			for v := open.next(0); v >= 0; v = open.next(v + 1) {
				s.sel[id][v] += int32(count)
			}
		}
	}
	for i := range p.apart {
		r := &p.apart[i]
		if g := s.m.groups[r.group]; !g.host && int(g.key) == k && r.required {
			for v := open.next(0); v >= 0; v = open.next(v + 1) {
				s.own[r.group][v] += int32(count)
			}
		}
	}
}
