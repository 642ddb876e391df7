package solve

import (
	"cmp"
	"maps"
	"math"
	"slices"

	"github.com/dovetail-sh/dovetail/internal/cluster"
	"github.com/dovetail-sh/dovetail/internal/reqs"
)

// unplacedDivisor bounds the unplaced pods of a move: one in this many.
const unplacedDivisor = 20

// forecast predicts the outcome of moves. kube-scheduler decides where pods run, and by default it spreads them:
// each pod is bound to the node with the most free resources, whatever was planned. If not all pods of a move fit
// that way, another node has to be launched and the move was useless.
type forecast struct {
	*mover
	share        []float64 // free share of each node, cpu and memory together; below 0: it accepts no pods
	sure         bool      // there is one order in which pods look for a place
	queued       [][]int32 // pods of each node in that order, once they were asked for
	bought       []bought
	changes      []change
	unplacedPods []int32 // pods that fit on no node
}

// bought is a node that moves buy, with what is left of it.
type bought struct {
	pool, kind, col int // col: how it is bought
	left            []int64
	cpu, mem        float64 // shares of the node that a unit is
	values          []int32 // its domains, by key of the table
}

// change is a node that was bought before a pod was put on it.
type change struct {
	at, class, profile, ports int
}

// place is where the scheduler puts a pod: a node, or one that is bought.
type place struct {
	node, bought, profile int
}

func (g *compiledCluster) forecast(stop func() bool) *forecast {
	f := &forecast{mover: g.newMover(g.m.fork(), nil, stop)}
	f.sure = !slices.ContainsFunc(f.m.pods, func(p cluster.Pod) bool { return p.Late || p.Priority != f.m.pods[0].Priority })
	f.share, f.queued = make([]float64, len(f.m.nodes)), make([][]int32, len(f.m.nodes))
	for n := range f.share {
		f.updateFreeShare(n)
	}
	return f
}

// updateFreeShare works out how much of a node is free.
func (f *forecast) updateFreeShare(n int) {
	m := f.m
	if f.removed[n] || m.nodes[n].full {
		f.share[n] = -1
		return
	}
	room := m.nodes[n].src.Allocatable
	f.share[n] = float64(f.s.free[n*m.lanes])/float64(max(1, room.At(0))) + float64(f.s.free[n*m.lanes+1])/float64(max(1, room.At(1)))
}

// stableMoves is one of two lists of moves, without those that the scheduler would undo.
type stableMoves struct {
	moves   []Move
	second  bool // it is the second list
	stopped bool // time was up: moves that were not looked at are left out
}

// selectStableMoves returns those of two lists of moves that save more once those are left out that the scheduler
// would undo.
func (g *compiledCluster) selectStableMoves(one, two []Move, stop func() bool) stableMoves {
	second := saved(two) > saved(one)
	if second {
		one, two = two, one
	}
	if g.m.problem.Policy.Eager {
		return stableMoves{moves: one, second: second}
	}
	one, stopped := g.dropUnstableMoves(one, stop)
	if saved(two) > saved(one) {
		var cut bool
		two, cut = g.dropUnstableMoves(two, stop)
		if stopped = stopped || cut; saved(two) > saved(one) {
			one, second = two, !second
		}
	}
	return stableMoves{one, second, stopped}
}

func (g *compiledCluster) dropUnstableMoves(moves []Move, stop func() bool) (kept []Move, stopped bool) {
	if len(moves) == 0 {
		return nil, false
	}
	f, coupled, broken := g.forecast(stop), g.m.coupled(), false
	kept = slices.DeleteFunc(moves, func(m Move) bool {
		if f.s.shouldStop() || broken && coupled { // moves depend on those before them, so the rest goes too
			return true
		}
		_, lasts := f.isStable(&m, false)
		broken = !lasts
		return broken
	})
	return kept, f.s.stopped
}

// isStable reports whether the pods of a move find a place, or, if loose, whether it saves enough even with more nodes
// for those that do not, and what these cost. If so, moves that are asked about later see the cluster after it.
func (f *forecast) isStable(m *Move, loose bool) (risk float64, lasts bool) {
	before := len(f.bought)
	for i := range m.Create {
		if o, known := f.optionOf(&m.Create[i]); known {
			f.addBoughtNode(o, f.m.rowOf(m.Create[i].Needs))
		}
	}
	nodes, removed := make([]int, 0, len(m.Remove)), 0.0
	for _, name := range m.Remove {
		nodes = append(nodes, f.byName[name])
		removed += f.price[f.byName[name]]
	}
	few := m.Moved / unplacedDivisor
	if m.Frees > 0 { // a node that is bought for a stray costs money, and the move saves none
		few = 0
	}
	may := few
	if loose {
		may = m.Moved
	}
	if f.placeAsScheduler(nodes, may, nil) {
		if len(f.unplacedPods) <= few {
			return 0, true
		}
		risk = f.costOfExtraNodes()
		if f.m.savesEnough(m.Saves-risk, removed, m.Moved) {
			return risk, true
		}
		f.undoPlacement(nodes)
	}
	f.bought = f.bought[:before]
	return 0, false
}

