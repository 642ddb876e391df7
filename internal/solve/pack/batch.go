package pack

import (
	"slices"

	"github.com/dovetail-sh/dovetail/internal/reqs"
	"github.com/dovetail-sh/dovetail/internal/solve/bitset"
	"github.com/dovetail-sh/dovetail/internal/solve/exact"
	"github.com/dovetail-sh/dovetail/internal/solve/model"
)

// Batch is some pods of a class that are packed onto new nodes as a count. Rules that couple them to other pods are
// already resolved: into a zone, and into how many of them a node takes.
type Batch struct {
	Class   int
	Profile int
	need    int // need of the profile, with the domain it was assigned
	Count   int
	pool    int // pool that its nodes are launched from
}

// divide turns the remaining pods of the classes into batches, where that is possible. What it leaves in left is for
// package exact: pods whose rules couple them to others in ways that cannot be counted.
func divide(s *exact.State, left []int) []Batch {
	m := s.Model
	batches := make([]Batch, 0, len(m.Classes))
	chosen := make([]int, len(m.Classes)) // profile of each class, or -1
	for k := range m.Classes {
		chosen[k] = -1
		if left[k] > 0 {
			chosen[k] = firstUsableProfile(s, k)
		}
	}
	coupled := coupledClasses(s, chosen, left)
	spreads, nears := map[int][]int{}, map[int][]int{}
	for k, id := range chosen {
		if id < 0 || coupled[k] {
			continue
		}
		p := m.Profiles[id]
		switch spread, near := p.ZoneSpread(m), p.ZoneNear(m); {
		case spread >= 0:
			spreads[p.Spread[spread].Group] = append(spreads[p.Spread[spread].Group], k)
		case near >= 0:
			nears[p.Affinity[near].Group] = append(nears[p.Affinity[near].Group], k)
		default:
			batches = addBatch(s, batches, Batch{Class: k, Profile: id, need: p.Need, Count: left[k]}, left)
		}
	}
	for g := range m.Groups {
		if list := spreads[g]; list != nil {
			batches = divideSpread(s, batches, g, list, chosen, left)
		}
		if list := nears[g]; list != nil {
			batches = divideNear(s, batches, g, list, chosen, left)
		}
	}
	return batches
}

// firstUsableProfile returns the first profile of a class with which it could be on a new node at all, or -1.
func firstUsableProfile(s *exact.State, k int) int {
	c := &s.Model.Classes[k]
	if len(c.Shape.Invalid) > 0 || c.Shape.Refuses {
		return -1
	}
	for first := 0; first < len(c.Variants); first = c.EndOfStep(first) {
		best, pool := -1, -1
		for _, v := range c.Variants[first:c.EndOfStep(first)] {
			p := s.Model.Profiles[v.Profile]
			switch h := s.FirstPoolFor(k, p, p.Need); {
			case h == exact.CoupledPool: // no preference is dropped before that was tried
				return -1
			case h >= 0 && (best < 0 || h < pool):
				best, pool = v.Profile, h
			}
		}
		if best >= 0 {
			return best
		}
	}
	return -1
}

// coupledClasses marks the classes whose rules cannot be expressed as counts. A class is also coupled if a rule over
// zones counts it that it does not have itself: its zone then affects other pods.
func coupledClasses(s *exact.State, chosen, left []int) []bool {
	m := s.Model
	coupled := make([]bool, len(m.Classes))
	for k, id := range chosen {
		if id < 0 {
			continue
		}
		c, p := &m.Classes[k], m.Profiles[id]
		coupled[k] = len(c.SharedClaims) > 0 || len(c.Shape.Devices) > 0 || len(p.Ports) > 0 || hasCoupledRules(s, p)
	}
	markUnequalSpread(s, chosen, left, coupled)
	// The members of one group are placed together: if one is coupled, all are.
	for changed := true; changed; {
		changed = false
		bad := make([]bool, len(m.Groups))
		for k, id := range chosen {
			if id >= 0 && left[k] > 0 && coupled[k] {
				for _, g := range m.Profiles[id].ZoneGroups(m) {
					bad[g] = true
				}
			}
		}
		for k, id := range chosen {
			if id < 0 || coupled[k] {
				continue
			}
			for _, g := range m.Profiles[id].ZoneGroups(m) {
				if bad[g] {
					coupled[k], changed = true, true
				}
			}
		}
	}
	return coupled
}

// markUnequalSpread ties classes that are spread over different domains by one group: their quotas would depend
// on each other.
func markUnequalSpread(s *exact.State, chosen, left []int, coupled []bool) {
	m := s.Model
	first := make([]bitset.Set, len(m.Groups))
	for k, id := range chosen {
		if id < 0 || left[k] == 0 {
			continue
		}
		p := m.Profiles[id]
		if at := p.ZoneSpread(m); at >= 0 {
			g := p.Spread[at].Group
			if first[g] == nil {
				first[g] = p.Spread[at].Eligible
			} else if !slices.Equal(first[g], p.Spread[at].Eligible) {
				coupled[k] = true
			}
		}
	}
}

