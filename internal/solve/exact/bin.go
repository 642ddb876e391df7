package exact

import (
	"math"
	"slices"

	karpv1 "github.com/dovetail-sh/dovetail/api/v1"
	"github.com/dovetail-sh/dovetail/internal/reqs"
	"github.com/dovetail-sh/dovetail/internal/solve/bitset"
	"github.com/dovetail-sh/dovetail/internal/solve/model"
)

// Bin is a planned node. It is not one instance type but all types that could still be launched for its pods.
type Bin struct {
	Pool           int
	Row            reqs.Row       // requirements of the pool, narrowed by those of the pods
	Types          bitset.Set     // types that hold the pods
	Columns        bitset.Columns // columns that the pods allow
	Used           []int64        // requests of the pods; DaemonSets are in the capacity of the pool
	Largest        []int64        // maximum over the types, by lane
	Needs          []int          // needs that Row, Types and Columns already respect
	Pods           []BinPods
	Count          int             // pods in all
	Reservations   []int           // reservations that it takes a slot of
	relaxed        bool            // minValues was lowered to open it
	Minimums       []model.Minimum // minValues that it must meet
	domainCounted  []bool          // by key of the table: its only domain is counted
	sure           []int           // groups with a node filter that it meets for certain (SC-28)
	unsure         []int           // groups with a node filter that it may not meet: they do not count its pods yet
	cheapestType   int             // cheapest of the types, -1: not computed
	cheapestColumn int             // column with the price of cheapestType
}

// BinPods is how many pods of a class, at one step of relaxation, are on a planned node.
type BinPods struct {
	Class   int32
	Profile int32
	Count   int32
}

// Trial is a planned node as it would be with some more pods.
type Trial struct {
	Row          reqs.Row
	Types        bitset.Set
	Columns      bitset.Columns
	narrow       bool           // Row, Types or Columns differ from the bin's
	Needs        []int          // needs that the bin does not respect yet
	Reservations []int          // reservations that it would take a slot of
	pinned       []model.PinKey // domains that were chosen
}

// BeginTrial starts a trial from a bin, in buffers of the state.
func (s *State) BeginTrial(b *Bin) Trial {
	s.row.CopyFrom(b.Row)
	s.types = append(s.types[:0], b.Types...)
	return Trial{Row: s.row, Types: s.types, Columns: b.Columns}
}

// Require narrows a trial to a need. It reports whether any type and column is left.
func (s *State) Require(f *Trial, b *Bin, needID int) bool {
	if needID <= 0 || slices.Contains(b.Needs, needID) {
		return needID >= 0
	}
	m := s.Model
	n := m.Needs[needID]
	if !m.Table.Compatible(n.Row, f.Row, true) {
		return false
	}
	m.Table.Intersect(f.Row, f.Row, n.Row)
	catalogue := m.Pools[b.Pool].Catalogue
	for _, list := range [][]int{b.Needs, f.Needs, {needID}} {
		for _, id := range list {
			if !m.KeepsLabels(m.Needs[id], f.Row, catalogue) {
				return false
			}
		}
	}
	left := m.MasksFor(needID, catalogue)
	f.Columns = f.Columns.And(left.Columns)
	f.Types.And(left.Types)
	f.narrow = true
	f.Needs = append(f.Needs, needID)
	return !f.Columns.Empty() && !f.Types.Empty()
}

// FitInBin returns how many pods of a class a planned node can take, at most want, and the trial with these pods.
func (s *State) FitInBin(c *model.Class, p *model.Profile, b *Bin, place int32, want int) (int, Trial) {
	m := s.Model
	if !m.Tolerated(p.Tolerations, m.Pools[b.Pool].Taints) {
		return 0, Trial{}
	}
	for _, l := range m.CertainLanes(c) {
		if b.Used[l]+c.Requests[l] > b.Largest[l] {
			return 0, Trial{}
		}
	}
	if want = s.allowedInBin(c, p, place, want); want <= 0 {
		return 0, Trial{}
	}
	if p.HasZoneRules {
		return s.fitInDomain(c, p, b, want)
	}
	f := s.BeginTrial(b)
	if !s.Require(&f, b, p.Need) {
		return 0, Trial{}
	}
	return s.FitTypes(c, b, &f, want), f
}

