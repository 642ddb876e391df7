package solve

import (
	"math"
	"slices"

	karpv1 "github.com/dovetail-sh/dovetail/api/v1"
	"github.com/dovetail-sh/dovetail/internal/reqs"
)

// bin is a planned node. It is not one instance type but all that could still be launched for the
// pods on it.
type bin struct {
	pool          int
	row           reqs.Row
	types         set
	cols          columns
	used          []int64 // by the pods; DaemonSets are in the rooms of the pool
	top           []int64 // the most that any of the types has
	needs         []int   // needs that row, types and cols already respect
	pods          []share
	count         int
	held          []int // reservations it holds a place of
	relaxed       bool  // minValues was lowered to open it
	minimum       []minimum
	domainCounted []bool // by key of the table: its only domain is counted
	sure          []int  // groups with a node filter that it meets for certain (SC-28)
	unsure        []int  // groups that do not count its pods yet, since it may not
	best          int    // cheapest of the types, -1: not looked up
	bestCol       int    // and how it is bought
}

// share is how many pods of a class, at one step of relaxation, are on a planned node.
type share struct {
	class   int32
	profile int32
	count   int32
}

// frame is a planned node as it would be with some pods more.
type frame struct {
	row    reqs.Row
	types  set
	cols   columns
	narrow bool // row, types or cols differ from the bin's
	needs  []int
	held   []int
	pinned []pinKey // domains that were chosen
}

// beginFrame starts a frame from a bin, in the state's own memory.
func (s *state) beginFrame(b *bin) frame {
	s.row.CopyFrom(b.row)
	s.types = append(s.types[:0], b.types...)
	return frame{row: s.row, types: s.types, cols: b.cols}
}

// demand narrows a frame to a need. It reports whether anything is left.
func (s *state) demand(f *frame, b *bin, needID int) bool {
	if needID <= 0 || slices.Contains(b.needs, needID) {
		return needID >= 0
	}
	m := s.m
	n := m.needs[needID]
	if !m.table.Compatible(n.row, f.row, true) {
		return false
	}
	m.table.Intersect(f.row, f.row, n.row)
	catalogue := m.pools[b.pool].catalogue
	for _, list := range [][]int{b.needs, f.needs, {needID}} {
		for _, id := range list {
			if !m.kept(m.needs[id], f.row, catalogue) {
				return false
			}
		}
	}
	left := m.leaves(needID, catalogue)
	f.cols = f.cols.and(left.cols)
	f.types.and(left.types)
	f.narrow = true
	f.needs = append(f.needs, needID)
	return !f.cols.empty() && !f.types.empty()
}

// inBin returns how many pods of a class a planned node can take, at most want, and the node as it
// would then be.
func (s *state) inBin(c *class, p *profile, b *bin, place int32, want int) (int, frame) {
	m := s.m
	if !m.tolerated(p.tol, m.pools[b.pool].taints) {
		return 0, frame{}
	}
	for _, l := range m.certain(c) {
		if b.used[l]+c.req[l] > b.top[l] {
			return 0, frame{}
		}
	}
	if want = s.binRules(c, p, place, want); want <= 0 {
		return 0, frame{}
	}
	if p.zoned {
		return s.inDomain(c, p, b, want)
	}
	f := s.beginFrame(b)
	if !s.demand(&f, b, p.need) {
		return 0, frame{}
	}
	return s.size(c, b, &f, want), f
}

