package consolidate

import (
	"cmp"
	"slices"

	karpv1 "github.com/dovetail-sh/dovetail/api/v1"
	"github.com/dovetail-sh/dovetail/internal/solve/bitset"
	"github.com/dovetail-sh/dovetail/internal/solve/model"
)

const (
	// fairSaving is what a swap must save for each pod it moves, as a share of what a pod costs on average.
	fairSaving = 0.05
	// maxSingles, maxPairs and maxTriples are how many of the most wasteful nodes are tried alone, in pairs and in
	// threes.
	maxSingles, maxPairs, maxTriples = 500, 150, 60
	// mostIllegal is how many swaps may turn out not to be allowed before the search ends.
	mostIllegal = 50
)

// option is a node that could be launched.
type option struct {
	pool, kind, col int // col: the offering it is launched as
	price           float64
}

// swap is a few nodes whose pods can be scheduled on the other nodes and on at most one new node, as the scheduler
// places them.
type swap struct {
	nodes []int
	offer option // kind -1: no new node
	saves float64
	moved int
	made  *Move // nil unless makes was called
}

// swapper searches for swaps.
type swapper struct {
	*forecast
	options        []option
	poolsOfClasses []int      // by class: the pool that its nodes are launched from
	poolKnown      []bool     // classes whose pool is known
	hosts          [][]int    // by class: up to two nodes with headroom for a pod of it; nil: not computed
	needs          [][2]int64 // by node: requests of its pods that fit on no other node, if measured
	sized          []bool     // nodes that were measured
	least          float64    // least saving of a swap for each pod
	found          []*swap    // each better than the one before
	need           [2]int64   // requests of the pods that fit on no other node

	makes   func(*swap) *Move // nil: swaps are not verified
	illegal int               // swaps that are not allowed
}

// findSwap returns the move of a few nodes that saves most for each pod it moves. Moves for the whole cluster save
// more, but once they are made, only swaps are left to gain from. If time is up, the best swap found so far is used.
func (g *compiledCluster) findSwap(stop func() bool) strategyResult {
	w := &swapper{forecast: g.forecast(stop)}
	w.searchSwaps()
	for _, b := range slices.Backward(w.found) {
		if m := g.makeSwap(b); m != nil {
			return strategyResult{moves: []Move{*m}, stopped: w.state.Stopped, unreached: w.unreached}
		}
		if !w.state.Stopped { // otherwise the next best is used
			break
		}
	}
	if len(w.found) > 0 && !w.state.Stopped {
		// The best swap is not allowed and hides others. So the search runs again and verifies each swap before it
		// counts; that takes longer.
		w.makes, w.found = g.makeSwap, nil
		if w.searchSwaps(); len(w.found) > 0 {
			best := w.found[len(w.found)-1]
			return strategyResult{moves: []Move{*best.made}, stopped: w.state.Stopped, unreached: w.unreached}
		}
	}
	return strategyResult{limited: w.trimmed, stopped: w.state.Stopped, unreached: w.unreached}
}

// keepBestSwap keeps a swap that is better than all before. If makes is set, the swap must also be allowed.
func (w *swapper) keepBestSwap(b swap) bool {
	if w.makes != nil {
		if b.made = w.makes(&b); b.made == nil {
			w.illegal++
			return false
		}
	}
	w.found = append(w.found, &b)
	return true
}

// searchSwaps finds swaps. The last one found is the best.
func (w *swapper) searchSwaps() {
	list := slices.DeleteFunc(w.nodesByWaste(), func(n int) bool { return len(w.pods[n]) == 0 })
	if !w.model.Problem.Policy.AnySaving {
		w.least = w.minSavingPerPod(list, fairSaving)
	}
	w.options = w.listOptions()
	w.poolsOfClasses, w.poolKnown, w.hosts = make([]int, len(w.model.Classes)), make([]bool, len(w.model.Classes)), make([][]int, len(w.model.Classes))
	w.needs, w.sized = make([][2]int64, len(w.model.Nodes)), make([]bool, len(w.model.Nodes))
	for i, n := range list[:min(len(list), maxSingles)] {
		w.trySwap(n)
		w.recordUnreached(list, i)
	}
	for i, a := range list[:min(len(list), maxPairs)] {
		for j, b := range list[:i] {
			w.trySwap(b, a)
			if i >= maxTriples {
				continue
			}
			for _, c := range list[:j] {
				w.trySwap(c, b, a)
			}
		}
	}
}

// minSavingPerPod is the least that moving pods of some nodes must save for each pod: a share of what a pod costs on
// average.
func (v *mover) minSavingPerPod(nodes []int, share float64) float64 {
	price, pods := 0.0, 0
	for _, n := range nodes {
		price += v.price[n] + v.reservedValue[n]
		pods += len(v.pods[n])
	}
	return max(leastPerPod, share*price/float64(max(1, pods)))
}

