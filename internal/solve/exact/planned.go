package exact

import (
	"cmp"
	"maps"
	"slices"

	"github.com/dovetail-sh/dovetail/internal/solve/model"
)

// PlacePlannedPods puts pods where an earlier plan put them, if the rules still allow that. A node that is still
// being launched is just large enough for the pods planned for it. If these pods were packed differently, some might
// not fit, and an unnecessary node would be launched for them (G8). Rules over domains allow some pods only after
// others. So each node gets a few pods at a time, and nodes of different domains take turns; then a few rounds are
// enough.
func (s *State) PlacePlannedPods(left []int) {
	wanted := make(map[model.PlannedPlacement]int, len(s.Model.PlannedPods))
	for p, pods := range s.Model.PlannedPods {
		wanted[p] = len(pods)
	}
	rank := s.Model.RanksAmongEqualNodes()
	order := slices.SortedFunc(maps.Keys(wanted), func(a, b model.PlannedPlacement) int {
		return cmp.Or(cmp.Compare(a.Class, b.Class), cmp.Compare(rank[a.Node], rank[b.Node]), cmp.Compare(a.Node, b.Node))
	})
	for progress := true; progress; {
		progress = false
		open := order[:0]
		for _, p := range order {
			if s.ShouldStop() {
				return
			}
			n := s.placePlannedOnNode(p, min(wanted[p], left[p.Class]))
			wanted[p] -= n
			left[p.Class] -= n
			progress = progress || n > 0
			if wanted[p] > 0 {
				open = append(open, p)
			}
		}
		order = open
	}
}

// placePlannedOnNode puts pods of a class on a node with as few preferences relaxed as possible, and returns how many.
func (s *State) placePlannedOnNode(at model.PlannedPlacement, want int) int {
	c := &s.Model.Classes[at.Class]
	if want == 0 || len(c.Shape.Invalid) > 0 || c.Shape.Refuses {
		return 0
	}
	for _, v := range c.Variants {
		p := s.Model.Profiles[v.Profile]
		if !s.hasAffinityTargets(p) {
			continue
		}
		if n := s.FitOnNode(c, p, at.Node, want); n > 0 {
			s.PutOnNode(at.Class, p, at.Node, n)
			return n
		}
	}
	return 0
}

// assignPods decides which pods of the classes are placed where: one list for each entry of State.Placed, and for
// each class the unschedulable pods. A node gets the pods that an earlier plan placed there rather than equal ones,
// so that what was recorded and reported about pending pods stays true.
func (s *State) assignPods() (given, rest [][]int32) {
	given, rest = make([][]int32, len(s.Placed)), make([][]int32, len(s.Model.Classes))
	taken := s.assignPlannedPods(given)
	for k := range rest {
		rest[k] = s.Model.Classes[k].Pods
		if len(taken) > 0 {
			rest[k] = slices.DeleteFunc(slices.Clone(rest[k]), func(p int32) bool { return taken[p] })
		}
	}
	for i, at := range s.Placed {
		n := int(at.Count) - len(given[i])
		if len(given[i]) == 0 {
			given[i] = rest[at.Class][:n:n]
		} else {
			given[i] = append(given[i], rest[at.Class][:n]...)
		}
		rest[at.Class] = rest[at.Class][n:]
	}
	return given, rest
}

// assignPlannedPods gives nodes the pods that an earlier plan placed there, and returns those pods.
func (s *State) assignPlannedPods(given [][]int32) map[int32]bool {
	if len(s.Model.PlannedPods) == 0 {
		return nil
	}
	taken, used := map[int32]bool{}, map[model.PlannedPlacement]int{}
	for i, at := range s.Placed {
		key := model.PlannedPlacement{Class: int(at.Class), Node: int(at.Place)}
		own := s.Model.PlannedPods[key]
		own = own[used[key]:]
		n := min(len(own), int(at.Count))
		given[i] = slices.Clone(own[:n])
		used[key] += n
		for _, p := range given[i] {
			taken[p] = true
		}
	}
	return taken
}
