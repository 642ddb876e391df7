package solve

import (
	"slices"

	"github.com/dovetail-sh/dovetail/internal/cluster"
	"github.com/dovetail-sh/dovetail/internal/reqs"
)

// state is a plan in the making: what is left of nodes, the nodes planned so far, and how many pods
// of each topology group are where. Places are numbered: existing nodes first, then planned ones.
type state struct {
	m              *model
	free           []int64 // existing nodes × lanes
	top            []int64 // blocks of nodes × 2: at least the most cpu and memory that any node of a block has left
	sel, own       [][]int32
	host           map[hostKey]hostCount
	total          []int32 // pods a group of hosts selects, wherever they are
	ports          map[int32][]cluster.HostPort
	claims         map[int32][]int
	bins           []*bin
	limits         [][]int64
	nodesLeft      []int64
	reserves       []int
	placed         []placement
	stop           func() bool
	stopped        bool
	row            reqs.Row // to work in
	types          set
	banned         []pinKey  // domains in which the node that is looked at cannot be had
	deferred       bool      // the last refusal was for want of reserved capacity
	avoidDearer    bool      // a planned node is made dearer only for pods that have no other place
	nodesByDomain  [][]int32 // by key, by value: existing nodes; nil unless nodes go
	removedDomains []set     // by key: domains that went with their last node
}

// placement is some pods of a class at a place.
type placement struct {
	class, place, count int32
}

// block is how many nodes share an entry of state.top.
const block = 32

func newState(m *model, stop func() bool) *state {
	s := &state{m: m, stop: stop, host: map[hostKey]hostCount{}, ports: map[int32][]cluster.HostPort{}, claims: map[int32][]int{}}
	s.free = make([]int64, 0, len(m.nodes)*m.lanes)
	for i := range m.nodes {
		s.free = append(s.free, m.nodes[i].free...)
	}
	s.top = make([]int64, 2*((len(m.nodes)+block-1)/block))
	for b := range len(s.top) / 2 {
		s.updateBlockMax(b)
	}
	s.sel, s.own, s.total = make([][]int32, len(m.groups)), make([][]int32, len(m.groups)), make([]int32, len(m.groups))
	for i, g := range m.groups {
		s.sel[i], s.own[i] = slices.Clone(g.sel), slices.Clone(g.own)
	}
	for at, c := range m.hosts {
		s.total[at.group] += c.sel
	}
	for i := range m.pools {
		var left []int64
		for _, l := range m.pools[i].limits {
			left = append(left, l.remaining)
		}
		s.limits, s.nodesLeft = append(s.limits, left), append(s.nodesLeft, m.pools[i].nodeLimit)
	}
	for _, r := range m.reserves {
		s.reserves = append(s.reserves, r.left)
	}
	s.row = m.table.NewRow()
	return s
}

func (s *state) updateBlockMax(b int) {
	var cpu, memory int64
	for n := b * block; n < min((b+1)*block, len(s.m.nodes)); n++ {
		if !s.m.nodes[n].full {
			cpu, memory = max(cpu, s.free[n*s.m.lanes]), max(memory, s.free[n*s.m.lanes+1])
		}
	}
	s.top[2*b], s.top[2*b+1] = cpu, memory
}

// shouldStop reports whether to stop; once it says true it always does.
func (s *state) shouldStop() bool {
	if !s.stopped && s.stop != nil && s.stop() {
		s.stopped = true
	}
	return s.stopped
}

func (s *state) hostAt(groupID int, place int32) hostCount {
	at := hostKey{int32(groupID), place}
	c, base := s.host[at], s.m.hosts[at]
	return hostCount{c.sel + base.sel, c.own + base.own}
}

// few is how many of a class fit what is left, at most want.
func few(c *class, left []int64, want int) int {
	for _, l := range c.asks {
		if left[l] < c.req[l] {
			return 0
		}
		if n := left[l] / c.req[l]; n < int64(want) {
			want = int(n)
		}
	}
	return want
}

