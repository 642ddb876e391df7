package solve

import (
	"cmp"
	"slices"

	"github.com/dovetail-sh/dovetail/internal/cluster"
	"github.com/dovetail-sh/dovetail/internal/reason"
)

const (
	maxReasons = 5  // of a pod: past that a wall of text hides the useful part
	maxCauses  = 3  // of a reason: as many as its text shows
	maxListed  = 25 // domains, values or names in one text
	maxTried   = 8  // alternatives looked at: terms of the affinity times places of the volumes
)

// explainUnplaced lists the pods that a state has no place for, and why. left says how many these are of each class.
func (s *state) explainUnplaced(over leftover, left []int) []Unplaced {
	var list []Unplaced
	for _, c := range over.cut {
		list = append(list, s.explainCutTypes(c.bin, c.pods)...)
	}
	for k, n := range left {
		if n > 0 {
			list = append(list, s.unplaced(k, over.rest[k])...)
		}
	}
	for i := range s.m.pods {
		if s.m.pods[i].Shape == nil {
			list = append(list, unreadPod(s.m.pods[i].Key))
		}
	}
	slices.SortFunc(list, func(a, b Unplaced) int { return a.Pod.Compare(b.Pod) })
	return list
}

// unreadPod is a pod that reached planning without having been read.
func unreadPod(key cluster.PodKey) Unplaced {
	return Unplaced{Pod: key, Why: []reason.Reason{{Code: reason.PodUnreadable, Subject: "pod/" + key.String()}}}
}

// unplaced says why pods of a class have no place. It is worked out once: pods of a class are alike,
// so they share the slice.
func (s *state) unplaced(k int, pods []int32) []Unplaced {
	why, deferred := s.why(k)
	list := make([]Unplaced, len(pods))
	for i, p := range pods {
		list[i] = Unplaced{Pod: s.m.pods[p].Key, Why: why, Deferred: deferred}
	}
	return list
}

// why explains a class against the state that planning ended with, and tells whether it waits for
// reserved capacity.
func (s *state) why(k int) (why []reason.Reason, deferred bool) {
	c := &s.m.classes[k]
	if n := len(c.shape.Invalid); n > 0 {
		return append([]reason.Reason(nil), c.shape.Invalid[:min(n, maxReasons)]...), false
	}
	if c.shape.Refuses {
		return []reason.Reason{{Code: reason.ManagedRefused}}, false
	}
	e := newExplainer(s, c)
	if s.stopped {
		return e.unfinished(), false
	}
	if r, waits := s.waits(k); waits {
		return []reason.Reason{r}, true
	}
	found, free := e.pools(e.pool)
	why = e.noPool(fold(found, maxReasons-1))
	at, line, usable := e.nodes()
	if at {
		why = append(why, line)
	}
	if len(why) == 0 || free || usable { // it has a place: the next round will find it
		return append(why[:min(len(why), maxReasons-1)], reason.Reason{Code: reason.OutOfTime}), false
	}
	return why, false
}

// explainCutTypes says why a planned node is not bought after all: cutting its list of types broke minValues
// (SC-44), or nothing on the list can be launched.
func (s *state) explainCutTypes(b *bin, pods []cluster.PodKey) []Unplaced {
	pl := &s.m.pools[b.pool]
	f := frame{row: b.row, types: s.firstTypes(b), cols: s.launchColumns(b), held: b.held}
	r, unmet := s.unmet(b.minimum, pl, &f)
	if !unmet {
		r = reason.Reason{Code: reason.NoOffering, Want: s.m.rowText(pl, b.row, true)}
	}
	r.Subject = "nodepool/" + pl.src.Name
	why := []reason.Reason{r}
	list := make([]Unplaced, len(pods))
	for i, key := range pods {
		list[i] = Unplaced{Pod: key, Why: why}
	}
	return list
}

