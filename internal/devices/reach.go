package devices

import (
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"

	"github.com/dovetail-sh/dovetail/internal/reqs"
)

// mostPlaces bounds the alternatives of where a pod can be for its claims.
const mostPlaces = 16

// Reach returns the alternatives of what a node needs besides devices of its own, so that some claims can be used on it:
// the labels that an allocated claim is bound to, and those of nodes that can reach devices that a claim could be given.
// An empty Set is a node without such needs. Nil: there are no alternatives to choose from.
func (inv *Inventory) Reach(claims []string) []reqs.Set {
	if inv == nil || len(claims) == 0 {
		return nil
	}
	c := inv.contents()
	places := []reqs.Set{nil}
	for _, key := range claims {
		list := inv.reachOf(c, key)
		if len(list) == 0 {
			continue
		}
		var all []reqs.Set
		for _, a := range places {
			for _, b := range list {
				if both, possible := intersect(a, b); possible && len(all) < mostPlaces {
					all = append(all, both)
				}
			}
		}
		if len(all) == 0 {
			return nil // they contradict each other: each node says so
		}
		places = all
	}
	if len(places) == 1 && len(places[0]) == 0 {
		return nil
	}
	return places
}

// intersect joins the labels of two places.
func intersect(a, b reqs.Set) (reqs.Set, bool) {
	both := maps.Clone(a)
	if both == nil {
		both = reqs.Set{}
	}
	// any order: keys are independent
	for key, r := range b {
		if old, has := both[key]; has && !slices.Equal(old.Values, r.Values) {
			return nil, false
		}
		both[key] = r
	}
	return both, true
}

// reachOf returns the alternatives for one claim.
func (inv *Inventory) reachOf(c *contents, key string) []reqs.Set {
	claim := c.claims[key]
	switch {
	case claim != nil && claim.Status.Allocation != nil && !c.leaving[key]:
		return alternatives(claim.Status.Allocation.NodeSelector)
	case len(c.byLabel) == 0:
		return nil
	}
	l := inv.Ledger()
	l.read()
	if l.claim(key) == nil {
		return nil
	}
	list := []reqs.Set{nil} // devices of the node itself, or that every node can reach
	for _, place := range c.byLabel {
		at := &spot{newNode, map[string]string{}}
		// any order: keys are independent
		for label, r := range place {
			at.labels[label] = r.Values[0]
		}
		if results, err := l.search(at.node(), []string{key}, c.shared, l.stateWithout([]string{key}), nil); err == nil && results != nil {
			list = append(list, place)
		}
	}
	if len(list) == 1 {
		return nil
	}
	return list
}

// alternatives writes a node selector as labels with one value each, so that a node that is to be launched certainly
// matches. Terms that name nodes, or use other operators than In, match no such node.
func alternatives(s *corev1.NodeSelector) []reqs.Set {
	if s == nil {
		return nil
	}
	var out []reqs.Set
	for _, term := range s.NodeSelectorTerms {
		if len(term.MatchFields) > 0 || slices.ContainsFunc(term.MatchExpressions, func(e corev1.NodeSelectorRequirement) bool { return e.Operator != corev1.NodeSelectorOpIn }) {
			continue
		}
		places := []reqs.Set{{}}
		for _, e := range term.MatchExpressions {
			var all []reqs.Set
			for _, p := range places {
				for _, value := range e.Values {
					if both, possible := intersect(p, reqs.Set{e.Key: {Values: []string{value}}}); possible && len(all) < mostPlaces {
						all = append(all, both)
					}
				}
			}
			places = all
		}
		out = append(out, places...)
	}
	return out[:min(len(out), mostPlaces)]
}

// readLabels finds the labels of nodes that can reach devices which are not of one node and not of all.
func (inv *contents) readLabels() {
	add := func(s *corev1.NodeSelector) {
		for _, place := range alternatives(s) {
			if len(place) > 0 && len(inv.byLabel) < mostPlaces && !slices.ContainsFunc(inv.byLabel, func(p reqs.Set) bool { return sameLabels(p, place) }) {
				inv.byLabel = append(inv.byLabel, place)
			}
		}
	}
	for _, s := range inv.shared {
		add(s.Spec.NodeSelector)
		for i := range s.Spec.Devices {
			add(s.Spec.Devices[i].NodeSelector)
		}
	}
}

func sameLabels(a, b reqs.Set) bool {
	return maps.EqualFunc(a, b, func(x, y reqs.Req) bool { return slices.Equal(x.Values, y.Values) })
}
