package model

import (
	"encoding/binary"
	"slices"

	"github.com/dovetail-sh/dovetail/internal/cluster"
	"github.com/dovetail-sh/dovetail/internal/reqs"
	"github.com/dovetail-sh/dovetail/internal/solve/bitset"
)

// Profile is everything about a pod, at one step of relaxation, except the size of its requests. Classes that differ
// only in size share one.
type Profile struct {
	Need         int // requirements on its node
	strict       int // the same without preferences and volumes: which topology domains are eligible (SC-13, SC-39)
	Tolerations  int
	labelSet     int
	Spread       []SpreadRule
	Affinity     []GroupRule // affinity terms
	AntiAffinity []GroupRule // anti-affinity terms
	Avoids       []int       // anti-affinity groups that select it: it must not be where their owners are (SC-35)
	Groups       []int       // groups that select it
	Anchors      []int       // groups whose pods have an affinity to it: its domain must be certain
	Ports        []cluster.HostPort
	HasZoneRules bool // has a rule over a key other than the host
	HasHostRules bool // has, or is subject to, a rule over hosts
}

// SpreadRule is a topology spread constraint of a pod.
type SpreadRule struct {
	Group    int
	Skew     int32
	Minimum  int32      // minDomains; 0: none
	Self     bool       // it is one of the pods it counts
	Eligible bitset.Set // domains that it is spread over; nil for hosts
}

// GroupRule is a pod affinity or anti-affinity term of a pod.
type GroupRule struct {
	Group    int
	Self     bool
	Required bool       // a preference binds only the pod that has it
	Eligible bitset.Set // domains it may be in; nil for hosts
}

// Relaxation is how far the preferences of a pod are relaxed (SC-14).
type Relaxation struct {
	Term                                      int // of Shape.Required
	Affinity, AntiAffinity, Preferred, Spread int // preferences dropped of each kind, heaviest first
	SoftTaints                                bool
}

// ReadProfiles computes, for every class, the profiles to try one after another. It returns false if the deadline
// passed.
func (m *Model) ReadProfiles(late func() bool) bool {
	cache := map[*cluster.Shape][]Variant{}
	var key []byte
	for k := range m.Classes {
		c := &m.Classes[k]
		if c.Shape.Refuses || len(c.Shape.Invalid) > 0 {
			continue // not planned for at all
		}
		if v, known := cache[c.Shape]; known {
			c.Variants = v
			continue
		}
		for step, r := range m.Relaxations(c.Shape) {
			if late() {
				return false
			}
			c.Variants, key = m.AddVariants(c.Variants, c, r, step, key)
		}
		cache[c.Shape] = c.Variants
	}
	return true
}

// AddVariants adds those of one step of relaxation to a list: one for each alternative where volumes can be. key is a
// buffer to build in.
func (m *Model) AddVariants(list []Variant, c *Class, r Relaxation, step int, key []byte) ([]Variant, []byte) {
	for _, z := range m.PlacesOf(c.Shape) {
		var id int
		if id, key = m.InternProfile(c, r, z, key[:0]); id >= 0 {
			list = append(list, Variant{Profile: id, step: step})
		}
	}
	return list, key
}

// PlacesOf lists the alternatives of where the volumes of a pod can be, and devices that are not of one node. There is
// at least one.
func (m *Model) PlacesOf(s *cluster.Shape) []reqs.Set {
	zones, reach := s.Zones, m.Devices.Reach(s.Devices)
	if len(zones) == 0 {
		zones = []reqs.Set{nil}
	}
	if len(reach) == 0 {
		return zones
	}
	var both []reqs.Set
	for _, r := range reach {
		for _, z := range zones {
			switch {
			case len(r) == 0:
				both = append(both, z)
			case len(z) == 0:
				both = append(both, r)
			default:
				both = append(both, z.Intersect(r))
			}
		}
	}
	return both
}