// inDomain is the rest of inBin for a pod whose rules choose a domain. A domain in which the node then
// cannot be had, for minValues or reservations, is not chosen again.
func (s *state) inDomain(c *class, p *profile, b *bin, want int) (int, frame) {
	defer func() { s.banned = s.banned[:0] }()
	before := s.deferred
	for {
		f := s.beginFrame(b)
		if !s.demand(&f, b, p.need) || !s.dropFullTypes(c, b, &f) {
			return 0, frame{}
		}
		many := s.choose(p, b, &f, want)
		if many <= 0 {
			return 0, frame{}
		}
		refused := s.deferred
		n := s.size(c, b, &f, many)
		if n > 0 {
			s.deferred = before
			return n, f
		}
		// Reserved capacity that is taken is waited for, not passed over by choosing another capacity type
		// (V15-45).
		if len(f.pinned) == 0 || s.deferred && s.m.table.KeyName(f.pinned[len(f.pinned)-1].key) == karpv1.LabelCapacityType {
			return 0, frame{}
		}
		s.deferred = refused || s.deferred
		s.banned = append(s.banned, f.pinned[len(f.pinned)-1])
	}
}

// dropFullTypes drops the types without room for one more pod, so that a domain is chosen among those that
// have a node for it. It reports whether any is left.
func (s *state) dropFullTypes(c *class, b *bin, f *frame) bool {
	rooms, lanes := s.m.pools[b.pool].rooms, s.m.lanes
	back := s.attachedLanes(c, b)
	for t := f.types.next(0); t >= 0; t = f.types.next(t + 1) {
		fits := rooms.ports == nil || !s.portsTaken(c, rooms, t)
		for _, l := range c.asks {
			ask := c.req[l]
			if back != nil {
				ask -= back[l]
			}
			fits = fits && rooms.room[t*lanes+l]-b.used[l] >= ask
		}
		if !fits {
			f.types.drop(t)
		}
	}
	return !f.types.empty()
}

// certain are the lanes of which a pod takes what it asks for in any case: of attachments it may take
// less, if its claims are shared and attached already.
func (m *model) certain(c *class) []int {
	if len(c.shared) == 0 {
		return c.asks
	}
	end, _ := slices.BinarySearch(c.asks, m.view.Resources.Len())
	return c.asks[:end]
}

// binRules is what ports, claims and hosts allow.
func (s *state) binRules(c *class, p *profile, place int32, want int) int {
	if len(p.ports) > 0 {
		if want = 1; conflicts(p.ports, s.ports[place]) {
			return 0
		}
	}
	if len(c.shared) > 0 {
		want = 1
	}
	if p.hosted {
		want = s.hostRules(p, place, want)
	}
	return want
}

// size filters the types of a frame by resources, offerings, DaemonSet ports, minValues and
// reservations, and returns how many pods fit, at most want (SC-19).
func (s *state) size(c *class, b *bin, f *frame, want int) int {
	m := s.m
	pl := &m.pools[b.pool]
	cat, lanes := m.catalogues[pl.catalogue], m.lanes
	if len(b.minimum) > 0 || !pl.reserved.and(f.cols).empty() {
		want = 1
	}
	back := s.attachedLanes(c, b)
	best := 0
	room := pl.rooms.room
	for t := f.types.next(0); t >= 0; t = f.types.next(t + 1) {
		if cat.avail[t].and(f.cols).empty() || pl.rooms.ports != nil && s.portsTaken(c, pl.rooms, t) {
			f.types.drop(t)
			continue
		}
		n := want
		for _, l := range c.asks {
			ask := c.req[l]
			if back != nil {
				ask -= back[l]
			}
			if left := room[t*lanes+l] - b.used[l]; left < ask {
				n = 0
				break
			} else if ask > 0 && left/ask < int64(n) {
				n = int(left / ask)
			}
		}
		if n == 0 || negative(room[t*lanes:(t+1)*lanes], b.used) {
			f.types.drop(t)
			continue
		}
		best = max(best, n)
	}
	if best == 0 {
		return 0
	}
	s.keepTypes(c, b, f, best, back)
	if !s.findReservations(b, f) || !s.minimums(b.minimum, pl, f) {
		return 0
	}
	return best
}

// negative reports whether a type cannot hold its DaemonSets and what is planned: then nothing fits.
func negative(room, used []int64) bool {
	for l, v := range room {
		if v < used[l] && v < 0 {
			return true
		}
	}
	return false
}

