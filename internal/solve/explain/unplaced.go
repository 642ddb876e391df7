package explain

import (
	"cmp"
	"slices"

	"github.com/dovetail-sh/dovetail/internal/cluster"
	"github.com/dovetail-sh/dovetail/internal/reason"
	"github.com/dovetail-sh/dovetail/internal/solve/bitset"
	"github.com/dovetail-sh/dovetail/internal/solve/exact"
	"github.com/dovetail-sh/dovetail/internal/solve/model"
)

const (
	maxReasons = 5  // per pod: more text would hide the useful part
	maxCauses  = 3  // per reason: as many as its text shows
	maxListed  = 25 // domains, values or names in one text
	maxTried   = 8  // alternatives examined: affinity terms times locations of the volumes
)

// Unplaced lists the unschedulable pods of a state, with reasons. left is how many there are of each class.
func Unplaced(s *exact.State, over exact.Leftover, left []int) []model.Unplaced {
	var list []model.Unplaced
	for _, c := range over.Cut {
		list = append(list, explainCutTypes(s, c.Bin, c.Pods)...)
	}
	for k, n := range left {
		if n > 0 {
			list = append(list, unplacedOfClass(s, k, over.Rest[k])...)
		}
	}
	for i := range s.Model.Pods {
		if s.Model.Pods[i].Shape == nil {
			list = append(list, unreadPod(s.Model.Pods[i].Key))
		}
	}
	slices.SortFunc(list, func(a, b model.Unplaced) int { return a.Pod.Compare(b.Pod) })
	return list
}

// unreadPod is a pod that reached planning without having been read.
func unreadPod(key cluster.PodKey) model.Unplaced {
	return model.Unplaced{Pod: key, Why: []reason.Reason{{Code: reason.PodUnreadable, Subject: "pod/" + key.String()}}}
}

// unplacedOfClass says why pods of a class are unschedulable. It is computed once, and the equal pods share the
// slice.
func unplacedOfClass(s *exact.State, k int, pods []int32) []model.Unplaced {
	why, deferred := explainClass(s, k)
	list := make([]model.Unplaced, len(pods))
	for i, p := range pods {
		list[i] = model.Unplaced{Pod: s.Model.Pods[p].Key, Why: why, Deferred: deferred}
	}
	return list
}

// explainClass explains a class on the final state of planning, and reports whether it waits for reserved capacity.
func explainClass(s *exact.State, k int) (why []reason.Reason, deferred bool) {
	c := &s.Model.Classes[k]
	if n := len(c.Shape.Invalid); n > 0 {
		return append([]reason.Reason(nil), c.Shape.Invalid[:min(n, maxReasons)]...), false
	}
	if c.Shape.Refuses {
		return []reason.Reason{{Code: reason.ManagedRefused}}, false
	}
	if why := s.UnusableDevices(c); why != nil {
		return []reason.Reason{*why}, false
	}
	e := newExplainer(s, c)
	if s.Stopped {
		return e.explainUnfinished(), false
	}
	if r, waits := findReservedWait(s, k); waits {
		return []reason.Reason{r}, true
	}
	found, free := e.explainPools(e.explainPool)
	why = e.prependNoPool(fold(found, maxReasons-1))
	at, line, usable := e.explainNodes()
	if at {
		why = append(why, line)
	}
	if len(why) == 0 || free || usable { // it is schedulable: the next plan will place it
		return append(why[:min(len(why), maxReasons-1)], reason.Reason{Code: reason.OutOfTime}), false
	}
	return why, false
}

// explainCutTypes says why a planned node is not launched: cutting its list of types broke minValues (SC-44), or no
// type on the list can be launched.
func explainCutTypes(s *exact.State, b *exact.Bin, pods []cluster.PodKey) []model.Unplaced {
	pl := &s.Model.Pools[b.Pool]
	f := exact.Trial{Row: b.Row, Types: cheapestTypes(s, b), Columns: s.LaunchColumns(b), Reservations: b.Reservations}
	r, unmet := findUnmetMinimum(s, b.Minimums, pl, &f)
	if !unmet {
		r = reason.Reason{Code: reason.NoOffering, Want: rowText(s.Model, pl, b.Row, true)}
	}
	r.Subject = "nodepool/" + pl.Source.Name
	why := []reason.Reason{r}
	list := make([]model.Unplaced, len(pods))
	for i, key := range pods {
		list[i] = model.Unplaced{Pod: key, Why: why}
	}
	return list
}

