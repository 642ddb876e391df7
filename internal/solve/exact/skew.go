package exact

import "github.com/dovetail-sh/dovetail/internal/solve/model"

// ViolatesSpread reports whether a spread constraint of a placed pod does not hold. Pods placed as counts are spread
// by quotas, which hold once all of them are placed.
func (s *State) ViolatesSpread() bool {
	m := s.Model
	added := make([][]int32, len(m.Groups))
	for id, g := range m.Groups {
		added[id] = make([]int32, len(g.Selected))
		for v := range g.Selected {
			added[id][v] = s.Selected[id][v] - g.Selected[v]
		}
	}
	seen := map[int32]bool{}
	for _, b := range s.Bins {
		for _, h := range b.Pods {
			if seen[h.Profile] {
				continue
			}
			seen[h.Profile] = true
			p := m.Profiles[h.Profile]
			for i := range p.Spread {
				if r := &p.Spread[i]; !m.Groups[r.Group].PerHost && r.Self && s.exceedsSkew(r, added[r.Group]) {
					return true
				}
			}
		}
	}
	return false
}

// exceedsSkew reports whether a domain that got pods has too many of them.
func (s *State) exceedsSkew(r *model.SpreadRule, added []int32) bool {
	least := s.leastCount(r)
	for v := r.Eligible.Next(0); v >= 0; v = r.Eligible.Next(v + 1) {
		if added[v] > 0 && s.Selected[r.Group][v]-least > r.Skew {
			return true
		}
	}
	return false
}