// fitInDomain is FitInBin for a pod whose rules choose a domain. A domain in which the node then cannot be launched,
// because of minValues or reservations, is not chosen again.
func (s *State) fitInDomain(c *model.Class, p *model.Profile, b *Bin, want int) (int, Trial) {
	defer func() { s.excluded = s.excluded[:0] }()
	before := s.WaitsForReserved
	for {
		f := s.BeginTrial(b)
		if !s.Require(&f, b, p.Need) || !s.dropFullTypes(c, b, &f) {
			return 0, Trial{}
		}
		many := s.ChooseDomains(p, b, &f, want)
		if many <= 0 {
			return 0, Trial{}
		}
		refused := s.WaitsForReserved
		n := s.FitTypes(c, b, &f, many)
		if n > 0 {
			s.WaitsForReserved = before
			return n, f
		}
		// If reserved capacity is in use, the pod waits for it. Another capacity type is not chosen instead (V15-45).
		if len(f.pinned) == 0 || s.WaitsForReserved && s.Model.Table.KeyName(f.pinned[len(f.pinned)-1].Key) == karpv1.LabelCapacityType {
			return 0, Trial{}
		}
		s.WaitsForReserved = refused || s.WaitsForReserved
		s.excluded = append(s.excluded, f.pinned[len(f.pinned)-1])
	}
}

// dropFullTypes drops the types that cannot hold one more pod, so that only domains with a usable type are chosen. It
// reports whether any type is left.
func (s *State) dropFullTypes(c *model.Class, b *Bin, f *Trial) bool {
	capacity, lanes := s.Model.Pools[b.Pool].Capacity, s.Model.Lanes
	back := s.attachedLanes(c, b)
	for t := f.Types.Next(0); t >= 0; t = f.Types.Next(t + 1) {
		fits := capacity.Ports == nil || !s.PortsTakenByDaemons(c, capacity, t)
		for _, l := range c.Lanes {
			request := c.Requests[l]
			if back != nil {
				request -= back[l]
			}
			fits = fits && capacity.Allocatable[t*lanes+l]-b.Used[l] >= request
		}
		if !fits {
			f.Types.Remove(t)
		}
	}
	return !f.Types.Empty()
}

// allowedInBin returns how many pods the rules for ports, claims and hosts allow.
func (s *State) allowedInBin(c *model.Class, p *model.Profile, place int32, want int) int {
	if len(p.Ports) > 0 {
		if want = 1; model.PortsConflict(p.Ports, s.Ports[place]) {
			return 0
		}
	}
	if len(c.SharedClaims) > 0 || len(c.Shape.Devices) > 0 {
		want = 1
	}
	if p.HasHostRules {
		want = s.AllowedOnHost(p, place, want)
	}
	return want
}

// FitTypes filters the types of a trial by resources, offerings, DaemonSet ports, minValues and
// reservations, and returns how many pods fit, at most want (SC-19).
func (s *State) FitTypes(c *model.Class, b *Bin, f *Trial, want int) int {
	m := s.Model
	s.NoDevices = nil
	pl := &m.Pools[b.Pool]
	cat, lanes := m.Catalogues[pl.Catalogue], m.Lanes
	if len(c.Shape.Devices) > 0 || len(b.Minimums) > 0 || !pl.Reserved.And(f.Columns).Empty() {
		want = 1
	}
	back := s.attachedLanes(c, b)
	best := 0
	allocatable := pl.Capacity.Allocatable
	for t := f.Types.Next(0); t >= 0; t = f.Types.Next(t + 1) {
		if cat.Available[t].And(f.Columns).Empty() || pl.Capacity.Ports != nil && s.PortsTakenByDaemons(c, pl.Capacity, t) {
			f.Types.Remove(t)
			continue
		}
		n := want
		for _, l := range c.Lanes {
			request := c.Requests[l]
			if back != nil {
				request -= back[l]
			}
			if left := allocatable[t*lanes+l] - b.Used[l]; left < request {
				n = 0
				break
			} else if request > 0 && left/request < int64(n) {
				n = int(left / request)
			}
		}
		if n == 0 || cannotHoldDaemons(allocatable[t*lanes:(t+1)*lanes], b.Used) {
			f.Types.Remove(t)
			continue
		}
		best = max(best, n)
	}
	if best == 0 {
		return 0
	}
	s.keepTypes(c, b, f, best, back)
	if len(c.Shape.Devices) > 0 {
		if best = 1; !s.keepTypesWithDevices(c, b, f) {
			return 0
		}
	}
	if !s.FindReservations(b, f) || !s.meetsMinimums(b.Minimums, pl, f) {
		return 0
	}
	return best
}

// cannotHoldDaemons reports whether a type cannot hold its DaemonSets and the planned pods: then nothing fits.
func cannotHoldDaemons(allocatable, used []int64) bool {
	for l, v := range allocatable {
		if v < used[l] && v < 0 {
			return true
		}
	}
	return false
}

// keepTypes drops the types that hold fewer than n pods more.
func (s *State) keepTypes(c *model.Class, b *Bin, f *Trial, n int, back []int64) {
	if n <= 1 {
		return
	}
	allocatable, lanes := s.Model.Pools[b.Pool].Capacity.Allocatable, s.Model.Lanes
	for t := f.Types.Next(0); t >= 0; t = f.Types.Next(t + 1) {
		for _, l := range c.Lanes {
			request := c.Requests[l]
			if back != nil {
				request -= back[l]
			}
			if allocatable[t*lanes+l]-b.Used[l] < int64(n)*request {
				f.Types.Remove(t)
				break
			}
		}
	}
}

