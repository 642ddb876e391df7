package consolidate

import (
	"maps"
	"slices"
	"strconv"

	corev1 "k8s.io/api/core/v1"

	"github.com/dovetail-sh/dovetail/internal/cluster"
	"github.com/dovetail-sh/dovetail/internal/reason"
	"github.com/dovetail-sh/dovetail/internal/solve/explain"
	"github.com/dovetail-sh/dovetail/internal/solve/model"
)

// maxPreferenceChecks limits for how many nodes a preference is searched that keeps them: each takes a few more
// plans.
const maxPreferenceChecks = 20

// namePreferences finds the candidates that are kept only because of what pods prefer, and names the preference. kept
// must list all candidates that are kept, so that the cluster is the one of the question.
func (g *compiledCluster) namePreferences(kept []Verdict, stop func() bool) {
	if g.model.Problem.Policy.IgnorePreferences {
		return
	}
	var w *relaxedStepper
	tried := 0
	for i := range kept {
		v := &kept[i]
		span := g.from[v.Node]
		if v.Why.Code != reason.NothingCheaper || !slices.ContainsFunc(g.model.Pods[span[0]:span[1]], func(p cluster.Pod) bool { return hasPreferences(p.Shape) }) {
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

	g    *compiledCluster  // the cluster with its preferences
	bare [][]model.Variant // of each class, without preferences
}

// withoutPreferences returns nil if there was no time to read the cluster.
func (g *compiledCluster) withoutPreferences(stop func() bool) *relaxedStepper {
	m := g.model.Fork()
	m.Problem.Policy.IgnorePreferences = true
	m.Profiles, m.ProfileIDs = slices.Clip(m.Profiles), maps.Clone(m.ProfileIDs)
	m.Classes = slices.Clone(m.Classes)
	for k := range m.Classes {
		m.Classes[k].Variants = nil
	}
	if !m.ReadProfiles(stop) {
		return nil
	}
	free := *g
	free.model = m
	w := &relaxedStepper{stepper: free.newStepper(searchStrategy{}, stop), g: g, bare: make([][]model.Variant, len(m.Classes))}
	for k := range m.Classes {
		w.bare[k] = m.Classes[k].Variants
	}
	return w
}

// findPreferenceHolder returns the pod that keeps a node by what it prefers, and that preference; empty if there is
// none. It drops preferences for one class of pods after another, and then one by one. It returns the last one
// without which the node would stay.
func (w *relaxedStepper) findPreferenceHolder(n int) (pod, preference string) {
	if !w.couldRemove(n) {
		return "", ""
	}
	var classes []int
	for _, p := range w.pods[n] {
		if k := int(w.class[p]); hasPreferences(w.model.Classes[k].Shape) && !slices.Contains(classes, k) {
			classes = append(classes, k)
		}
	}
	for _, k := range classes {
		w.model.Classes[k].Variants = w.g.model.Classes[k].Variants
	}
	defer func() {
		for _, k := range classes {
			w.model.Classes[k].Variants = w.bare[k]
		}
	}()
	for _, k := range classes {
		w.model.Classes[k].Variants = w.bare[k]
		if !w.couldRemove(n) {
			continue
		}
		for _, p := range w.pods[n] {
			if int(w.class[p]) == k {
				return w.model.Pods[p].Key.String(), w.decidingPreference(n, k)
			}
		}
	}
	return "", ""
}

// decidingPreference returns the first preference of a class that, dropped together with all before it, lets a node
// be removed.
func (w *relaxedStepper) decidingPreference(n, k int) string {
	c := &w.model.Classes[k]
	steps := w.g.model.Relaxations(c.Shape)
	for i := 1; i < len(steps); i++ {
		preference := droppedPreference(c.Shape, steps[i-1], steps[i])
		if preference == "" {
			continue
		}
		if c.Variants = w.variantsAt(c, steps[i]); w.couldRemove(n) {
			return preference
		}
	}
	return ""
}

// variantsAt returns the variants of a class with the preferences of one step of relaxation.
func (w *relaxedStepper) variantsAt(c *model.Class, r model.Relaxation) (list []model.Variant) {
	var key []byte
	step := 0
	for _, soft := range []bool{false, true} {
		for r.Term = range max(1, len(c.Shape.Required)) {
			if r.SoftTaints = soft; !soft || w.model.SoftTaint {
				list, key = w.model.AddVariants(list, c, r, step, key)
				step++
			}
		}
	}
	return list
}

// couldRemove reports whether a node could be removed, with one replacement at most. It leaves the state unchanged.
func (w *relaxedStepper) couldRemove(n int) bool {
	left := w.left
	defer func() { w.left = left }()
	leaves := w.newRemovalSet([]int{n})
	if w.removalTooExpensive(leaves) {
		return false
	}
	for _, fresh := range []bool{false, true} {
		s := w.placeElsewhere(leaves, fresh)
		if s == nil || w.moveOf(s, leaves) == nil {
			continue
		}
		if w.forecast != nil {
			w.forecast.undoPlacement([]int{n})
			w.forecast.planned = w.forecast.planned[:0]
		}
		return true
	}
	return false
}

// droppedPreference writes the preference that one step of relaxation drops beyond the step before it; empty if it
// drops none.
func droppedPreference(s *cluster.Shape, before, after model.Relaxation) string {
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
	case after.Affinity > before.Affinity:
		return term("affinity", s.Affinity, after.Affinity)
	case after.AntiAffinity > before.AntiAffinity:
		return term("anti-affinity", s.AntiAffinity, after.AntiAffinity)
	case after.Preferred > before.Preferred:
		return "nodes with " + explain.SetText(s.Preferred[after.Preferred-1].Needs)
	case after.Spread > before.Spread:
		nth := after.Spread
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
