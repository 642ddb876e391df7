package consolidate

import (
	"cmp"
	"maps"
	"slices"

	"github.com/dovetail-sh/dovetail/internal/solve/bitset"
	"github.com/dovetail-sh/dovetail/internal/solve/exact"
	"github.com/dovetail-sh/dovetail/internal/solve/model"
)

const (
	// simplePairs and simpleMany are how many of the most wasteful nodes are tried in pairs, and all together.
	simplePairs, simpleMany = 24, 50
	// fairStep is what a step must save for each pod it moves where there are many nodes, as a share of what a pod
	// costs on average. With less, a day of churn takes a fifth more evictions for half a percent of the bill (decision 0012).
	fairStep = 0.5
)

// searchStrategy is an order in which steps are tried.
type searchStrategy struct {
	small  bool // nodes with few pods are tried first, otherwise those with the most waste
	single bool // one step, then the search starts again
	fresh  bool // pods are placed on the new node rather than on existing ones
	loose  bool // a step may be unstable if it saves even then
}

// stepper searches steps: nodes are deleted, or replaced by one node, one at a time, in pairs, and many at once. Each
// step is placed exactly, pod by pod, on the cluster that the steps before it leave.
type stepper struct {
	*mover
	searchStrategy

	forecast        *forecast // nil: any saving is worth any move
	left            *allowance
	removedPerPool  map[string]int // nodes removed from each pool
	steps           []Move
	minPerPod       float64 // least saving of a step for each pod, USD an hour
	risk            float64 // USD an hour that unstable steps may cost again
	droppedUnstable bool    // some step was left out only because the scheduler would undo it
}

// searchSteps searches for steps. Each depends on those before it.
func (g *compiledCluster) searchSteps(how searchStrategy, stop func() bool) *stepper {
	w := g.newStepper(how, stop)
	w.takeSteps()
	return w
}

func (g *compiledCluster) newStepper(how searchStrategy, stop func() bool) *stepper {
	w := &stepper{mover: g.newMover(g.model.Fork(), nil, stop), searchStrategy: how, removedPerPool: map[string]int{}}
	w.state.KeepPrices = false // at most one node is launched, so it has to grow
	w.left = newAllowance(w.model)
	if !w.model.Problem.Policy.Eager {
		w.forecast = g.forecast(stop)
	}
	if list := w.nodesByWaste(); len(list) > descendUpTo && !w.model.Problem.Policy.AnySaving { // few nodes have a floor, many have swaps
		w.minPerPod = w.minSavingPerPod(list, fairStep)
	}
	return w
}

func (w *stepper) takeSteps() {
	list := w.nodesByWaste()
	if w.small {
		slices.SortStableFunc(list, func(a, b int) int {
			return cmp.Or(cmp.Compare(len(w.pods[a]), len(w.pods[b])), cmp.Compare(w.model.Nodes[a].Source.Name, w.model.Nodes[b].Source.Name))
		})
	}
	for i, n := range list[:min(len(list), maxSingles)] {
		w.tryStep(n)
		w.recordUnreached(list, i)
	}
	if len(w.steps) > 0 || len(list) > simpleUpTo { // swaps are searched among more nodes, and faster
		return
	}
	for i, a := range list[:min(len(list), simplePairs)] {
		for _, b := range list[:i] {
			w.tryStep(b, a)
		}
	}
	if len(w.steps) > 0 {
		return
	}
	w.tryMany(list)
	byZone := map[string][]int{}
	for _, n := range list {
		byZone[w.model.Nodes[n].Source.Zone] = append(byZone[w.model.Nodes[n].Source.Zone], n)
	}
	for _, zone := range slices.Sorted(maps.Keys(byZone)) {
		w.tryMany(byZone[zone])
	}
}

// recordUnreached records, once time is up, the pools of which no node was tried before the i-th of a list.
func (v *mover) recordUnreached(list []int, i int) {
	if !v.state.Stopped || v.unreached != nil {
		return
	}
	tried, late := map[string]bool{}, map[string]bool{}
	for at, n := range list {
		if pool := v.model.Nodes[n].Source.Pool; at < i {
			tried[pool] = true
		} else if !tried[pool] {
			late[pool] = true
		}
	}
	v.unreached = slices.Sorted(maps.Keys(late))
}