// Relaxations lists the steps in order. Beyond the rule, a pod for which only the last alternative of its affinity
// was left is tried with the other alternatives again, with all preferences dropped; upstream does not try those.
func (m *Model) Relaxations(s *cluster.Shape) []Relaxation {
	var full Relaxation // everything dropped
	for _, t := range s.Affinity {
		full.Affinity += bitset.Bit(t.Weight > 0)
	}
	for _, t := range s.AntiAffinity {
		full.AntiAffinity += bitset.Bit(t.Weight > 0)
	}
	full.Preferred = len(s.Preferred)
	for _, t := range s.Spread {
		full.Spread += bitset.Bit(t.Soft)
	}
	var r Relaxation
	if m.Problem.Policy.IgnorePreferences {
		r = full
	}
	list := []Relaxation{r}
	step := func(at *int, end int) {
		for *at < end {
			*at++
			list = append(list, r)
		}
	}
	step(&r.Term, len(s.Required)-1)
	step(&r.Affinity, full.Affinity)
	step(&r.AntiAffinity, full.AntiAffinity)
	step(&r.Preferred, full.Preferred)
	step(&r.Spread, full.Spread)
	if m.SoftTaint {
		r.SoftTaints = true
		list = append(list, r)
	}
	if len(list) > len(s.Required) {
		for r.Term = 0; r.Term < len(s.Required)-1; r.Term++ {
			list = append(list, r)
		}
	}
	return list
}

// InternProfile interns the profile of a shape at one step. key is a buffer to build in.
func (m *Model) InternProfile(c *Class, r Relaxation, zone reqs.Set, key []byte) (int, []byte) {
	s := c.Shape
	p := Profile{labelSet: c.labelSet, Ports: s.HostPorts, Tolerations: m.InternTolerations(s.Tolerations, r.SoftTaints)}
	if r.Term < len(s.Required) {
		p.strict = m.InternNeed(s.Required[r.Term])
	}
	p.Need = p.strict
	if r.Preferred < len(s.Preferred) {
		p.Need = m.IntersectNeeds(p.Need, m.InternNeed(s.Preferred[r.Preferred].Needs))
	}
	if zone != nil {
		p.Need = m.IntersectNeeds(p.Need, m.InternNeed(zone))
	}
	if p.Need < 0 || p.strict < 0 {
		return -1, key
	}
	key = binary.AppendVarint(key, int64(p.Need))
	key = binary.AppendVarint(key, int64(p.strict))
	key = binary.AppendVarint(key, int64(p.Tolerations))
	key = binary.AppendVarint(key, int64(p.labelSet))
	soft := r.Spread
	for i := range s.Spread {
		t := &s.Spread[i]
		if t.Soft && soft > 0 {
			soft--
			continue
		}
		rule := SpreadRule{Group: m.internSpreadGroup(s, t), Skew: t.MaxSkew, Minimum: t.MinDomains}
		p.Spread = append(p.Spread, rule)
		key = append(key, 's')
		key = binary.AppendVarint(key, int64(rule.Group))
		key = binary.AppendVarint(key, int64(rule.Skew))
		key = binary.AppendVarint(key, int64(rule.Minimum))
	}
	p.Affinity, key = m.termRules(AffinityGroup, s.Affinity, r.Affinity, key)
	p.AntiAffinity, key = m.termRules(AntiAffinityGroup, s.AntiAffinity, r.AntiAffinity, key)
	for _, port := range p.Ports {
		key = append(key, 'p')
		key = append(key, port.IP...)
		key = append(key, port.Protocol...)
		key = binary.AppendVarint(key, int64(port.Port))
	}
	if id, known := m.ProfileIDs[string(key)]; known {
		return id, key
	}
	m.finishProfile(&p)
	m.ProfileIDs[string(key)] = len(m.Profiles)
	m.Profiles = append(m.Profiles, &p)
	return len(m.Profiles) - 1, key
}

// termRules returns the rules of terms in force: all required ones, and the preferred ones after the
// first dropped ones.
func (m *Model) termRules(k GroupKind, list []cluster.PodTerm, dropped int, key []byte) ([]GroupRule, []byte) {
	var rules []GroupRule
	for i := range list {
		if list[i].Weight > 0 && dropped > 0 {
			dropped--
			continue
		}
		id := m.InternTermGroup(k, &list[i])
		if slices.ContainsFunc(rules, func(r GroupRule) bool { return r.Group == id }) {
			continue // the same term again; a required one comes first
		}
		rules = append(rules, GroupRule{Group: id, Required: list[i].Weight == 0})
		key = append(key, 'n'+byte(k), byte(bitset.Bit(list[i].Weight == 0)))
		key = binary.AppendVarint(key, int64(id))
	}
	return rules, key
}

