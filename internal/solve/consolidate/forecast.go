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

// unplacedDivisor limits the unplaced pods of a move: at most one pod in this many.
const unplacedDivisor = 20

// forecast predicts the outcome of moves. kube-scheduler decides where pods run, and by default it spreads them:
// each pod is bound to the node with the most free resources, whatever was planned. If not all pods of a move fit
// that way, another node has to be launched and the move was useless.
type forecast struct {
	*mover
	freeShare    []float64 // free share of each node, cpu and memory together; below 0: it accepts no pods
	oneOrder     bool      // pods are scheduled in the same order in every case
	queued       [][]int32 // pods of each node in that order; computed on first use
	planned      []plannedNode
	placed       []placedPod
	unplacedPods []int32 // pods that fit on no node
	devices      int     // see exact.State.MarkDevices: before the pods were placed
}

// plannedNode is a node that moves launch, with its free capacity.
type plannedNode struct {
	pool, kind, col int // col: the offering it is launched as
	left            []int64
	cpu, mem        float64 // share of the node that one unit takes
	values          []int32 // its domains, by key of the table
}

// placedPod is a pod that was placed on a planned node, and how many host ports that node had before.
type placedPod struct {
	at, class, profile, ports int
}

// target is where the scheduler puts a pod: an existing node or a planned one.
type target struct {
	node, planned, profile int
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

// updateFreeShare recomputes the free share of a node.
func (f *forecast) updateFreeShare(n int) {
	m := f.model
	if f.removed[n] || m.Nodes[n].Full {
		f.freeShare[n] = -1
		return
	}
	allocatable := m.Nodes[n].Source.Allocatable
	f.freeShare[n] = float64(f.state.Free[n*m.Lanes])/float64(max(1, allocatable.At(0))) + float64(f.state.Free[n*m.Lanes+1])/float64(max(1, allocatable.At(1)))
}

// stableMoves is one of two lists of moves, without the moves that the scheduler would undo.
type stableMoves struct {
	moves   []Move
	second  bool // it is the second list
	stopped bool // time was up: moves that were not examined are left out
}

// selectStableMoves drops the moves that the scheduler would undo from two lists, and returns the list that then
// saves more.
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
		if f.state.ShouldStop() || broken && coupled { // later moves depend on earlier ones, so all that follow are dropped too
			return true
		}
		_, lasts := f.isStable(&m, false)
		broken = !lasts
		return broken
	})
	return kept, f.state.Stopped
}

// isStable reports whether the pods of a move can be scheduled. If loose, it also accepts a move that saves enough
// after launching more nodes for the unschedulable pods; risk is what these cost. If it returns true, moves that are
// examined later see the cluster after this move.
func (f *forecast) isStable(m *Move, loose bool) (risk float64, lasts bool) {
	before := len(f.planned)
	for i := range m.Create {
		if o, known := f.optionOf(&m.Create[i]); known {
			f.addPlannedNode(o, f.model.RowOf(m.Create[i].Needs))
		}
	}
	nodes, removed := make([]int, 0, len(m.Remove)), 0.0
	for _, name := range m.Remove {
		nodes = append(nodes, f.byName[name])
		removed += f.price[f.byName[name]]
	}
	few := m.Moved / unplacedDivisor
	if m.Frees > 0 { // a node launched for one unplaced pod costs money, and the move saves none
		few = 0
	}
	maxUnplaced := few
	if loose {
		maxUnplaced = m.Moved
	}
	if f.placeAsScheduler(nodes, maxUnplaced, nil) {
		if len(f.unplacedPods) <= few {
			return 0, true
		}
		risk = f.costOfExtraNodes()
		if savesEnough(f.model, m.Saves-risk, removed, m.Moved) {
			return risk, true
		}
		f.undoPlacement(nodes)
	}
	f.planned = f.planned[:before]
	return 0, false
}

// costOfExtraNodes estimates the cost of the nodes that have to be launched for unplaced pods. Pods that require the
// same labels share one node if a type is large enough; otherwise each gets its own.
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

// priceOf returns the price of the cheapest node that meets a need and has the given capacity.
func (f *forecast) priceOf(need int, capacity []int64) float64 {
	least := math.Inf(1)
	for i := range f.model.Pools {
		fit := f.model.FitPool(need, i)
		if !fit.OK {
			continue
		}
		cat := f.model.Catalogues[f.model.Pools[i].Catalogue]
		for t := fit.Types.Next(0); t >= 0; t = fit.Types.Next(t + 1) {
			if price, at := cat.Cheapest(t, fit.Columns); at >= 0 && price < least && model.FitsWithin(capacity, capacityFor(f.model, option{pool: i, kind: t})) {
				least = price
			}
		}
	}
	return least
}

// optionOf returns the offering that a new node is launched as.
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

