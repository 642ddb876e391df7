package solve

import "slices"

// greedy places every pod exactly as the rules say, class by class: existing nodes first, then nodes
// planned so far, then new ones (SC-17, SC-18). It is the baseline that every other way is measured
// against, and what finishes the pods that the faster ways leave. left says how many pods of each
// class are still to be placed, and is what remains when it returns.
func (s *state) greedy(left []int) {
	for progress := true; progress; {
		progress = false
		for k := range left {
			if left[k] == 0 {
				continue
			}
			if s.shouldStop() {
				return
			}
			n := s.relax(k, left[k])
			left[k] -= n
			progress = progress || n > 0
		}
	}
}

// relax places pods of a class, relaxing preferences one by one for those that are unschedulable (SC-14).
func (s *state) relax(k, want int) int {
	done := 0
	c := &s.m.classes[k]
	if len(c.shape.Invalid) > 0 || c.shape.Refuses {
		return 0
	}
	for first := 0; first < len(c.variants); {
		next := c.step(first)
		s.deferred = false
		done += s.place(k, c.variants[first:next], want-done)
		if done == want || s.deferred || s.stopped { // reserved capacity is waited for, not relaxed (SC-15)
			break
		}
		first = next
	}
	return done
}

// step returns where the variants of the step of relaxation end that begins at first.
func (c *class) step(first int) int {
	next := first + 1
	for next < len(c.variants) && c.variants[next].step == c.variants[first].step {
		next++
	}
	return next
}

// place places up to want pods of a class at one step of relaxation, at each kind of place in any of
// the ways there are: which volumes' zone it is matters less than whether a node must be bought.
func (s *state) place(k int, ways []variant, want int) int {
	if !slices.ContainsFunc(ways, func(v variant) bool { return s.followed(s.m.profiles[v.profile]) }) {
		return 0
	}
	done := s.tryVariants(ways, want, func(id, want int) int { return s.onNodes(k, s.m.profiles[id], want) })
	for done < want {
		n := 0
		if s.avoidDearer {
			n = s.tryVariants(ways, want-done, func(id, want int) int { return s.joinBins(k, id, want) })
		} else {
			n = s.tryVariants(ways, want-done, func(id, want int) int { return s.inBins(k, id, want) })
		}
		if n == 0 {
			lost := s.deferred // a planned node would lose its reservation: another may not
			s.deferred = false
			n = s.openBin(k, ways, want-done)
			s.deferred = s.deferred || n == 0 && lost
		}
		if n == 0 && s.avoidDearer {
			n = s.tryVariants(ways, want-done, func(id, want int) int { return s.inBins(k, id, want) })
		}
		if n == 0 {
			break
		}
		done += n
		if s.shouldStop() {
			break
		}
		if done < want { // what changed elsewhere may have made room in other domains
			done += s.tryVariants(ways, want-done, func(id, want int) int {
				if !s.m.profiles[id].zoned {
					return 0
				}
				return s.onNodes(k, s.m.profiles[id], want)
			})
		}
	}
	return done
}

// tryVariants places pods in one way after another, and returns how many.
func (s *state) tryVariants(ways []variant, want int, place func(profileID, want int) int) int {
	done := 0
	for i := range ways {
		if done < want {
			done += place(ways[i].profile, want-done)
		}
	}
	return done
}

// followed reports whether the pods that a pod must be near are anywhere yet. Asking this first keeps
// long chains of affinity from looking at every node in every round.
func (s *state) followed(p *profile) bool {
	for i := range p.near {
		r := &p.near[i]
		if r.self {
			continue
		}
		if s.m.groups[r.group].host {
			if s.total[r.group] == 0 {
				return false
			}
		} else if !slices.ContainsFunc(s.sel[r.group], func(n int32) bool { return n > 0 }) {
			return false
		}
	}
	return true
}

// onNodes places pods on existing nodes, in order.
func (s *state) onNodes(k int, p *profile, want int) int {
	m, done := s.m, 0
	c := &m.classes[k]
	cpu, memory := c.req[0], c.req[1]
	for again := true; again && done < want; {
		again = false
		for n := 0; n < len(m.nodes) && done < want; n++ {
			if n%block == 0 {
				for n < len(m.nodes) && (s.top[2*(n/block)] < cpu || s.top[2*(n/block)+1] < memory) {
					n += block
				}
				if n >= len(m.nodes) {
					break
				}
			}
			got := s.onNode(c, p, n, want-done)
			if got == 0 {
				continue
			}
			s.takeNode(k, p, n, got)
			done += got
			again = again || p.zoned || len(c.shared) > 0 || len(p.near) > 0
			if len(c.shared) > 0 && done < want {
				n-- // the next pod shares what this one attached
			}
		}
	}
	return done
}

