package solve

import (
	"cmp"
	"maps"
	"math"
	"slices"
)

const (
	// simplePairs and simpleMany are how many of the most wasteful nodes are tried in twos, and all together.
	simplePairs, simpleMany = 24, 50
	// fairStep is what a step must save for each pod it moves where there are many nodes, as a share of what a pod
	// costs on average. With less, a day of churn takes a fifth more evictions for half a percent of the bill (decision 0012).
	fairStep = 0.5
)

// searchStrategy is an order in which steps are tried.
type searchStrategy struct {
	small  bool // nodes with few pods are tried first, otherwise those with the most waste
	single bool // one step, and then all over again
	fresh  bool // pods go to the new node rather than to those that exist
	loose  bool // a step need not last if it saves even when it does not
}

// stepper is the simple way: nodes are deleted, or replaced by one node, one at a time, two at a time, and many
// at once. Each step is placed exactly, pod by pod, on the cluster that the steps before it leave.
type stepper struct {
	*mover
	searchStrategy

	forecast        *forecast // nil: any saving is worth any move
	left            *allowance
	removedPerPool  map[string]int // nodes of each pool
	steps           []Move
	fair            float64 // USD an hour that a step saves for each pod at least
	risk            float64 // USD an hour that steps which need not last may cost again
	droppedUnstable bool    // some step was left out only because the scheduler would undo it
}

// searchSteps finds moves in the simple way. They depend on those before them.
func (g *compiledCluster) searchSteps(how searchStrategy, stop func() bool) *stepper {
	w := g.newStepper(how, stop)
	w.takeSteps()
	return w
}

func (g *compiledCluster) newStepper(how searchStrategy, stop func() bool) *stepper {
	w := &stepper{mover: g.newMover(g.m.fork(), nil, stop), searchStrategy: how, removedPerPool: map[string]int{}}
	w.s.avoidDearer = false // one node at most is bought, so it has to grow
	w.left = w.m.allowance()
	if !w.m.problem.Policy.Eager {
		w.forecast = g.forecast(stop)
	}
	if list := w.nodesByWaste(); len(list) > descendUpTo && !w.m.problem.Policy.AnySaving { // few nodes have a floor, many have swaps
		w.fair = w.minSavingPerPod(list, fairStep)
	}
	return w
}

func (w *stepper) takeSteps() {
	list := w.nodesByWaste()
	if w.small {
		slices.SortStableFunc(list, func(a, b int) int {
			return cmp.Or(cmp.Compare(len(w.pods[a]), len(w.pods[b])), cmp.Compare(w.m.nodes[a].src.Name, w.m.nodes[b].src.Name))
		})
	}
	for i, n := range list[:min(len(list), alone)] {
		w.try(n)
		w.recordUnreached(list, i)
	}
	if len(w.steps) > 0 || len(list) > simpleUpTo { // swaps are looked for among more, and faster
		return
	}
	for i, a := range list[:min(len(list), simplePairs)] {
		for _, b := range list[:i] {
			w.try(b, a)
		}
	}
	if len(w.steps) > 0 {
		return
	}
	w.tryMany(list)
	byZone := map[string][]int{}
	for _, n := range list {
		byZone[w.m.nodes[n].src.Zone] = append(byZone[w.m.nodes[n].src.Zone], n)
	}
	for _, zone := range slices.Sorted(maps.Keys(byZone)) {
		w.tryMany(byZone[zone])
	}
}

// recordUnreached notes, once time is up, of which pools of a list no node was tried before the i-th.
func (v *mover) recordUnreached(list []int, i int) {
	if !v.s.stopped || v.unreached != nil {
		return
	}
	tried, late := map[string]bool{}, map[string]bool{}
	for at, n := range list {
		if pool := v.m.nodes[n].src.Pool; at < i {
			tried[pool] = true
		} else if !tried[pool] {
			late[pool] = true
		}
	}
	v.unreached = slices.Sorted(maps.Keys(late))
}