// firstTypes are the types that the NodeClaim of a planned node could list: the cheapest ones.
func (s *state) firstTypes(b *bin) set {
	m := s.m
	cat, cols := m.catalogues[m.pools[b.pool].catalogue], s.launchColumns(b)
	type choice struct {
		t     int
		price float64
	}
	var list []choice
	for t := b.types.next(0); t >= 0; t = b.types.next(t + 1) {
		if price, at := cat.cheapest(t, cols); at >= 0 {
			list = append(list, choice{t, price})
		}
	}
	slices.SortStableFunc(list, func(a, b choice) int { return cmp.Compare(a.price, b.price) }) // items are sorted by name
	kept, names := newSet(len(cat.types)), map[string]bool{}
	for _, x := range list {
		if name := cat.types[x.t].it.Name; len(names) < MaxTypes || names[name] {
			names[name] = true
			kept.add(x.t)
		}
	}
	return kept
}

// unmet returns the first minValues that a frame does not meet (SC-42).
func (s *state) unmet(list []minimum, pl *pool, f *frame) (reason.Reason, bool) {
	for _, least := range list {
		if have := s.distinct(pl, f, least.key); have < least.values {
			return reason.Reason{Code: reason.MinValuesUnmet, Want: number(least.values) + " " + s.m.table.KeyName(least.key), Have: number(have)}, true
		}
	}
	return reason.Reason{}, false
}

// waits plays the last attempt for a class again and tells whether it was given up for reserved
// capacity (SC-46): then nothing else is worth explaining, since nothing else was tried.
func (s *state) waits(k int) (reason.Reason, bool) {
	m := s.m
	reserved := false
	for i := range m.pools {
		reserved = reserved || !m.pools[i].reserved.empty()
	}
	if !reserved || m.problem.Policy.ReservedFallback {
		return reason.Reason{}, false
	}
	c := &m.classes[k]
	for _, v := range c.variants {
		p := m.profiles[v.profile]
		lost, kept := s.findReservedConflict(c, p)
		r, waits, ends := s.waitsInPool(c, p)
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

// findReservedConflict finds a planned node that the pod is kept from because of reserved capacity: the node would
// lose what it holds, or could hold some that is taken.
func (s *state) findReservedConflict(c *class, p *profile) (reason.Reason, bool) {
	for i, b := range s.bins {
		s.deferred = false
		_, f := s.inBin(c, p, b, int32(len(s.m.nodes)+i), 1)
		if !s.deferred {
			continue
		}
		r := reason.Reason{Code: reason.ReservedLost, Subject: "nodepool/" + s.m.pools[b.pool].src.Name, Have: s.m.reservations(b.held)}
		if len(b.held) == 0 {
			r.Code, r.Have, r.Want = reason.ReservedDeferred, "", s.reservedFor(b.pool, &f)
		}
		return r, true
	}
	return reason.Reason{}, false
}

// waitsInPool does what openBin does, and tells whether a pool is waited for, or could open a node
// after all.
func (s *state) waitsInPool(c *class, p *profile) (r reason.Reason, waits, ends bool) {
	m := s.m
	place := int32(len(m.nodes) + len(s.bins))
	for i := range m.pools {
		b := s.blank(i, p)
		if b == nil {
			continue
		}
		if m.problem.Policy.BestEffortMinimums {
			b.minimum = nil
		}
		s.deferred = false
		n, f := s.inBin(c, p, b, place, 1)
		switch {
		case s.deferred:
			return reason.Reason{Code: reason.ReservedDeferred, Subject: "nodepool/" + m.pools[i].src.Name, Want: s.reservedFor(i, &f)}, true, true
		case n > 0:
			return r, false, true
		}
	}
	return r, false, false
}

// reservedFor lists the reservations that a frame of a pool could use.
func (s *state) reservedFor(poolID int, f *frame) string {
	pl := &s.m.pools[poolID]
	cat := s.m.catalogues[pl.catalogue]
	var open columns
	for t := f.types.next(0); t >= 0; t = f.types.next(t + 1) {
		open = open.or(cat.avail[t].and(pl.reserved).and(f.cols))
	}
	var ids []int
	for i := open.next(0); i >= 0; i = open.next(i + 1) {
		if id := cat.cols[i].reserved; id >= 0 && !slices.Contains(ids, id) {
			ids = append(ids, id)
		}
	}
	return s.m.reservations(ids)
}