// nodesByWaste lists the nodes that could be removed, those first that waste most for each pod on them. Pools that an
// earlier search had no time for come before all others.
func (v *mover) nodesByWaste() []int {
	var list []int
	for n, may := range v.removable {
		if may && v.price[n] > 0 {
			list = append(list, n)
		}
	}
	waste := func(n int) float64 { return (v.price[n] - v.worth[n]) / float64(1+len(v.pods[n])) }
	late := func(n int) int { return bitset.Bit(v.poolsFirst[v.model.Nodes[n].Source.Pool]) }
	slices.SortStableFunc(list, func(a, b int) int { return cmp.Or(cmp.Compare(late(b), late(a)), cmp.Compare(waste(b), waste(a))) })
	return list
}

// tryMany tries to remove as many as possible of the first nodes of a list together.
func (w *stepper) tryMany(list []int) {
	for n := min(len(list), simpleMany); n > 2; n -= 1 + n/10 {
		if w.tryStep(list[:n]...) {
			return
		}
	}
}

// tryStep makes a step if it is allowed and worth it.
func (w *stepper) tryStep(nodes ...int) bool {
	if w.single && len(w.steps) > 0 || w.state.ShouldStop() || !w.withinRemovalLimits(nodes) {
		return false
	}
	g := w.newRemovalSet(nodes)
	if w.removalTooExpensive(g) {
		return false
	}
	for _, fresh := range []bool{w.fresh, !w.fresh} {
		s := w.placeElsewhere(g, fresh)
		if s == nil {
			continue
		}
		if m := w.moveOf(s, g); m != nil {
			w.acceptStep(s, nodes, m)
			return true
		}
	}
	return false
}

// withinRemovalLimits reports whether nodes may be removed: none has received pods or is removed already, and the
// limit of each pool holds.
func (w *stepper) withinRemovalLimits(nodes []int) bool {
	for i, n := range nodes {
		pool := w.model.Nodes[n].Source.Pool
		if most, limited := w.maxRemovals[pool]; limited && w.removedPerPool[pool]+countOfPool(w.model, pool, nodes[:i+1]) > most {
			w.trimmed = true
			return false
		}
		if w.removed[n] || w.receives[n] {
			return false
		}
	}
	return true
}

// countOfPool counts the nodes of a list that belong to a pool.
func countOfPool(m *model.Model, pool string, nodes []int) (count int) {
	for _, n := range nodes {
		if m.Nodes[n].Source.Pool == pool {
			count++
		}
	}
	return count
}

// removalSet is nodes that may be removed together.
type removalSet struct {
	nodes   []int
	price   float64
	pods    int
	classes []int     // classes of their pods, in the order of the queue
	of      [][]int32 // pods of each of these classes
}

func (w *stepper) newRemovalSet(nodes []int) *removalSet {
	g := &removalSet{nodes: nodes}
	for _, n := range nodes {
		g.price += w.price[n]
		g.pods += len(w.pods[n])
	}
	pods := make([]int32, 0, g.pods)
	for _, n := range nodes {
		pods = append(pods, w.pods[n]...)
	}
	if len(nodes) > 1 { // the pods of a single node are already in this order
		slices.SortStableFunc(pods, func(a, b int32) int { return cmp.Compare(w.class[a], w.class[b]) })
	}
	for first := 0; first < len(pods); {
		k, next := w.class[pods[first]], first+1
		for next < len(pods) && w.class[pods[next]] == k {
			next++
		}
		g.classes, g.of = append(g.classes, int(k)), append(g.of, pods[first:next:next])
		first = next
	}
	return g
}

// isWorth reports whether the step is worth it with a new node of that price.
func (w *stepper) isWorth(g *removalSet, price float64) bool {
	saves := g.price - price
	if w.allReserved(g.nodes...) { // then the saving is judged by the value of what they free
		return saves > 0
	}
	return w.model.Problem.Policy.Eager || saves >= w.minPerPod*float64(g.pods) && savesEnough(w.model, saves, g.price, g.pods)
}