// addPlannedNode adds a node that can take pods. row says which labels it may have.
func (f *forecast) addPlannedNode(o option, row reqs.Row) {
	m := f.model
	pl, lanes := &m.Pools[o.pool], m.Lanes
	capacity, over := pl.Capacity.Allocatable[o.kind*lanes:(o.kind+1)*lanes], pl.Capacity.Overhead[o.kind*lanes:(o.kind+1)*lanes]
	b := plannedNode{pool: o.pool, kind: o.kind, col: o.col, left: slices.Clone(capacity), values: make([]int32, m.Table.Len())}
	b.cpu, b.mem = 1/float64(max(1, b.left[0]+over[0])), 1/float64(max(1, b.left[1]+over[1]))
	var col bitset.Columns
	col.Add(o.col)
	kind := bitset.NewSet(len(m.Catalogues[pl.Catalogue].Types))
	kind.Add(o.kind)
	for k := range b.values {
		b.values[k] = model.Absent
		if m.Domains[k].Used {
			b.values[k] = int32(m.PossibleDomains(pl, row, kind, col, reqs.KeyID(k)).Next(0)) // if several are possible, pods decide
		}
	}
	f.planned = append(f.planned, b)
}

// placeAsScheduler removes nodes and puts their pods where the scheduler would. It calls onPlaced for every pod that
// is placed. If more than maxUnplaced pods are unschedulable, it restores the state and returns false.
func (f *forecast) placeAsScheduler(nodes []int, maxUnplaced int, onPlaced func(k int, at target) bool) bool {
	pods := f.podsInDrainOrder(nodes)
	if !f.oneOrder {
		other := slices.Clone(pods)
		if f.sortInDrainOrder(other, true); !slices.Equal(pods, other) {
			if !f.placeInOrder(nodes, other, maxUnplaced, nil) {
				return false
			}
			f.undoPlacement(nodes)
		}
	}
	return f.placeInOrder(nodes, pods, maxUnplaced, onPlaced)
}

// podsInDrainOrder lists the pods of nodes in the order in which they become pending, as far as it is known: as
// drains evict them, node by node, and then the late ones.
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

// sortInDrainOrder orders pods as a drain evicts them: the largest first, and late ones last. With worstCase it
// returns another order that is possible: of the pods pending at the same time the scheduler takes the one of highest
// priority first, and late ones come smallest first, which is the worst order for the others.
func (f *forecast) sortInDrainOrder(pods []int32, worstCase bool) {
	slices.SortStableFunc(pods, func(x, y int32) int {
		a, b, size := &f.model.Pods[x], &f.model.Pods[y], cmp.Compare(f.podSize(y), f.podSize(x))
		switch {
		case a.Late != b.Late:
			return cmp.Compare(bitset.Bit(a.Late), bitset.Bit(b.Late))
		case !worstCase:
			return size
		case a.Late:
			return -size
		}
		return cmp.Or(cmp.Compare(b.Priority, a.Priority), size)
	})
}

// placeInOrder is placeAsScheduler for pods in a given order.
func (f *forecast) placeInOrder(nodes []int, pods []int32, maxUnplaced int, onPlaced func(k int, at target) bool) bool {
	f.undo, f.placed, f.unplacedPods = f.undo[:0], f.placed[:0], f.unplacedPods[:0]
	f.devices = f.state.MarkDevices()
	for _, n := range nodes {
		f.removed[n] = true
		f.updateFreeShare(n)
		f.state.AddNodeCounts(n, -1)
	}
	for _, p := range pods {
		k := int(f.class[p])
		at, found := f.placeNextPod(k)
		if found && (onPlaced == nil || onPlaced(k, at)) {
			continue
		}
		f.unplacedPods = append(f.unplacedPods, p)
		if maxUnplaced--; maxUnplaced < 0 || onPlaced != nil {
			f.undoPlacement(nodes)
			return false
		}
	}
	return true
}

// podSize is the size of a pod's requests: one core counts as much as 4 GiB.
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
	for _, c := range slices.Backward(f.placed) {
		place, class := int32(len(f.model.Nodes)+c.at), &f.model.Classes[c.class]
		f.state.CountPods(f.model.Profiles[c.profile], place, f.planned[c.at].values, -1, nil, nil)
		f.state.Ports[place] = f.state.Ports[place][:c.ports]
		for _, l := range class.Lanes {
			f.planned[c.at].left[l] += class.Requests[l]
		}
	}
	f.placed = f.placed[:0]
	f.state.UndoDevices(f.devices)
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
		for i := range f.planned {
			b := &f.planned[i]
			if x := float64(b.left[0])*b.cpu + float64(b.left[1])*b.mem; x > most && model.CountFitting(c, b.left, 1) > 0 && f.plannedNodeAllows(p, i) &&
				f.state.HasDevicesOfType(c, int32(len(f.model.Nodes)+i), b.pool, b.kind) {
				best, most = i, x
			}
		}
		switch {
		case best >= 0:
			b := &f.planned[best]
			at := int32(len(f.model.Nodes) + best)
			f.placed = append(f.placed, placedPod{best, k, variant.Profile, len(f.state.Ports[at])})
			for _, l := range c.Lanes {
				b.left[l] -= c.Requests[l]
			}
			f.state.CountPods(p, at, b.values, 1, nil, nil)
			f.state.TakeDevicesOfType(c, at, b.pool, b.kind)
			return target{-1, best, variant.Profile}, true
		case node >= 0:
			f.takePod(k, variant.Profile, node)
			f.updateFreeShare(node)
			return target{node, -1, variant.Profile}, true
		}
	}
	return target{}, false
}

// plannedNodeAllows reports whether a planned node can take a pod of a profile, by everything but resources.
func (f *forecast) plannedNodeAllows(p *model.Profile, at int) bool {
	b, place := &f.planned[at], int32(len(f.model.Nodes)+at)
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
