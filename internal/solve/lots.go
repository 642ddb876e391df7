package solve

import (
	"slices"

	"github.com/dovetail-sh/dovetail/internal/reqs"
)

// lot is some pods of a class that are packed onto new nodes as a number: what couples them to other
// pods has been turned into where they go (zones) and how many a node takes (hosts).
type lot struct {
	class   int
	profile int
	need    int // of the profile, with the domain it was assigned
	count   int
	home    int // pool it opens nodes in
}

// divide turns what is left of the classes into lots, as far as it can. What it leaves in left is for
// the exact way: pods whose rules couple them to others in ways that are not numbers.
func (s *state) divide(left []int) []lot {
	m := s.m
	lots := make([]lot, 0, len(m.classes))
	chosen := make([]int, len(m.classes)) // profile of each class, or -1
	for k := range m.classes {
		chosen[k] = -1
		if left[k] > 0 {
			chosen[k] = s.choice(k)
		}
	}
	knots := s.knots(chosen, left)
	spreads, nears := map[int][]int{}, map[int][]int{}
	for k, id := range chosen {
		if id < 0 || knots[k] {
			continue
		}
		p := m.profiles[id]
		switch spread, near := p.zoneSpread(m), p.zoneNear(m); {
		case spread >= 0:
			spreads[p.spread[spread].group] = append(spreads[p.spread[spread].group], k)
		case near >= 0:
			nears[p.near[near].group] = append(nears[p.near[near].group], k)
		default:
			lots = s.addLot(lots, lot{class: k, profile: id, need: p.need, count: left[k]}, left)
		}
	}
	for g := range m.groups {
		if list := spreads[g]; list != nil {
			lots = s.divideSpread(lots, g, list, chosen, left)
		}
		if list := nears[g]; list != nil {
			lots = s.divideNear(lots, g, list, chosen, left)
		}
	}
	return lots
}

// choice returns the first profile of a class with which it could be on a new node at all, or -1.
func (s *state) choice(k int) int {
	c := &s.m.classes[k]
	if len(c.shape.Invalid) > 0 || c.shape.Refuses {
		return -1
	}
	for first := 0; first < len(c.variants); first = c.step(first) {
		best, home := -1, -1
		for _, v := range c.variants[first:c.step(first)] {
			p := s.m.profiles[v.profile]
			switch h := s.firstPoolFor(k, p, p.need); {
			case h == coupled: // nothing is given up before that was tried
				return -1
			case h >= 0 && (best < 0 || h < home):
				best, home = v.profile, h
			}
		}
		if best >= 0 {
			return best
		}
	}
	return -1
}

// coupled is the home of pods whose nodes depend on each other through minValues or reservations.
const coupled = -2

// firstPoolFor returns the first pool that can offer a node for a class, -1 if none can, or coupled.
func (s *state) firstPoolFor(k int, p *profile, needID int) int {
	m := s.m
	c := &m.classes[k]
	for i := range m.pools {
		pl := &m.pools[i]
		if s.nodesLeft[i] <= 0 || !m.tolerated(p.tol, pl.taints) {
			continue
		}
		f := m.fits(needID, i)
		if !f.ok || !s.holds(c, i, f) {
			continue
		}
		if len(pl.minimums) > 0 || !pl.reserved.and(f.cols).empty() {
			return coupled
		}
		return i
	}
	return -1
}

// holds reports whether some type of a pool has room for a pod of a class.
func (s *state) holds(c *class, poolID int, f *fit) bool {
	m := s.m
	pl := &m.pools[poolID]
	cat, room := m.catalogues[pl.catalogue], pl.rooms.room
next:
	for t := f.types.next(0); t >= 0; t = f.types.next(t + 1) {
		if cat.avail[t].and(f.cols).empty() {
			continue
		}
		for i, l := range pl.limits {
			if cat.cap[t*m.lanes+l.lane] > s.limits[poolID][i] {
				continue next
			}
		}
		if few(c, room[t*m.lanes:(t+1)*m.lanes], 1) == 1 {
			return true
		}
	}
	return false
}

