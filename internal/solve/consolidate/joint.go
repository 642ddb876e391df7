package consolidate

import (
	"cmp"
	"maps"
	"math"
	"slices"
	"strconv"

	"github.com/dovetail-sh/dovetail/internal/cluster"
	"github.com/dovetail-sh/dovetail/internal/lp"
	"github.com/dovetail-sh/dovetail/internal/reason"
	"github.com/dovetail-sh/dovetail/internal/solve/model"
	"github.com/dovetail-sh/dovetail/internal/solve/pack"
)

// keepWithin is how overpriced a node may be to be kept and filled up rather than replaced.
const keepWithin = 1.06

const (
	// retries is how often the whole cluster is planned again without the nodes whose pods were unschedulable.
	retries = 3
	// trials is how often it is planned again because nodes should be kept after all: only some could be
	// removed and were not worth it, or the node that would replace several of them already exists.
	trials = 8
)

// keepReasons holds why candidates are kept, as far as planning for the whole cluster determined it.
type keepReasons struct {
	stranded map[string]bool          // their pods are unschedulable elsewhere
	refused  map[string]reason.Reason // a move that would save is not allowed
	stopped  bool                     // time was up
}

// planWholeCluster plans for the whole cluster. Nodes whose pods are unschedulable elsewhere are then excluded, and
// it plans again.
func (g *compiledCluster) planWholeCluster(m *model.Model, stop func() bool) (best *mover, moves []Move, found *keepReasons) {
	found = &keepReasons{stranded: map[string]bool{}, refused: map[string]reason.Reason{}}
	except := map[string]bool{}
	failures := 0
	for range retries + trials {
		v := g.newMover(m.Fork(), except, stop)
		list, more := v.planJointly()
		found.stopped = v.state.Stopped
		maps.Copy(found.stranded, more)
		maps.Copy(except, more)
		maps.Copy(found.refused, v.refused)
		if best == nil || totalSaved(list) > totalSaved(moves) {
			best, moves = v, list
		}
		if len(more) > 0 {
			if failures++; failures >= retries {
				break
			}
			continue
		}
		useless := v.reusable
		if v.trimmed {
			useless = v.removedWithoutMove(list)
		}
		if len(useless) == 0 || v.state.Stopped {
			break
		}
		maps.Copy(except, useless)
	}
	return best, moves, found
}

// removedWithoutMove returns the nodes that were removed in the plan, but are in no move.
func (v *mover) removedWithoutMove(moves []Move) map[string]bool {
	out := map[string]bool{}
	for n, gone := range v.removed {
		if gone {
			out[v.model.Nodes[n].Source.Name] = true
		}
	}
	for i := range moves {
		for _, name := range moves[i].Remove {
			delete(out, name)
		}
	}
	return out
}

// planJointly keeps the nodes that are worth their price, as many as the pods need, and fills them with the pods of
// all others. Remaining pods get new nodes. If some pods are unschedulable, it returns the nodes they run on.
// If time is up before every pod is placed, it returns nothing.
func (v *mover) planJointly() ([]Move, map[string]bool) {
	if v.state.ShouldStop() {
		return nil, nil
	}
	keep := v.nodesToKeep()
	left := make([]int, len(v.model.Classes))
	waiting := make([][]int32, len(v.model.Classes)) // pods of each class to be placed
	for n, may := range v.removable {
		if !may || keep[n] {
			continue
		}
		v.removeNode(n)
		for _, p := range v.pods[n] {
			left[v.class[p]]++
			waiting[v.class[p]] = append(waiting[v.class[p]], p)
		}
	}
	for k := range waiting { // from here on the pods of the nodes that stay are no longer planned for
		v.model.Classes[k].Pods = waiting[k]
	}
	v.fillKept(left)
	pack.PlaceOnNew(v.state, left)
	v.state.PlaceAll(left)
	switch {
	case model.SumCounts(left) > 0 && v.state.Stopped:
		return nil, nil
	case model.SumCounts(left) > 0:
		return nil, v.nodesWithUnplacedPods(left)
	}
	return v.groupIntoMoves(newAllowance(v.model)), nil
}

// nodesWithUnplacedPods returns the nodes of the classes that have pods left.
func (v *mover) nodesWithUnplacedPods(left []int) map[string]bool {
	out := map[string]bool{}
	for n := range v.pods {
		for _, p := range v.pods[n] {
			if v.removed[n] && left[v.class[p]] > 0 {
				out[v.model.Nodes[n].Source.Name] = true
			}
		}
	}
	return out
}

// identicalNodes are the candidates of equal type, price and allocatable resources.
type identicalNodes struct {
	nodes    []int // with the most pods first: keeping those moves fewest
	price    float64
	capacity []float64
	used     bool
}

