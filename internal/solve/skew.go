package solve

// skewed reports whether a spread constraint of a pod that was placed does not hold. Pods placed as
// numbers are spread by quotas, which hold once all of them are placed.
func (s *state) skewed() bool {
	m := s.m
	added := make([][]int32, len(m.groups))
	for id, g := range m.groups {
		added[id] = make([]int32, len(g.sel))
		for v := range g.sel {
			added[id][v] = s.sel[id][v] - g.sel[v]
		}
	}
	seen := map[int32]bool{}
	for _, b := range s.bins {
		for _, h := range b.pods {
			if seen[h.profile] {
				continue
			}
			seen[h.profile] = true
			p := m.profiles[h.profile]
			for i := range p.spread {
				if r := &p.spread[i]; !m.groups[r.group].host && r.self && s.exceedsSkew(r, added[r.group]) {
					return true
				}
			}
		}
	}
	return false
}

// exceedsSkew reports whether a domain that got pods has too many of them.
func (s *state) exceedsSkew(r *spreadRule, added []int32) bool {
	least := s.least(r)
	for v := r.eligible.next(0); v >= 0; v = r.eligible.next(v + 1) {
		if added[v] > 0 && s.sel[r.group][v]-least > r.skew {
			return true
		}
	}
	return false
}