// keepTypes drops the types that hold fewer than n pods more.
func (s *state) keepTypes(c *class, b *bin, f *frame, n int, back []int64) {
	if n <= 1 {
		return
	}
	room, lanes := s.m.pools[b.pool].rooms.room, s.m.lanes
	for t := f.types.next(0); t >= 0; t = f.types.next(t + 1) {
		for _, l := range c.asks {
			ask := c.req[l]
			if back != nil {
				ask -= back[l]
			}
			if room[t*lanes+l]-b.used[l] < int64(n)*ask {
				f.types.drop(t)
				break
			}
		}
	}
}

// attachedLanes returns, for a pod with shared claims, the slots it does not need because the claims
// are attached to the planned node already.
func (s *state) attachedLanes(c *class, b *bin) []int64 {
	if len(c.shared) == 0 {
		return nil
	}
	place := slices.Index(s.bins, b) // few pods share claims
	back := make([]int64, s.m.lanes)
	if place < 0 {
		return back
	}
	for _, v := range c.shape.Volumes {
		if id, shared := s.m.claims[v.Claim]; shared && s.attached(len(s.m.nodes)+place, id) {
			back[s.m.view.Resources.Len()+s.m.driver(v.Driver)]++
		}
	}
	return back
}

func (s *state) portsTaken(c *class, r *rooms, t int) bool {
	return len(c.shape.HostPorts) > 0 && conflicts(c.shape.HostPorts, r.ports[t])
}

// minimums reports whether a frame still has the distinct values that minValues demands (SC-42,
// V15-60: only values that the requirements still allow count).
func (s *state) minimums(list []minimum, pl *pool, f *frame) bool {
	for _, least := range list {
		if s.distinct(pl, f, least.key) < least.values {
			return false
		}
	}
	return true
}

func (s *state) distinct(pl *pool, f *frame, k reqs.KeyID) int {
	cat := s.m.catalogues[pl.catalogue]
	x := &cat.keys[k]
	cols := s.heldColumns(pl, f.cols, f.held)
	var open columns
	types := newSet(len(cat.types)) // those that can be launched so
	for t := f.types.next(0); t >= 0; t = f.types.next(t + 1) {
		if left := cat.launch[t].and(cols); !left.empty() {
			open = open.or(left)
			types.add(t)
		}
	}
	n := 0
	switch {
	case x.columns:
		for v, with := range x.colWith {
			n += boolInt(f.row.Allows(k, reqs.ValueID(v)) && !with.and(open).empty())
		}
	case x.typed:
		for v, with := range x.with {
			n += boolInt(with != nil && f.row.Allows(k, reqs.ValueID(v)) && with.meets(types))
		}
	default:
		n = f.row.Count(k)
	}
	return n
}

// findReservations works out which reservations a frame would hold a place of, and reports whether that is
// allowed (SC-45, SC-46, V15-45).
func (s *state) findReservations(b *bin, f *frame) bool {
	m := s.m
	pl := &m.pools[b.pool]
	reserved := pl.reserved.and(f.cols)
	cat := m.catalogues[pl.catalogue]
	if reserved.empty() && len(b.held) == 0 {
		for t := f.types.next(0); t >= 0; t = f.types.next(t + 1) {
			if !cat.launch[t].and(f.cols).empty() {
				return true
			}
		}
		return false
	}
	var open, launchable, ordinary columns
	for t := f.types.next(0); t >= 0; t = f.types.next(t + 1) {
		open = open.or(cat.avail[t].and(reserved))
		launchable = launchable.or(cat.launch[t].and(reserved))
		ordinary = ordinary.or(cat.launch[t].and(f.cols).not(reserved))
	}
	f.held = nil
	others := false // some reservation is taken by others
	for i := launchable.next(0); i >= 0; i = launchable.next(i + 1) {
		switch id := cat.cols[i].reserved; {
		case id < 0 || slices.Contains(f.held, id):
		case slices.Contains(b.held, id) || s.reserves[id] > 0:
			f.held = append(f.held, id)
		default:
			others = true
		}
	}
	if others {
		f.held = s.separable(pl, f)
	}
	if len(f.held) > 0 {
		return true
	}
	if m.problem.Policy.ReservedFallback {
		return !ordinary.empty()
	}
	switch {
	case !launchable.empty(), len(b.held) > 0: // taken by others, or would be lost
		s.deferred = true
		return false
	case !open.empty() && ordinary.empty(): // full, and nothing else
		s.deferred = true
		return false
	}
	return !ordinary.empty()
}

