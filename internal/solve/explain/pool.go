package explain

import (
	"slices"
	"strings"

	karpv1 "github.com/dovetail-sh/dovetail/api/v1"
	"github.com/dovetail-sh/dovetail/internal/cluster"
	"github.com/dovetail-sh/dovetail/internal/reason"
	"github.com/dovetail-sh/dovetail/internal/reqs"
	"github.com/dovetail-sh/dovetail/internal/solve/bitset"
	"github.com/dovetail-sh/dovetail/internal/solve/exact"
	"github.com/dovetail-sh/dovetail/internal/solve/model"
)

// explainer determines why pods of one class are unschedulable. It calls the functions that placed the others, step
// by step, on the final state of planning.
type explainer struct {
	s            *exact.State
	c            *model.Class
	alternatives []alternative
	holders      map[*model.PoolCapacity]bitset.Set // types that hold one pod, if only resources count
	rulesOf      map[*model.Profile][]rule
}

// alternative is one alternative of a class with all preferences relaxed: the last one that was tried.
type alternative struct {
	profile     int // -1: the pod contradicts its volumes
	term        int // need of the pod itself
	volumes     int // need of its volumes, and of devices that are not of one node; 0: none
	tolerations int
}

func newExplainer(s *exact.State, c *model.Class) *explainer {
	m := s.Model
	e := &explainer{s: s, c: c, holders: map[*model.PoolCapacity]bitset.Set{}, rulesOf: map[*model.Profile][]rule{}}
	steps := m.Relaxations(c.Shape)
	last := steps[len(steps)-1]
	zones := m.PlacesOf(c.Shape)
	for term := range max(1, len(c.Shape.Required)) {
		last.Term = term
		for _, zone := range zones {
			if len(e.alternatives) == maxTried {
				return e
			}
			one := alternative{tolerations: m.InternTolerations(c.Shape.Tolerations, last.SoftTaints)}
			one.profile, _ = m.InternProfile(c, last, zone, nil)
			if term < len(c.Shape.Required) {
				one.term = m.InternNeed(c.Shape.Required[term])
			}
			if zone != nil {
				one.volumes = m.InternNeed(zone)
			}
			e.alternatives = append(e.alternatives, one)
		}
	}
	return e
}

// poolStep is one step of the explanation of a pool. It returns the reason, or false if the pool passes the step.
type poolStep func(poolID int, t *alternative) (reason.Reason, bool)

// explainPools returns the nearest miss of each pool, in their order, and whether some pool has none.
func (e *explainer) explainPools(miss poolStep) (found []finding, free bool) {
	m := e.s.Model
	at := 0
	for i := range m.View.Pools {
		src := &m.View.Pools[i]
		r := reason.Reason{}
		if at < len(m.Pools) && m.Pools[at].Source == src {
			one, missed := e.nearestMiss(func(t *alternative) (reason.Reason, bool) { return miss(at, t) })
			at++
			if !missed {
				free = true
				continue
			}
			r = one
		} else {
			r = e.explainUnusable(src)
		}
		r.Subject = "nodepool/" + src.Name
		found = append(found, finding{why: r, named: e.requiresPool(src)})
	}
	return found, free
}

// explainUnusable explains a pool that planning left out, because it is closed or has no instance types. That is the
// reason only for pods that the pool would accept.
func (e *explainer) explainUnusable(src *cluster.Pool) reason.Reason {
	r, missed := e.nearestMiss(func(t *alternative) (reason.Reason, bool) { return e.explainExcludedPool(src, t) })
	switch {
	case missed:
		return r
	case src.Closed:
		return reason.Reason{Code: reason.PoolClosed, Have: src.ClosedBy}
	}
	return reason.Reason{Code: reason.PoolFiltered, Want: poolText(src)}
}