// inBins places pods on nodes planned so far.
func (s *state) inBins(k, profileID, want int) int {
	p, c, done := s.m.profiles[profileID], &s.m.classes[k], 0
	for i := 0; i < len(s.bins) && done < want; i++ {
		b, place := s.bins[i], int32(len(s.m.nodes)+i)
		for done < want {
			n, f := s.inBin(c, p, b, place, want-done)
			if n == 0 {
				break
			}
			s.takeBin(k, profileID, b, place, n, &f)
			done += n
		}
	}
	return done
}

// joinBins places pods on nodes planned so far where that makes none of them dearer.
func (s *state) joinBins(k, profileID, want int) int {
	done := 0
	for i := 0; i < len(s.bins) && done < want; i++ {
		done += s.join(k, profileID, s.m.profiles[profileID].need, i, want-done)
	}
	return done
}

// openBin plans a new node in the first pool that can offer one (SC-20).
func (s *state) openBin(k int, ways []variant, want int) int {
	for i := range s.m.pools {
		for _, v := range ways {
			if n := s.openIn(i, k, v.profile, want); n > 0 {
				s.deferred = false // another way was kept from reserved capacity
				return n
			}
		}
		if s.deferred { // lower pools are not tried (SC-46)
			return 0
		}
	}
	return 0
}

// openIn plans a new node of a pool.
func (s *state) openIn(poolID, k, profileID, want int) int {
	m := s.m
	p, c := m.profiles[profileID], &m.classes[k]
	b := s.blank(poolID, p)
	if b == nil {
		return 0
	}
	place := int32(len(m.nodes) + len(s.bins))
	n, f := s.inBin(c, p, b, place, want)
	if n == 0 && len(b.minimum) > 0 && m.problem.Policy.BestEffortMinimums {
		n, f = s.openBelowMinValues(c, p, b, place)
	}
	if n == 0 {
		return 0
	}
	s.bins = append(s.bins, b)
	s.takeBin(k, profileID, b, place, n, &f)
	s.charge(b)
	return n
}

// blank is a new node of a pool before any pod is on it, or nil if the pool cannot have one for this
// profile.
func (s *state) blank(poolID int, p *profile) *bin {
	m := s.m
	pl := &m.pools[poolID]
	if s.nodesLeft[poolID] <= 0 || !m.tolerated(p.tol, pl.taints) {
		return nil
	}
	if f := m.fits(p.need, poolID); !f.ok {
		return nil
	}
	types := s.affordable(poolID)
	if types.empty() {
		return nil
	}
	b := &bin{pool: poolID, row: pl.row.Clone(), types: types, cols: pl.cols, used: make([]int64, m.lanes), top: make([]int64, m.lanes), minimum: pl.minimums}
	s.measure(b)
	return b
}

// affordable returns the types of a pool that its limits still allow.
func (s *state) affordable(poolID int) set {
	m := s.m
	pl := &m.pools[poolID]
	types := pl.types.clone()
	cat := m.catalogues[pl.catalogue]
	for i, l := range pl.limits {
		for t := types.next(0); t >= 0; t = types.next(t + 1) {
			if cat.cap[t*m.lanes+l.lane] > s.limits[poolID][i] {
				types.drop(t)
			}
		}
	}
	return types
}

// charge takes the largest a new node could turn out to be off the limits of its pool.
func (s *state) charge(b *bin) {
	m := s.m
	pl := &m.pools[b.pool]
	cat := m.catalogues[pl.catalogue]
	s.nodesLeft[b.pool]--
	for i, l := range pl.limits {
		most := int64(0)
		for t := b.types.next(0); t >= 0; t = b.types.next(t + 1) {
			most = max(most, cat.cap[t*m.lanes+l.lane])
		}
		s.limits[b.pool][i] -= most
	}
}

// openBelowMinValues opens a node although minValues is not met, and demands of it what there is (SC-43).
func (s *state) openBelowMinValues(c *class, p *profile, b *bin, place int32) (int, frame) {
	asked := b.minimum
	b.minimum = nil
	n, f := s.inBin(c, p, b, place, 1)
	if n == 0 {
		return 0, f
	}
	pl := &s.m.pools[b.pool]
	for _, least := range asked {
		have := s.distinct(pl, &f, least.key)
		b.relaxed = b.relaxed || have < least.values
		b.minimum = append(b.minimum, minimum{least.key, min(have, least.values)})
	}
	return n, f
}

// remaining is how many pods of each class are to be placed at first.
func (m *model) remaining() []int {
	left := make([]int, len(m.classes))
	for k := range left {
		left[k] = len(m.classes[k].pods)
	}
	return left
}

// sum adds up counts.
func sum(counts []int) int {
	n := 0
	for _, c := range counts {
		n += c
	}
	return n
}