// costOfExtraNodes is about what nodes cost that have to be bought for the pods that found no place: one for those that ask
// for the same labels, or if none is so large one for each.
func (f *forecast) costOfExtraNodes() float64 {
	sums, alone := map[int][]int64{}, map[int]float64{}
	for _, p := range f.unplacedPods {
		k := int(f.class[p])
		c := &f.m.classes[k]
		need := f.m.profiles[c.variants[f.lastMoveStep(k)].profile].need
		if sums[need] == nil {
			sums[need] = make([]int64, f.m.lanes)
		}
		for _, l := range c.asks {
			sums[need][l] += c.req[l]
		}
		alone[need] += f.priceOf(need, c.req)
	}
	total := 0.0
	for _, need := range slices.Sorted(maps.Keys(sums)) {
		total += min(f.priceOf(need, sums[need]), alone[need])
	}
	return total
}

// priceOf is what the cheapest node costs that meets a need and has so much room.
func (f *forecast) priceOf(need int, room []int64) float64 {
	least := math.Inf(1)
	for i := range f.m.pools {
		fit := f.m.fits(need, i)
		if !fit.ok {
			continue
		}
		cat := f.m.catalogues[f.m.pools[i].catalogue]
		for t := fit.types.next(0); t >= 0; t = fit.types.next(t + 1) {
			if price, at := cat.cheapest(t, fit.cols); at >= 0 && price < least && within(room, f.m.capacityFor(option{pool: i, kind: t})) {
				least = price
			}
		}
	}
	return least
}

// optionOf finds what a new node is bought as.
func (f *forecast) optionOf(c *NewNode) (o option, known bool) {
	for i := range f.m.pools {
		pl := &f.m.pools[i]
		if pl.src.Name != c.Pool {
			continue
		}
		cat := f.m.catalogues[pl.catalogue]
		o = option{
			pool: i, kind: slices.IndexFunc(cat.types, func(t item) bool { return t.it.Name == c.Offer.Type }),
			col: slices.IndexFunc(cat.cols, func(x column) bool {
				return x.zone == c.Offer.Zone && x.capacity == c.Offer.CapacityType && x.reservation == c.Offer.Reservation
			}),
		}
		return o, o.kind >= 0 && o.col >= 0
	}
	return option{}, false
}

// addBoughtNode adds a node to those that pods can go to. row says which labels it may have.
func (f *forecast) addBoughtNode(o option, row reqs.Row) {
	m := f.m
	pl, lanes := &m.pools[o.pool], m.lanes
	room, over := pl.rooms.room[o.kind*lanes:(o.kind+1)*lanes], pl.rooms.over[o.kind*lanes:(o.kind+1)*lanes]
	b := bought{pool: o.pool, kind: o.kind, col: o.col, left: slices.Clone(room), values: make([]int32, m.table.Len())}
	b.cpu, b.mem = 1/float64(max(1, b.left[0]+over[0])), 1/float64(max(1, b.left[1]+over[1]))
	var col columns
	col.add(o.col)
	kind := newSet(len(m.catalogues[pl.catalogue].types))
	kind.add(o.kind)
	for k := range b.values {
		b.values[k] = absent
		if m.domains[k].used {
			b.values[k] = int32(m.possible(pl, row, kind, col, reqs.KeyID(k)).next(0)) // if it is open, pods decide
		}
	}
	f.bought = append(f.bought, b)
}

// placeAsScheduler takes nodes away and puts their pods where the scheduler would. It tells of every pod that has
// a place. If more than some have none, all is as it was before.
func (f *forecast) placeAsScheduler(nodes []int, may int, tell func(k int, at place) bool) bool {
	pods := f.podsInDrainOrder(nodes)
	if !f.sure {
		other := slices.Clone(pods)
		if f.sortInDrainOrder(other, true); !slices.Equal(pods, other) {
			if !f.placeInOrder(nodes, other, may, nil) {
				return false
			}
			f.undoPlacement(nodes)
		}
	}
	return f.placeInOrder(nodes, pods, may, tell)
}

// podsInDrainOrder lists the pods of nodes as they look for a place, as far as that is known: as drains evict them, node
// by node, and then those that are late.
func (f *forecast) podsInDrainOrder(nodes []int) (pods []int32) {
	for _, n := range slices.Sorted(slices.Values(nodes)) {
		if f.queued[n] == nil {
			f.queued[n] = slices.Clone(f.pods[n])
			f.sortInDrainOrder(f.queued[n], false)
		}
		pods = append(pods, f.queued[n]...)
	}
	if !f.sure {
		slices.SortStableFunc(pods, func(a, b int32) int { return cmp.Compare(boolInt(f.m.pods[a].Late), boolInt(f.m.pods[b].Late)) })
	}
	return pods
}

