package solve

import (
	"cmp"
	"maps"
	"slices"

	"github.com/dovetail-sh/dovetail/internal/cluster"
)

// plannedPlacement is a class of pods and the node that an earlier plan placed them on.
type plannedPlacement struct{ class, node int }

// placePlannedPods puts pods where an earlier plan put them, as far as the rules still allow that. A node that is
// still being launched is just as large as what was planned for it: pods that are packed onto such
// nodes in another way need not all fit, and those that do not would cause a node too many (G8).
// Rules over domains allow some pods only after others, so each node gets a few at a time, and nodes of
// different domains take turns: then a few rounds are enough.
func (s *state) placePlannedPods(left []int) {
	wanted := make(map[plannedPlacement]int, len(s.m.plannedPods))
	for p, pods := range s.m.plannedPods {
		wanted[p] = len(pods)
	}
	rank := s.m.ranks()
	order := slices.SortedFunc(maps.Keys(wanted), func(a, b plannedPlacement) int {
		return cmp.Or(cmp.Compare(a.class, b.class), cmp.Compare(rank[a.node], rank[b.node]), cmp.Compare(a.node, b.node))
	})
	for progress := true; progress; {
		progress = false
		open := order[:0]
		for _, p := range order {
			if s.shouldStop() {
				return
			}
			n := s.placePlannedOnNode(p, min(wanted[p], left[p.class]))
			wanted[p] -= n
			left[p.class] -= n
			progress = progress || n > 0
			if wanted[p] > 0 {
				open = append(open, p)
			}
		}
		order = open
	}
}

// ranks numbers the nodes that are alike: the first of each kind has 0, the second 1.
func (m *model) ranks() []int {
	rank, seen := make([]int, len(m.nodes)), map[int]int{}
	for n := range m.nodes {
		sign := m.nodes[n].sign
		rank[n] = seen[sign]
		seen[sign]++
	}
	return rank
}

// placePlannedOnNode puts pods of a class on a node with as few preferences relaxed as possible, and returns how many.
func (s *state) placePlannedOnNode(at plannedPlacement, want int) int {
	c := &s.m.classes[at.class]
	if want == 0 || len(c.shape.Invalid) > 0 || c.shape.Refuses {
		return 0
	}
	for _, v := range c.variants {
		p := s.m.profiles[v.profile]
		if !s.followed(p) {
			continue
		}
		if n := s.onNode(c, p, at.node, want); n > 0 {
			s.takeNode(at.class, p, at.node, n)
			return n
		}
	}
	return 0
}

// readPlannedBinds finds the pods of each class that an earlier plan placed on each node, in queue order.
func (m *model) readPlannedBinds() {
	if len(m.problem.PlannedBinds) == 0 {
		return
	}
	nodes := make(map[string]int, len(m.nodes))
	for n := range m.nodes {
		nodes[m.nodes[n].src.Name] = n
	}
	places := make(map[cluster.PodKey]int, len(m.problem.PlannedBinds))
	for _, b := range m.problem.PlannedBinds {
		if n, there := nodes[b.Node]; there {
			places[b.Pod] = n
		}
	}
	m.plannedPods = map[plannedPlacement][]int32{}
	for k := range m.classes {
		for _, p := range m.classes[k].pods {
			if n, planned := places[m.pods[p].Key]; planned {
				m.plannedPods[plannedPlacement{k, n}] = append(m.plannedPods[plannedPlacement{k, n}], p)
			}
		}
	}
}

// assignPods says which pods of the classes go where: one list for each entry of state.placed, and for each
// class those that go nowhere. A node gets the pods that an earlier plan placed there before equal ones, so
// that what was recorded and reported about pending pods stays true.
func (s *state) assignPods() (given, rest [][]int32) {
	given, rest = make([][]int32, len(s.placed)), make([][]int32, len(s.m.classes))
	taken := s.assignPlannedPods(given)
	for k := range rest {
		rest[k] = s.m.classes[k].pods
		if len(taken) > 0 {
			rest[k] = slices.DeleteFunc(slices.Clone(rest[k]), func(p int32) bool { return taken[p] })
		}
	}
	for i, at := range s.placed {
		n := int(at.count) - len(given[i])
		if len(given[i]) == 0 {
			given[i] = rest[at.class][:n:n]
		} else {
			given[i] = append(given[i], rest[at.class][:n]...)
		}
		rest[at.class] = rest[at.class][n:]
	}
	return given, rest
}

// assignPlannedPods gives nodes the pods that an earlier plan placed there, and returns those pods.
func (s *state) assignPlannedPods(given [][]int32) map[int32]bool {
	if len(s.m.plannedPods) == 0 {
		return nil
	}
	taken, used := map[int32]bool{}, map[plannedPlacement]int{}
	for i, at := range s.placed {
		key := plannedPlacement{int(at.class), int(at.place)}
		own := s.m.plannedPods[key]
		own = own[used[key]:]
		n := min(len(own), int(at.count))
		given[i] = slices.Clone(own[:n])
		used[key] += n
		for _, p := range given[i] {
			taken[p] = true
		}
	}
	return taken
}
