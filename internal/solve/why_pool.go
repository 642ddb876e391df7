package solve

import (
	"slices"
	"strings"

	karpv1 "github.com/dovetail-sh/dovetail/api/v1"
	"github.com/dovetail-sh/dovetail/internal/cluster"
	"github.com/dovetail-sh/dovetail/internal/reason"
	"github.com/dovetail-sh/dovetail/internal/reqs"
)

// explainer works out why pods of one class have no place. It asks the functions that placed the
// others, step by step, against the state that planning ended with.
type explainer struct {
	s     *state
	c     *class
	tries []try
	roomy map[*rooms]set // types that hold one pod, if nothing else matters
	ruled map[*profile][]rule
}

// try is one alternative of a class once every preference is relaxed: what finally failed.
type try struct {
	profile int // -1: the pod contradicts its volumes
	term    int // need of the pod itself
	volumes int // need of its volumes; 0: none
	tol     int
}

func newExplainer(s *state, c *class) *explainer {
	m := s.m
	e := &explainer{s: s, c: c, roomy: map[*rooms]set{}, ruled: map[*profile][]rule{}}
	steps := m.relaxations(c.shape)
	last := steps[len(steps)-1]
	zones := c.shape.Zones
	if len(zones) == 0 {
		zones = []reqs.Set{nil}
	}
	for term := range max(1, len(c.shape.Required)) {
		last.term = term
		for _, zone := range zones {
			if len(e.tries) == maxTried {
				return e
			}
			one := try{tol: m.tolerate(c.shape.Tolerations, last.soft)}
			one.profile, _ = m.profileOf(c, last, zone, nil)
			if term < len(c.shape.Required) {
				one.term = m.intern(c.shape.Required[term])
			}
			if zone != nil {
				one.volumes = m.intern(zone)
			}
			e.tries = append(e.tries, one)
		}
	}
	return e
}

// ask is one step of the explanation of a pool: the reason, or false if the pool would do.
type ask func(poolID int, t *try) (reason.Reason, bool)

// pools returns the nearest miss of each pool, in their order, and whether some pool has none.
func (e *explainer) pools(miss ask) (found []finding, free bool) {
	m := e.s.m
	at := 0
	for i := range m.view.Pools {
		src := &m.view.Pools[i]
		r := reason.Reason{}
		if at < len(m.pools) && m.pools[at].src == src {
			one, missed := e.nearest(func(t *try) (reason.Reason, bool) { return miss(at, t) })
			at++
			if !missed {
				free = true
				continue
			}
			r = one
		} else {
			r = e.unusable(src)
		}
		r.Subject = "nodepool/" + src.Name
		found = append(found, finding{why: r, meant: e.meant(src)})
	}
	return found, free
}

// unusable explains a pool that planning left out, because it is closed or has no instance types. That is the reason
// only for pods that it would be for.
func (e *explainer) unusable(src *cluster.Pool) reason.Reason {
	r, missed := e.nearest(func(t *try) (reason.Reason, bool) { return e.explainExcludedPool(src, t) })
	switch {
	case missed:
		return r
	case src.Closed:
		return reason.Reason{Code: reason.PoolClosed, Have: src.ClosedBy}
	}
	return reason.Reason{Code: reason.PoolFiltered, Want: poolText(src)}
}

// explainExcludedPool is taints and labels of a pool that planning left out; what was planned with has rows for them.
func (e *explainer) explainExcludedPool(src *cluster.Pool, t *try) (reason.Reason, bool) {
	m := e.s.m
	if text := taintText(&m.tolerations[t.tol], src.Taints); text != "" {
		return reason.Reason{Code: reason.TaintNotTolerated, Have: text}, true
	}
	if t.term < 0 {
		return reason.Reason{Code: reason.RequirementConflict, Want: "what no node has", Have: poolText(src)}, true
	}
	miss, fits := reqs.Compatible(m.needs[t.term].set, src.Requirements, reqs.Options{AllowUndefined: m.view.Words.WellKnownKeys})
	switch {
	case fits:
		return reason.Reason{}, false
	case miss.Undefined:
		return reason.Reason{Code: reason.LabelUnknown, Want: miss.Key, Have: m.alike(miss.Key, src)}, true
	}
	return reason.Reason{Code: reason.RequirementConflict, Want: miss.Key + " " + reqText(miss.Want), Have: reqText(miss.Have)}, true
}

// meant tells whether the pod asks for this pool: by its name, or by a label that pools give their nodes.
func (e *explainer) meant(src *cluster.Pool) bool {
	m := e.s.m
	for i := range e.tries {
		if e.tries[i].term < 0 {
			continue
		}
		// any order: one is enough
		for key, want := range m.needs[e.tries[i].term].set {
			if m.view.Words.WellKnownKeys[key] && key != karpv1.LabelNodePool || want.Negative() {
				continue
			}
			if have, defined := src.Requirements[key]; defined && want.Overlaps(have) {
				return true
			}
		}
	}
	return false
}

// nearest asks about every alternative of the pod and returns the one that came closest.
func (e *explainer) nearest(miss func(*try) (reason.Reason, bool)) (best reason.Reason, missed bool) {
	for i := range e.tries {
		r, missed := miss(&e.tries[i])
		if !missed {
			return reason.Reason{}, false
		}
		if i == 0 || distance(r.Code) < distance(best.Code) {
			best = r
		}
	}
	return best, true
}