// explainExcludedPool checks taints and labels of a pool that planning left out. Pools that were planned with have
// rows for these.
func (e *explainer) explainExcludedPool(src *cluster.Pool, t *alternative) (reason.Reason, bool) {
	m := e.s.Model
	if text := taintText(&m.Tolerations[t.tolerations], src.Taints); text != "" {
		return reason.Reason{Code: reason.TaintNotTolerated, Have: text}, true
	}
	if t.term < 0 {
		return reason.Reason{Code: reason.RequirementConflict, Want: "what no node has", Have: poolText(src)}, true
	}
	miss, fits := reqs.Compatible(m.Needs[t.term].Set, src.Requirements, reqs.Options{AllowUndefined: m.View.Words.WellKnownKeys})
	switch {
	case fits:
		return reason.Reason{}, false
	case miss.Undefined:
		return reason.Reason{Code: reason.LabelUnknown, Want: miss.Key, Have: nearestKey(m, miss.Key, src)}, true
	}
	return reason.Reason{Code: reason.RequirementConflict, Want: miss.Key + " " + reqText(miss.Want), Have: reqText(miss.Have)}, true
}

// requiresPool reports whether the pod requires this pool: by its name, or by a label that pools set on their nodes.
func (e *explainer) requiresPool(src *cluster.Pool) bool {
	m := e.s.Model
	for i := range e.alternatives {
		if e.alternatives[i].term < 0 {
			continue
		}
		// any order: one is enough
		for key, want := range m.Needs[e.alternatives[i].term].Set {
			if m.View.Words.WellKnownKeys[key] && key != karpv1.LabelNodePool || want.Negative() {
				continue
			}
			if have, defined := src.Requirements[key]; defined && want.Overlaps(have) {
				return true
			}
		}
	}
	return false
}

// nearestMiss explains every alternative of the pod and returns the nearest miss.
func (e *explainer) nearestMiss(miss func(*alternative) (reason.Reason, bool)) (best reason.Reason, missed bool) {
	for i := range e.alternatives {
		r, missed := miss(&e.alternatives[i])
		if !missed {
			return reason.Reason{}, false
		}
		if i == 0 || distance(r.Code) < distance(best.Code) {
			best = r
		}
	}
	return best, true
}

// prependNoPool puts the reason first that no pool exists, if so.
func (e *explainer) prependNoPool(why []reason.Reason) []reason.Reason {
	for i := range e.s.Model.View.Pools {
		if !e.s.Model.View.Pools[i].Closed {
			return why
		}
	}
	return []reason.Reason{{Code: reason.NoPool, Because: why[:min(len(why), maxCauses)]}}
}

// explainUnfinished explains a class that planning may not have reached. It reports only what can never fit: that is
// cheap to determine, and holds whatever the rest of the plan would have been.
func (e *explainer) explainUnfinished() []reason.Reason {
	found, free := e.explainPools(e.explainExcluded)
	if free || len(found) == 0 {
		return []reason.Reason{{Code: reason.OutOfTime}}
	}
	return append(e.prependNoPool(fold(found, maxReasons-1)), reason.Reason{Code: reason.OutOfTime})
}

// explainPool checks every step of 6.2 for a new node of a pool.
func (e *explainer) explainPool(poolID int, t *alternative) (reason.Reason, bool) {
	if r, missed := e.explainExcluded(poolID, t); missed {
		return r, true
	}
	return e.explainRefused(poolID, t)
}

// explainExcluded covers the steps that do not depend on the plan: the pool itself, taints, labels, volumes.
func (e *explainer) explainExcluded(poolID int, t *alternative) (reason.Reason, bool) {
	m := e.s.Model
	pl := &m.Pools[poolID]
	if r, filtered := e.explainFiltered(pl); filtered && !pl.InsufficientCapacity {
		return r, true
	}
	if !m.Tolerated(t.tolerations, pl.Taints) {
		return reason.Reason{Code: reason.TaintNotTolerated, Have: taintText(&m.Tolerations[t.tolerations], pl.Source.Taints)}, true
	}
	if t.term < 0 {
		return reason.Reason{Code: reason.RequirementConflict, Want: "what no node has", Have: poolText(pl.Source)}, true
	}
	if k, found := m.Table.Mismatch(m.Needs[t.term].Row, pl.Row, true); found {
		return e.explainMismatch(pl, t.term, k), true
	}
	if pl.InsufficientCapacity { // reported only to pods that the pool would accept
		if text := e.classObjection(pl, m.Catalogues[pl.Catalogue].Filter(pl.Row).Types); text != "" {
			return reason.Reason{Code: reason.ClassUnsuited, Have: text}, true
		}
		return reason.Reason{Code: reason.PoolSoldOut, Want: poolText(pl.Source)}, true
	}
	if t.volumes == 0 {
		return reason.Reason{}, false
	}
	if t.profile < 0 || t.volumes < 0 {
		return e.volumesAway(t), true
	}
	row := pl.Row.Clone()
	m.Table.Intersect(row, row, m.Needs[t.term].Row)
	if k, found := m.Table.Mismatch(m.Needs[t.volumes].Row, row, true); found {
		return e.volumesAt(t, k, valueText(row, k)), true
	}
	both := m.Profiles[t.profile].Need // pod and volumes may each fit, but not together
	if k, found := m.Table.Mismatch(m.Needs[both].Row, pl.Row, true); found {
		return e.volumesAt(t, k, valueText(pl.Row, k)), true
	}
	return reason.Reason{}, false
}