// nodesByWaste lists the nodes that could go, those first that waste most for each pod on them. Pools that an earlier
// search had no time for come before all others.
func (v *mover) nodesByWaste() []int {
	var list []int
	for n, may := range v.may {
		if may && v.price[n] > 0 {
			list = append(list, n)
		}
	}
	waste := func(n int) float64 { return (v.price[n] - v.worth[n]) / float64(1+len(v.pods[n])) }
	late := func(n int) int { return boolInt(v.first[v.m.nodes[n].src.Pool]) }
	slices.SortStableFunc(list, func(a, b int) int { return cmp.Or(cmp.Compare(late(b), late(a)), cmp.Compare(waste(b), waste(a))) })
	return list
}

// tryMany tries the first few nodes of a list together, as many as can be.
func (w *stepper) tryMany(list []int) {
	for n := min(len(list), simpleMany); n > 2; n -= 1 + n/10 {
		if w.try(list[:n]...) {
			return
		}
	}
}

// try makes a step if it is allowed and worth it.
func (w *stepper) try(nodes ...int) bool {
	if w.single && len(w.steps) > 0 || w.s.shouldStop() || !w.allowed(nodes) {
		return false
	}
	g := w.newRemovalSet(nodes)
	if w.removalTooExpensive(g) {
		return false
	}
	for _, fresh := range []bool{w.fresh, !w.fresh} {
		s := w.placed(g, fresh)
		if s == nil {
			continue
		}
		if m := w.moveOf(s, g); m != nil {
			w.accept(s, nodes, m)
			return true
		}
	}
	return false
}

// allowed reports whether nodes may go: none has taken in pods or is gone, and there are not too many of a pool.
func (w *stepper) allowed(nodes []int) bool {
	for i, n := range nodes {
		pool := w.m.nodes[n].src.Pool
		if most, limited := w.most[pool]; limited && w.removedPerPool[pool]+w.m.nodesOfPool(pool, nodes[:i+1]) > most {
			w.trimmed = true
			return false
		}
		if w.removed[n] || w.host[n] {
			return false
		}
	}
	return true
}