// attachedLanes returns, for a pod with shared claims, the slots it does not need because the claims
// are attached to the planned node already.
func (s *State) attachedLanes(c *model.Class, b *Bin) []int64 {
	if len(c.SharedClaims) == 0 {
		return nil
	}
	place := slices.Index(s.Bins, b) // few pods share claims
	back := make([]int64, s.Model.Lanes)
	if place < 0 {
		return back
	}
	for _, v := range c.Shape.Volumes {
		if id, shared := s.Model.SharedClaims[v.Claim]; shared && s.IsAttached(len(s.Model.Nodes)+place, id) {
			back[s.Model.View.Resources.Len()+s.Model.DriverIndex(v.Driver)]++
		}
	}
	return back
}

// PortsTakenByDaemons reports whether DaemonSet pods on a type use a host port of a class.
func (s *State) PortsTakenByDaemons(c *model.Class, r *model.PoolCapacity, t int) bool {
	return len(c.Shape.HostPorts) > 0 && model.PortsConflict(c.Shape.HostPorts, r.Ports[t])
}

// meetsMinimums reports whether a trial still has the distinct values that minValues requires (SC-42, V15-60: only
// values that the requirements still allow count).
func (s *State) meetsMinimums(list []model.Minimum, pl *model.Pool, f *Trial) bool {
	for _, least := range list {
		if s.CountDistinct(pl, f, least.Key) < least.Values {
			return false
		}
	}
	return true
}

// CountDistinct returns how many values of a key a trial can still be launched with.
func (s *State) CountDistinct(pl *model.Pool, f *Trial, k reqs.KeyID) int {
	cat := s.Model.Catalogues[pl.Catalogue]
	x := &cat.Keys[k]
	cols := s.columnsHolding(pl, f.Columns, f.Reservations)
	var open bitset.Columns
	types := bitset.NewSet(len(cat.Types)) // types that can be launched with these columns
	for t := f.Types.Next(0); t >= 0; t = f.Types.Next(t + 1) {
		if left := cat.Launchable[t].And(cols); !left.Empty() {
			open = open.Or(left)
			types.Add(t)
		}
	}
	n := 0
	switch {
	case x.ByOffering:
		for v, with := range x.ColumnsWith {
			n += bitset.Bit(f.Row.Allows(k, reqs.ValueID(v)) && !with.And(open).Empty())
		}
	case x.ByType:
		for v, with := range x.TypesWith {
			n += bitset.Bit(with != nil && f.Row.Allows(k, reqs.ValueID(v)) && with.Overlaps(types))
		}
	default:
		n = f.Row.Count(k)
	}
	return n
}

// putInBin puts pods of a class on a planned node.
func (s *State) putInBin(k int, profileID int, b *Bin, place int32, count int, f *Trial) {
	m := s.Model
	c := &m.Classes[k]
	p := m.Profiles[profileID]
	for _, l := range c.Lanes {
		b.Used[l] += int64(count) * c.Requests[l]
	}
	if len(c.SharedClaims) > 0 {
		for l := range b.Used {
			b.Used[l] = -b.Used[l]
		}
		s.shareClaims(c, int(place), b.Used)
		for l := range b.Used {
			b.Used[l] = -b.Used[l]
		}
	}
	if f.narrow {
		b.Row.CopyFrom(f.Row)
		b.Needs = append(b.Needs, f.Needs...)
	}
	copy(b.Types, f.Types)
	b.Columns = f.Columns
	s.replaceReservations(b, f.Reservations)
	s.takeDevicesInBin(c, b, place)
	s.UpdateLargest(b)
	b.Count += count
	s.CountPodsInBin(p, b, place, count)
	if last := len(b.Pods) - 1; last >= 0 && b.Pods[last].Class == int32(k) && b.Pods[last].Profile == int32(profileID) {
		b.Pods[last].Count += int32(count)
	} else {
		b.Pods = append(b.Pods, BinPods{int32(k), int32(profileID), int32(count)})
	}
	s.Placed = append(s.Placed, Placement{int32(k), place, int32(count)})
}

// UpdateLargest updates Largest, which rejects pods quickly.
func (s *State) UpdateLargest(b *Bin) {
	b.cheapestType = -1
	allocatable, lanes := s.Model.Pools[b.Pool].Capacity.Allocatable, s.Model.Lanes
	for l := range b.Largest {
		b.Largest[l] = math.MinInt64
	}
	for t := b.Types.Next(0); t >= 0; t = b.Types.Next(t + 1) {
		for l, v := range allocatable[t*lanes : (t+1)*lanes] {
			b.Largest[l] = max(b.Largest[l], v)
		}
	}
}
