package consolidate

import (
	"cmp"
	"maps"
	"math"
	"slices"

	"github.com/dovetail-sh/dovetail/internal/cluster"
	"github.com/dovetail-sh/dovetail/internal/reqs"
	"github.com/dovetail-sh/dovetail/internal/solve/bitset"
	"github.com/dovetail-sh/dovetail/internal/solve/model"
)

// unplacedDivisor bounds the unplaced pods of a move: one in this many.
const unplacedDivisor = 20

// forecast predicts the outcome of moves. kube-scheduler decides where pods run, and by default it spreads them:
// each pod is bound to the node with the most free resources, whatever was planned. If not all pods of a move fit
// that way, another node has to be launched and the move was useless.
type forecast struct {
	*mover
	freeShare    []float64 // free share of each node, cpu and memory together; below 0: it accepts no pods
	oneOrder     bool      // there is one order in which pods look for a place
	queued       [][]int32 // pods of each node in that order, once they were asked for
	bought       []bought
	changes      []undoneChange
	unplacedPods []int32 // pods that fit on no node
}

// bought is a node that moves buy, with what is left of it.
type bought struct {
	pool, kind, col int // col: how it is bought
	left            []int64
	cpu, mem        float64 // shares of the node that a unit is
	values          []int32 // its domains, by key of the table
}

// undoneChange is a pod that was put on a node that was bought before it, and how many ports that node had.
type undoneChange struct {
	at, class, profile, ports int
}

// target is where the scheduler puts a pod: a node, or one that is bought.
type target struct {
	node, bought, profile int
}

func (g *compiledCluster) forecast(stop func() bool) *forecast {
	f := &forecast{mover: g.newMover(g.model.Fork(), nil, stop)}
	f.oneOrder = !slices.ContainsFunc(f.model.Pods, func(p cluster.Pod) bool { return p.Late || p.Priority != f.model.Pods[0].Priority })
	f.freeShare, f.queued = make([]float64, len(f.model.Nodes)), make([][]int32, len(f.model.Nodes))
	for n := range f.freeShare {
		f.updateFreeShare(n)
	}
	return f
}

// updateFreeShare works out how much of a node is free.
func (f *forecast) updateFreeShare(n int) {
	m := f.model
	if f.removed[n] || m.Nodes[n].Full {
		f.freeShare[n] = -1
		return
	}
	room := m.Nodes[n].Source.Allocatable
	f.freeShare[n] = float64(f.state.Free[n*m.Lanes])/float64(max(1, room.At(0))) + float64(f.state.Free[n*m.Lanes+1])/float64(max(1, room.At(1)))
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
	second := totalSaved(two) > totalSaved(one)
	if second {
		one, two = two, one
	}
	if g.model.Problem.Policy.Eager {
		return stableMoves{moves: one, second: second}
	}
	one, stopped := g.dropUnstableMoves(one, stop)
	if totalSaved(two) > totalSaved(one) {
		var cut bool
		two, cut = g.dropUnstableMoves(two, stop)
		if stopped = stopped || cut; totalSaved(two) > totalSaved(one) {
			one, second = two, !second
		}
	}
	return stableMoves{one, second, stopped}
}

func (g *compiledCluster) dropUnstableMoves(moves []Move, stop func() bool) (kept []Move, stopped bool) {
	if len(moves) == 0 {
		return nil, false
	}
	f, coupled, broken := g.forecast(stop), hasCoupledPods(g.model), false
	kept = slices.DeleteFunc(moves, func(m Move) bool {
		if f.state.ShouldStop() || broken && coupled { // moves depend on those before them, so the rest is dropped too
			return true
		}
		_, lasts := f.isStable(&m, false)
		broken = !lasts
		return broken
	})
	return kept, f.state.Stopped
}