// nodesToKeep returns the nodes to keep: all that are not candidates, and of the candidates as many of each kind
// as the cheapest mix of existing and new nodes has. Existing nodes count slightly below their price, because
// keeping them moves no pods.
func (v *mover) nodesToKeep() []bool {
	keep := make([]bool, len(v.removable))
	for n, may := range v.removable {
		keep[n] = !may
	}
	demand := v.movableDemand()
	identical := v.groupIdenticalNodes()
	lanes := len(demand)
	cost, rows := v.launchableNodes(lanes)
	fresh := len(cost)
	for range len(identical) + 1 {
		cost, rows = cost[:fresh], rows[:fresh*lanes]
		for _, k := range identical {
			c := k.price / keepWithin
			if k.used {
				c = math.Inf(1)
			}
			cost, rows = append(cost, c), append(rows, k.capacity...)
		}
		sol := lp.Cover(cost, rows, lanes, demand)
		again := false
		for _, x := range sol.X {
			if x.Column < fresh {
				continue
			}
			k := identical[x.Column-fresh]
			all := x.Amount >= float64(len(k.nodes))
			again = again || all
			if !all && again { // first fix the kinds that are used up
				continue
			}
			k.used = all
			for i, n := range k.nodes {
				keep[n] = all || float64(i)+0.5 < x.Amount
				if keep[n] && all {
					for l := range demand {
						demand[l] = max(0, demand[l]-k.capacity[l])
					}
				}
			}
		}
		if !again {
			break
		}
	}
	v.trimToLimits(keep)
	return keep
}

// trimToLimits keeps the nodes that exceed the removal limits: those with the least gain per moved pod.
func (v *mover) trimToLimits(keep []bool) {
	if len(v.maxRemovals) == 0 {
		return
	}
	var list []int
	for n, may := range v.removable {
		if may && !keep[n] {
			list = append(list, n)
		}
	}
	gain := func(n int) float64 { return (v.price[n] - v.worth[n]) / float64(1+len(v.pods[n])) }
	slices.SortStableFunc(list, func(a, b int) int { return cmp.Compare(gain(b), gain(a)) })
	gone := map[string]int{}
	for _, n := range list {
		pool := v.model.Nodes[n].Source.Pool
		if most, limited := v.maxRemovals[pool]; limited && gone[pool] >= most {
			keep[n], v.trimmed = true, true
			continue
		}
		gone[pool]++
	}
}

// movableDemand is the requests of all movable pods, less the headroom of nodes that are kept in any case.
func (v *mover) movableDemand() []float64 {
	m := v.model
	demand := make([]float64, m.View.Resources.Len())
	for n := range v.pods {
		for _, p := range v.pods[n] {
			for l := range demand {
				demand[l] += float64(m.Classes[v.class[p]].Requests[l])
			}
		}
	}
	for n, may := range v.removable {
		for l := range demand {
			if !may && !m.Nodes[n].Full {
				demand[l] = max(0, demand[l]-float64(max(0, m.Nodes[n].Free[l])))
			}
		}
	}
	return demand
}

// groupIdenticalNodes groups the candidates by price and capacity.
func (v *mover) groupIdenticalNodes() []*identicalNodes {
	m := v.model
	lanes := m.View.Resources.Len()
	at := map[string]*identicalNodes{}
	var list []*identicalNodes
	for n, may := range v.removable {
		src := m.Nodes[n].Source
		if !may || v.price[n] <= 0 {
			continue
		}
		key := append([]byte(src.InstanceType+" "+src.CapacityType+" "), strconv.FormatFloat(v.price[n], 'g', -1, 64)...)
		capacity, coming := make([]float64, lanes), m.DaemonRequests(&m.Nodes[n])
		for l := range lanes {
			capacity[l] = float64(max(0, src.Allocatable.At(l)-coming[l]))
			key = strconv.AppendFloat(append(key, ' '), capacity[l], 'g', -1, 64) // DaemonSets may differ
		}
		k := at[string(key)]
		if k == nil {
			k = &identicalNodes{price: v.price[n], capacity: capacity}
			at[string(key)] = k
			list = append(list, k)
		}
		k.nodes = append(k.nodes, n)
		used := make([]float64, lanes) // a node may hold more than it should
		for _, p := range v.pods[n] {
			for l := range used {
				used[l] += float64(m.Classes[v.class[p]].Requests[l])
			}
		}
		for l := range used {
			k.capacity[l] = max(k.capacity[l], used[l])
		}
	}
	for _, k := range list {
		slices.SortStableFunc(k.nodes, func(a, b int) int { return cmp.Compare(len(v.pods[b]), len(v.pods[a])) })
	}
	return list
}

