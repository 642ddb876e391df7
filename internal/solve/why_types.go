package solve

import (
	"fmt"
	"slices"

	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/dovetail-sh/dovetail/internal/reason"
	"github.com/dovetail-sh/dovetail/internal/reqs"
	"github.com/dovetail-sh/dovetail/internal/resources"
)

// suit is which instance types of a pool meet each of the criteria of SC-19.
type suit struct {
	all, meets, fits, offered set
}

func (e *explainer) suit(pl *pool, all, meets set, cols columns) suit {
	cat := e.s.m.catalogues[pl.catalogue]
	x := suit{all: all, meets: common(all, meets), fits: common(all, e.holding(pl.rooms)), offered: newSet(len(cat.types))}
	for t := all.next(0); t >= 0; t = all.next(t + 1) {
		if !cat.avail[t].and(cols).empty() {
			x.offered.add(t)
		}
	}
	return x
}

func common(a set, others ...set) set {
	out := a.clone()
	for _, o := range others {
		out.and(o)
	}
	return out
}

// holding returns the types that hold one pod beside their DaemonSets.
func (e *explainer) holding(r *rooms) set {
	if known, found := e.roomy[r]; found {
		return known
	}
	lanes := e.s.m.lanes
	types := newSet(len(r.room) / lanes)
	for t := range len(r.room) / lanes {
		fits := true
		for l, room := range r.room[t*lanes : (t+1)*lanes] {
			fits = fits && room >= e.c.req[l] && room >= 0
		}
		if fits {
			types.add(t)
		}
	}
	e.roomy[r] = types
	return types
}

// noType says why no type suits: which criteria, alone or together, rule out every one.
func (e *explainer) noType(pl *pool, x suit, row reqs.Row) (reason.Reason, bool) {
	if !common(x.meets, x.fits, x.offered).empty() {
		return reason.Reason{}, false
	}
	m := e.s.m
	var causes []reason.Reason
	if x.meets.empty() {
		causes = append(causes, reason.Reason{Code: reason.NoTypeMeetsRequirements, Want: m.rowText(pl, row, false)})
	}
	if x.fits.empty() {
		causes = append(causes, e.tooSmall(reason.NoTypeFits, pl, x.all))
	}
	if x.offered.empty() {
		causes = append(causes, reason.Reason{Code: reason.NoOffering, Want: m.rowText(pl, row, true)})
	}
	switch len(causes) {
	case 0:
		return e.neverAll(pl, x, row), true
	case 1:
		return causes[0], true
	}
	return reason.Reason{Code: reason.NoTypeSuits, Because: causes}, true
}

// neverAll is for criteria that each leave some types, but not the same.
func (e *explainer) neverAll(pl *pool, x suit, row reqs.Row) reason.Reason {
	m := e.s.m
	notOffered := reason.Reason{Code: reason.MatchingTypesNotOffered, Want: m.rowText(pl, row, true)}
	var near []reason.Reason
	if small := common(x.meets, x.offered); !small.empty() {
		near = append(near, e.tooSmall(reason.MatchingTypesTooSmall, pl, small))
	}
	if !common(x.meets, x.fits).empty() {
		near = append(near, notOffered)
	}
	if !common(x.fits, x.offered).empty() {
		near = append(near, reason.Reason{Code: reason.FittingTypesExcluded, Want: m.rowText(pl, row, false)})
	}
	switch len(near) {
	case 0: // no type meets even two
		return reason.Reason{Code: reason.NoTypeSuits, Because: []reason.Reason{e.tooSmall(reason.MatchingTypesTooSmall, pl, x.meets), notOffered}}
	case 3:
		return reason.Reason{Code: reason.NoTypeMeetsAll}
	}
	near[0].Because = append(near[0].Because, near[1:]...)
	return near[0]
}

// tooSmall names the resource that types do not have enough of.
func (e *explainer) tooSmall(code reason.Code, pl *pool, types set) reason.Reason {
	m := e.s.m
	lane, room := e.shortest(pl.rooms, types)
	most := max(room, 0)
	r := reason.Reason{Code: code, Want: m.amount(lane, e.c.req[lane]), Have: m.quantity(lane, most)}
	if lane >= m.view.Resources.Len() && code == reason.NoTypeFits {
		r.Code, r.Have = reason.VolumeLimit, m.amount(lane, most)
	}
	switch {
	case room < 0: // it is what DaemonSets leave
		r.Have += ", as " + e.greedyDaemons(pl.rooms, types, lane) + " for more than there is"
	case e.wouldFit(pl, types, lane):
		r.Have += ", as " + e.greedyDaemons(pl.rooms, types, lane) + " for the rest"
	}
	if lane == resources.CPU && e.c.req[lane] >= millionCores {
		r.Because = []reason.Reason{{Code: reason.UnitSuspicious, Have: m.quantity(lane, e.c.req[lane]), Want: guessMeantCores(m.laneName(lane), e.c.req[lane])}}
	}
	return r
}

