package check

import (
	"slices"
	"strconv"
	"strings"

	"github.com/dovetail-sh/dovetail/internal/cluster"
	"github.com/dovetail-sh/dovetail/internal/reqs"
)

// termSelects reports whether a term of a pod selects another pod (SC-36).
func termSelects(t *cluster.PodTerm, p *cluster.Pod) bool {
	return (t.Everywhere || slices.Contains(t.Namespaces, p.Key.Namespace)) && t.Selector.Matches(shapeOf(p.Shape).Labels)
}

// tally counts where the pods are that a term selects.
type tally struct {
	term *cluster.PodTerm
	key  string
	in   map[string]int // by domain, of pods to which a single one is left
	held map[string]int // the same without terminating nodes
	on   map[*place]int
	free map[string]bool // domains that get pods without required affinity
	with map[*place]bool // the same by place
}

// arrival is a pod that the plan puts somewhere.
type arrival struct {
	pod   *cluster.Pod
	at    *place
	terms []*tally // of its required affinity
}

// attraction is the state of putting pods in place one after another.
type attraction struct {
	tallies []*tally
	free    []*arrival // pods without required affinity
	waiting []*arrival // have required affinity
}

// sequence is an order in which pods may have been placed. Pods without required affinity come before all others, or
// after those that can start without them, so that they do not keep a group from starting elsewhere.
type sequence struct {
	early       bool // pods start before those without required affinity
	deferStarts bool // but not if they can follow these
	backward    bool
	first       int // the pod that starts first; -1: any that can
}

// sequences are the orders that are tried: a few in general, then every pod as the first of a group.
func sequences(waiting int) []sequence {
	const most = 200 // pods alike in one domain make up most of more
	list := []sequence{
		{first: -1},
		{first: -1, early: true, deferStarts: true},
		{first: -1, early: true, deferStarts: true, backward: true},
		{first: -1, early: true},
		{first: -1, early: true, backward: true},
	}
	for i := range min(waiting, most) {
		list = append(list, sequence{first: i, early: true, deferStarts: true})
	}
	return list
}

// checkAffinities verifies required pod affinity (SC-33): there must be an order in which every pod finds a match in its
// domain, or may start. Some orders are tried; the plan is at fault only if each fails.
func (c *checker) checkAffinities() {
	var left []*arrival
	for _, order := range sequences(len(c.countAttraction().waiting)) {
		a := c.countAttraction()
		if len(a.waiting) == 0 {
			return
		}
		if order.backward {
			slices.Reverse(a.waiting)
		}
		if order.first >= 0 {
			a.placeFirst(order.first)
		}
		if order.early {
			a.placeWaiting(order.deferStarts)
		}
		for _, f := range a.free {
			a.countPod(f)
		}
		a.placeWaiting(false)
		if len(a.waiting) == 0 {
			return
		}
		if left == nil || len(a.waiting) < len(left) {
			left = a.waiting
		}
	}
	for _, w := range left {
		var keys []string
		for _, t := range w.terms {
			keys = append(keys, t.key+" "+t.term.Selector.Text+" at "+w.at.domainOf(t.key).String())
		}
		c.add(AffinityUnmet, "SC-33", "pod/"+w.pod.Key.String(), "a match in its domain on "+w.at.name, strings.Join(keys, "; "))
	}
}

// placeFirst places one pod first. Pods without required affinity come before it, unless they would keep it from
// starting: it may follow some of them by one term and be the first by another.
func (a *attraction) placeFirst(i int) {
	w := a.waiting[i]
	var later []*arrival
	for _, f := range a.free {
		if slices.ContainsFunc(w.terms, func(t *tally) bool { return w.hasNoMatch(t) && termSelects(t.term, f.pod) }) {
			later = append(later, f)
		} else {
			a.countPod(f)
		}
	}
	a.free = later
	if !slices.ContainsFunc(w.terms, func(t *tally) bool { return !w.hasCertainMatch(t) && !w.mayBeFirst(t) }) {
		a.countPod(w)
		a.waiting = slices.Delete(a.waiting, i, i+1)
	}
}

