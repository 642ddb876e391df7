package solve

import (
	"encoding/binary"
	"slices"

	"github.com/dovetail-sh/dovetail/internal/cluster"
	"github.com/dovetail-sh/dovetail/internal/reqs"
)

// profile is everything about a pod, at one step of relaxation, except how much it asks for. Classes
// that differ only in size share one.
type profile struct {
	need   int // what its node must be
	strict int // the same without preferences and volumes: what its topology domains may be (SC-13, SC-39)
	tol    int
	wearer int
	spread []spreadRule
	near   []groupRule // pods it must be with
	apart  []groupRule // pods it must not be with
	kept   []int       // groups of apart that select it: where their owners are, it may not be (SC-35)
	counts []int       // groups that select it
	anchor []int       // groups whose pods must be where it is: its domain is made certain
	ports  []cluster.HostPort
	zoned  bool // has a rule over a key other than the host
	hosted bool // has, or is subject to, a rule over hosts
}

type spreadRule struct {
	group    int
	skew     int32
	minimum  int32 // minDomains; 0: none
	self     bool  // it is one of the pods it counts
	eligible set   // domains that it is spread over; nil for hosts
}

type groupRule struct {
	group    int
	self     bool
	required bool // a preference binds only the pod that has it
	eligible set  // domains it may be in; nil for hosts
}

// relaxation is how far the preferences of a pod are relaxed (SC-14).
type relaxation struct {
	term                        int // of Shape.Required
	near, apart, prefer, spread int // preferences dropped of each kind, heaviest first
	soft                        bool
}

// readProfiles works out, for every class, the profiles to try one after another. It is false if it was late.
func (m *model) readProfiles(late func() bool) bool {
	cache := map[*cluster.Shape][]variant{}
	var key []byte
	for k := range m.classes {
		c := &m.classes[k]
		if c.shape.Refuses || len(c.shape.Invalid) > 0 {
			continue // not planned for at all
		}
		if v, known := cache[c.shape]; known {
			c.variants = v
			continue
		}
		for step, r := range m.relaxations(c.shape) {
			if late() {
				return false
			}
			c.variants, key = m.addVariants(c.variants, c, r, step, key)
		}
		cache[c.shape] = c.variants
	}
	return true
}

// addVariants adds those of one step of relaxation to a list: one for each alternative where volumes can be. key is a
// buffer to build in.
func (m *model) addVariants(list []variant, c *class, r relaxation, step int, key []byte) ([]variant, []byte) {
	zones := c.shape.Zones
	if len(zones) == 0 {
		zones = []reqs.Set{nil}
	}
	for _, z := range zones {
		var id int
		if id, key = m.profileOf(c, r, z, key[:0]); id >= 0 {
			list = append(list, variant{profile: id, term: r.term, step: step})
		}
	}
	return list, key
}

// relaxations lists the steps in order. Beyond the rule, a pod for which only the last alternative of
// its affinity was left is tried with the others once more, all preferences given up: upstream
// forgets those.
func (m *model) relaxations(s *cluster.Shape) []relaxation {
	var full relaxation // everything given up
	for _, t := range s.Affinity {
		full.near += boolInt(t.Weight > 0)
	}
	for _, t := range s.AntiAffinity {
		full.apart += boolInt(t.Weight > 0)
	}
	full.prefer = len(s.Preferred)
	for _, t := range s.Spread {
		full.spread += boolInt(t.Soft)
	}
	var r relaxation
	if m.problem.Policy.IgnorePreferences {
		r = full
	}
	list := []relaxation{r}
	step := func(at *int, end int) {
		for *at < end {
			*at++
			list = append(list, r)
		}
	}
	step(&r.term, len(s.Required)-1)
	step(&r.near, full.near)
	step(&r.apart, full.apart)
	step(&r.prefer, full.prefer)
	step(&r.spread, full.spread)
	if m.softTaint {
		r.soft = true
		list = append(list, r)
	}
	if len(list) > len(s.Required) {
		for r.term = 0; r.term < len(s.Required)-1; r.term++ {
			list = append(list, r)
		}
	}
	return list
}

