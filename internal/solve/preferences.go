package solve

import (
	"maps"
	"slices"
	"strconv"

	corev1 "k8s.io/api/core/v1"

	"github.com/dovetail-sh/dovetail/internal/cluster"
	"github.com/dovetail-sh/dovetail/internal/reason"
)

// maxPreferenceChecks is for how many nodes it is found out whether a preference holds them: each takes a few more plans.
const maxPreferenceChecks = 20

// namePreferences finds the candidates that stay only because of what pods prefer, and names the preference. They must be
// all that stay, so that the cluster is as it was asked about.
func (g *compiledCluster) namePreferences(kept []Verdict, stop func() bool) {
	if g.m.problem.Policy.IgnorePreferences {
		return
	}
	var w *relaxedStepper
	tried := 0
	for i := range kept {
		v := &kept[i]
		span := g.from[v.Node]
		if v.Why.Code != reason.NothingCheaper || !slices.ContainsFunc(g.m.pods[span[0]:span[1]], func(p cluster.Pod) bool { return hasPreferences(p.Shape) }) {
			continue
		}
		if tried++; tried > maxPreferenceChecks || stop() {
			return
		}
		if w == nil {
			if w = g.withoutPreferences(stop); w == nil {
				return
			}
		}
		if pod, preference := w.findPreferenceHolder(w.byName[v.Node]); preference != "" {
			v.Why.Code, v.Why.Have, v.Why.Want = reason.PreferenceKept, pod, preference
		}
	}
}

func hasPreferences(s *cluster.Shape) bool {
	if s == nil {
		return false
	}
	weighs := func(t cluster.PodTerm) bool { return t.Weight > 0 }
	return len(s.Preferred) > 0 || slices.ContainsFunc(s.Spread, func(t cluster.Spread) bool { return t.Soft }) ||
		slices.ContainsFunc(s.Affinity, weighs) || slices.ContainsFunc(s.AntiAffinity, weighs)
}

// relaxedStepper takes steps in a cluster whose pods prefer nothing.
type relaxedStepper struct {
	*stepper

	g    *compiledCluster // the cluster as it is
	bare [][]variant      // of each class, without preferences
}

// withoutPreferences is nil if there was no time to read the cluster.
func (g *compiledCluster) withoutPreferences(stop func() bool) *relaxedStepper {
	m := g.m.fork()
	m.problem.Policy.IgnorePreferences = true
	m.profiles, m.profIDs = slices.Clip(m.profiles), maps.Clone(m.profIDs)
	m.classes = slices.Clone(m.classes)
	for k := range m.classes {
		m.classes[k].variants = nil
	}
	if !m.readProfiles(stop) {
		return nil
	}
	free := *g
	free.m = m
	w := &relaxedStepper{stepper: free.newStepper(searchStrategy{}, stop), g: g, bare: make([][]variant, len(m.classes))}
	for k := range m.classes {
		w.bare[k] = m.classes[k].variants
	}
	return w
}

// findPreferenceHolder names the pod that holds a node by what it prefers, and that; empty if it is not so. Preferences are given up
// for one class of pods after another, and then one by one: the last without which the node would stay is named.
func (w *relaxedStepper) findPreferenceHolder(n int) (pod, preference string) {
	if !w.couldRemove(n) {
		return "", ""
	}
	var classes []int
	for _, p := range w.pods[n] {
		if k := int(w.class[p]); hasPreferences(w.m.classes[k].shape) && !slices.Contains(classes, k) {
			classes = append(classes, k)
		}
	}
	for _, k := range classes {
		w.m.classes[k].variants = w.g.m.classes[k].variants
	}
	defer func() {
		for _, k := range classes {
			w.m.classes[k].variants = w.bare[k]
		}
	}()
	for _, k := range classes {
		w.m.classes[k].variants = w.bare[k]
		if !w.couldRemove(n) {
			continue
		}
		for _, p := range w.pods[n] {
			if int(w.class[p]) == k {
				return w.m.pods[p].Key.String(), w.decidingPreference(n, k)
			}
		}
	}
	return "", ""
}

// decidingPreference names the first preference of a class with which, given up like all before it, a node could go.
func (w *relaxedStepper) decidingPreference(n, k int) string {
	c := &w.m.classes[k]
	steps := w.g.m.relaxations(c.shape)
	for i := 1; i < len(steps); i++ {
		preference := dropped(c.shape, steps[i-1], steps[i])
		if preference == "" {
			continue
		}
		if c.variants = w.variantsAt(c, steps[i]); w.couldRemove(n) {
			return preference
		}
	}
	return ""
}

// variantsAt are those of a class with the preferences of one step of relaxation, whatever else it can do without.
func (w *relaxedStepper) variantsAt(c *class, r relaxation) (list []variant) {
	var key []byte
	step := 0
	for _, soft := range []bool{false, true} {
		for r.term = range max(1, len(c.shape.Required)) {
			if r.soft = soft; !soft || w.m.softTaint {
				list, key = w.m.addVariants(list, c, r, step, key)
				step++
			}
		}
	}
	return list
}

// couldRemove reports whether a node could go, with one replacement at most. All is as it was before.
func (w *relaxedStepper) couldRemove(n int) bool {
	left := w.left
	defer func() { w.left = left }()
	leaves := w.newRemovalSet([]int{n})
	if w.removalTooExpensive(leaves) {
		return false
	}
	for _, fresh := range []bool{false, true} {
		s := w.placed(leaves, fresh)
		if s == nil || w.moveOf(s, leaves) == nil {
			continue
		}
		if w.forecast != nil {
			w.forecast.undoPlacement([]int{n})
			w.forecast.bought = w.forecast.bought[:0]
		}
		return true
	}
	return false
}

// dropped writes the preference that one step of relaxation gives up beyond the step before it; empty if it is none.
func dropped(s *cluster.Shape, before, after relaxation) string {
	term := func(what string, list []cluster.PodTerm, nth int) string {
		for i := range list {
			if t := &list[i]; t.Weight > 0 {
				if nth--; nth == 0 {
					return what + " " + t.Key + " " + t.Selector.Text
				}
			}
		}
		return ""
	}
	switch {
	case after.near > before.near:
		return term("affinity", s.Affinity, after.near)
	case after.apart > before.apart:
		return term("anti-affinity", s.AntiAffinity, after.apart)
	case after.prefer > before.prefer:
		return "nodes with " + setText(s.Preferred[after.prefer-1].Needs)
	case after.spread > before.spread:
		nth := after.spread
		for i := range s.Spread {
			if t := &s.Spread[i]; t.Soft {
				if nth--; nth == 0 {
					return "spread " + t.Key + " maxSkew " + strconv.Itoa(int(t.MaxSkew)) + " (" + string(corev1.ScheduleAnyway) + ")"
				}
			}
		}
	}
	return ""
}
