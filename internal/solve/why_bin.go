package solve

import (
	"github.com/dovetail-sh/dovetail/internal/reason"
	"github.com/dovetail-sh/dovetail/internal/reqs"
)

// refused is the steps that depend on what is planned: types, limits, topology, minValues,
// reservations. The pool must not have been excluded.
func (e *explainer) refused(poolID int, t *try) (reason.Reason, bool) {
	s, m := e.s, e.s.m
	pl, p := &m.pools[poolID], m.profiles[t.profile]
	types, r, missed := e.types(pl, p.need, t)
	if missed {
		return r, true
	}
	if s.nodesLeft[poolID] <= 0 {
		return reason.Reason{Code: reason.NodeLimitReached, Have: number(int(max(0, s.nodesLeft[poolID])))}, true
	}
	if r, missed := e.limited(poolID, types); missed {
		return e.besideLimit(poolID, p.need, r), true
	}
	b := s.blank(poolID, p)
	if b == nil { // cannot be: whatever it asks was asked above
		return reason.Reason{}, false
	}
	if m.problem.Policy.BestEffortMinimums {
		b.minimum = nil // they would be lowered (SC-43)
	}
	place := int32(len(m.nodes) + len(s.bins))
	if at := e.brokenHost(p, place); at >= 0 {
		return e.topology(e.rules(p)[at], nil), true
	}
	f := s.beginFrame(b)
	if !s.demand(&f, b, p.need) {
		return reason.Reason{Code: reason.NoTypeMeetsAll}, true // cannot be: there are types and offerings
	}
	if r, missed := e.brokenZone(p, b, &f); missed {
		return r, true
	}
	return e.sized(poolID, b, &f)
}

// types filters the types of a pool by what the pod needs, and returns those that suit. If volumes
// leave none, and without them there were some, it is their place that is wrong.
func (e *explainer) types(pl *pool, needID int, t *try) (set, reason.Reason, bool) {
	m := e.s.m
	row := pl.row.Clone()
	m.table.Intersect(row, row, m.needs[needID].row)
	x := e.suit(pl, pl.types, m.leaves(needID, pl.catalogue).types, pl.cols.and(m.leaves(needID, pl.catalogue).cols))
	r, missed := e.noType(pl, x, row)
	if missed {
		if out, found := e.unavailable(pl, needID, e.s.m.catalogues[pl.catalogue].leave(pl.row).types); found {
			return nil, out, true
		}
	}
	if !missed {
		types := common(x.meets, x.fits, x.offered)
		r, missed = e.portTaken(pl, types)
		return types, r, missed
	}
	if t.volumes > 0 && common(x.meets, x.offered).empty() {
		own := m.leaves(t.term, pl.catalogue)
		if y := e.suit(pl, pl.types, own.types, pl.cols.and(own.cols)); !common(y.meets, y.offered).empty() {
			return nil, e.volumesElsewhere(pl, t, y), true
		}
	}
	return nil, r, true
}

// volumesElsewhere names the label of the volumes that no type that the pod could use has.
func (e *explainer) volumesElsewhere(pl *pool, t *try, without suit) reason.Reason {
	m := e.s.m
	row := pl.row.Clone()
	m.table.Intersect(row, row, m.needs[t.term].row)
	cols := pl.cols.and(m.leaves(t.term, pl.catalogue).cols)
	for _, key := range m.needs[t.volumes].set.Keys() {
		k, _ := m.table.Key(key)
		open := m.openDomains(pl, row, common(without.meets, without.offered), cols, k)
		reachable := false
		for v := open.next(0); v >= 0; v = open.next(v + 1) {
			reachable = reachable || m.needs[t.volumes].row.Allows(k, reqs.ValueID(v))
		}
		if !reachable && !open.empty() {
			return e.volumesAt(t, k, reqText(reqs.Req{Values: m.valueNames(k, open)}))
		}
	}
	return reason.Reason{Code: reason.VolumeZoneConflict, Want: setText(m.needs[t.volumes].set), Have: poolText(pl.src)}
}

// sized is the last steps of a planned node, after topology: types once more, minValues, reservations.
func (e *explainer) sized(poolID int, b *bin, f *frame) (reason.Reason, bool) {
	s := e.s
	pl := &s.m.pools[poolID]
	x := e.suit(pl, b.types, f.types, f.cols)
	if r, missed := e.noType(pl, x, f.row); missed {
		all := pl.types.clone() // what there would be without limits
		for _, id := range f.needs {
			all.and(s.m.leaves(id, pl.catalogue).types)
		}
		y := e.suit(pl, pl.types, all, f.cols)
		if types := common(y.meets, y.fits, y.offered); !types.empty() {
			if over, limited := e.limited(poolID, types); limited {
				return over, true
			}
		}
		return r, true
	}
	if r, missed := e.portTaken(pl, common(x.meets, x.fits, x.offered)); missed {
		return r, true
	}
	if s.size(e.c, b, f, 1) > 0 {
		return reason.Reason{}, false
	}
	if !s.findReservations(b, f) {
		return reason.Reason{Code: reason.ReservedDeferred, Want: s.reservedFor(poolID, f)}, true
	}
	return s.unmet(b.minimum, pl, f)
}