// fillKept fills the kept nodes, each with the pods that fit it best.
func (v *mover) fillKept(left []int) {
	s, m := v.state, v.model
	var batches []pack.Batch
	for k, n := range left {
		if n > 0 && len(m.Classes[k].Variants) > 0 {
			batches = append(batches, pack.Batch{Class: k, Profile: m.Classes[k].Variants[v.lastMoveStep(k)].Profile, Count: n})
		}
	}
	w := pack.NewFiller(m, batches)
	capacity := make([]int64, m.Lanes)
	for _, n := range v.order {
		if v.removed[n] || m.Nodes[n].Full {
			continue
		}
		if s.ShouldStop() {
			return
		}
		model.CopyLanes(capacity, m.Nodes[n].Source.Allocatable, m.View.Resources.Len())
		w.Fill(capacity, s.Free[n*m.Lanes:(n+1)*m.Lanes], func(l *pack.Batch) bool {
			p := m.Profiles[l.Profile]
			if s.FitOnNode(&m.Classes[l.Class], p, n, 1) == 0 {
				return false
			}
			s.PutOnNode(l.Class, p, n, 1)
			v.receives[n] = true
			left[l.Class]--
			return true
		})
	}
}

// removeNode removes a node from the state, with its share of limits and topology counts.
func (v *mover) removeNode(n int) {
	v.removed[n] = true
	v.state.CloseNode(n)
	v.state.ReleaseLimits(n)
	v.state.AddNodeCounts(n, -1)
}

// groupIntoMoves turns the placements into moves. Nodes whose pods share a new node or a topology rule are in one
// move, every other node in a move of its own. Moves that save too little or exceed pool limits are left out.
func (v *mover) groupIntoMoves(left *allowance) []Move {
	plan, _ := v.state.WritePlan()
	from := map[cluster.PodKey]int{}
	v.index = map[cluster.PodKey]int32{}
	for n, gone := range v.removed {
		if !gone {
			continue
		}
		for _, p := range v.pods[n] {
			from[v.model.Pods[p].Key], v.index[v.model.Pods[p].Key] = n, p
		}
	}
	sets := newDisjointSets(len(v.model.Nodes))
	for i := range plan.Create {
		for _, p := range plan.Create[i].Pods {
			sets.union(from[plan.Create[i].Pods[0]], from[p])
		}
	}
	v.joinCoupled(sets)
	at, list := map[int]*Move{}, []*Move(nil)
	removed := map[*Move]float64{}
	for n, gone := range v.removed {
		if !gone {
			continue
		}
		m := at[sets.root(n)]
		if m == nil {
			m = &Move{}
			at[sets.root(n)] = m
			list = append(list, m)
		}
		m.Remove = append(m.Remove, v.model.Nodes[n].Source.Name)
		m.Moved += len(v.pods[n])
		removed[m] += v.price[n]
	}
	for _, b := range plan.Bind {
		m := at[sets.root(from[b.Pod])]
		m.Bind = append(m.Bind, b)
	}
	for _, c := range plan.Create {
		m := at[sets.root(from[c.Pods[0]])]
		m.Create = append(m.Create, c)
	}
	var out []Move
	for _, m := range list {
		if v.isWorthwhile(m, removed[m]) && v.withinAllowance(m, left) {
			slices.Sort(m.Remove)
			out = append(out, *m)
		}
	}
	return out
}

// joinCoupled puts nodes together whose pods have a rule over zones, or an affinity, in common: only at
// the end of such a move is it certain that the rule holds.
func (v *mover) joinCoupled(sets *disjointSets) {
	if len(v.model.Groups) == 0 {
		return
	}
	first := map[int]int{}
	for n, gone := range v.removed {
		if !gone {
			continue
		}
		note := func(g int) {
			if at, known := first[g]; known {
				sets.union(at, n)
			} else {
				first[g] = n
			}
		}
		for _, p := range v.pods[n] {
			for _, g := range v.model.Profiles[v.model.Classes[v.class[p]].Variants[0].Profile].Couplings(v.model) {
				note(g)
			}
		}
		for i := range v.model.Nodes[n].Source.Pods { // those that do not move count until they are deleted
			if s := v.model.Nodes[n].Source.Pods[i].Shape; s != nil {
				for _, g := range v.model.GroupsAffectedBy(s) {
					note(g)
				}
			}
		}
	}
}

// disjointSets are disjoint sets of small numbers.
type disjointSets struct{ parent []int }

func newDisjointSets(n int) *disjointSets {
	s := &disjointSets{parent: make([]int, n)}
	for i := range s.parent {
		s.parent[i] = i
	}
	return s
}

func (s *disjointSets) root(i int) int {
	for s.parent[i] != i {
		s.parent[i] = s.parent[s.parent[i]]
		i = s.parent[i]
	}
	return i
}

func (s *disjointSets) union(a, b int) {
	x, y := s.root(a), s.root(b)
	s.parent[max(x, y)] = min(x, y)
}