// finishProfile computes what follows from the rules of a profile.
func (m *Model) finishProfile(p *Profile) {
	p.Groups = m.GroupsSelecting(p.labelSet)
	selected := func(id int) bool {
		_, found := slices.BinarySearch(p.Groups, id)
		return found
	}
	for i := range p.Spread {
		r := &p.Spread[i]
		r.Self = selected(r.Group)
		if g := m.Groups[r.Group]; !g.PerHost {
			r.Eligible = m.eligibleDomains(p, g.Key, g.Filter.Tolerations >= 0)
		}
		p.noteRule(m.Groups[r.Group])
	}
	for _, list := range [][]GroupRule{p.Affinity, p.AntiAffinity} {
		for i := range list {
			r := &list[i]
			r.Self = selected(r.Group)
			if g := m.Groups[r.Group]; !g.PerHost {
				r.Eligible = m.eligibleDomains(p, g.Key, true)
			}
			p.noteRule(m.Groups[r.Group])
		}
	}
	for _, id := range p.Groups {
		if g := m.Groups[id]; !p.HasRule(id) {
			g.asymmetric = true
		}
		switch g := m.Groups[id]; {
		case g.Kind == AntiAffinityGroup:
			p.Avoids = append(p.Avoids, id)
			p.noteRule(g)
		case g.Kind == AffinityGroup && g.Wanted && !g.PerHost:
			p.Anchors = append(p.Anchors, id)
			p.HasZoneRules = true
		}
	}
}

func (p *Profile) noteRule(g *Group) {
	if g.PerHost {
		p.HasHostRules = true
	} else {
		p.HasZoneRules = true
	}
}

// eligibleDomains returns the domains of a key that a pod's own requirements allow; with taints, only those
// of nodes and of pools that it tolerates (SC-28, SC-32).
func (m *Model) eligibleDomains(p *Profile, k reqs.KeyID, taints bool) bitset.Set {
	d := &m.Domains[k]
	out := d.All.Clone()
	if taints {
		out = d.nodes.Clone()
		for i := range m.Pools {
			if m.Tolerated(p.Tolerations, m.Pools[i].Taints) {
				out.Or(d.ByPool[i])
			}
		}
	}
	row := m.Needs[p.strict].Row
	if row.Defined(k) {
		for v := out.Next(0); v >= 0; v = out.Next(v + 1) {
			if !row.Allows(k, reqs.ValueID(v)) {
				out.Remove(v)
			}
		}
	}
	return out
}

// HasRule reports whether a group is that of a spread constraint or an affinity of the profile itself.
func (p *Profile) HasRule(id int) bool {
	return slices.ContainsFunc(p.Spread, func(r SpreadRule) bool { return r.Group == id }) ||
		slices.ContainsFunc(p.Affinity, func(r GroupRule) bool { return r.Group == id })
}

// ZoneGroups are the groups over keys other than the host that affect a profile.
func (p *Profile) ZoneGroups(m *Model) []int {
	var list []int
	for _, id := range p.Groups {
		if !m.Groups[id].PerHost {
			list = append(list, id)
		}
	}
	for i := range p.Spread {
		if !m.Groups[p.Spread[i].Group].PerHost {
			list = append(list, p.Spread[i].Group)
		}
	}
	return list
}

// Couplings are the groups by which the placement of this pod affects other pods.
func (p *Profile) Couplings(m *Model) []int {
	list := p.ZoneGroups(m)
	for _, id := range p.Groups {
		if m.Groups[id].OrderMatters() {
			list = append(list, id)
		}
	}
	for i := range p.Spread {
		if g := p.Spread[i].Group; m.Groups[g].OrderMatters() {
			list = append(list, g)
		}
	}
	for i := range p.Affinity {
		list = append(list, p.Affinity[i].Group)
	}
	for i := range p.AntiAffinity {
		if g := p.AntiAffinity[i].Group; m.Groups[g].OrderMatters() {
			list = append(list, g)
		}
	}
	return list
}

// ZoneSpread returns the position of the first spread constraint that is not over hosts, or -1.
func (p *Profile) ZoneSpread(m *Model) int {
	return slices.IndexFunc(p.Spread, func(r SpreadRule) bool { return !m.Groups[r.Group].PerHost })
}

// ZoneNear returns the position of the first affinity that is not over hosts, or -1.
func (p *Profile) ZoneNear(m *Model) int {
	return slices.IndexFunc(p.Affinity, func(r GroupRule) bool { return !m.Groups[r.Group].PerHost })
}