// knots marks the classes whose rules are not numbers. A class is also tied if it is counted by a
// rule over zones that it does not have itself: where it lands matters to others.
func (s *state) knots(chosen, left []int) []bool {
	m := s.m
	tied := make([]bool, len(m.classes))
	for k, id := range chosen {
		if id < 0 {
			continue
		}
		c, p := &m.classes[k], m.profiles[id]
		tied[k] = len(c.shared) > 0 || len(p.ports) > 0 || s.hasCoupledRules(p)
	}
	s.unequal(chosen, left, tied)
	// The members of one group go together: if one is tied, all are.
	for changed := true; changed; {
		changed = false
		bad := make([]bool, len(m.groups))
		for k, id := range chosen {
			if id >= 0 && left[k] > 0 && tied[k] {
				for _, g := range m.profiles[id].zoneGroups(m) {
					bad[g] = true
				}
			}
		}
		for k, id := range chosen {
			if id < 0 || tied[k] {
				continue
			}
			for _, g := range m.profiles[id].zoneGroups(m) {
				if bad[g] {
					tied[k], changed = true, true
				}
			}
		}
	}
	return tied
}

// unequal ties classes that are spread over different domains by one group: their quotas would depend
// on each other.
func (s *state) unequal(chosen, left []int, tied []bool) {
	m := s.m
	first := make([]set, len(m.groups))
	for k, id := range chosen {
		if id < 0 || left[k] == 0 {
			continue
		}
		p := m.profiles[id]
		if at := p.zoneSpread(m); at >= 0 {
			g := p.spread[at].group
			if first[g] == nil {
				first[g] = p.spread[at].eligible
			} else if !slices.Equal(first[g], p.spread[at].eligible) {
				tied[k] = true
			}
		}
	}
}

// hasCoupledRules reports whether the rules of a profile over keys other than the host are more than one
// spread constraint over its own kind, or one affinity to its own kind; or whether it must be with
// other pods on one host.
func (s *state) hasCoupledRules(p *profile) bool {
	m := s.m
	zones := 0
	for i := range p.spread {
		if g := m.groups[p.spread[i].group]; !g.host {
			zones++
			if !p.spread[i].self || !m.priced(g.key) {
				return true
			}
		}
	}
	for i := range p.near {
		g := m.groups[p.near[i].group]
		zones++
		if g.host || !p.near[i].self || !m.priced(g.key) {
			return true
		}
	}
	for i := range p.apart {
		if !m.groups[p.apart[i].group].host {
			return true
		}
	}
	for _, id := range p.counts {
		g := m.groups[id]
		if g.kind == together && g.host && g.wanted {
			return true
		}
		if g.host || !g.wanted && g.kind != apart {
			continue
		}
		if g.kind == apart || !p.owns(id) {
			return true
		}
	}
	return zones > 1
}

// priced reports whether the values of a key are a matter of what is bought, in every catalogue.
func (m *model) priced(k reqs.KeyID) bool {
	return !slices.ContainsFunc(m.catalogues, func(c *catalogue) bool { return !c.keys[k].columns && !c.keys[k].typed })
}

func (p *profile) owns(id int) bool {
	return slices.ContainsFunc(p.spread, func(r spreadRule) bool { return r.group == id }) ||
		slices.ContainsFunc(p.near, func(r groupRule) bool { return r.group == id })
}

// zoneGroups are the groups over other keys than the host that a profile has to do with.
func (p *profile) zoneGroups(m *model) []int {
	var list []int
	for _, id := range p.counts {
		if !m.groups[id].host {
			list = append(list, id)
		}
	}
	for i := range p.spread {
		if !m.groups[p.spread[i].group].host {
			list = append(list, p.spread[i].group)
		}
	}
	return list
}

// couplings are the groups by which it matters to other pods where this one goes.
func (p *profile) couplings(m *model) []int {
	list := p.zoneGroups(m)
	for _, id := range p.counts {
		if m.groups[id].couples() {
			list = append(list, id)
		}
	}
	for i := range p.spread {
		if g := p.spread[i].group; m.groups[g].couples() {
			list = append(list, g)
		}
	}
	for i := range p.near {
		list = append(list, p.near[i].group)
	}
	for i := range p.apart {
		if g := p.apart[i].group; m.groups[g].couples() {
			list = append(list, g)
		}
	}
	return list
}

// couples reports whether the order in which pods come matters to a rule. For anti-affinity, and for
// spreading over hosts a kind that only spreads itself, it does not.
func (g *group) couples() bool {
	return !g.host || g.kind == together || g.kind == spreading && g.lopsided
}

