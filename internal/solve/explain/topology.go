package explain

import (
	"slices"

	corev1 "k8s.io/api/core/v1"

	"github.com/dovetail-sh/dovetail/internal/reason"
	"github.com/dovetail-sh/dovetail/internal/reqs"
	"github.com/dovetail-sh/dovetail/internal/solve/bitset"
	"github.com/dovetail-sh/dovetail/internal/solve/exact"
	"github.com/dovetail-sh/dovetail/internal/solve/model"
)

// rule is one topology rule of a pod, or a rule of other pods that applies to it.
type rule struct {
	kind     model.GroupKind
	group    int
	skew     int32
	minimum  int32
	others   bool           // the term is that of other pods (SC-35)
	eligible bitset.Set     // domains that the pod itself allows; nil for hosts and for rules of others
	alone    *model.Profile // with this rule only, so that the functions that check all rules can check it alone
}

// rules lists the rules of a profile, in the order in which they are checked.
func (e *explainer) rules(p *model.Profile) []rule {
	if list, known := e.rulesOf[p]; known {
		return list
	}
	var list []rule
	for i := range p.Affinity {
		r := &p.Affinity[i]
		list = append(list, rule{kind: model.AffinityGroup, group: r.Group, eligible: r.Eligible, alone: &model.Profile{Affinity: p.Affinity[i : i+1]}})
	}
	for i := range p.AntiAffinity {
		r := &p.AntiAffinity[i]
		list = append(list, rule{kind: model.AntiAffinityGroup, group: r.Group, eligible: r.Eligible, alone: &model.Profile{AntiAffinity: p.AntiAffinity[i : i+1]}})
	}
	for i, id := range p.Avoids {
		list = append(list, rule{kind: model.AntiAffinityGroup, group: id, others: true, alone: &model.Profile{Avoids: p.Avoids[i : i+1]}})
	}
	for i := range p.Spread {
		r := &p.Spread[i]
		list = append(list, rule{kind: model.SpreadGroup, group: r.Group, skew: r.Skew, minimum: r.Minimum, eligible: r.Eligible, alone: &model.Profile{Spread: p.Spread[i : i+1]}})
	}
	e.rulesOf[p] = list
	return list
}

// brokenHost returns the position of the first rule over hosts that keeps a pod from a node, or -1.
func (e *explainer) brokenHost(p *model.Profile, place int32) int {
	if !p.HasHostRules || e.s.AllowedOnHost(p, place, 1) > 0 {
		return -1
	}
	return slices.IndexFunc(e.rules(p), func(r rule) bool {
		return e.s.Model.Groups[r.group].PerHost && e.s.AllowedOnHost(r.alone, place, 1) <= 0
	})
}

// brokenNode is brokenHost for all rules, at an existing node.
func (e *explainer) brokenNode(p *model.Profile, n int) int {
	if i := e.brokenHost(p, int32(n)); i >= 0 {
		return i
	}
	values := e.s.Model.Signatures[e.s.Model.Nodes[n].Signature].Values
	if !p.HasZoneRules || e.s.AllowedInZone(p, values, 1) > 0 {
		return -1
	}
	return slices.IndexFunc(e.rules(p), func(r rule) bool {
		return !e.s.Model.Groups[r.group].PerHost && e.s.AllowedInZone(r.alone, values, 1) <= 0
	})
}

// brokenZone returns the first rule over zones or other keys that leaves a planned node no domain. It chooses domains
// as for the pod, with one rule more each time. The trial is left in the final state.
func (e *explainer) brokenZone(p *model.Profile, b *exact.Bin, f *exact.Trial) (reason.Reason, bool) {
	if !p.HasZoneRules {
		return reason.Reason{}, false
	}
	if e.s.ChooseDomains(p, b, f, 1) > 0 {
		return reason.Reason{}, false
	}
	rules := e.rules(p)
	if len(rules) == 0 { // it has no rule itself, but its domain must be certain for others
		return reason.Reason{Code: reason.NoTypeMeetsAll}, true
	}
	at, open := 0, bitset.Set(nil)
	for ; at < len(rules); at++ {
		g := e.s.Model.Groups[rules[at].group]
		if g.PerHost {
			continue
		}
		before := e.narrowToRules(firstRules(p, at), b)
		open = e.s.OpenDomains(b, &before, g.Key)
		after := e.s.BeginTrial(b)
		if !e.s.Require(&after, b, p.Need) || e.s.ChooseDomains(firstRules(p, at+1), b, &after, 1) <= 0 {
			break
		}
	}
	return e.explainRule(rules[min(at, len(rules)-1)], open), true
}