// hasCoupledRules reports whether the rules of a profile over keys other than the host are more than one
// spread constraint over its own kind, or one affinity to its own kind; or whether it must be with
// other pods on one host.
func hasCoupledRules(s *exact.State, p *model.Profile) bool {
	m := s.Model
	zones := 0
	for i := range p.Spread {
		if g := m.Groups[p.Spread[i].Group]; !g.PerHost {
			zones++
			if !p.Spread[i].Self || !m.Priced(g.Key) {
				return true
			}
		}
	}
	for i := range p.Affinity {
		g := m.Groups[p.Affinity[i].Group]
		zones++
		if g.PerHost || !p.Affinity[i].Self || !m.Priced(g.Key) {
			return true
		}
	}
	for i := range p.AntiAffinity {
		if !m.Groups[p.AntiAffinity[i].Group].PerHost {
			return true
		}
	}
	for _, id := range p.Groups {
		g := m.Groups[id]
		if g.Kind == model.AffinityGroup && g.PerHost && g.Wanted {
			return true
		}
		if g.PerHost || !g.Wanted && g.Kind != model.AntiAffinityGroup {
			continue
		}
		if g.Kind == model.AntiAffinityGroup || !p.HasRule(id) {
			return true
		}
	}
	return zones > 1
}

// addBatch adds a batch if some pool can launch nodes for it, and removes its pods from left.
func addBatch(s *exact.State, batches []Batch, l Batch, left []int) []Batch {
	if l.Count == 0 {
		return batches
	}
	if l.pool = s.FirstPoolFor(l.Class, s.Model.Profiles[l.Profile], l.need); l.pool < 0 {
		return batches
	}
	left[l.Class] -= l.Count
	return append(batches, l)
}

// divideSpread assigns a domain to each pod of the classes under one spread constraint: always the domain with the
// fewest pods, as if they came one by one.
func divideSpread(s *exact.State, batches []Batch, groupID int, classes, chosen, left []int) []Batch {
	m := s.Model
	k := m.Groups[groupID].Key
	count := slices.Clone(s.Selected[groupID])
	for _, at := range classes {
		p := m.Profiles[chosen[at]]
		r := &p.Spread[p.ZoneSpread(m)]
		reach := reachableDomains(s, at, p, k, r.Eligible)
		quota := make([]int, len(count))
		for range left[at] {
			v := leastLoaded(count, reach)
			if v < 0 || count[v]+1-s.LeastCountOf(count, r) > r.Skew {
				break
			}
			count[v]++
			quota[v]++
		}
		for v, n := range quota {
			if n > 0 {
				need := m.IntersectNeeds(p.Need, m.PinValue(k, reqs.ValueID(v)))
				batches = addBatch(s, batches, Batch{Class: at, Profile: chosen[at], need: need, Count: n}, left)
			}
		}
	}
	return batches
}

// reachableDomains returns the domains in which a new node for a class can be launched without leaving its pool for
// one of lower weight.
func reachableDomains(s *exact.State, class int, p *model.Profile, k reqs.KeyID, eligible bitset.Set) bitset.Set {
	out := bitset.NewSet(len(eligible) * 64)
	for v := eligible.Next(0); v >= 0; v = eligible.Next(v + 1) {
		need := s.Model.IntersectNeeds(p.Need, s.Model.PinValue(k, reqs.ValueID(v)))
		if need >= 0 && s.FirstPoolFor(class, p, need) >= 0 {
			out.Add(v)
		}
	}
	return out
}

func leastLoaded(count []int32, among bitset.Set) int {
	best := -1
	for v := among.Next(0); v >= 0; v = among.Next(v + 1) {
		if best < 0 || count[v] < count[best] {
			best = v
		}
	}
	return best
}

// divideNear picks one domain for all pods that must be together, unless some of them already run in one.
func divideNear(s *exact.State, batches []Batch, groupID int, classes, chosen, left []int) []Batch {
	m := s.Model
	k := m.Groups[groupID].Key
	var open bitset.Set
	there := false
	for _, at := range classes {
		p := m.Profiles[chosen[at]]
		r := &p.Affinity[p.ZoneNear(m)]
		reach := reachableDomains(s, at, p, k, r.Eligible)
		if open == nil {
			open = reach
		} else {
			open.And(reach)
		}
	}
	for v := open.Next(0); v >= 0; v = open.Next(v + 1) {
		there = there || s.Selected[groupID][v] > 0
	}
	best, load := -1, 0
	for v := open.Next(0); v >= 0; v = open.Next(v + 1) {
		if there && s.Selected[groupID][v] == 0 {
			continue
		}
		if n := zoneLoad(batches, m, k, v); best < 0 || n < load {
			best, load = v, n
		}
	}
	if best < 0 {
		return batches
	}
	for _, at := range classes {
		p := m.Profiles[chosen[at]]
		if !there && !s.MayBeFirst(&p.Affinity[p.ZoneNear(m)]) {
			continue
		}
		need := m.IntersectNeeds(p.Need, m.PinValue(k, reqs.ValueID(best)))
		batches = addBatch(s, batches, Batch{Class: at, Profile: chosen[at], need: need, Count: left[at]}, left)
	}
	return batches
}

// zoneLoad is how many pods have been assigned to a domain so far. Where prices are equal, filling domains evenly
// keeps the nodes of each well filled.
func zoneLoad(batches []Batch, m *model.Model, k reqs.KeyID, v int) int {
	n := 0
	for i := range batches {
		if row := m.Needs[batches[i].need].Row; row.Defined(k) && row.Count(k) == 1 && row.Allows(k, reqs.ValueID(v)) {
			n += batches[i].Count
		}
	}
	return n
}
