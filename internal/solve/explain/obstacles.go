package explain

import (
	"cmp"
	"slices"

	"github.com/dovetail-sh/dovetail/internal/cluster"
	"github.com/dovetail-sh/dovetail/internal/reason"
	"github.com/dovetail-sh/dovetail/internal/reqs"
	"github.com/dovetail-sh/dovetail/internal/solve/bitset"
	"github.com/dovetail-sh/dovetail/internal/solve/exact"
	"github.com/dovetail-sh/dovetail/internal/solve/model"
)

// Obstacles lists all that rules out places for pods of a class on the final state of planning, also if the pods were
// placed.
func Obstacles(s *exact.State, k int) model.Obstacles {
	c := &s.Model.Classes[k]
	if len(c.Shape.Invalid) > 0 || c.Shape.Refuses || s.Stopped || s.UnusableDevices(c) != nil {
		return model.Obstacles{}
	}
	e := newExplainer(s, c)
	var out model.Obstacles
	at := 0
	for i := range s.Model.View.Pools {
		src := &s.Model.View.Pools[i]
		found := model.PoolObstacles{Pool: src.Name}
		if at < len(s.Model.Pools) && s.Model.Pools[at].Source == src {
			found.Why = e.poolObstacles(at)
			at++
		} else {
			found.Why = e.unusableObstacles(src)
		}
		out.Pools = append(out.Pools, found)
	}
	ways, fits := e.tallyNodes()
	for i := range ways {
		w := &ways[i]
		why := e.nodeReason(w)
		why.Subject = "node/" + s.Model.Nodes[w.shown].Source.Name
		out.Nodes = append(out.Nodes, model.NodeObstacle{Why: why, Node: s.Model.Nodes[w.shown].Source.Name, Nodes: w.nodes})
	}
	slices.SortStableFunc(out.Nodes, func(a, b model.NodeObstacle) int { return cmp.Compare(b.Nodes, a.Nodes) })
	for _, n := range fits {
		out.Fits = append(out.Fits, s.Model.Nodes[n].Source.Name)
	}
	return out
}

// poolObstacles returns all that rules out a pool, for the alternative of the pod that comes nearest; nothing if the pool
// can launch a node for the pod.
func (e *explainer) poolObstacles(poolID int) []reason.Reason {
	var best *alternative
	var miss reason.Reason
	for i := range e.alternatives {
		r, missed := e.explainPool(poolID, &e.alternatives[i])
		if !missed {
			return nil
		}
		if best == nil || distance(r.Code) < distance(miss.Code) {
			best, miss = &e.alternatives[i], r
		}
	}
	m := e.s.Model
	pl := &m.Pools[poolID]
	all, labels := e.labelObstacles(pl.Source, best)
	if !slices.ContainsFunc(all, func(r reason.Reason) bool { return r.Code == miss.Code }) {
		all = append(all, miss)
	}
	if best.term < 0 || best.profile < 0 || pl.Types.Empty() || isOfPool(miss.Code) {
		return all
	}
	var more reason.Reason
	var found bool
	if labels { // they leave no types that a limit or a topology could exclude
		more, found = e.allTooSmall(pl, pl.Types)
	} else {
		more, found = e.explainRefused(poolID, best)
	}
	if found && !slices.ContainsFunc(all, func(r reason.Reason) bool { return r.Code == more.Code }) {
		all = append(all, more)
	}
	if near, found := e.nearestType(pl, best, labels); found {
		all = append(all, near)
	}
	return all
}

// isOfPool reports whether a miss is about the pool itself, so that its types need no check.
func isOfPool(code reason.Code) bool {
	switch code {
	case reason.PoolFiltered, reason.PoolSoldOut, reason.ClassUnsuited, reason.PoolClosed:
		return true
	default:
		return false
	}
}