// narrowToRules is a planned node narrowed to what a profile needs and its rules allow.
func (e *explainer) narrowToRules(p *model.Profile, b *exact.Bin) exact.Trial {
	f := e.s.BeginTrial(b)
	if e.s.Require(&f, b, p.Need) {
		e.s.ChooseDomains(p, b, &f, 1)
	}
	return f
}

// firstRules returns a profile with the first rules of another, in the order of explainer.rules.
func firstRules(p *model.Profile, n int) *model.Profile {
	q := &model.Profile{Need: p.Need, HasZoneRules: true}
	q.Affinity = p.Affinity[:min(n, len(p.Affinity))]
	n -= len(q.Affinity)
	q.AntiAffinity = p.AntiAffinity[:min(n, len(p.AntiAffinity))]
	n -= len(q.AntiAffinity)
	q.Avoids = p.Avoids[:min(n, len(p.Avoids))]
	n -= len(q.Avoids)
	if q.Spread = p.Spread[:min(n, len(p.Spread))]; n > 0 {
		q.Anchors = p.Anchors // domains are pinned before pods are spread
	}
	return q
}

// explainRule says which rule leaves no domain, how many pods are in which domain, and which domains the pod and the
// node could use. open is nil where that does not matter.
func (e *explainer) explainRule(r rule, open bitset.Set) reason.Reason {
	m := e.s.Model
	g := m.Groups[r.group]
	key := corev1.LabelHostname
	if !g.PerHost {
		key = m.Table.KeyName(g.Key)
	}
	selector := g.Selector.Text
	if selector == "" {
		selector = "nothing"
	}
	want := ""
	switch r.kind {
	case model.SpreadGroup:
		want = "spread " + key + " maxSkew " + number(int(r.skew))
		if r.minimum > 0 {
			want += " minDomains " + number(int(r.minimum))
		}
	case model.AffinityGroup:
		want = "affinity " + key + " " + selector
	case model.AntiAffinityGroup:
		want = "anti-affinity " + key + " " + selector
		if r.others {
			want += " of other pods"
		}
	}
	have := e.hostCounts(r)
	if !g.PerHost {
		have = e.zoneCounts(r, g.Key, open)
	}
	return reason.Reason{Code: reason.TopologyUnsatisfiable, Want: want, Have: have}
}

// zoneCounts writes how many pods are in each domain.
func (e *explainer) zoneCounts(r rule, k reqs.KeyID, open bitset.Set) string {
	m := e.s.Model
	counts := e.s.Selected[r.group]
	if r.others {
		counts = e.s.Owners[r.group]
	}
	shown := m.Domains[k].All.Clone()
	var texts []string
	for v, n := range counts {
		if n > 0 {
			shown.Add(v)
		}
		if shown.Has(v) {
			texts = append(texts, m.Table.ValueName(k, reqs.ValueID(v))+":"+number(int(n)))
		}
	}
	text := joinTexts(texts)
	if text == "" {
		text = "no domains"
	}
	if r.eligible != nil && !slices.Equal(r.eligible, shown) {
		text += "; the pod allows " + valueList(m, k, r.eligible)
	}
	if open != nil && !slices.Equal(open, shown) {
		text += "; the node can be in " + valueList(m, k, open)
	}
	return text
}

// hostCounts writes how many pods are on which nodes; planned ones have no name yet.
func (e *explainer) hostCounts(r rule) string {
	m := e.s.Model
	var texts []string
	for place := range len(m.Nodes) + len(e.s.Bins) {
		c := e.s.HostCountAt(r.group, int32(place))
		n := c.Selected
		if r.others {
			n = c.Owners
		}
		if n == 0 {
			continue
		}
		name := "planned"
		if place < len(m.Nodes) {
			name = m.Nodes[place].Source.Name
		}
		texts = append(texts, name+":"+number(int(n)))
	}
	if len(texts) == 0 {
		return "none anywhere"
	}
	return joinTexts(texts)
}