// separable returns those of the reservations held that can be written down together: a NodeClaim says
// zones, types and ids each on their own, and where offerings have no label with the id, what these
// say together may leave a reservation open that others hold (SC-45).
func (s *state) separable(pl *pool, f *frame) []int {
	var kept []int
	for _, id := range f.held {
		if more := append(slices.Clip(kept), id); s.exact(pl, f, more) {
			kept = more
		}
	}
	return kept
}

// exact reports whether a node that is written with some reservations leaves no other one open.
func (s *state) exact(pl *pool, f *frame, held []int) bool {
	cat := s.m.catalogues[pl.catalogue]
	cols := s.heldColumns(pl, f.cols, held)
	var open, near columns // of the types that are written, what is held and what else there is
	for t := f.types.next(0); t >= 0; t = f.types.next(t + 1) {
		if left := cat.launch[t].and(cols); !left.empty() {
			open = open.or(left)
			near = near.or(cat.launch[t].and(f.cols).and(pl.reserved).not(cols))
		}
	}
	for i := near.next(0); i >= 0; i = near.next(i + 1) {
		if !slices.ContainsFunc(cat.cols[i].labels, func(l label) bool { return cat.excludes(open, l) }) {
			return false
		}
	}
	return true
}

// takeBin puts pods of a class on a planned node.
func (s *state) takeBin(k int, profileID int, b *bin, place int32, count int, f *frame) {
	m := s.m
	c := &m.classes[k]
	p := m.profiles[profileID]
	for _, l := range c.asks {
		b.used[l] += int64(count) * c.req[l]
	}
	if len(c.shared) > 0 {
		for l := range b.used {
			b.used[l] = -b.used[l]
		}
		s.share(c, int(place), b.used)
		for l := range b.used {
			b.used[l] = -b.used[l]
		}
	}
	if f.narrow {
		b.row.CopyFrom(f.row)
		b.needs = append(b.needs, f.needs...)
	}
	copy(b.types, f.types)
	b.cols = f.cols
	s.swapHeld(b, f.held)
	s.measure(b)
	b.count += count
	s.noteBin(p, b, place, count)
	if last := len(b.pods) - 1; last >= 0 && b.pods[last].class == int32(k) && b.pods[last].profile == int32(profileID) {
		b.pods[last].count += int32(count)
	} else {
		b.pods = append(b.pods, share{int32(k), int32(profileID), int32(count)})
	}
	s.placed = append(s.placed, placement{int32(k), place, int32(count)})
}

func (s *state) swapHeld(b *bin, held []int) {
	for _, id := range b.held {
		s.reserves[id]++
	}
	for _, id := range held {
		s.reserves[id]--
	}
	b.held = held
}

// measure notes the most that any type of a bin has of each resource, to refuse quickly.
func (s *state) measure(b *bin) {
	b.best = -1
	room, lanes := s.m.pools[b.pool].rooms.room, s.m.lanes
	for l := range b.top {
		b.top[l] = math.MinInt64
	}
	for t := b.types.next(0); t >= 0; t = b.types.next(t + 1) {
		for l, v := range room[t*lanes : (t+1)*lanes] {
			b.top[l] = max(b.top[l], v)
		}
	}
}
