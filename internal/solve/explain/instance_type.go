package explain

import (
	"fmt"
	"slices"

	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/dovetail-sh/dovetail/internal/reason"
	"github.com/dovetail-sh/dovetail/internal/reqs"
	"github.com/dovetail-sh/dovetail/internal/resources"
	"github.com/dovetail-sh/dovetail/internal/solve/bitset"
	"github.com/dovetail-sh/dovetail/internal/solve/model"
)

// suitability is which instance types of a pool meet each of the criteria of SC-19.
type suitability struct {
	all, meets, fits, offered bitset.Set
}

func (e *explainer) assessTypes(pl *model.Pool, all, meets bitset.Set, cols bitset.Columns) suitability {
	cat := e.s.Model.Catalogues[pl.Catalogue]
	x := suitability{all: all, meets: intersection(all, meets), fits: intersection(all, e.typesHolding(pl.Capacity)), offered: bitset.NewSet(len(cat.Types))}
	for t := all.Next(0); t >= 0; t = all.Next(t + 1) {
		if !cat.Available[t].And(cols).Empty() {
			x.offered.Add(t)
		}
	}
	return x
}

func intersection(a bitset.Set, others ...bitset.Set) bitset.Set {
	out := a.Clone()
	for _, o := range others {
		out.And(o)
	}
	return out
}

// typesHolding returns the types that hold one pod beside their DaemonSets.
func (e *explainer) typesHolding(r *model.PoolCapacity) bitset.Set {
	if known, found := e.holders[r]; found {
		return known
	}
	lanes := e.s.Model.Lanes
	types := bitset.NewSet(len(r.Allocatable) / lanes)
	for t := range len(r.Allocatable) / lanes {
		fits := true
		for l, free := range r.Allocatable[t*lanes : (t+1)*lanes] {
			fits = fits && free >= e.c.Requests[l] && free >= 0
		}
		if fits {
			types.Add(t)
		}
	}
	e.holders[r] = types
	return types
}

// explainNoType says why no type fits: which criteria, alone or together, exclude every type.
func (e *explainer) explainNoType(pl *model.Pool, x suitability, row reqs.Row) (reason.Reason, bool) {
	if !intersection(x.meets, x.fits, x.offered).Empty() {
		return reason.Reason{}, false
	}
	m := e.s.Model
	var causes []reason.Reason
	if x.meets.Empty() {
		causes = append(causes, reason.Reason{Code: reason.NoTypeMeetsRequirements, Want: rowText(m, pl, row, false)})
	}
	if x.fits.Empty() {
		causes = append(causes, e.explainTooSmall(reason.NoTypeFits, pl, x.all))
	}
	if x.offered.Empty() {
		causes = append(causes, reason.Reason{Code: reason.NoOffering, Want: rowText(m, pl, row, true)})
	}
	switch len(causes) {
	case 0:
		return e.explainNoSingleType(pl, x, row), true
	case 1:
		return causes[0], true
	}
	return reason.Reason{Code: reason.NoTypeSuits, Because: causes}, true
}

// explainNoSingleType handles criteria that each leave some types, but not the same ones.
func (e *explainer) explainNoSingleType(pl *model.Pool, x suitability, row reqs.Row) reason.Reason {
	m := e.s.Model
	notOffered := reason.Reason{Code: reason.MatchingTypesNotOffered, Want: rowText(m, pl, row, true)}
	var near []reason.Reason
	if small := intersection(x.meets, x.offered); !small.Empty() {
		near = append(near, e.explainTooSmall(reason.MatchingTypesTooSmall, pl, small))
	}
	if !intersection(x.meets, x.fits).Empty() {
		near = append(near, notOffered)
	}
	if !intersection(x.fits, x.offered).Empty() {
		near = append(near, reason.Reason{Code: reason.FittingTypesExcluded, Want: rowText(m, pl, row, false)})
	}
	switch len(near) {
	case 0: // no type meets even two
		return reason.Reason{Code: reason.NoTypeSuits, Because: []reason.Reason{e.explainTooSmall(reason.MatchingTypesTooSmall, pl, x.meets), notOffered}}
	case 3:
		return reason.Reason{Code: reason.NoTypeMeetsAll}
	}
	near[0].Because = append(near[0].Because, near[1:]...)
	return near[0]
}

