package explain

import (
	"slices"
	"strings"

	"github.com/dovetail-sh/dovetail/internal/reason"
	"github.com/dovetail-sh/dovetail/internal/solve/bitset"
	"github.com/dovetail-sh/dovetail/internal/solve/model"
)

// explainUnavailable looks for types that would fit but cannot be launched: at present, because launches had
// insufficient capacity, or ever, because the node class does not support them. Without it the remaining types would
// be blamed.
func (e *explainer) explainUnavailable(pl *model.Pool, needID int, types bitset.Set) (reason.Reason, bool) {
	m := e.s.Model
	cat, left := m.Catalogues[pl.Catalogue], m.MasksFor(needID, pl.Catalogue)
	cols := cat.Filter(pl.Row).Columns.And(left.Columns)
	would := intersection(types, left.Types, e.typesHolding(pl.Capacity))
	out, unsuited := bitset.NewSet(len(cat.Types)), bitset.NewSet(len(cat.Types))
	for t := would.Next(0); t >= 0; t = would.Next(t + 1) {
		switch {
		case cat.Offered[t].And(cols).Empty() || !cat.Available[t].And(cols).Empty():
		case !cat.Unavailable[t].And(cols).Empty():
			out.Add(t)
		case cat.Types[t].InstanceType.Unsuited != "":
			unsuited.Add(t)
		}
	}
	switch {
	case !out.Empty():
		return reason.Reason{Code: reason.CapacityOut, Have: e.typeNames(pl, out)}, true
	case !unsuited.Empty():
		return reason.Reason{Code: reason.ClassUnsuited, Have: e.classObjection(pl, unsuited)}, true
	}
	return reason.Reason{}, false
}

// besideLimit adds to a limit that types within it have insufficient capacity: then raising the limit is not the only
// remedy.
func (e *explainer) besideLimit(poolID, needID int, limit reason.Reason) reason.Reason {
	m := e.s.Model
	pl := &m.Pools[poolID]
	cat := m.Catalogues[pl.Catalogue]
	within := cat.Filter(pl.Row).Types
	for t := range cat.Types {
		for i, l := range pl.Limits {
			if cat.Capacity[t*m.Lanes+l.Lane] > e.s.Limits[poolID][i] {
				within.Remove(t)
			}
		}
	}
	if out, found := e.explainUnavailable(pl, needID, within); found && out.Code == reason.CapacityOut {
		limit.Because = append(limit.Because, out)
	}
	return limit
}

// classObjection returns why the node class of a pool can launch none of some types: the reason that holds for most
// of them. Empty: it can launch some.
func (e *explainer) classObjection(pl *model.Pool, types bitset.Set) string {
	cat := e.s.Model.Catalogues[pl.Catalogue]
	counts, most := map[string]int{}, ""
	for t := types.Next(0); t >= 0; t = types.Next(t + 1) {
		text := cat.Types[t].InstanceType.Unsuited
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
func (e *explainer) typeNames(pl *model.Pool, types bitset.Set) string {
	const few = 3
	cat := e.s.Model.Catalogues[pl.Catalogue]
	var names []string
	for t := types.Next(0); t >= 0; t = types.Next(t + 1) {
		names = append(names, cat.Types[t].InstanceType.Name)
	}
	slices.Sort(names)
	names = slices.Compact(names)
	if over := len(names) - few; over > 0 {
		return strings.Join(names[:few], ", ") + " and " + number(over) + " more"
	}
	return strings.Join(names, ", ")
}
