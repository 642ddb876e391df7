package exact

import "github.com/dovetail-sh/dovetail/internal/solve/model"

// HostCountAt returns the pods at a place that a group per host counts: bound ones and those placed.
func (s *State) HostCountAt(groupID int, place int32) model.HostCount {
	at := model.HostKey{Group: int32(groupID), Node: place}
	c, base := s.HostCounts[at], s.Model.HostCounts[at]
	return model.HostCount{Selected: c.Selected + base.Selected, Owners: c.Owners + base.Owners}
}

// AllowedOnHost returns how many pods of a profile the rules over hosts allow at a place, at most want.
func (s *State) AllowedOnHost(p *model.Profile, place int32, want int) int {
	for i := range p.Spread {
		r := &p.Spread[i]
		if !s.Model.Groups[r.Group].PerHost {
			continue
		}
		n := s.HostCountAt(r.Group, place).Selected
		if r.Self {
			want = min(want, int(r.Skew-n))
		} else if n > r.Skew {
			return 0
		}
	}
	for i := range p.Affinity {
		r := &p.Affinity[i]
		if !s.Model.Groups[r.Group].PerHost || s.HostCountAt(r.Group, place).Selected > 0 {
			continue
		}
		if !r.Self || s.hostTotals[r.Group] > 0 { // the first of its kind may start anywhere (SC-33)
			return 0
		}
	}
	for i := range p.AntiAffinity {
		r := &p.AntiAffinity[i]
		if !s.Model.Groups[r.Group].PerHost {
			continue
		}
		if s.HostCountAt(r.Group, place).Selected > 0 {
			return 0
		}
		if r.Self {
			want = min(want, 1)
		}
	}
	for _, id := range p.Avoids {
		if s.Model.Groups[id].PerHost && s.HostCountAt(id, place).Owners > 0 {
			return 0
		}
	}
	return max(want, 0)
}

// AllowedInZone is AllowedOnHost for the other keys, at a place whose labels are known.
func (s *State) AllowedInZone(p *model.Profile, values []int32, want int) int {
	for i := range p.Spread {
		r := &p.Spread[i]
		g := s.Model.Groups[r.Group]
		if g.PerHost {
			continue
		}
		v := values[g.Key]
		if v < 0 || !r.Eligible.Has(int(v)) {
			return 0
		}
		want = min(want, s.spreadCapacity(r, int(v)))
	}
	for i := range p.Affinity {
		r := &p.Affinity[i]
		g := s.Model.Groups[r.Group]
		if g.PerHost {
			continue
		}
		v := values[g.Key]
		if v < 0 || s.Selected[r.Group][v] == 0 && !s.MayBeFirst(r) {
			return 0
		}
	}
	for i := range p.AntiAffinity {
		r := &p.AntiAffinity[i]
		g := s.Model.Groups[r.Group]
		if g.PerHost || values[g.Key] == model.Absent { // without the label there is no domain to share
			continue
		}
		if values[g.Key] == model.Open {
			return 0
		}
		if s.Selected[r.Group][values[g.Key]] > 0 {
			return 0
		}
		if r.Self {
			want = min(want, 1)
		}
	}
	for _, id := range p.Avoids {
		if g := s.Model.Groups[id]; !g.PerHost && (values[g.Key] == model.Open || values[g.Key] >= 0 && s.Owners[id][values[g.Key]] > 0) {
			return 0
		}
	}
	return max(want, 0)
}

// spreadCapacity returns how many pods a spread constraint lets into a domain now (SC-32).
func (s *State) spreadCapacity(r *model.SpreadRule, v int) int {
	count := s.Selected[r.Group][v]
	least := s.leastCount(r)
	if !r.Self {
		if count-least > r.Skew {
			return 0
		}
		return model.Unlimited
	}
	return max(0, int(least+r.Skew-count))
}

// leastCount is the smallest count over the domains of a constraint.
func (s *State) leastCount(r *model.SpreadRule) int32 { return s.LeastCountOf(s.Selected[r.Group], r) }

// LeastCountOf is the smallest of some counts over the domains of a spread constraint (SC-32).
func (s *State) LeastCountOf(count []int32, r *model.SpreadRule) int32 {
	low, n := int32(-1), int32(0)
	for v := r.Eligible.Next(0); v >= 0; v = r.Eligible.Next(v + 1) {
		if s.removedDomains == nil || !s.removedDomains[s.Model.Groups[r.Group].Key].Has(v) { // until its node is removed, its count is one of them
			n++
		}
		if low < 0 || count[v] < low {
			low = count[v]
		}
	}
	if low < 0 || n < r.Minimum {
		return 0
	}
	return low
}

// MayBeFirst reports whether a pod with an affinity to its own kind may be the first of them (SC-33).
func (s *State) MayBeFirst(r *model.GroupRule) bool {
	if !r.Self {
		return false
	}
	for v := r.Eligible.Next(0); v >= 0; v = r.Eligible.Next(v + 1) {
		if s.Selected[r.Group][v] > 0 {
			return false
		}
	}
	return true
}