// explainFiltered reports whether the pool's own requirements leave it no instance type (SC-09).
func (e *explainer) explainFiltered(pl *model.Pool) (reason.Reason, bool) {
	r := reason.Reason{Code: reason.PoolFiltered, Want: poolText(pl.Source)}
	if pl.Types.Empty() {
		return r, true
	}
	if e.s.Model.Problem.Policy.BestEffortMinimums || !pl.Reserved.Empty() { // which minimums count is not known before
		return r, false
	}
	unmet, found := findUnmetMinimum(e.s, pl.Minimums, pl, &exact.Trial{Row: pl.Row, Types: pl.Types, Columns: pl.Columns})
	r.Because = []reason.Reason{unmet}
	return r, found
}

// explainMismatch explains a label that the pod requires and the pool does not have, or not with that value.
func (e *explainer) explainMismatch(pl *model.Pool, needID int, k reqs.KeyID) reason.Reason {
	m := e.s.Model
	key := m.Table.KeyName(k)
	if !pl.Row.Defined(k) {
		return reason.Reason{Code: reason.LabelUnknown, Want: key, Have: nearestKey(m, key, pl.Source)}
	}
	return reason.Reason{Code: reason.RequirementConflict, Want: key + " " + reqText(m.Needs[needID].Set[key]), Have: reqText(pl.Row.Req(k))}
}

// nearestKey returns a known key that was probably meant: one with the same last part, else one that
// contains what was written. Keys of the pool come before those of the cloud, short ones before long.
func nearestKey(m *model.Model, key string, src *cluster.Pool) string {
	if key == "" {
		return "none"
	}
	known := src.Requirements.Keys()
	own := len(known)
	// any order: they are sorted below
	for word := range m.View.Words.WellKnownKeys {
		known = append(known, word)
	}
	slices.Sort(known[own:])
	best, score := "none", 0
	for i, word := range known {
		n := 0
		switch {
		case word == key:
			continue
		case lastPart(word) == lastPart(key):
			n = 4
		case strings.Contains(word, key):
			n = 2
		default:
			continue
		}
		if i < own {
			n++
		}
		if n > score || n == score && len(word) < len(best) {
			best, score = word, n
		}
	}
	return best
}

func lastPart(key string) string { return key[strings.LastIndexByte(key, '/')+1:] }

// volumesAway is a pod that requires one zone and has its volumes in another.
func (e *explainer) volumesAway(t *alternative) reason.Reason {
	m := e.s.Model
	if t.volumes < 0 {
		return e.elsewhere("a place that no node has", "none")
	}
	key, _ := m.Needs[t.term].Set.Conflict(m.Needs[t.volumes].Set)
	return e.elsewhere(key+" "+reqText(m.Needs[t.volumes].Set[key]), reqText(m.Needs[t.term].Set[key]))
}

func (e *explainer) volumesAt(t *alternative, k reqs.KeyID, have string) reason.Reason {
	m := e.s.Model
	key := m.Table.KeyName(k)
	return e.elsewhere(key+" "+reqText(m.Needs[t.volumes].Set[key]), have)
}

// elsewhere says that what a pod needs is only in another place: its volumes, or the devices of its claims.
func (e *explainer) elsewhere(want, have string) reason.Reason {
	if len(e.c.Shape.Zones) == 0 {
		return reason.Reason{Code: reason.DevicesElsewhere, Have: "nodes with " + want + ", and this has " + have, Want: "claim " + strings.Join(e.c.Shape.Devices, ", ")}
	}
	return reason.Reason{Code: reason.VolumeZoneConflict, Want: want, Have: have}
}
