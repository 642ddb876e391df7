package solve

import (
	"cmp"
	"maps"
	"slices"

	"github.com/dovetail-sh/dovetail/internal/cluster"
)

// promise is that pods of a class go to a node.
type promise struct{ class, node int }

// keep puts pods where an earlier plan put them, as far as the rules still allow that. A node that is
// still being launched is just as large as what was planned for it: pods that are packed onto such
// nodes in another way need not all fit, and those that do not would cause a node too many (G8).
// Rules over domains allow some pods only after others, so each node gets a few at a time, and nodes of
// different domains take turns: then a few rounds are enough.
func (s *state) keep(left []int) {
	wanted := s.m.promises()
	rank := s.m.ranks()
	order := slices.SortedFunc(maps.Keys(wanted), func(a, b promise) int {
		return cmp.Or(cmp.Compare(a.class, b.class), cmp.Compare(rank[a.node], rank[b.node]), cmp.Compare(a.node, b.node))
	})
	for progress := true; progress; {
		progress = false
		open := order[:0]
		for _, p := range order {
			if s.halt() {
				return
			}
			n := s.keepOn(p, min(wanted[p], left[p.class]))
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

// keepOn puts pods of a class on a node with as few wishes given up as possible, and returns how many.
func (s *state) keepOn(at promise, want int) int {
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

// promises counts the pods of each class that were promised each node.
func (m *model) promises() map[promise]int {
	if len(m.problem.Promised) == 0 {
		return nil
	}
	nodes := make(map[string]int, len(m.nodes))
	for n := range m.nodes {
		nodes[m.nodes[n].src.Name] = n
	}
	classes := make(map[cluster.PodKey]int, len(m.pods))
	for k := range m.classes {
		for _, p := range m.classes[k].pods {
			classes[m.pods[p].Key] = k
		}
	}
	out := map[promise]int{}
	for _, b := range m.problem.Promised {
		n, there := nodes[b.Node]
		k, asked := classes[b.Pod]
		if there && asked {
			out[promise{k, n}]++
		}
	}
	return out
}