// labelObstacles returns the taints and all labels that rule out a pool, and whether there are such labels.
func (e *explainer) labelObstacles(src *cluster.Pool, t *alternative) (all []reason.Reason, labels bool) {
	m := e.s.Model
	if text := taintText(&m.Tolerations[t.tolerations], src.Taints); text != "" {
		all = append(all, reason.Reason{Code: reason.TaintNotTolerated, Have: text})
	}
	if t.term < 0 {
		return append(all, reason.Reason{Code: reason.RequirementConflict, Want: "what no node has", Have: poolText(src)}), true
	}
	need := m.Needs[t.term].Set
	for _, key := range need.Keys() {
		miss, fits := reqs.Compatible(reqs.Set{key: need[key]}, src.Requirements, reqs.Options{AllowUndefined: m.View.Words.WellKnownKeys})
		switch {
		case fits:
			continue
		case miss.Undefined:
			all = append(all, reason.Reason{Code: reason.LabelUnknown, Want: key, Have: nearestKey(m, key, src)})
		default:
			all = append(all, reason.Reason{Code: reason.RequirementConflict, Want: key + " " + reqText(miss.Want), Have: reqText(miss.Have)})
		}
		labels = true
	}
	return all, labels
}

// unusableObstacles returns all that rules out a pool that planning left out.
func (e *explainer) unusableObstacles(src *cluster.Pool) []reason.Reason {
	var best []reason.Reason
	for i := range e.alternatives {
		if all, _ := e.labelObstacles(src, &e.alternatives[i]); i == 0 || len(all) < len(best) {
			best = all
		}
	}
	if src.Closed {
		return append(best, reason.Reason{Code: reason.PoolClosed, Have: src.ClosedBy})
	}
	return append(best, reason.Reason{Code: reason.PoolFiltered, Want: poolText(src)})
}

// allTooSmall reports whether no type holds the pod, and what they lack.
func (e *explainer) allTooSmall(pl *model.Pool, types bitset.Set) (reason.Reason, bool) {
	if types.Empty() || intersection(types, e.typesHolding(pl.Capacity)).Overlaps(types) {
		return reason.Reason{}, false
	}
	return e.explainTooSmall(reason.NoTypeFits, pl, types), true
}

// nearestType names the type that comes nearest to holding the pod, if none does: of those that meet the requirements and
// are offered, else of all types of the pool.
func (e *explainer) nearestType(pl *model.Pool, one *alternative, labels bool) (reason.Reason, bool) {
	m := e.s.Model
	types := pl.Types
	if !labels {
		need := m.MasksFor(m.Profiles[one.profile].Need, pl.Catalogue)
		x := e.assessTypes(pl, pl.Types, need.Types, pl.Columns.And(need.Columns))
		if both := intersection(x.meets, x.offered); !both.Empty() {
			types = both
		}
	}
	if _, none := e.allTooSmall(pl, types); !none {
		return reason.Reason{}, false
	}
	t := e.leastShort(pl, types)
	want, have := e.shortage(pl, t), m.Catalogues[pl.Catalogue].Types[t].InstanceType.Name+" leaves"
	if slices.ContainsFunc(pl.Capacity.Overhead[t*m.Lanes:(t+1)*m.Lanes], func(n int64) bool { return n > 0 }) {
		have += " after DaemonSets"
	}
	return reason.Reason{Code: reason.NearestType, Want: want, Have: have}, true
}

// leastShort returns the type that lacks the fewest resources for the pod, and of these the smallest share.
func (e *explainer) leastShort(pl *model.Pool, types bitset.Set) int {
	lanes := e.s.Model.Lanes
	nearest, lacks, share := -1, 0, 0.0
	for t := types.Next(0); t >= 0; t = types.Next(t + 1) { // by name
		n, most := 0, 0.0
		for l, have := range pl.Capacity.Allocatable[t*lanes : (t+1)*lanes] {
			if want := e.c.Requests[l]; have < want || have < 0 {
				n++
				most = max(most, float64(want-have)/float64(max(want, 1)))
			}
		}
		if nearest < 0 || cmp.Or(cmp.Compare(n, lacks), cmp.Compare(most, share)) < 0 {
			nearest, lacks, share = t, n, most
		}
	}
	return nearest
}

// shortage writes how much more the pod requests than a type has beside its DaemonSets.
func (e *explainer) shortage(pl *model.Pool, t int) string {
	m := e.s.Model
	var texts []string
	for l, have := range pl.Capacity.Allocatable[t*m.Lanes : (t+1)*m.Lanes] {
		if want := e.c.Requests[l]; have < want || have < 0 {
			texts = append(texts, amountText(m, l, want-have))
		}
	}
	return joinTexts(texts)
}