// nodesOfPool counts the nodes of a list that belong to a pool.
func (m *model) nodesOfPool(pool string, nodes []int) (count int) {
	for _, n := range nodes {
		if m.nodes[n].src.Pool == pool {
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
	classes []int     // of their pods, in the order of the queue
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
	if len(nodes) > 1 { // those of one node are in this order
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

// gains reports whether it is worth it to have a new node for that price instead.
func (w *stepper) gains(g *removalSet, price float64) bool {
	saves := g.price - price
	if w.reserved(g.nodes...) { // how much is worth it is asked of what they free
		return saves > 0
	}
	return w.m.problem.Policy.Eager || saves >= w.fair*float64(g.pods) && w.m.savesEnough(saves, g.price, g.pods)
}

// placed is the state once the pods of nodes have other places, at most one of them new; nil if they have none, or
// if the new one is too dear. They go to existing nodes first, or to the new one first.
func (w *stepper) placed(g *removalSet, fresh bool) *state {
	s := w.s.clone()
	if w.reserved(g.nodes...) {
		w.closePaidNodes(s)
	}
	for _, n := range g.nodes {
		s.markRemoved(n)
		s.releaseLimits(n)
		s.count(n, -1)
	}
	left := make([]int, len(g.classes))
	for i, k := range g.classes {
		left[i] = len(g.of[i])
		if fresh {
			left[i] -= s.intoOne(k, left[i])
			if w.tooDear(s, g) {
				return nil
			}
		}
	}
	for progress := true; progress && sum(left) > 0; {
		progress = false
		for i, k := range g.classes {
			if left[i] == 0 {
				continue
			}
			n := s.relax(k, left[i])
			left[i] -= n
			progress = progress || n > 0
			if len(s.bins) > 1 || s.stopped || n > 0 && w.tooDear(s, g) {
				return nil
			}
		}
	}
	if sum(left) > 0 {
		return nil
	}
	return s
}

// tooDear reports whether the new node costs too much already: with more pods it never costs less.
func (w *stepper) tooDear(s *state, g *removalSet) bool {
	return len(s.bins) > 0 && !w.gains(g, s.cheapest(s.bins[0], s.bins[0].cols))
}

// intoOne puts pods of a class on the one new node, and returns how many.
func (s *state) intoOne(k, want int) int {
	c := &s.m.classes[k]
	if len(c.variants) == 0 {
		return 0
	}
	ways := c.variants[:c.step(0)]
	done := 0
	if len(s.bins) == 0 {
		done = s.openBin(k, ways, want)
	}
	if len(s.bins) == 1 && done < want {
		done += s.tryVariants(ways, want-done, func(id, want int) int { return s.inBins(k, id, want) })
	}
	return done
}

// moveOf is a step as a move, or nil if it is not worth it or would not last.
func (w *stepper) moveOf(s *state, g *removalSet) *Move {
	if len(s.bins) > 0 && !w.gains(g, s.cheapest(s.bins[0], s.launchColumns(s.bins[0]))) {
		return nil
	}
	v := *w.mover
	v.s, v.removed = s, make([]bool, len(w.removed))
	for _, n := range g.nodes {
		v.removed[n] = true
	}
	for i, k := range g.classes {
		w.m.classes[k].pods = g.of[i]
	}
	left := w.left.clone()
	moves := v.groupIntoMoves(left)
	for _, k := range g.classes {
		w.m.classes[k].pods = nil
	}
	if len(moves) != 1 || len(moves[0].Remove) != len(g.nodes) {
		return nil
	}
	if len(moves[0].Create) > 0 && moves[0].Frees > 0 && moves[0].Frees < w.fair*float64(g.pods) {
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

// accept goes on with the cluster after a step. What it buys takes no pods of later ones.
func (w *stepper) accept(s *state, nodes []int, m *Move) {
	for _, n := range nodes {
		w.removed[n] = true
		w.removedPerPool[w.m.nodes[n].src.Pool]++
	}
	for _, b := range m.Bind {
		w.host[w.byName[b.Node]] = true
	}
	bought := int32(len(w.m.nodes))
	maps.DeleteFunc(s.host, func(at hostKey, _ hostCount) bool { return at.node >= bought })
	delete(s.ports, bought)
	delete(s.claims, bought)
	s.bins, s.placed = nil, nil
	if w.reserved(nodes...) {
		w.reopenPaidNodes(s, w.s)
	}
	w.s = s
	w.steps = append(w.steps, *m)
}

// cheapest is what a planned node costs at least, bought in some of its columns.
func (s *state) cheapest(b *bin, cols columns) float64 {
	cat := s.m.catalogues[s.m.pools[b.pool].catalogue]
	for _, t := range cat.order(cols) {
		if b.types.has(int(t)) {
			price, _ := cat.cheapest(int(t), cols)
			return price
		}
	}
	return math.Inf(1)
}

// clone is a state on its own that goes on from here, without the nodes that are planned.
func (s *state) clone() *state {
	c := *s
	c.free, c.top = slices.Clone(s.free), slices.Clone(s.top)
	c.sel, c.own, c.total = cloneAll(s.sel), cloneAll(s.own), slices.Clone(s.total)
	c.host, c.ports, c.claims = maps.Clone(s.host), maps.Clone(s.ports), maps.Clone(s.claims)
	for place, list := range c.ports {
		c.ports[place] = slices.Clip(list)
	}
	for place, list := range c.claims {
		c.claims[place] = slices.Clip(list)
	}
	c.limits, c.nodesLeft, c.reserves = cloneAll(s.limits), slices.Clone(s.nodesLeft), slices.Clone(s.reserves)
	c.nodesByDomain, c.removedDomains = cloneAll(s.nodesByDomain), cloneAll(s.removedDomains)
	c.bins, c.placed, c.banned = nil, nil, nil
	c.row, c.types = s.m.table.NewRow(), nil
	return &c
}

func cloneAll[S ~[]E, E any](lists []S) []S {
	out := make([]S, len(lists))
	for i, list := range lists {
		out[i] = slices.Clone(list)
	}
	return out
}