// countAttraction counts what is there before the plan.
func (c *checker) countAttraction() *attraction {
	a := &attraction{}
	byText := map[string]*tally{}
	for _, at := range c.places {
		for _, p := range at.come {
			w := &arrival{pod: p, at: at}
			shape := shapeOf(p.Shape)
			for i := range shape.Affinity {
				t := &shape.Affinity[i]
				if t.Weight != 0 {
					continue
				}
				key := c.view.Words.Canonical(t.Key)
				text := strings.Join(append([]string{key, t.Selector.Text, strconv.FormatBool(t.Everywhere)}, t.Namespaces...), "\x00")
				if byText[text] == nil {
					byText[text] = &tally{term: t, key: key, in: map[string]int{}, held: map[string]int{}, on: map[*place]int{}, free: map[string]bool{}, with: map[*place]bool{}}
					a.tallies = append(a.tallies, byText[text])
				}
				w.terms = append(w.terms, byText[text])
			}
			if len(w.terms) == 0 {
				a.free = append(a.free, w)
			} else {
				a.waiting = append(a.waiting, w)
			}
		}
	}
	for _, at := range c.places {
		for _, p := range at.stay {
			if !p.Terminating {
				a.countPod(&arrival{pod: p, at: at})
			}
		}
	}
	for _, f := range a.free {
		for _, t := range a.tallies {
			if termSelects(t.term, f.pod) {
				t.with[f.at] = true
				if d, pinned := f.at.domainOf(t.key).onlyDomain(); pinned {
					t.free[d] = true
				}
			}
		}
	}
	return a
}

// countPod counts a pod where it is. SC-34: for affinity a domain counts once it is the only one left.
func (a *attraction) countPod(w *arrival) {
	for _, t := range a.tallies {
		if !termSelects(t.term, w.pod) {
			continue
		}
		t.on[w.at]++
		if d, pinned := w.at.domainOf(t.key).onlyDomain(); pinned {
			t.in[d]++
			if !w.at.terminating {
				t.held[d]++
			}
		}
	}
}

// placeWaiting places waiting pods until none can be placed: all that can follow, then one that can start, and again.
// With deferStarts no pod starts that can later follow those without required affinity.
func (a *attraction) placeWaiting(deferStarts bool) {
	for a.placeFollowers() || a.placeStarter(deferStarts) {
		continue
	}
}

func (a *attraction) placeFollowers() (progress bool) {
	var rest []*arrival
	for _, w := range a.waiting {
		if !slices.ContainsFunc(w.terms, func(t *tally) bool { return !w.hasCertainMatch(t) }) {
			a.countPod(w)
			progress = true
		} else {
			rest = append(rest, w)
		}
	}
	a.waiting = rest
	return progress
}

func (a *attraction) placeStarter(deferStarts bool) bool {
	i := slices.IndexFunc(a.waiting, func(w *arrival) bool {
		return !(deferStarts && w.canWait()) && !slices.ContainsFunc(w.terms, func(t *tally) bool { return !w.hasCertainMatch(t) && !w.mayBeFirst(t) })
	})
	if i < 0 {
		return false
	}
	a.countPod(a.waiting[i])
	a.waiting = slices.Delete(a.waiting, i, i+1)
	return true
}

// canWait reports whether each term that has no match yet gets one from pods without required affinity.
func (w *arrival) canWait() bool {
	return !slices.ContainsFunc(w.terms, w.hasNoMatch)
}

// hasNoMatch reports whether a term has no match yet in the pod's domain, and gets none from pods without required
// affinity.
func (w *arrival) hasNoMatch(t *tally) bool {
	d, pinned := w.at.domainOf(t.key).onlyDomain()
	return !w.hasCertainMatch(t) && !t.with[w.at] && !(pinned && t.free[d])
}

// hasCertainMatch reports whether a match is sure to be in the domain the pod ends up in: in each domain that
// is left, or on the very node, which is in one domain with itself wherever it lands.
func (w *arrival) hasCertainMatch(t *tally) bool {
	s := w.at.domainOf(t.key)
	if s.isEmpty() || s.absent {
		return false
	}
	if t.on[w.at] > 0 {
		return true
	}
	return !s.open && !slices.ContainsFunc(s.values, func(d string) bool { return t.in[d] == 0 })
}

// mayBeFirst reports whether the pod may be the first of its group: it matches its own term, and no domain that its
// requirements allow has a match. A match on a terminating node does not count, because no pod can join it there; it
// may still be followed where other nodes share its domain. The specification pins the node to the domain started in.
// A node that stays open does no harm, because pods elsewhere cannot follow it.
func (w *arrival) mayBeFirst(t *tally) bool {
	s := w.at.domainOf(t.key)
	if s.isEmpty() || s.absent || !termSelects(t.term, w.pod) {
		return false
	}
	return slices.ContainsFunc(strictTerms(w.at, shapeOf(w.pod.Shape)), func(strict reqs.Set) bool {
		for d, n := range t.held {
			if n > 0 && strict.Allows(t.key, d) {
				return false
			}
		}
		return true
	})
}
