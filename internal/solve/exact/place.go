package exact

import (
	"slices"

	"github.com/dovetail-sh/dovetail/internal/solve/model"
)

// PlaceAll places every pod exactly by the rules, class by class: on existing nodes first, then on planned nodes,
// then on new ones (SC-17, SC-18). Every other algorithm is measured against it, and it places the pods that the
// faster ones leave. left says how many pods of each class are still to be placed, and is updated.
func (s *State) PlaceAll(left []int) {
	for progress := true; progress; {
		progress = false
		for k := range left {
			if left[k] == 0 {
				continue
			}
			if s.ShouldStop() {
				return
			}
			n := s.PlaceClass(k, left[k])
			left[k] -= n
			progress = progress || n > 0
		}
	}
}

// PlaceClass places pods of a class, relaxing preferences one by one for those that are unschedulable (SC-14).
func (s *State) PlaceClass(k, want int) int {
	done := 0
	c := &s.Model.Classes[k]
	if len(c.Shape.Invalid) > 0 || c.Shape.Refuses {
		return 0
	}
	for first := 0; first < len(c.Variants); {
		next := c.EndOfStep(first)
		s.WaitsForReserved = false
		done += s.placeVariants(k, c.Variants[first:next], want-done)
		if done == want || s.WaitsForReserved || s.Stopped { // pods wait for reserved capacity, they are not relaxed (SC-15)
			break
		}
		first = next
	}
	return done
}

// placeVariants places up to want pods of a class at one step of relaxation. It tries every variant on one kind of
// node before it turns to the next kind: the zone of the volumes matters less than whether a node must be launched.
func (s *State) placeVariants(k int, ways []model.Variant, want int) int {
	if !slices.ContainsFunc(ways, func(v model.Variant) bool { return s.hasAffinityTargets(s.Model.Profiles[v.Profile]) }) {
		return 0
	}
	done := s.TryVariants(ways, want, func(id, want int) int { return s.PlaceOnNodes(k, s.Model.Profiles[id], want) })
	for done < want {
		n := 0
		if s.KeepPrices {
			n = s.TryVariants(ways, want-done, func(id, want int) int { return s.joinBins(k, id, want) })
		} else {
			n = s.TryVariants(ways, want-done, func(id, want int) int { return s.PlaceInBins(k, id, want) })
		}
		if n == 0 {
			lost := s.WaitsForReserved // a planned node would lose its reservation: another may not
			s.WaitsForReserved = false
			n = s.OpenBin(k, ways, want-done)
			s.WaitsForReserved = s.WaitsForReserved || n == 0 && lost
		}
		if n == 0 && s.KeepPrices {
			n = s.TryVariants(ways, want-done, func(id, want int) int { return s.PlaceInBins(k, id, want) })
		}
		if n == 0 {
			break
		}
		done += n
		if s.ShouldStop() {
			break
		}
		if done < want { // changes elsewhere may allow more pods in other domains
			done += s.TryVariants(ways, want-done, func(id, want int) int {
				if !s.Model.Profiles[id].HasZoneRules {
					return 0
				}
				return s.PlaceOnNodes(k, s.Model.Profiles[id], want)
			})
		}
	}
	return done
}

// TryVariants places pods with one variant after another, and returns how many.
func (s *State) TryVariants(ways []model.Variant, want int, place func(profileID, want int) int) int {
	done := 0
	for i := range ways {
		if done < want {
			done += place(ways[i].Profile, want-done)
		}
	}
	return done
}

// hasAffinityTargets reports whether any pod runs or is placed that a pod has an affinity to. This check keeps long
// chains of affinity from examining every node in every round.
func (s *State) hasAffinityTargets(p *model.Profile) bool {
	for i := range p.Affinity {
		r := &p.Affinity[i]
		if r.Self {
			continue
		}
		if s.Model.Groups[r.Group].PerHost {
			if s.hostTotals[r.Group] == 0 {
				return false
			}
		} else if !slices.ContainsFunc(s.Selected[r.Group], func(n int32) bool { return n > 0 }) {
			return false
		}
	}
	return true
}

// PlaceOnNodes places pods on existing nodes, in order.
func (s *State) PlaceOnNodes(k int, p *model.Profile, want int) int {
	m, done := s.Model, 0
	c := &m.Classes[k]
	cpu, memory := c.Requests[0], c.Requests[1]
	for again := true; again && done < want; {
		again = false
		for n := 0; n < len(m.Nodes) && done < want; n++ {
			if n%BlockSize == 0 {
				for n < len(m.Nodes) && (s.BlockMax[2*(n/BlockSize)] < cpu || s.BlockMax[2*(n/BlockSize)+1] < memory) {
					n += BlockSize
				}
				if n >= len(m.Nodes) {
					break
				}
			}
			got := s.FitOnNode(c, p, n, want-done)
			if got == 0 {
				continue
			}
			s.PutOnNode(k, p, n, got)
			done += got
			shares := len(c.SharedClaims) > 0 || len(c.Shape.Devices) > 0
			again = again || p.HasZoneRules || shares || len(p.Affinity) > 0
			if shares && done < want {
				n-- // the next pod shares the claims that this one attached
			}
		}
	}
	return done
}

// PlaceInBins places pods on planned nodes.
func (s *State) PlaceInBins(k, profileID, want int) int {
	p, c, done := s.Model.Profiles[profileID], &s.Model.Classes[k], 0
	for i := 0; i < len(s.Bins) && done < want; i++ {
		b, place := s.Bins[i], int32(len(s.Model.Nodes)+i)
		for done < want {
			n, f := s.FitInBin(c, p, b, place, want-done)
			if n == 0 {
				break
			}
			s.putInBin(k, profileID, b, place, n, &f)
			done += n
		}
	}
	return done
}