// noPool puts it first that there is nothing to buy from, if so.
func (e *explainer) noPool(why []reason.Reason) []reason.Reason {
	for i := range e.s.m.view.Pools {
		if !e.s.m.view.Pools[i].Closed {
			return why
		}
	}
	return []reason.Reason{{Code: reason.NoPool, Because: why[:min(len(why), maxCauses)]}}
}

// unfinished explains a class that planning may not have come to. Only what can never fit is worth
// saying then: it is cheap to find out, and holds whatever else would have been planned.
func (e *explainer) unfinished() []reason.Reason {
	found, free := e.pools(e.excluded)
	if free || len(found) == 0 {
		return []reason.Reason{{Code: reason.OutOfTime}}
	}
	return append(e.noPool(fold(found, maxReasons-1)), reason.Reason{Code: reason.OutOfTime})
}

// pool is every step of 6.2 for a new node of a pool.
func (e *explainer) pool(poolID int, t *try) (reason.Reason, bool) {
	if r, missed := e.excluded(poolID, t); missed {
		return r, true
	}
	return e.refused(poolID, t)
}

// excluded is the steps that depend on nothing planned: the pool itself, taints, labels, volumes.
func (e *explainer) excluded(poolID int, t *try) (reason.Reason, bool) {
	m := e.s.m
	pl := &m.pools[poolID]
	if r, filtered := e.filtered(pl); filtered && !pl.insufficientCapacity {
		return r, true
	}
	if !m.tolerated(t.tol, pl.taints) {
		return reason.Reason{Code: reason.TaintNotTolerated, Have: taintText(&m.tolerations[t.tol], pl.src.Taints)}, true
	}
	if t.term < 0 {
		return reason.Reason{Code: reason.RequirementConflict, Want: "what no node has", Have: poolText(pl.src)}, true
	}
	if k, found := m.table.Mismatch(m.needs[t.term].row, pl.row, true); found {
		return e.mismatch(pl, t.term, k), true
	}
	if pl.insufficientCapacity { // said only to pods that the pool is for
		if text := e.objection(pl, m.catalogues[pl.catalogue].leave(pl.row).types); text != "" {
			return reason.Reason{Code: reason.ClassUnsuited, Have: text}, true
		}
		return reason.Reason{Code: reason.PoolSoldOut, Want: poolText(pl.src)}, true
	}
	if t.volumes == 0 {
		return reason.Reason{}, false
	}
	if t.profile < 0 || t.volumes < 0 {
		return e.volumesAway(t), true
	}
	row := pl.row.Clone()
	m.table.Intersect(row, row, m.needs[t.term].row)
	if k, found := m.table.Mismatch(m.needs[t.volumes].row, row, true); found {
		return e.volumesAt(t, k, valueText(row, k)), true
	}
	both := m.profiles[t.profile].need // pod and volumes may each do, but not together
	if k, found := m.table.Mismatch(m.needs[both].row, pl.row, true); found {
		return e.volumesAt(t, k, valueText(pl.row, k)), true
	}
	return reason.Reason{}, false
}

// filtered tells whether a pool's own requirements leave it nothing to buy (SC-09).
func (e *explainer) filtered(pl *pool) (reason.Reason, bool) {
	r := reason.Reason{Code: reason.PoolFiltered, Want: poolText(pl.src)}
	if pl.types.empty() {
		return r, true
	}
	if e.s.m.problem.Policy.BestEffortMinimums || !pl.reserved.empty() { // which of those count is not known before
		return r, false
	}
	unmet, found := e.s.unmet(pl.minimums, pl, &frame{row: pl.row, types: pl.types, cols: pl.cols})
	r.Because = []reason.Reason{unmet}
	return r, found
}

// mismatch is a label that the pod asks for and the pool does not have, or not so.
func (e *explainer) mismatch(pl *pool, needID int, k reqs.KeyID) reason.Reason {
	m := e.s.m
	key := m.table.KeyName(k)
	if !pl.row.Defined(k) {
		return reason.Reason{Code: reason.LabelUnknown, Want: key, Have: m.alike(key, pl.src)}
	}
	return reason.Reason{Code: reason.RequirementConflict, Want: key + " " + reqText(m.needs[needID].set[key]), Have: reqText(pl.row.Req(k))}
}

// alike returns a known key that was probably meant: one with the same last part, else one that
// contains what was written. Keys of the pool go before those of the cloud, short ones before long.
func (m *model) alike(key string, src *cluster.Pool) string {
	if key == "" {
		return "none"
	}
	known := src.Requirements.Keys()
	own := len(known)
	// any order: they are sorted below
	for word := range m.view.Words.WellKnownKeys {
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

// volumesAway is a pod that asks for one place and whose volumes are at another.
func (e *explainer) volumesAway(t *try) reason.Reason {
	m := e.s.m
	if t.volumes < 0 {
		return reason.Reason{Code: reason.VolumeZoneConflict, Want: "a place that no node has", Have: "none"}
	}
	key, _ := m.needs[t.term].set.Conflict(m.needs[t.volumes].set)
	return reason.Reason{Code: reason.VolumeZoneConflict, Want: key + " " + reqText(m.needs[t.volumes].set[key]), Have: reqText(m.needs[t.term].set[key])}
}

func (e *explainer) volumesAt(t *try, k reqs.KeyID, have string) reason.Reason {
	m := e.s.m
	key := m.table.KeyName(k)
	return reason.Reason{Code: reason.VolumeZoneConflict, Want: key + " " + reqText(m.needs[t.volumes].set[key]), Have: have}
}