// placeElsewhere returns the state after the pods of nodes were placed elsewhere, with at most one new node. It
// returns nil if they cannot be placed, or if the new node is too expensive. Existing nodes are tried first, or, if
// fresh, the new one.
func (w *stepper) placeElsewhere(g *removalSet, fresh bool) *exact.State {
	s := w.state.Clone()
	if w.allReserved(g.nodes...) {
		w.closePaidNodes(s)
	}
	for _, n := range g.nodes {
		s.CloseNode(n)
		s.ReleaseLimits(n)
		s.AddNodeCounts(n, -1)
	}
	left := make([]int, len(g.classes))
	for i, k := range g.classes {
		left[i] = len(g.of[i])
		if fresh {
			left[i] -= placeOnOneNewNode(s, k, left[i])
			if w.tooExpensive(s, g) {
				return nil
			}
		}
	}
	for progress := true; progress && model.SumCounts(left) > 0; {
		progress = false
		for i, k := range g.classes {
			if left[i] == 0 {
				continue
			}
			n := s.PlaceClass(k, left[i])
			left[i] -= n
			progress = progress || n > 0
			if len(s.Bins) > 1 || s.Stopped || n > 0 && w.tooExpensive(s, g) {
				return nil
			}
		}
	}
	if model.SumCounts(left) > 0 {
		return nil
	}
	return s
}

// tooExpensive reports whether the new node costs too much already: with more pods it never costs less.
func (w *stepper) tooExpensive(s *exact.State, g *removalSet) bool {
	return len(s.Bins) > 0 && !w.isWorth(g, s.LeastPrice(s.Bins[0], s.Bins[0].Columns))
}

// placeOnOneNewNode puts pods of a class on the one new node, and returns how many.
func placeOnOneNewNode(s *exact.State, k, want int) int {
	c := &s.Model.Classes[k]
	if len(c.Variants) == 0 {
		return 0
	}
	ways := c.Variants[:c.EndOfStep(0)]
	done := 0
	if len(s.Bins) == 0 {
		done = s.OpenBin(k, ways, want)
	}
	if len(s.Bins) == 1 && done < want {
		done += s.TryVariants(ways, want-done, func(id, want int) int { return s.PlaceInBins(k, id, want) })
	}
	return done
}

// moveOf returns a step as a move, or nil if it is not worth it or the scheduler would undo it.
func (w *stepper) moveOf(s *exact.State, g *removalSet) *Move {
	if len(s.Bins) > 0 && !w.isWorth(g, s.LeastPrice(s.Bins[0], s.LaunchColumns(s.Bins[0]))) {
		return nil
	}
	v := *w.mover
	v.state, v.removed = s, make([]bool, len(w.removed))
	for _, n := range g.nodes {
		v.removed[n] = true
	}
	for i, k := range g.classes {
		w.model.Classes[k].Pods = g.of[i]
	}
	left := w.left.clone()
	moves := v.groupIntoMoves(left)
	for _, k := range g.classes {
		w.model.Classes[k].Pods = nil
	}
	if len(moves) != 1 || len(moves[0].Remove) != len(g.nodes) {
		return nil
	}
	if len(moves[0].Create) > 0 && moves[0].Frees > 0 && moves[0].Frees < w.minPerPod*float64(g.pods) {
		return nil
	}
	if w.forecast != nil {
		risk, lasts := w.forecast.isStable(&moves[0], w.loose)
		if !lasts {
			w.droppedUnstable = !w.loose
			return nil
		}
		w.risk += risk
	}
	w.left = left
	return &moves[0]
}

// acceptStep continues with the cluster after a step. Its new nodes take no pods of later steps.
func (w *stepper) acceptStep(s *exact.State, nodes []int, m *Move) {
	for _, n := range nodes {
		w.removed[n] = true
		w.removedPerPool[w.model.Nodes[n].Source.Pool]++
	}
	for _, b := range m.Bind {
		w.receives[w.byName[b.Node]] = true
	}
	newNode := int32(len(w.model.Nodes))
	maps.DeleteFunc(s.HostCounts, func(at model.HostKey, _ model.HostCount) bool { return at.Node >= newNode })
	delete(s.Ports, newNode)
	delete(s.Claims, newNode)
	s.SealDevices()
	s.Bins, s.Placed = nil, nil
	if w.allReserved(nodes...) {
		w.reopenPaidNodes(s, w.state)
	}
	w.state = s
	w.steps = append(w.steps, *m)
}