// listOptions lists what can be launched, cheapest first, without options that are no larger than a cheaper one.
// Where rules over zones couple pods, the same type in another zone is another option.
func (w *swapper) listOptions() []option {
	var list []option
	zones := hasZoneRules(w.model)
	for i := range w.model.Pools {
		pl := &w.model.Pools[i]
		cat := w.model.Catalogues[pl.Catalogue]
		for t := pl.Types.Next(0); t >= 0; t = pl.Types.Next(t + 1) {
			for cols := pl.Columns; ; {
				price, at := cat.Cheapest(t, cols)
				if at < 0 {
					break
				}
				list = append(list, option{i, t, at, price})
				if !zones {
					break
				}
				cols = cols.Without(at)
			}
		}
	}
	slices.SortStableFunc(list, func(a, b option) int { return cmp.Compare(a.price, b.price) })
	var out []option
	for _, o := range list {
		capacity := capacityFor(w.model, o)
		if !slices.ContainsFunc(out, func(c option) bool {
			return c.pool == o.pool && (!zones || c.col == o.col) && model.FitsWithin(capacity, capacityFor(w.model, c))
		}) {
			out = append(out, o)
		}
	}
	return out
}

// hasZoneRules reports whether some pods have a rule over zones, or over anything else but hosts.
func hasZoneRules(m *model.Model) bool {
	return slices.ContainsFunc(m.Groups, func(g *model.Group) bool { return !g.PerHost })
}

// capacityFor returns the allocatable resources of a node that could be launched.
func capacityFor(m *model.Model, o option) []int64 {
	return m.Pools[o.pool].Capacity.Allocatable[o.kind*m.Lanes : (o.kind+1)*m.Lanes]
}

// trySwap tries to swap nodes, and keeps the swap if it is better than all before.
func (w *swapper) trySwap(nodes ...int) {
	if w.state.ShouldStop() || w.illegal >= mostIllegal || !w.withinRemovalLimits(nodes) {
		return
	}
	price, moved := 0.0, 0
	for _, n := range nodes {
		price += w.price[n]
		moved += len(w.pods[n])
	}
	worth := func(saves float64) bool {
		if saves < w.least*float64(moved) {
			return false
		}
		if len(w.found) == 0 {
			return true
		}
		best := w.found[len(w.found)-1]
		return saves*float64(best.moved) > best.saves*float64(moved)
	}
	if !worth(price) {
		return
	}
	w.measureUnplaceable(nodes)
	share := leastShare(w.model)
	if w.placesAllPods(nodes, option{kind: -1}) && w.keepBestSwap(swap{nodes: nodes, offer: option{kind: -1}, saves: price, moved: moved}) {
		return
	}
	for _, o := range w.options {
		saves := price - o.price
		if saves < share*price || !worth(saves) {
			return
		}
		if w.offerSuffices(nodes, o) && w.placesAllPods(nodes, o) && w.keepBestSwap(swap{nodes: nodes, offer: o, saves: saves, moved: moved}) {
			return
		}
	}
}

// withinRemovalLimits reports whether the pools allow that these nodes are removed.
func (w *swapper) withinRemovalLimits(nodes []int) bool {
	if len(w.maxRemovals) == 0 {
		return true
	}
	for i, n := range nodes {
		pool := w.model.Nodes[n].Source.Pool
		if most, limited := w.maxRemovals[pool]; limited && countOfPool(w.model, pool, nodes[:i+1]) > most {
			w.trimmed = true
			return false
		}
	}
	return true
}

// measureUnplaceable sums up the requests of the pods that certainly fit on no other node: a new node must hold them.
func (w *swapper) measureUnplaceable(nodes []int) {
	w.need = [2]int64{}
	for _, n := range nodes {
		if !w.sized[n] {
			w.sized[n], w.needs[n] = true, w.demandWithoutHost(n)
		}
		w.need[0] += w.needs[n][0]
		w.need[1] += w.needs[n][1]
	}
}

// demandWithoutHost is the demand of the pods of a node that fit on no other node.
func (w *swapper) demandWithoutHost(n int) (sum [2]int64) {
	for _, p := range w.pods[n] {
		k := w.class[p]
		if w.hosts[k] == nil {
			w.hosts[k] = w.findTwoHosts(&w.model.Classes[k])
		}
		if c := &w.model.Classes[k]; len(c.SharedClaims) == 0 && !slices.ContainsFunc(w.hosts[k], func(at int) bool { return at != n }) {
			sum[0] += c.Requests[0]
			sum[1] += c.Requests[1]
		}
	}
	return sum
}

// findTwoHosts returns up to two nodes with headroom for a pod.
func (w *swapper) findTwoHosts(c *model.Class) []int {
	found, lanes := make([]int, 0, 2), w.model.Lanes
	for n, share := range w.freeShare {
		if share >= 0 && model.CountFitting(c, w.state.Free[n*lanes:(n+1)*lanes], 1) > 0 {
			if found = append(found, n); len(found) == cap(found) {
				break
			}
		}
	}
	return found
}