// onNode returns how many pods of a class an existing node can take now, at most want.
func (s *state) onNode(c *class, p *profile, n, want int) int {
	m := s.m
	x := &m.nodes[n]
	if x.full || c.moved && (x.src.Settling || !x.src.Initialized && x.src.Pool != "") {
		return 0
	}
	left := s.free[n*m.lanes : (n+1)*m.lanes]
	if len(c.shared) > 0 {
		return s.onNodeSharing(c, p, n)
	}
	if want = few(c, left, want); want == 0 {
		return 0
	}
	return s.rulesOnNode(p, n, want)
}

// rulesOnNode is onNode for everything but resources.
func (s *state) rulesOnNode(p *profile, n, want int) int {
	m := s.m
	x := &m.nodes[n]
	if !m.tolerated(p.tol, x.taints) || !m.onNode(p.need, x.sign) {
		return 0
	}
	if len(p.ports) > 0 {
		if want = 1; conflicts(p.ports, x.ports) || conflicts(p.ports, s.ports[int32(n)]) {
			return 0
		}
	}
	if p.hosted {
		want = s.hostRules(p, int32(n), want)
	}
	if p.zoned && want > 0 {
		want = s.zoneRules(p, m.signs[x.sign].values, want)
	}
	return want
}

// onNodeSharing is onNode for pods with claims that others use too: those that are attached already
// take no slot.
func (s *state) onNodeSharing(c *class, p *profile, n int) int {
	m := s.m
	base := m.view.Resources.Len()
	left := s.free[n*m.lanes : (n+1)*m.lanes]
	need := slices.Clone(c.req)
	for i, v := range c.shape.Volumes {
		if id, shared := m.claims[v.Claim]; shared && s.attached(n, id) || slices.ContainsFunc(c.shape.Volumes[:i], func(o cluster.Volume) bool { return o.Claim == v.Claim }) {
			need[base+m.driver(v.Driver)]--
		}
	}
	for _, l := range c.asks {
		if left[l] < need[l] {
			return 0
		}
	}
	return s.rulesOnNode(p, n, 1)
}

func (s *state) attached(place, claim int) bool {
	if place < len(s.m.nodes) && slices.Contains(s.m.nodes[place].claims, claim) {
		return true
	}
	return slices.Contains(s.claims[int32(place)], claim)
}

func conflicts(a, b []cluster.HostPort) bool {
	for _, x := range a {
		if slices.ContainsFunc(b, x.Conflicts) {
			return true
		}
	}
	return false
}

// hostRules returns how many pods of a profile the rules over hosts allow at a place, at most want.
func (s *state) hostRules(p *profile, place int32, want int) int {
	for i := range p.spread {
		r := &p.spread[i]
		if !s.m.groups[r.group].host {
			continue
		}
		n := s.hostAt(r.group, place).sel
		if r.self {
			want = min(want, int(r.skew-n))
		} else if n > r.skew {
			return 0
		}
	}
	for i := range p.near {
		r := &p.near[i]
		if !s.m.groups[r.group].host || s.hostAt(r.group, place).sel > 0 {
			continue
		}
		if !r.self || s.total[r.group] > 0 { // the first of its kind may start anywhere (SC-33)
			return 0
		}
	}
	for i := range p.apart {
		r := &p.apart[i]
		if !s.m.groups[r.group].host {
			continue
		}
		if s.hostAt(r.group, place).sel > 0 {
			return 0
		}
		if r.self {
			want = min(want, 1)
		}
	}
	for _, id := range p.kept {
		if s.m.groups[id].host && s.hostAt(id, place).own > 0 {
			return 0
		}
	}
	return max(want, 0)
}

// zoneRules is hostRules for the other keys, at a place whose labels are known.
func (s *state) zoneRules(p *profile, values []int32, want int) int {
	for i := range p.spread {
		r := &p.spread[i]
		g := s.m.groups[r.group]
		if g.host {
			continue
		}
		v := values[g.key]
		if v < 0 || !r.eligible.has(int(v)) {
			return 0
		}
		want = min(want, s.spreadCapacity(r, int(v)))
	}
	for i := range p.near {
		r := &p.near[i]
		g := s.m.groups[r.group]
		if g.host {
			continue
		}
		v := values[g.key]
		if v < 0 || s.sel[r.group][v] == 0 && !s.mayStart(r) {
			return 0
		}
	}
	for i := range p.apart {
		r := &p.apart[i]
		g := s.m.groups[r.group]
		if g.host || values[g.key] == absent { // without the label there is no domain to share
			continue
		}
		if values[g.key] == open {
			return 0
		}
		if s.sel[r.group][values[g.key]] > 0 {
			return 0
		}
		if r.self {
			want = min(want, 1)
		}
	}
	for _, id := range p.kept {
		if g := s.m.groups[id]; !g.host && (values[g.key] == open || values[g.key] >= 0 && s.own[id][values[g.key]] > 0) {
			return 0
		}
	}
	return max(want, 0)
}

