package solve

import (
	"slices"
	"strings"

	"github.com/dovetail-sh/dovetail/internal/reason"
)

// unavailable looks for types that would do and are left out only because they cannot be launched: at
// present, since launches found no capacity, or ever, since the node class does not suit them. Without it
// the types that are left would be blamed.
func (e *explainer) unavailable(pl *pool, needID int, types set) (reason.Reason, bool) {
	m := e.s.m
	cat, left := m.catalogues[pl.catalogue], m.leaves(needID, pl.catalogue)
	cols := cat.leave(pl.row).cols.and(left.cols)
	would := common(types, left.types, e.holding(pl.rooms))
	out, unsuited := newSet(len(cat.types)), newSet(len(cat.types))
	for t := would.next(0); t >= 0; t = would.next(t + 1) {
		switch {
		case cat.offer[t].and(cols).empty() || !cat.avail[t].and(cols).empty():
		case !cat.out[t].and(cols).empty():
			out.add(t)
		case cat.types[t].it.Unsuited != "":
			unsuited.add(t)
		}
	}
	switch {
	case !out.empty():
		return reason.Reason{Code: reason.CapacityOut, Have: e.typeNames(pl, out)}, true
	case !unsuited.empty():
		return reason.Reason{Code: reason.ClassUnsuited, Have: e.objection(pl, unsuited)}, true
	}
	return reason.Reason{}, false
}

// besideLimit adds to a limit that types within it are out of capacity: raising the limit is not the
// only remedy then.
func (e *explainer) besideLimit(poolID, needID int, limit reason.Reason) reason.Reason {
	m := e.s.m
	pl := &m.pools[poolID]
	cat := m.catalogues[pl.catalogue]
	within := cat.leave(pl.row).types
	for t := range cat.types {
		for i, l := range pl.limits {
			if cat.cap[t*m.lanes+l.lane] > e.s.limits[poolID][i] {
				within.drop(t)
			}
		}
	}
	if out, found := e.unavailable(pl, needID, within); found && out.Code == reason.CapacityOut {
		limit.Because = append(limit.Because, out)
	}
	return limit
}

// objection says why the node class of a pool can launch none of some types: what it says of most of
// them. Empty: it can launch some.
func (e *explainer) objection(pl *pool, types set) string {
	cat := e.s.m.catalogues[pl.catalogue]
	counts, most := map[string]int{}, ""
	for t := types.next(0); t >= 0; t = types.next(t + 1) {
		text := cat.types[t].it.Unsuited
		if text == "" {
			return ""
		}
		if counts[text]++; counts[text] > counts[most] || counts[text] == counts[most] && text < most {
			most = text
		}
	}
	if most == "" {
		return ""
	}
	return e.typeNames(pl, types) + ": " + most
}

// typeNames lists a few types.
func (e *explainer) typeNames(pl *pool, types set) string {
	const few = 3
	cat := e.s.m.catalogues[pl.catalogue]
	var names []string
	for t := types.next(0); t >= 0; t = types.next(t + 1) {
		names = append(names, cat.types[t].it.Name)
	}
	slices.Sort(names)
	names = slices.Compact(names)
	if over := len(names) - few; over > 0 {
		return strings.Join(names[:few], ", ") + " and " + number(over) + " more"
	}
	return strings.Join(names, ", ")
}