// explainTooSmall names the resource that the types have too little of.
func (e *explainer) explainTooSmall(code reason.Code, pl *model.Pool, types bitset.Set) reason.Reason {
	m := e.s.Model
	lane, available := e.scarcestLane(pl.Capacity, types)
	most := max(available, 0)
	r := reason.Reason{Code: code, Want: amountText(m, lane, e.c.Requests[lane]), Have: quantityText(m, lane, most)}
	if lane >= m.View.Resources.Len() && code == reason.NoTypeFits {
		r.Code, r.Have = reason.VolumeLimit, amountText(m, lane, most)
	}
	switch {
	case available < 0: // DaemonSets request more than the type has
		r.Have += ", as " + e.largestDaemons(pl.Capacity, types, lane) + " more than there is"
	case e.wouldFit(pl, types, lane):
		r.Have += ", as " + e.largestDaemons(pl.Capacity, types, lane) + " the rest"
	}
	if lane == resources.CPU && e.c.Requests[lane] >= millionCores {
		r.Because = []reason.Reason{{Code: reason.UnitSuspicious, Have: quantityText(m, lane, e.c.Requests[lane]), Want: guessMeantCores(laneName(m, lane), e.c.Requests[lane])}}
	}
	return r
}

// wouldFit reports whether a type would have enough of a resource without its DaemonSets.
func (e *explainer) wouldFit(pl *model.Pool, types bitset.Set, lane int) bool {
	cat, lanes := e.s.Model.Catalogues[pl.Catalogue], e.s.Model.Lanes
	for t := types.Next(0); t >= 0; t = types.Next(t + 1) {
		if at := t*lanes + lane; pl.Capacity.Overhead[at] > 0 && cat.Allocatable[at] >= e.c.Requests[lane] && pl.Capacity.Allocatable[at] < e.c.Requests[lane] {
			return true
		}
	}
	return false
}

// largestDaemons names the DaemonSet with the largest request for a resource on some types, and counts the others
// that request any.
func (e *explainer) largestDaemons(r *model.PoolCapacity, types bitset.Set, lane int) string {
	m := e.s.Model
	largest, others := -1, -1
	for i := range m.Daemons {
		if m.Daemons[i].Requests[lane] == 0 || intersection(types, r.RunsOn[i]).Empty() {
			continue
		}
		if others++; largest < 0 || m.Daemons[i].Requests[lane] > m.Daemons[largest].Requests[lane] {
			largest = i
		}
	}
	switch {
	case largest < 0: // the type itself has a negative amount
		return "the system requests"
	case others > 0:
		return fmt.Sprintf("daemonset/%s and %d more request", m.Daemons[largest].Key, others)
	}
	return "daemonset/" + m.Daemons[largest].Key.String() + " requests"
}

const millionCores = 1_000_000 * 1000 // in thousandths

// guessMeantCores guesses the intended value of a request of a million cores or more: M instead of m is the usual
// mistake. It returns no guess if that would not explain the value.
func guessMeantCores(name string, cores int64) string {
	const most = 1000 * 1000                                           // no machine has a thousand cores
	if thousandths := 1 + (cores-1)/millionCores; thousandths < most { // rounded up, without overflow
		return name + ":" + resource.NewMilliQuantity(thousandths, resource.DecimalSI).String()
	}
	return "a smaller unit"
}