// spreadCapacity returns how many pods a spread constraint lets into a domain now (SC-32).
func (s *state) spreadCapacity(r *spreadRule, v int) int {
	count := s.sel[r.group][v]
	least := s.least(r)
	if !r.self {
		if count-least > r.skew {
			return 0
		}
		return unlimited
	}
	return max(0, int(least+r.skew-count))
}

// least is the smallest count over the domains of a constraint.
func (s *state) least(r *spreadRule) int32 { return s.leastOf(s.sel[r.group], r) }

func (s *state) leastOf(count []int32, r *spreadRule) int32 {
	low, n := int32(-1), int32(0)
	for v := r.eligible.next(0); v >= 0; v = r.eligible.next(v + 1) {
		if s.removedDomains == nil || !s.removedDomains[s.m.groups[r.group].key].has(v) { // until its node goes, its count is one of them
			n++
		}
		if low < 0 || count[v] < low {
			low = count[v]
		}
	}
	if low < 0 || n < r.minimum {
		return 0
	}
	return low
}

// mayStart reports whether a pod that must be with its own kind may be the first (SC-33).
func (s *state) mayStart(r *groupRule) bool {
	if !r.self {
		return false
	}
	for v := r.eligible.next(0); v >= 0; v = r.eligible.next(v + 1) {
		if s.sel[r.group][v] > 0 {
			return false
		}
	}
	return true
}

// takeNode puts pods of a class on an existing node.
func (s *state) takeNode(k int, p *profile, n, count int) {
	m := s.m
	c := &m.classes[k]
	left := s.free[n*m.lanes : (n+1)*m.lanes]
	for _, l := range c.asks {
		left[l] -= int64(count) * c.req[l]
	}
	if len(c.shared) > 0 {
		s.share(c, n, left)
	}
	s.updateBlockMax(n / block)
	s.note(p, int32(n), m.signs[m.nodes[n].sign].values, count, &m.nodes[n], nil)
	s.placed = append(s.placed, placement{int32(k), int32(n), int32(count)})
}

// share gives back the slots of claims that were attached already, and remembers the new ones.
func (s *state) share(c *class, place int, left []int64) {
	base := s.m.view.Resources.Len()
	for _, v := range c.shape.Volumes {
		id, shared := s.m.claims[v.Claim]
		if !shared {
			continue
		}
		if s.attached(place, id) {
			left[base+s.m.driver(v.Driver)]++
			continue
		}
		s.claims[int32(place)] = append(s.claims[int32(place)], id)
	}
}

// note counts pods of a profile at a place for the groups they belong to, on a node that exists or on
// one that is planned. values are the domains that are certain.
func (s *state) note(p *profile, place int32, values []int32, count int, n *node, b *bin) {
	if len(p.ports) > 0 {
		s.ports[place] = append(s.ports[place], p.ports...)
	}
	for _, id := range p.counts {
		g := s.m.groups[id]
		if n != nil && !s.m.counts(g, n) {
			continue
		}
		if g.host {
			at := hostKey{int32(id), place}
			h := s.host[at]
			h.sel += int32(count)
			s.host[at] = h
			s.total[id] += int32(count)
		} else if v := values[g.key]; v >= 0 && (b == nil || s.meets(b, id, p)) {
			s.sel[id][v] += int32(count)
		} else if v >= 0 && !slices.Contains(b.unsure, id) {
			b.unsure = append(b.unsure, id)
		}
	}
	for i := range p.apart {
		r := &p.apart[i]
		if !r.required {
			continue
		}
		if g := s.m.groups[r.group]; g.host {
			at := hostKey{int32(r.group), place}
			h := s.host[at]
			h.own += int32(count)
			s.host[at] = h
		} else if v := values[g.key]; v >= 0 {
			s.own[r.group][v] += int32(count)
		}
	}
}