// offerSuffices reports whether a new node would do for the pods of nodes: it holds those that fit nowhere else, it
// comes from the pool that is tried first for each of them (SC-20), and it is not of the type of a node that is
// removed.
func (w *swapper) offerSuffices(nodes []int, o option) bool {
	if capacity := capacityFor(w.model, o); w.need[0] > capacity[0] || w.need[1] > capacity[1] {
		return false
	}
	cat := w.model.Catalogues[w.model.Pools[o.pool].Catalogue]
	other := func(n int) bool { return w.model.Nodes[n].Source.CapacityType != karpv1.CapacityTypeSpot }
	if cat.Columns[o.col].Capacity == karpv1.CapacityTypeSpot && !w.model.Problem.Policy.SpotToSpot && !slices.ContainsFunc(nodes, other) {
		return false // mayBeSpot would refuse it
	}
	name := cat.Types[o.kind].InstanceType.Name
	for _, n := range nodes {
		if len(nodes) > 1 && w.price[n] <= o.price && w.model.Nodes[n].Source.InstanceType == name {
			return false
		}
		for _, p := range w.pods[n] {
			if w.poolOfClass(int(w.class[p])) != o.pool {
				return false
			}
		}
	}
	return true
}

func (w *swapper) poolOfClass(k int) int {
	if !w.poolKnown[k] {
		p := w.model.Profiles[w.model.Classes[k].Variants[w.lastMoveStep(k)].Profile]
		w.poolKnown[k], w.poolsOfClasses[k] = true, w.state.FirstPoolFor(k, p, p.Need)
	}
	return w.poolsOfClasses[k]
}

// placesAllPods reports whether all pods of nodes can be scheduled.
func (w *swapper) placesAllPods(nodes []int, o option) bool {
	if o.kind < 0 && w.need != [2]int64{} {
		return false
	}
	w.planned = w.planned[:0]
	if o.kind >= 0 {
		w.addPlannedNode(o, w.model.Pools[o.pool].Row)
	}
	if !w.placeAsScheduler(nodes, 0, nil) {
		return false
	}
	w.undoPlacement(nodes)
	return true
}

// makeSwap turns a swap into a move by all the rules of a plan; nil if it is not allowed.
func (g *compiledCluster) makeSwap(b *swap) *Move {
	f, v := g.forecast(g.stop), g.newMover(g.model.Fork(), nil, g.stop)
	if b.offer.kind >= 0 {
		restrictToOption(v.model, b.offer)
		f.addPlannedNode(b.offer, f.model.Pools[b.offer.pool].Row)
	}
	waiting := make([][]int32, len(v.model.Classes))
	for _, n := range b.nodes {
		v.removeNode(n)
		for _, p := range v.pods[n] {
			waiting[v.class[p]] = append(waiting[v.class[p]], p)
		}
	}
	placed := f.placeAsScheduler(b.nodes, 0, func(k int, at target) bool {
		p := v.model.Profiles[at.profile]
		switch {
		case at.node >= 0:
			if v.state.FitOnNode(&v.model.Classes[k], p, at.node, 1) == 0 {
				return false
			}
			v.state.PutOnNode(k, p, at.node, 1)
			return true
		case len(v.state.Bins) == 0:
			return v.state.OpenBinIn(b.offer.pool, k, at.profile, 1) > 0
		}
		return v.state.PlaceInBins(k, at.profile, 1) > 0
	})
	if !placed {
		return nil
	}
	for k := range waiting { // only these are planned for
		v.model.Classes[k].Pods = waiting[k]
	}
	moves := v.groupIntoMoves(newAllowance(v.model))
	if len(moves) != 1 || len(moves[0].Remove) != len(b.nodes) {
		return nil
	}
	return &moves[0]
}

// restrictToOption leaves only an option, and types with at least its capacity, to launch.
func restrictToOption(m *model.Model, o option) {
	capacity := capacityFor(m, o)
	m.Pools = slices.Clone(m.Pools)
	for i := range m.Pools {
		pl := &m.Pools[i]
		types := bitset.NewSet(len(m.Catalogues[pl.Catalogue].Types))
		for t := pl.Types.Next(0); t >= 0 && i == o.pool; t = pl.Types.Next(t + 1) {
			if model.FitsWithin(capacity, capacityFor(m, option{pool: i, kind: t})) {
				types.Add(t)
			}
		}
		pl.Types = types
		if i == o.pool && hasZoneRules(m) {
			var col bitset.Columns
			col.Add(o.col)
			pl.Columns = pl.Columns.And(col)
		}
	}
	for _, n := range m.Needs {
		n.Pools = nil
	}
}