// cheapestTypes are the types that the NodeClaim of a planned node could list: the cheapest ones.
func cheapestTypes(s *exact.State, b *exact.Bin) bitset.Set {
	m := s.Model
	cat, cols := m.Catalogues[m.Pools[b.Pool].Catalogue], s.LaunchColumns(b)
	type choice struct {
		t     int
		price float64
	}
	var list []choice
	for t := b.Types.Next(0); t >= 0; t = b.Types.Next(t + 1) {
		if price, at := cat.Cheapest(t, cols); at >= 0 {
			list = append(list, choice{t, price})
		}
	}
	slices.SortStableFunc(list, func(a, b choice) int { return cmp.Compare(a.price, b.price) }) // items are sorted by name
	kept, names := bitset.NewSet(len(cat.Types)), map[string]bool{}
	for _, x := range list {
		if name := cat.Types[x.t].InstanceType.Name; len(names) < model.MaxTypes || names[name] {
			names[name] = true
			kept.Add(x.t)
		}
	}
	return kept
}

// findUnmetMinimum returns the first minValues that a trial does not meet (SC-42).
func findUnmetMinimum(s *exact.State, list []model.Minimum, pl *model.Pool, f *exact.Trial) (reason.Reason, bool) {
	for _, least := range list {
		if have := s.CountDistinct(pl, f, least.Key); have < least.Values {
			return reason.Reason{Code: reason.MinValuesUnmet, Want: number(least.Values) + " " + s.Model.Table.KeyName(least.Key), Have: number(have)}, true
		}
	}
	return reason.Reason{}, false
}

// findReservedWait repeats the last attempt for a class and reports whether it was abandoned because of reserved
// capacity (SC-46). Then no other reason is useful, because nothing else was tried.
func findReservedWait(s *exact.State, k int) (reason.Reason, bool) {
	m := s.Model
	reserved := false
	for i := range m.Pools {
		reserved = reserved || !m.Pools[i].Reserved.Empty()
	}
	if !reserved || m.Problem.Policy.ReservedFallback {
		return reason.Reason{}, false
	}
	c := &m.Classes[k]
	for _, v := range c.Variants {
		p := m.Profiles[v.Profile]
		lost, kept := findReservedConflict(s, c, p)
		r, waits, ends := findReservedWaitInPool(s, c, p)
		switch {
		case waits:
			return r, true
		case kept:
			return lost, true
		case ends:
			return reason.Reason{}, false
		}
	}
	return reason.Reason{}, false
}

// findReservedConflict finds a planned node that rejects the pod because of reserved capacity: the node would lose
// the reservation it holds, or could use one that is held by others.
func findReservedConflict(s *exact.State, c *model.Class, p *model.Profile) (reason.Reason, bool) {
	for i, b := range s.Bins {
		s.WaitsForReserved = false
		_, f := s.FitInBin(c, p, b, int32(len(s.Model.Nodes)+i), 1)
		if !s.WaitsForReserved {
			continue
		}
		r := reason.Reason{Code: reason.ReservedLost, Subject: "nodepool/" + s.Model.Pools[b.Pool].Source.Name, Have: reservationNames(s.Model, b.Reservations)}
		if len(b.Reservations) == 0 {
			r.Code, r.Have, r.Want = reason.ReservedDeferred, "", reservationsFor(s, b.Pool, &f)
		}
		return r, true
	}
	return reason.Reason{}, false
}

// findReservedWaitInPool repeats OpenBin for a pool, and reports whether the pod waits for the pool's reserved
// capacity, or whether the pool could open a node.
func findReservedWaitInPool(s *exact.State, c *model.Class, p *model.Profile) (r reason.Reason, waits, ends bool) {
	m := s.Model
	place := int32(len(m.Nodes) + len(s.Bins))
	for i := range m.Pools {
		b := s.NewBin(i, p)
		if b == nil {
			continue
		}
		if m.Problem.Policy.BestEffortMinimums {
			b.Minimums = nil
		}
		s.WaitsForReserved = false
		n, f := s.FitInBin(c, p, b, place, 1)
		switch {
		case s.WaitsForReserved:
			return reason.Reason{Code: reason.ReservedDeferred, Subject: "nodepool/" + m.Pools[i].Source.Name, Want: reservationsFor(s, i, &f)}, true, true
		case n > 0:
			return r, false, true
		}
	}
	return r, false, false
}

// reservationsFor lists the reservations that a trial of a pool could use.
func reservationsFor(s *exact.State, poolID int, f *exact.Trial) string {
	pl := &s.Model.Pools[poolID]
	cat := s.Model.Catalogues[pl.Catalogue]
	var open bitset.Columns
	for t := f.Types.Next(0); t >= 0; t = f.Types.Next(t + 1) {
		open = open.Or(cat.Available[t].And(pl.Reserved).And(f.Columns))
	}
	var ids []int
	for i := open.Next(0); i >= 0; i = open.Next(i + 1) {
		if id := cat.Columns[i].Reserved; id >= 0 && !slices.Contains(ids, id) {
			ids = append(ids, id)
		}
	}
	return reservationNames(s.Model, ids)
}