// wouldFit tells whether a type would have enough of a resource without its DaemonSets.
func (e *explainer) wouldFit(pl *pool, types set, lane int) bool {
	cat, lanes := e.s.m.catalogues[pl.catalogue], e.s.m.lanes
	for t := types.next(0); t >= 0; t = types.next(t + 1) {
		if at := t*lanes + lane; pl.rooms.over[at] > 0 && cat.room[at] >= e.c.req[lane] && pl.rooms.room[at] < e.c.req[lane] {
			return true
		}
	}
	return false
}

// greedyDaemons names the DaemonSet that asks for most of a resource on some types, and counts the others
// that ask for any.
func (e *explainer) greedyDaemons(r *rooms, types set, lane int) string {
	m := e.s.m
	largest, others := -1, -1
	for i := range m.daemons {
		if m.daemons[i].req[lane] == 0 || common(types, r.runs[i]).empty() {
			continue
		}
		if others++; largest < 0 || m.daemons[i].req[lane] > m.daemons[largest].req[lane] {
			largest = i
		}
	}
	switch {
	case largest < 0: // the type itself has less than nothing of it
		return "the system asks"
	case others > 0:
		return fmt.Sprintf("daemonset/%s and %d more ask", m.daemons[largest].key, others)
	}
	return "daemonset/" + m.daemons[largest].key.String() + " asks"
}

const millionCores = 1_000_000 * 1000 // in thousandths

// guessMeantCores guesses what a million cores or more should have been: M for m is the usual mistake. What
// that would not explain is not guessed at.
func guessMeantCores(name string, asked int64) string {
	const most = 1000 * 1000                                           // no machine has a thousand cores
	if thousandths := 1 + (asked-1)/millionCores; thousandths < most { // rounded up, without overflow
		return name + ":" + resource.NewMilliQuantity(thousandths, resource.DecimalSI).String()
	}
	return "a smaller unit"
}

// shortest returns the lane for want of which types are too small, and the most that any of them has
// of it: the first one that all lack; if there is none, the one that alone keeps out most of them;
// then the one that keeps out most.
func (e *explainer) shortest(r *rooms, types set) (lane int, most int64) {
	lanes, n := e.s.m.lanes, types.count()
	lacking, alone := make([]int, lanes), make([]int, lanes)
	best, bestAlone := make([]int64, lanes), make([]int64, lanes)
	for t := types.next(0); t >= 0; t = types.next(t + 1) {
		only, shorts := 0, 0
		room := r.room[t*lanes : (t+1)*lanes]
		for l, have := range room {
			if have >= e.c.req[l] && have >= 0 {
				continue
			}
			only, shorts = l, shorts+1
			if lacking[l]++; lacking[l] == 1 || have > best[l] {
				best[l] = have
			}
		}
		if shorts == 1 {
			if alone[only]++; alone[only] == 1 || room[only] > bestAlone[only] {
				bestAlone[only] = room[only]
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

// portTaken says which DaemonSet has a host port of the pod, if it has it on every type.
func (e *explainer) portTaken(pl *pool, types set) (reason.Reason, bool) {
	if pl.rooms.ports == nil || len(e.c.shape.HostPorts) == 0 {
		return reason.Reason{}, false
	}
	for t := types.next(0); t >= 0; t = types.next(t + 1) {
		if !e.s.portsTaken(e.c, pl.rooms, t) {
			return reason.Reason{}, false
		}
	}
	for _, want := range e.c.shape.HostPorts {
		if !slices.ContainsFunc(pl.rooms.ports[types.next(0)], want.Conflicts) {
			continue
		}
		have := "DaemonSets"
		for i := range e.s.m.view.Daemons {
			if d := &e.s.m.view.Daemons[i]; d.Shape != nil && slices.ContainsFunc(d.Shape.HostPorts, want.Conflicts) {
				have = "daemonset/" + d.Key.String()
				break
			}
		}
		return reason.Reason{Code: reason.HostPortConflict, Want: portText(want), Have: have}, true
	}
	return reason.Reason{}, false
}

// limited says which limit of a pool keeps it from buying any of the types: the one that keeps out
// most of them.
func (e *explainer) limited(poolID int, types set) (reason.Reason, bool) {
	m := e.s.m
	pl := &m.pools[poolID]
	if len(pl.limits) == 0 || common(types, e.s.affordable(poolID)).meets(types) {
		return reason.Reason{}, false
	}
	cat := m.catalogues[pl.catalogue]
	at, out, least := 0, 0, int64(0)
	for i, l := range pl.limits {
		n, low := 0, int64(0)
		for t := types.next(0); t >= 0; t = types.next(t + 1) {
			if size := cat.cap[t*m.lanes+l.lane]; size > e.s.limits[poolID][i] {
				if n++; n == 1 || size < low {
					low = size
				}
			}
		}
		if n > out {
			at, out, least = i, n, low
		}
	}
	lane := pl.limits[at].lane
	left, before := max(0, e.s.limits[poolID][at]), pl.limits[at].remaining
	r := reason.Reason{Code: reason.LimitExceeded, Want: m.amount(lane, least), Have: m.quantity(lane, left)}
	if before >= least && left < before {
		r.Because = []reason.Reason{{Code: reason.LimitPlanned, Have: m.amount(lane, before)}}
	}
	return r, true
}