// joinBins places pods on planned nodes where that makes none of them more expensive.
func (s *State) joinBins(k, profileID, want int) int {
	done := 0
	for i := 0; i < len(s.Bins) && done < want; i++ {
		done += s.JoinBin(k, profileID, s.Model.Profiles[profileID].Need, i, want-done)
	}
	return done
}

// OpenBin plans a new node in the first pool that can launch one (SC-20).
func (s *State) OpenBin(k int, ways []model.Variant, want int) int {
	for i := range s.Model.Pools {
		for _, v := range ways {
			if n := s.OpenBinIn(i, k, v.Profile, want); n > 0 {
				s.WaitsForReserved = false // another variant was kept from reserved capacity
				return n
			}
		}
		if s.WaitsForReserved { // lower pools are not tried (SC-46)
			return 0
		}
	}
	return 0
}

// OpenBinIn plans a new node of a pool.
func (s *State) OpenBinIn(poolID, k, profileID, want int) int {
	m := s.Model
	p, c := m.Profiles[profileID], &m.Classes[k]
	b := s.NewBin(poolID, p)
	if b == nil {
		return 0
	}
	place := int32(len(m.Nodes) + len(s.Bins))
	n, f := s.FitInBin(c, p, b, place, want)
	if n == 0 && len(b.Minimums) > 0 && m.Problem.Policy.BestEffortMinimums {
		n, f = s.openBelowMinValues(c, p, b, place)
	}
	if n == 0 {
		return 0
	}
	s.Bins = append(s.Bins, b)
	s.putInBin(k, profileID, b, place, n, &f)
	s.Charge(b)
	return n
}

// NewBin returns a new node of a pool without pods, or nil if the pool cannot launch one for this profile.
func (s *State) NewBin(poolID int, p *model.Profile) *Bin {
	m := s.Model
	pl := &m.Pools[poolID]
	if s.NodesLeft[poolID] <= 0 || !m.Tolerated(p.Tolerations, pl.Taints) {
		return nil
	}
	if f := m.FitPool(p.Need, poolID); !f.OK {
		return nil
	}
	types := s.Affordable(poolID)
	if types.Empty() {
		return nil
	}
	b := &Bin{Pool: poolID, Row: pl.Row.Clone(), Types: types, Columns: pl.Columns, Used: make([]int64, m.Lanes), Largest: make([]int64, m.Lanes), Minimums: pl.Minimums}
	s.UpdateLargest(b)
	return b
}

// openBelowMinValues opens a node although minValues is not met, and lowers minValues to what is available (SC-43).
func (s *State) openBelowMinValues(c *model.Class, p *model.Profile, b *Bin, place int32) (int, Trial) {
	required := b.Minimums
	b.Minimums = nil
	n, f := s.FitInBin(c, p, b, place, 1)
	if n == 0 {
		return 0, f
	}
	pl := &s.Model.Pools[b.Pool]
	for _, least := range required {
		have := s.CountDistinct(pl, &f, least.Key)
		b.relaxed = b.relaxed || have < least.Values
		b.Minimums = append(b.Minimums, model.Minimum{Key: least.Key, Values: min(have, least.Values)})
	}
	return n, f
}

// JoinBin puts pods on a planned node without making it more expensive, and returns how many.
func (s *State) JoinBin(k, profileID, needID, at, want int) int {
	m := s.Model
	b, c, p := s.Bins[at], &m.Classes[k], m.Profiles[profileID]
	lanes := m.CertainLanes(c)
	for _, l := range lanes {
		if b.Used[l]+c.Requests[l] > b.Largest[l] {
			return 0
		}
	}
	if !m.Tolerated(p.Tolerations, m.Pools[b.Pool].Taints) {
		return 0
	}
	t, col := s.cheapestOf(b)
	if t < 0 {
		return 0
	}
	allocatable := m.Pools[b.Pool].Capacity.Allocatable[t*m.Lanes : (t+1)*m.Lanes]
	for _, l := range lanes {
		want = int(min(int64(want), (allocatable[l]-b.Used[l])/c.Requests[l]))
	}
	place := int32(len(m.Nodes) + at)
	if want <= 0 {
		return 0
	}
	if want = s.allowedInBin(c, p, place, want); want <= 0 {
		return 0
	}
	f := s.BeginTrial(b)
	if !s.Require(&f, b, needID) || !f.Types.Has(t) || !f.Columns.Has(col) {
		return 0
	}
	if p.HasZoneRules && needID == p.Need { // no domain was assigned to it
		if want = s.ChooseDomains(p, b, &f, want); want <= 0 {
			return 0
		}
	}
	n := s.FitTypes(c, b, &f, want)
	if n == 0 || !f.Types.Has(t) || !f.Columns.Has(col) {
		return 0
	}
	s.putInBin(k, profileID, b, place, n, &f)
	return n
}

// cheapestOf returns the cheapest type of a planned node and its column.
func (s *State) cheapestOf(b *Bin) (t, col int) {
	if b.cheapestType >= 0 {
		return b.cheapestType, b.cheapestColumn
	}
	cat := s.Model.Catalogues[s.Model.Pools[b.Pool].Catalogue]
	cols := s.LaunchColumns(b)
	t, col = -1, -1
	best := 0.0
	for i := b.Types.Next(0); i >= 0; i = b.Types.Next(i + 1) {
		if p, at := cat.Cheapest(i, cols); at >= 0 && (t < 0 || p < best) {
			t, col, best = i, at, p
		}
	}
	b.cheapestType, b.cheapestColumn = t, col
	return t, col
}