func (p *profile) zoneSpread(m *model) int {
	return slices.IndexFunc(p.spread, func(r spreadRule) bool { return !m.groups[r.group].host })
}

func (p *profile) zoneNear(m *model) int {
	return slices.IndexFunc(p.near, func(r groupRule) bool { return !m.groups[r.group].host })
}

// addLot adds a lot if some pool is its home, and takes its pods out of left.
func (s *state) addLot(lots []lot, l lot, left []int) []lot {
	if l.count == 0 {
		return lots
	}
	if l.home = s.firstPoolFor(l.class, s.m.profiles[l.profile], l.need); l.home < 0 {
		return lots
	}
	left[l.class] -= l.count
	return append(lots, l)
}

// divideSpread gives each pod of the classes under one spread constraint a domain: always the one
// with the fewest, as if they came one by one.
func (s *state) divideSpread(lots []lot, groupID int, classes, chosen, left []int) []lot {
	m := s.m
	k := m.groups[groupID].key
	count := slices.Clone(s.sel[groupID])
	for _, at := range classes {
		p := m.profiles[chosen[at]]
		r := &p.spread[p.zoneSpread(m)]
		reach := s.reach(at, p, k, r.eligible)
		quota := make([]int, len(count))
		for range left[at] {
			v := lowest(count, reach)
			if v < 0 || count[v]+1-s.leastOf(count, r) > r.skew {
				break
			}
			count[v]++
			quota[v]++
		}
		for v, n := range quota {
			if n > 0 {
				need := m.both(p.need, m.pin(k, reqs.ValueID(v)))
				lots = s.addLot(lots, lot{class: at, profile: chosen[at], need: need, count: n}, left)
			}
		}
	}
	return lots
}

// reach returns the domains in which a new node for a class can be bought without leaving its home
// pool's rank to a lower one.
func (s *state) reach(class int, p *profile, k reqs.KeyID, eligible set) set {
	out := newSet(len(eligible) * 64)
	for v := eligible.next(0); v >= 0; v = eligible.next(v + 1) {
		need := s.m.both(p.need, s.m.pin(k, reqs.ValueID(v)))
		if need >= 0 && s.firstPoolFor(class, p, need) >= 0 {
			out.add(v)
		}
	}
	return out
}

func lowest(count []int32, among set) int {
	best := -1
	for v := among.next(0); v >= 0; v = among.next(v + 1) {
		if best < 0 || count[v] < count[best] {
			best = v
		}
	}
	return best
}

// divideNear picks one domain for all pods that must be together, unless some are somewhere already.
func (s *state) divideNear(lots []lot, groupID int, classes, chosen, left []int) []lot {
	m := s.m
	k := m.groups[groupID].key
	var open set
	there := false
	for _, at := range classes {
		p := m.profiles[chosen[at]]
		r := &p.near[p.zoneNear(m)]
		reach := s.reach(at, p, k, r.eligible)
		if open == nil {
			open = reach
		} else {
			open.and(reach)
		}
	}
	for v := open.next(0); v >= 0; v = open.next(v + 1) {
		there = there || s.sel[groupID][v] > 0
	}
	best, load := -1, 0
	for v := open.next(0); v >= 0; v = open.next(v + 1) {
		if there && s.sel[groupID][v] == 0 {
			continue
		}
		if n := zoneLoad(lots, m, k, v); best < 0 || n < load {
			best, load = v, n
		}
	}
	if best < 0 {
		return lots
	}
	for _, at := range classes {
		p := m.profiles[chosen[at]]
		if !there && !s.mayStart(&p.near[p.zoneNear(m)]) {
			continue
		}
		need := m.both(p.need, m.pin(k, reqs.ValueID(best)))
		lots = s.addLot(lots, lot{class: at, profile: chosen[at], need: need, count: left[at]}, left)
	}
	return lots
}

// zoneLoad is how many pods have been assigned to a domain so far: where prices are equal, filling
// domains evenly keeps nodes of each well filled.
func zoneLoad(lots []lot, m *model, k reqs.KeyID, v int) int {
	n := 0
	for i := range lots {
		if row := m.needs[lots[i].need].row; row.Defined(k) && row.Count(k) == 1 && row.Allows(k, reqs.ValueID(v)) {
			n += lots[i].count
		}
	}
	return n
}