// isStable reports whether the pods of a move find a place, or, if loose, whether it saves enough even with more nodes
// for those that do not, and what these cost. If so, moves that are examined later see the cluster after it.
func (f *forecast) isStable(m *Move, loose bool) (risk float64, lasts bool) {
	before := len(f.bought)
	for i := range m.Create {
		if o, known := f.optionOf(&m.Create[i]); known {
			f.addBoughtNode(o, f.model.RowOf(m.Create[i].Needs))
		}
	}
	nodes, removed := make([]int, 0, len(m.Remove)), 0.0
	for _, name := range m.Remove {
		nodes = append(nodes, f.byName[name])
		removed += f.price[f.byName[name]]
	}
	few := m.Moved / unplacedDivisor
	if m.Frees > 0 { // a node that is bought for one unplaced pod costs money, and the move saves none
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
		if savesEnough(f.model, m.Saves-risk, removed, m.Moved) {
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
		c := &f.model.Classes[k]
		need := f.model.Profiles[c.Variants[f.lastMoveStep(k)].Profile].Need
		if sums[need] == nil {
			sums[need] = make([]int64, f.model.Lanes)
		}
		for _, l := range c.Lanes {
			sums[need][l] += c.Requests[l]
		}
		alone[need] += f.priceOf(need, c.Requests)
	}
	total := 0.0
	for _, need := range slices.Sorted(maps.Keys(sums)) {
		total += min(f.priceOf(need, sums[need]), alone[need])
	}
	return total
}

// priceOf is what the cheapest node costs that meets a need and has so much capacity.
func (f *forecast) priceOf(need int, room []int64) float64 {
	least := math.Inf(1)
	for i := range f.model.Pools {
		fit := f.model.FitPool(need, i)
		if !fit.OK {
			continue
		}
		cat := f.model.Catalogues[f.model.Pools[i].Catalogue]
		for t := fit.Types.Next(0); t >= 0; t = fit.Types.Next(t + 1) {
			if price, at := cat.Cheapest(t, fit.Columns); at >= 0 && price < least && model.FitsWithin(room, capacityFor(f.model, option{pool: i, kind: t})) {
				least = price
			}
		}
	}
	return least
}

// optionOf finds what a new node is bought as.
func (f *forecast) optionOf(c *model.NewNode) (o option, known bool) {
	for i := range f.model.Pools {
		pl := &f.model.Pools[i]
		if pl.Source.Name != c.Pool {
			continue
		}
		cat := f.model.Catalogues[pl.Catalogue]
		o = option{
			pool: i, kind: slices.IndexFunc(cat.Types, func(t model.TypeEntry) bool { return t.InstanceType.Name == c.Offer.Type }),
			col: slices.IndexFunc(cat.Columns, func(x model.Column) bool {
				return x.Zone == c.Offer.Zone && x.Capacity == c.Offer.CapacityType && x.Reservation == c.Offer.Reservation
			}),
		}
		return o, o.kind >= 0 && o.col >= 0
	}
	return option{}, false
}

// addBoughtNode adds a node to those that can take pods. row says which labels it may have.
func (f *forecast) addBoughtNode(o option, row reqs.Row) {
	m := f.model
	pl, lanes := &m.Pools[o.pool], m.Lanes
	room, over := pl.Capacity.Allocatable[o.kind*lanes:(o.kind+1)*lanes], pl.Capacity.Overhead[o.kind*lanes:(o.kind+1)*lanes]
	b := bought{pool: o.pool, kind: o.kind, col: o.col, left: slices.Clone(room), values: make([]int32, m.Table.Len())}
	b.cpu, b.mem = 1/float64(max(1, b.left[0]+over[0])), 1/float64(max(1, b.left[1]+over[1]))
	var col bitset.Columns
	col.Add(o.col)
	kind := bitset.NewSet(len(m.Catalogues[pl.Catalogue].Types))
	kind.Add(o.kind)
	for k := range b.values {
		b.values[k] = model.Absent
		if m.Domains[k].Used {
			b.values[k] = int32(m.PossibleDomains(pl, row, kind, col, reqs.KeyID(k)).Next(0)) // if it is open, pods decide
		}
	}
	f.bought = append(f.bought, b)
}

// placeAsScheduler takes nodes away and puts their pods where the scheduler would. It tells of every pod that has
// a place. If more than some have none, all is as it was before.
func (f *forecast) placeAsScheduler(nodes []int, may int, tell func(k int, at target) bool) bool {
	pods := f.podsInDrainOrder(nodes)
	if !f.oneOrder {
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
	if !f.oneOrder {
		slices.SortStableFunc(pods, func(a, b int32) int {
			return cmp.Compare(bitset.Bit(f.model.Pods[a].Late), bitset.Bit(f.model.Pods[b].Late))
		})
	}
	return pods
}

// sortInDrainOrder orders pods as a drain evicts them, the largest first, and late ones last. It may also come
// differently: of those that wait at the same time the scheduler takes the one of highest priority, and
// late ones come in any order, of which the smallest first is the worst for the others.
func (f *forecast) sortInDrainOrder(pods []int32, differently bool) {
	slices.SortStableFunc(pods, func(x, y int32) int {
		a, b, size := &f.model.Pods[x], &f.model.Pods[y], cmp.Compare(f.podSize(y), f.podSize(x))
		switch {
		case a.Late != b.Late:
			return cmp.Compare(bitset.Bit(a.Late), bitset.Bit(b.Late))
		case !differently:
			return size
		case a.Late:
			return -size
		}
		return cmp.Or(cmp.Compare(b.Priority, a.Priority), size)
	})
}

// placeInOrder is placeAsScheduler for pods in a given order.
func (f *forecast) placeInOrder(nodes []int, pods []int32, may int, tell func(k int, at target) bool) bool {
	f.undo, f.changes, f.unplacedPods = f.undo[:0], f.changes[:0], f.unplacedPods[:0]
	for _, n := range nodes {
		f.removed[n] = true
		f.updateFreeShare(n)
		f.state.AddNodeCounts(n, -1)
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

// podSize is how much a pod asks for: a core is as much as 4 GiB.
func (f *forecast) podSize(p int32) int64 {
	c := &f.model.Classes[f.class[p]]
	const memory = 1 << 20
	return c.Requests[0]*4 + c.Requests[1]/memory
}

// undoPlacement restores the state before placeAsScheduler.
func (f *forecast) undoPlacement(nodes []int) {
	touched := f.undo
	f.undoPods()
	for _, u := range touched {
		f.updateFreeShare(u.node)
	}
	for _, c := range slices.Backward(f.changes) {
		place, class := int32(len(f.model.Nodes)+c.at), &f.model.Classes[c.class]
		f.state.CountPods(f.model.Profiles[c.profile], place, f.bought[c.at].values, -1, nil, nil)
		f.state.Ports[place] = f.state.Ports[place][:c.ports]
		for _, l := range class.Lanes {
			f.bought[c.at].left[l] += class.Requests[l]
		}
	}
	f.changes = f.changes[:0]
	for _, n := range nodes {
		f.removed[n] = false
		f.updateFreeShare(n)
		f.state.AddNodeCounts(n, 1)
	}
}

// placeNextPod places a pod of a class where kube-scheduler would.
func (f *forecast) placeNextPod(k int) (target, bool) {
	c := &f.model.Classes[k]
	for _, variant := range c.Variants[:f.lastMoveStep(k)+1] {
		p := f.model.Profiles[variant.Profile]
		node, most := f.nodeWithMostFree(c, p)
		best := -1
		for i := range f.bought {
			b := &f.bought[i]
			if x := float64(b.left[0])*b.cpu + float64(b.left[1])*b.mem; x > most && model.CountFitting(c, b.left, 1) > 0 && f.boughtNodeAllows(p, i) {
				best, most = i, x
			}
		}
		switch {
		case best >= 0:
			b := &f.bought[best]
			at := int32(len(f.model.Nodes) + best)
			f.changes = append(f.changes, undoneChange{best, k, variant.Profile, len(f.state.Ports[at])})
			for _, l := range c.Lanes {
				b.left[l] -= c.Requests[l]
			}
			f.state.CountPods(p, at, b.values, 1, nil, nil)
			return target{-1, best, variant.Profile}, true
		case node >= 0:
			f.takePod(k, variant.Profile, node)
			f.updateFreeShare(node)
			return target{node, -1, variant.Profile}, true
		}
	}
	return target{}, false
}

// boughtNodeAllows reports whether a node that is bought takes a pod of a profile in, by everything but resources.
func (f *forecast) boughtNodeAllows(p *model.Profile, at int) bool {
	b, place := &f.bought[at], int32(len(f.model.Nodes)+at)
	fit := f.model.FitPool(p.Need, b.pool)
	if !fit.OK || !fit.Types.Has(b.kind) || !fit.Columns.Has(b.col) || !f.model.Tolerated(p.Tolerations, f.model.Pools[b.pool].Taints) || model.PortsConflict(p.Ports, f.state.Ports[place]) {
		return false
	}
	return (!p.HasHostRules || f.state.AllowedOnHost(p, place, 1) > 0) && (!p.HasZoneRules || f.state.AllowedInZone(p, b.values, 1) > 0)
}

// nodeWithMostFree returns the node with the most free resources that can take a pod, and its free share.
func (f *forecast) nodeWithMostFree(c *model.Class, p *model.Profile) (best int, most float64) {
	best, most = -1, -1
	for n, x := range f.freeShare {
		if x > most && f.state.FitOnNode(c, p, n, 1) > 0 {
			best, most = n, x
		}
	}
	return best, most
}
