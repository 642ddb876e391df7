package solve

import (
	"slices"

	corev1 "k8s.io/api/core/v1"

	"github.com/dovetail-sh/dovetail/internal/reason"
	"github.com/dovetail-sh/dovetail/internal/reqs"
)

// rule is one topology rule of a pod, or of others about it.
type rule struct {
	kind     kind
	group    int
	skew     int32
	minimum  int32
	others   bool     // the term is that of other pods (SC-35)
	eligible set      // domains that the pod itself allows; nil for hosts and for rules of others
	alone    *profile // with this rule only, to ask about it with the functions that check all
}

// rules lists the rules of a profile, in the order in which places are checked.
func (e *explainer) rules(p *profile) []rule {
	if list, known := e.ruled[p]; known {
		return list
	}
	var list []rule
	for i := range p.near {
		r := &p.near[i]
		list = append(list, rule{kind: together, group: r.group, eligible: r.eligible, alone: &profile{near: p.near[i : i+1]}})
	}
	for i := range p.apart {
		r := &p.apart[i]
		list = append(list, rule{kind: apart, group: r.group, eligible: r.eligible, alone: &profile{apart: p.apart[i : i+1]}})
	}
	for i, id := range p.kept {
		list = append(list, rule{kind: apart, group: id, others: true, alone: &profile{kept: p.kept[i : i+1]}})
	}
	for i := range p.spread {
		r := &p.spread[i]
		list = append(list, rule{kind: spreading, group: r.group, skew: r.skew, minimum: r.minimum, eligible: r.eligible, alone: &profile{spread: p.spread[i : i+1]}})
	}
	e.ruled[p] = list
	return list
}

// brokenHost returns the position of the first rule over hosts that keeps a pod from a place, or -1.
func (e *explainer) brokenHost(p *profile, place int32) int {
	if !p.hosted || e.s.hostRules(p, place, 1) > 0 {
		return -1
	}
	return slices.IndexFunc(e.rules(p), func(r rule) bool {
		return e.s.m.groups[r.group].host && e.s.hostRules(r.alone, place, 1) <= 0
	})
}

// brokenNode is brokenHost for all rules, at an existing node.
func (e *explainer) brokenNode(p *profile, n int) int {
	if i := e.brokenHost(p, int32(n)); i >= 0 {
		return i
	}
	values := e.s.m.signs[e.s.m.nodes[n].sign].values
	if !p.zoned || e.s.zoneRules(p, values, 1) > 0 {
		return -1
	}
	return slices.IndexFunc(e.rules(p), func(r rule) bool {
		return !e.s.m.groups[r.group].host && e.s.zoneRules(r.alone, values, 1) <= 0
	})
}

// brokenZone returns the first rule over zones and the like that leaves a planned node no domain: it
// chooses as for the pod, with one rule more each time. The frame ends up as it would be.
func (e *explainer) brokenZone(p *profile, b *bin, f *frame) (reason.Reason, bool) {
	if !p.zoned {
		return reason.Reason{}, false
	}
	if e.s.choose(p, b, f, 1) > 0 {
		return reason.Reason{}, false
	}
	rules := e.rules(p)
	if len(rules) == 0 { // it has none itself, but its domain must be certain for others
		return reason.Reason{Code: reason.NoTypeMeetsAll}, true
	}
	at, open := 0, set(nil)
	for ; at < len(rules); at++ {
		g := e.s.m.groups[rules[at].group]
		if g.host {
			continue
		}
		before := e.chosen(p.first(at), b)
		open = e.s.open(b, &before, g.key)
		after := e.s.beginFrame(b)
		if !e.s.demand(&after, b, p.need) || e.s.choose(p.first(at+1), b, &after, 1) <= 0 {
			break
		}
	}
	return e.topology(rules[min(at, len(rules)-1)], open), true
}

// chosen is a planned node narrowed to what a profile needs and its rules allow.
func (e *explainer) chosen(p *profile, b *bin) frame {
	f := e.s.beginFrame(b)
	if e.s.demand(&f, b, p.need) {
		e.s.choose(p, b, &f, 1)
	}
	return f
}

// first returns a profile with the first rules of another, in the order of explainer.rules.
func (p *profile) first(n int) *profile {
	q := &profile{need: p.need, zoned: true}
	q.near = p.near[:min(n, len(p.near))]
	n -= len(q.near)
	q.apart = p.apart[:min(n, len(p.apart))]
	n -= len(q.apart)
	q.kept = p.kept[:min(n, len(p.kept))]
	n -= len(q.kept)
	if q.spread = p.spread[:min(n, len(p.spread))]; n > 0 {
		q.anchor = p.anchor // domains are pinned before pods are spread
	}
	return q
}

// topology says which rule leaves no domain, how many pods are in which, and which of them the pod
// and the node could be in. open is nil where that does not matter.
func (e *explainer) topology(r rule, open set) reason.Reason {
	m := e.s.m
	g := m.groups[r.group]
	key := corev1.LabelHostname
	if !g.host {
		key = m.table.KeyName(g.key)
	}
	selector := g.selector.Text
	if selector == "" {
		selector = "nothing"
	}
	want := ""
	switch r.kind {
	case spreading:
		want = "spread " + key + " maxSkew " + number(int(r.skew))
		if r.minimum > 0 {
			want += " minDomains " + number(int(r.minimum))
		}
	case together:
		want = "affinity " + key + " " + selector
	case apart:
		want = "anti-affinity " + key + " " + selector
		if r.others {
			want += " of other pods"
		}
	}
	have := e.hostCounts(r)
	if !g.host {
		have = e.zoneCounts(r, g.key, open)
	}
	return reason.Reason{Code: reason.TopologyUnsatisfiable, Want: want, Have: have}
}

// zoneCounts writes how many pods are in each domain.
func (e *explainer) zoneCounts(r rule, k reqs.KeyID, open set) string {
	m := e.s.m
	counts := e.s.sel[r.group]
	if r.others {
		counts = e.s.own[r.group]
	}
	shown := m.domains[k].all.clone()
	var texts []string
	for v, n := range counts {
		if n > 0 {
			shown.add(v)
		}
		if shown.has(v) {
			texts = append(texts, m.table.ValueName(k, reqs.ValueID(v))+":"+number(int(n)))
		}
	}
	text := joined(texts)
	if text == "" {
		text = "no domains"
	}
	if r.eligible != nil && !slices.Equal(r.eligible, shown) {
		text += "; the pod allows " + m.names(k, r.eligible)
	}
	if open != nil && !slices.Equal(open, shown) {
		text += "; the node can be in " + m.names(k, open)
	}
	return text
}

// hostCounts writes how many pods are on which nodes; planned ones have no name yet.
func (e *explainer) hostCounts(r rule) string {
	m := e.s.m
	var texts []string
	for place := range len(m.nodes) + len(e.s.bins) {
		c := e.s.hostAt(r.group, int32(place))
		n := c.sel
		if r.others {
			n = c.own
		}
		if n == 0 {
			continue
		}
		name := "planned"
		if place < len(m.nodes) {
			name = m.nodes[place].src.Name
		}
		texts = append(texts, name+":"+number(int(n)))
	}
	if len(texts) == 0 {
		return "none anywhere"
	}
	return joined(texts)
}