// scarcestLane returns the lane in which types are too small, and the most that any of them has. It prefers a lane in
// which all types are too small, then the lane that alone excludes most types, then the one that excludes most.
func (e *explainer) scarcestLane(r *model.PoolCapacity, types bitset.Set) (lane int, most int64) {
	lanes, n := e.s.Model.Lanes, types.Count()
	lacking, alone := make([]int, lanes), make([]int, lanes)
	best, bestAlone := make([]int64, lanes), make([]int64, lanes)
	for t := types.Next(0); t >= 0; t = types.Next(t + 1) {
		only, shorts := 0, 0
		allocatable := r.Allocatable[t*lanes : (t+1)*lanes]
		for l, have := range allocatable {
			if have >= e.c.Requests[l] && have >= 0 {
				continue
			}
			only, shorts = l, shorts+1
			if lacking[l]++; lacking[l] == 1 || have > best[l] {
				best[l] = have
			}
		}
		if shorts == 1 {
			if alone[only]++; alone[only] == 1 || allocatable[only] > bestAlone[only] {
				bestAlone[only] = allocatable[only]
			}
		}
	}
	if l := slices.Index(lacking, n); l >= 0 && n > 0 {
		return l, best[l]
	}
	if l := slices.Index(alone, slices.Max(alone)); alone[l] > 0 {
		return l, bestAlone[l]
	}
	l := slices.Index(lacking, slices.Max(lacking))
	return l, best[l]
}

// explainPorts says which DaemonSet uses a host port of the pod, if it does so on every type.
func (e *explainer) explainPorts(pl *model.Pool, types bitset.Set) (reason.Reason, bool) {
	if pl.Capacity.Ports == nil || len(e.c.Shape.HostPorts) == 0 {
		return reason.Reason{}, false
	}
	for t := types.Next(0); t >= 0; t = types.Next(t + 1) {
		if !e.s.PortsTakenByDaemons(e.c, pl.Capacity, t) {
			return reason.Reason{}, false
		}
	}
	for _, want := range e.c.Shape.HostPorts {
		if !slices.ContainsFunc(pl.Capacity.Ports[types.Next(0)], want.Conflicts) {
			continue
		}
		have := "DaemonSets"
		for i := range e.s.Model.View.Daemons {
			if d := &e.s.Model.View.Daemons[i]; d.Shape != nil && slices.ContainsFunc(d.Shape.HostPorts, want.Conflicts) {
				have = "daemonset/" + d.Key.String()
				break
			}
		}
		return reason.Reason{Code: reason.HostPortConflict, Want: portText(want), Have: have}, true
	}
	return reason.Reason{}, false
}

// explainLimit says which limit of a pool prevents it from launching any of the types: the limit that excludes most
// of them.
func (e *explainer) explainLimit(poolID int, types bitset.Set) (reason.Reason, bool) {
	m := e.s.Model
	pl := &m.Pools[poolID]
	if len(pl.Limits) == 0 || intersection(types, e.s.Affordable(poolID)).Overlaps(types) {
		return reason.Reason{}, false
	}
	cat := m.Catalogues[pl.Catalogue]
	at, out, least := 0, 0, int64(0)
	for i, l := range pl.Limits {
		n, low := 0, int64(0)
		for t := types.Next(0); t >= 0; t = types.Next(t + 1) {
			if size := cat.Capacity[t*m.Lanes+l.Lane]; size > e.s.Limits[poolID][i] {
				if n++; n == 1 || size < low {
					low = size
				}
			}
		}
		if n > out {
			at, out, least = i, n, low
		}
	}
	lane := pl.Limits[at].Lane
	left, before := max(0, e.s.Limits[poolID][at]), pl.Limits[at].Remaining
	r := reason.Reason{Code: reason.LimitExceeded, Want: amountText(m, lane, least), Have: quantityText(m, lane, left)}
	if before >= least && left < before {
		r.Because = []reason.Reason{{Code: reason.LimitPlanned, Have: amountText(m, lane, before)}}
	}
	return r, true
}