// sortInDrainOrder orders pods as a drain evicts them, the largest first, and late ones last. It may also come
// differently: of those that wait at the same time the scheduler takes the one of highest priority, and
// late ones come in any order, of which the smallest first is the worst for the others.
func (f *forecast) sortInDrainOrder(pods []int32, differently bool) {
	slices.SortStableFunc(pods, func(x, y int32) int {
		a, b, size := &f.m.pods[x], &f.m.pods[y], cmp.Compare(f.size(y), f.size(x))
		switch {
		case a.Late != b.Late:
			return cmp.Compare(boolInt(a.Late), boolInt(b.Late))
		case !differently:
			return size
		case a.Late:
			return -size
		}
		return cmp.Or(cmp.Compare(b.Priority, a.Priority), size)
	})
}

// placeInOrder is placeAsScheduler for pods in a given order.
func (f *forecast) placeInOrder(nodes []int, pods []int32, may int, tell func(k int, at place) bool) bool {
	f.undo, f.changes, f.unplacedPods = f.undo[:0], f.changes[:0], f.unplacedPods[:0]
	for _, n := range nodes {
		f.removed[n] = true
		f.updateFreeShare(n)
		f.s.count(n, -1)
	}
	for _, p := range pods {
		k := int(f.class[p])
		at, found := f.placeNextPod(k)
		if found && (tell == nil || tell(k, at)) {
			continue
		}
		f.unplacedPods = append(f.unplacedPods, p)
		if may--; may < 0 || tell != nil {
			f.undoPlacement(nodes)
			return false
		}
	}
	return true
}

// size is how much a pod asks for: a core is as much as 4 GiB.
func (f *forecast) size(p int32) int64 {
	c := &f.m.classes[f.class[p]]
	const memory = 1 << 20
	return c.req[0]*4 + c.req[1]/memory
}

// undoPlacement restores the state before placeAsScheduler.
func (f *forecast) undoPlacement(nodes []int) {
	touched := f.undo
	f.putBack()
	for _, u := range touched {
		f.updateFreeShare(u.node)
	}
	for _, c := range slices.Backward(f.changes) {
		place := int32(len(f.m.nodes) + c.at)
		f.s.note(f.m.profiles[c.profile], place, f.bought[c.at].values, -1, nil, nil)
		f.s.ports[place] = f.s.ports[place][:c.ports]
		for _, l := range f.m.classes[c.class].asks {
			f.bought[c.at].left[l] += f.m.classes[c.class].req[l]
		}
	}
	f.changes = f.changes[:0]
	for _, n := range nodes {
		f.removed[n] = false
		f.updateFreeShare(n)
		f.s.count(n, 1)
	}
}

// placeNextPod places a pod of a class where kube-scheduler would.
func (f *forecast) placeNextPod(k int) (place, bool) {
	c := &f.m.classes[k]
	for _, variant := range c.variants[:f.lastMoveStep(k)+1] {
		p := f.m.profiles[variant.profile]
		node, most := f.nodeWithMostFree(c, p)
		best := -1
		for i := range f.bought {
			b := &f.bought[i]
			if x := float64(b.left[0])*b.cpu + float64(b.left[1])*b.mem; x > most && few(c, b.left, 1) > 0 && f.boughtNodeAllows(p, i) {
				best, most = i, x
			}
		}
		switch {
		case best >= 0:
			b := &f.bought[best]
			at := int32(len(f.m.nodes) + best)
			f.changes = append(f.changes, change{best, k, variant.profile, len(f.s.ports[at])})
			for _, l := range c.asks {
				b.left[l] -= c.req[l]
			}
			f.s.note(p, at, b.values, 1, nil, nil)
			return place{-1, best, variant.profile}, true
		case node >= 0:
			f.takePod(k, variant.profile, node)
			f.updateFreeShare(node)
			return place{node, -1, variant.profile}, true
		}
	}
	return place{}, false
}

// boughtNodeAllows reports whether a node that is bought takes a pod of a profile in, by everything but room.
func (f *forecast) boughtNodeAllows(p *profile, at int) bool {
	b, place := &f.bought[at], int32(len(f.m.nodes)+at)
	fit := f.m.fits(p.need, b.pool)
	if !fit.ok || !fit.types.has(b.kind) || !fit.cols.has(b.col) || !f.m.tolerated(p.tol, f.m.pools[b.pool].taints) || conflicts(p.ports, f.s.ports[place]) {
		return false
	}
	return (!p.hosted || f.s.hostRules(p, place, 1) > 0) && (!p.zoned || f.s.zoneRules(p, b.values, 1) > 0)
}

// nodeWithMostFree returns the node with the most free resources that can take a pod, and its free share.
func (f *forecast) nodeWithMostFree(c *class, p *profile) (best int, most float64) {
	best, most = -1, -1
	for n, x := range f.share {
		if x > most && f.s.onNode(c, p, n, 1) > 0 {
			best, most = n, x
		}
	}
	return best, most
}