// profileOf interns the profile of a shape at one step. key is a buffer to build in.
func (m *model) profileOf(c *class, r relaxation, zone reqs.Set, key []byte) (int, []byte) {
	s := c.shape
	p := profile{wearer: c.wearer, ports: s.HostPorts, tol: m.tolerate(s.Tolerations, r.soft)}
	if r.term < len(s.Required) {
		p.strict = m.intern(s.Required[r.term])
	}
	p.need = p.strict
	if r.prefer < len(s.Preferred) {
		p.need = m.both(p.need, m.intern(s.Preferred[r.prefer].Needs))
	}
	if zone != nil {
		p.need = m.both(p.need, m.intern(zone))
	}
	if p.need < 0 || p.strict < 0 {
		return -1, key
	}
	key = binary.AppendVarint(key, int64(p.need))
	key = binary.AppendVarint(key, int64(p.strict))
	key = binary.AppendVarint(key, int64(p.tol))
	key = binary.AppendVarint(key, int64(p.wearer))
	soft := r.spread
	for i := range s.Spread {
		t := &s.Spread[i]
		if t.Soft && soft > 0 {
			soft--
			continue
		}
		rule := spreadRule{group: m.spreadGroup(s, t), skew: t.MaxSkew, minimum: t.MinDomains}
		p.spread = append(p.spread, rule)
		key = append(key, 's')
		key = binary.AppendVarint(key, int64(rule.group))
		key = binary.AppendVarint(key, int64(rule.skew))
		key = binary.AppendVarint(key, int64(rule.minimum))
	}
	p.near, key = m.terms(together, s.Affinity, r.near, key)
	p.apart, key = m.terms(apart, s.AntiAffinity, r.apart, key)
	for _, port := range p.ports {
		key = append(key, 'p')
		key = append(key, port.IP...)
		key = append(key, port.Protocol...)
		key = binary.AppendVarint(key, int64(port.Port))
	}
	if id, known := m.profIDs[string(key)]; known {
		return id, key
	}
	m.finishProfile(&p)
	m.profIDs[string(key)] = len(m.profiles)
	m.profiles = append(m.profiles, &p)
	return len(m.profiles) - 1, key
}

// terms returns the rules of terms in force: all required ones, and the preferred ones after the
// first dropped ones.
func (m *model) terms(k kind, list []cluster.PodTerm, dropped int, key []byte) ([]groupRule, []byte) {
	var rules []groupRule
	for i := range list {
		if list[i].Weight > 0 && dropped > 0 {
			dropped--
			continue
		}
		id := m.termGroup(k, &list[i])
		if slices.ContainsFunc(rules, func(r groupRule) bool { return r.group == id }) {
			continue // the same term again; a required one comes first
		}
		rules = append(rules, groupRule{group: id, required: list[i].Weight == 0})
		key = append(key, 'n'+byte(k), byte(boolInt(list[i].Weight == 0)))
		key = binary.AppendVarint(key, int64(id))
	}
	return rules, key
}

// finishProfile works out what follows from the rules of a profile.
func (m *model) finishProfile(p *profile) {
	p.counts = m.selecting(p.wearer)
	selected := func(id int) bool {
		_, found := slices.BinarySearch(p.counts, id)
		return found
	}
	for i := range p.spread {
		r := &p.spread[i]
		r.self = selected(r.group)
		if g := m.groups[r.group]; !g.host {
			r.eligible = m.eligible(p, g.key, g.filter.tol >= 0)
		}
		p.note(m.groups[r.group])
	}
	for _, list := range [][]groupRule{p.near, p.apart} {
		for i := range list {
			r := &list[i]
			r.self = selected(r.group)
			if g := m.groups[r.group]; !g.host {
				r.eligible = m.eligible(p, g.key, true)
			}
			p.note(m.groups[r.group])
		}
	}
	for _, id := range p.counts {
		if g := m.groups[id]; !p.owns(id) {
			g.lopsided = true
		}
		switch g := m.groups[id]; {
		case g.kind == apart:
			p.kept = append(p.kept, id)
			p.note(g)
		case g.kind == together && g.wanted && !g.host:
			p.anchor = append(p.anchor, id)
			p.zoned = true
		}
	}
}

func (p *profile) note(g *group) {
	if g.host {
		p.hosted = true
	} else {
		p.zoned = true
	}
}

// eligible returns the domains of a key that a pod's own requirements allow; with taints, only those
// of nodes and of pools that it tolerates (SC-28, SC-32).
func (m *model) eligible(p *profile, k reqs.KeyID, taints bool) set {
	d := &m.domains[k]
	out := d.all.clone()
	if taints {
		out = d.nodes.clone()
		for i := range m.pools {
			if m.tolerated(p.tol, m.pools[i].taints) {
				out.or(d.byPool[i])
			}
		}
	}
	row := m.needs[p.strict].row
	if row.Defined(k) {
		for v := out.next(0); v >= 0; v = out.next(v + 1) {
			if !row.Allows(k, reqs.ValueID(v)) {
				out.drop(v)
			}
		}
	}
	return out
}
