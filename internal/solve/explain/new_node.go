package explain

import (
	"github.com/dovetail-sh/dovetail/internal/reason"
	"github.com/dovetail-sh/dovetail/internal/reqs"
	"github.com/dovetail-sh/dovetail/internal/solve/bitset"
	"github.com/dovetail-sh/dovetail/internal/solve/exact"
	"github.com/dovetail-sh/dovetail/internal/solve/model"
)

// explainRefused covers the steps that depend on the plan: types, limits, topology, minValues, reservations. The pool
// must not have been excluded.
func (e *explainer) explainRefused(poolID int, t *alternative) (reason.Reason, bool) {
	s, m := e.s, e.s.Model
	pl, p := &m.Pools[poolID], m.Profiles[t.profile]
	types, r, missed := e.suitableTypes(pl, p.Need, t)
	if missed {
		return r, true
	}
	if s.NodesLeft[poolID] <= 0 {
		return reason.Reason{Code: reason.NodeLimitReached, Have: number(int(max(0, s.NodesLeft[poolID])))}, true
	}
	if r, missed := e.explainLimit(poolID, types); missed {
		return e.besideLimit(poolID, p.Need, r), true
	}
	b := s.NewBin(poolID, p)
	if b == nil { // cannot happen: all conditions were checked above
		return reason.Reason{}, false
	}
	if m.Problem.Policy.BestEffortMinimums {
		b.Minimums = nil // they would be lowered (SC-43)
	}
	place := int32(len(m.Nodes) + len(s.Bins))
	if at := e.brokenHost(p, place); at >= 0 {
		return e.explainRule(e.rules(p)[at], nil), true
	}
	f := s.BeginTrial(b)
	if !s.Require(&f, b, p.Need) {
		return reason.Reason{Code: reason.NoTypeMeetsAll}, true // cannot happen: there are types and offerings
	}
	if r, missed := e.brokenZone(p, b, &f); missed {
		return r, true
	}
	return e.explainSize(poolID, b, &f)
}

// suitableTypes filters the types of a pool by what the pod needs, and returns those that fit. If the volumes exclude
// all that would otherwise fit, the reason is the location of the volumes.
func (e *explainer) suitableTypes(pl *model.Pool, needID int, t *alternative) (bitset.Set, reason.Reason, bool) {
	m := e.s.Model
	row := pl.Row.Clone()
	m.Table.Intersect(row, row, m.Needs[needID].Row)
	x := e.assessTypes(pl, pl.Types, m.MasksFor(needID, pl.Catalogue).Types, pl.Columns.And(m.MasksFor(needID, pl.Catalogue).Columns))
	r, missed := e.explainNoType(pl, x, row)
	if missed {
		if out, found := e.explainUnavailable(pl, needID, e.s.Model.Catalogues[pl.Catalogue].Filter(pl.Row).Types); found {
			return nil, out, true
		}
	}
	if !missed {
		types := intersection(x.meets, x.fits, x.offered)
		r, missed = e.explainPorts(pl, types)
		return types, r, missed
	}
	if t.volumes > 0 && intersection(x.meets, x.offered).Empty() {
		own := m.MasksFor(t.term, pl.Catalogue)
		if y := e.assessTypes(pl, pl.Types, own.Types, pl.Columns.And(own.Columns)); !intersection(y.meets, y.offered).Empty() {
			return nil, e.volumesElsewhere(pl, t, y), true
		}
	}
	return nil, r, true
}

// volumesElsewhere names the label of the volumes that no type that the pod could use has.
func (e *explainer) volumesElsewhere(pl *model.Pool, t *alternative, without suitability) reason.Reason {
	m := e.s.Model
	row := pl.Row.Clone()
	m.Table.Intersect(row, row, m.Needs[t.term].Row)
	cols := pl.Columns.And(m.MasksFor(t.term, pl.Catalogue).Columns)
	for _, key := range m.Needs[t.volumes].Set.Keys() {
		k, _ := m.Table.Key(key)
		open := m.OpenDomains(pl, row, intersection(without.meets, without.offered), cols, k)
		reachable := false
		for v := open.Next(0); v >= 0; v = open.Next(v + 1) {
			reachable = reachable || m.Needs[t.volumes].Row.Allows(k, reqs.ValueID(v))
		}
		if !reachable && !open.Empty() {
			return e.volumesAt(t, k, reqText(reqs.Req{Values: valueNames(m, k, open)}))
		}
	}
	return e.elsewhere(SetText(m.Needs[t.volumes].Set), poolText(pl.Source))
}

// explainSize covers the last steps of a planned node, after topology: types again, minValues, reservations.
func (e *explainer) explainSize(poolID int, b *exact.Bin, f *exact.Trial) (reason.Reason, bool) {
	s := e.s
	pl := &s.Model.Pools[poolID]
	x := e.assessTypes(pl, b.Types, f.Types, f.Columns)
	if r, missed := e.explainNoType(pl, x, f.Row); missed {
		all := pl.Types.Clone() // the types without limits
		for _, id := range f.Needs {
			all.And(s.Model.MasksFor(id, pl.Catalogue).Types)
		}
		y := e.assessTypes(pl, pl.Types, all, f.Columns)
		if types := intersection(y.meets, y.fits, y.offered); !types.Empty() {
			if over, limited := e.explainLimit(poolID, types); limited {
				return over, true
			}
		}
		return r, true
	}
	if r, missed := e.explainPorts(pl, intersection(x.meets, x.fits, x.offered)); missed {
		return r, true
	}
	if s.FitTypes(e.c, b, f, 1) > 0 {
		return reason.Reason{}, false
	}
	if s.NoDevices != nil {
		return *s.NoDevices, true
	}
	if !s.FindReservations(b, f) {
		return reason.Reason{Code: reason.ReservedDeferred, Want: reservationsFor(s, poolID, f)}, true
	}
	return findUnmetMinimum(s, b.Minimums, pl, f)
}
