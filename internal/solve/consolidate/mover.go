package consolidate

import (
	"cmp"
	"math"
	"slices"
	"strconv"

	"github.com/dovetail-sh/dovetail/internal/cluster"
	"github.com/dovetail-sh/dovetail/internal/lp"
	"github.com/dovetail-sh/dovetail/internal/reason"
	"github.com/dovetail-sh/dovetail/internal/solve/exact"
	"github.com/dovetail-sh/dovetail/internal/solve/model"
)

// mover searches for nodes that could be removed. It has one state from which nodes are removed one by one. A node
// that has received pods of another stays, so no pod moves twice and no move undoes another.
type mover struct {
	state             *exact.State
	model             *model.Model
	pods              [][]int32 // movable pods of each node, into Model.Pods, largest first
	index             map[cluster.PodKey]int32
	class             []int32 // class of each pod
	price             []float64
	overpricing       []float64   // price over what its capacity is worth: how overpriced a node is
	worth             []float64   // value of the pods on it, at the best prices available
	reservedValue     []float64   // its on-demand price if it is on reserved capacity, otherwise 0
	stayReserved      bool        // pods of the node being tried stay on reserved capacity
	removable         []bool      // candidates that could be removed
	stuck             map[int]int // candidates that cannot be removed, and how many pods prevent it
	removed           []bool
	receives          []bool // has received pods
	order             []int  // nodes to put pods on, least overpriced first
	candidate         []bool
	lastMoveSteps     []int32        // of each class, see lastMoveStep
	byName            map[string]int // nodes of the model
	examined          int
	moves             []Move
	undo              []nodeBackup
	binds             []model.Bind
	maxRemovals       map[string]int           // nodes of each pool that may be removed
	poolsFirst        map[string]bool          // pools that the step search begins with
	unreached         []string                 // pools that the step search had no time for
	trimmed           bool                     // maxRemovals prevented further removals
	reusable          map[string]bool          // nodes that could be kept instead of launching one of their type
	nothingLaunchable bool                     // no offering can be launched
	refused           map[string]reason.Reason // nodes of moves that would save but are not allowed
}

// nodeBackup is a node before a pod was put on it.
type nodeBackup struct {
	node, profile int
	free          []int64
	ports, claims int
	devices       int // see exact.State.MarkDevices
}

const (
	// leastSaving is the share of the removed price that a replacement must save: below it, moving pods costs more
	// than it brings.
	leastSaving = 0.1
	// anySaving is that share if any saving is accepted: more than the rounding error of a sum of prices.
	anySaving = 1e-4
	// leastPerPod is what a replacement must save for each pod it moves, USD an hour.
	leastPerPod = 0.001
)

// compiledCluster is a cluster compiled for the search for removable nodes. Movers share it.
type compiledCluster struct {
	model         *model.Model
	from          map[string][2]int // pods of each candidate, into Model.Pods
	class         []int32           // class of each pod; -1: cannot be read
	maxRemovals   map[string]int    // nodes of each pool that may be removed
	reservedValue []float64         // see mover
	poolsFirst    map[string]bool   // pools that the step search begins with
	stop          func() bool       // for everything
}

// compileCluster reads the cluster. It returns nil if stop said that time is up. earlier is the model of the cluster
// before moves that led to this one; it saves work.
func compileCluster(q Question, earlier *model.Model, stop func() bool) *compiledCluster {
	view := q.View
	if view == nil {
		view = &cluster.Snapshot{}
	}
	candidates := make(map[string]bool, len(q.Candidates))
	for _, name := range q.Candidates {
		candidates[name] = true
	}
	g := &compiledCluster{from: map[string][2]int{}, maxRemovals: q.Most, poolsFirst: make(map[string]bool, len(q.First)), stop: stop}
	for _, pool := range q.First {
		g.poolsFirst[pool] = true
	}
	var moved []cluster.Pod
	for i := range view.Nodes {
		n := &view.Nodes[i]
		if !candidates[n.Name] || n.Deleting {
			continue
		}
		first := len(moved)
		for _, p := range n.Pods {
			if !p.Daemon && !p.Stays {
				moved = append(moved, p)
			}
		}
		// The result must not depend on the order of the input.
		slices.SortFunc(moved[first:], func(a, b cluster.Pod) int { return a.Key.Compare(b.Key) })
		g.from[n.Name] = [2]int{first, len(moved)}
	}
	policy := q.Policy
	policy.ReservedFallback = true
	if g.model = model.Compile(model.Problem{View: view, Moved: moved, Policy: policy}, earlier, stop); g.model == nil {
		return nil
	}
	g.class = slices.Repeat([]int32{-1}, len(g.model.Pods))
	for k := range g.model.Classes {
		for _, p := range g.model.Classes[k].Pods {
			g.class[p] = int32(k)
		}
	}
	g.readReservedValues()
	return g
}

// newMover starts on a fork of the model, which must not be shared. Candidates in except are kept.
func (g *compiledCluster) newMover(m *model.Model, except map[string]bool, stop func() bool) *mover {
	m.Classes = slices.Clone(m.Classes) // their pods will be those to be placed
	v := &mover{state: exact.NewState(m, stop), model: m, class: g.class, maxRemovals: g.maxRemovals, reservedValue: g.reservedValue, poolsFirst: g.poolsFirst, reusable: map[string]bool{}, refused: map[string]reason.Reason{}}
	v.state.KeepPrices = true
	v.state.CountNodesByDomain()
	n := len(m.Nodes)
	v.pods, v.price, v.overpricing, v.worth = make([][]int32, n), make([]float64, n), make([]float64, n), make([]float64, n)
	v.removable, v.removed, v.receives, v.candidate, v.stuck = make([]bool, n), make([]bool, n), make([]bool, n), make([]bool, n), map[int]int{}
	v.byName = make(map[string]int, n)
	for i := range m.Nodes {
		src := m.Nodes[i].Source
		v.byName[src.Name] = i
		v.price[i] = max(0, src.Price)
		span, is := g.from[src.Name]
		v.candidate[i], v.removable[i] = is, is && !except[src.Name]
		for p := span[0]; p < span[1]; p++ {
			v.pods[i] = append(v.pods[i], int32(p))
			if v.class[p] < 0 || v.cannotPlan(&m.Classes[v.class[p]]) {
				v.stuck[i]++
				v.removable[i] = false
			}
		}
		if !v.removable[i] {
			v.pods[i] = nil
			continue
		}
		slices.SortFunc(v.pods[i], func(a, b int32) int { return cmp.Or(cmp.Compare(v.class[a], v.class[b]), cmp.Compare(a, b)) })
	}
	v.appraiseNodes()
	return v
}

// cannotPlan reports whether pods of a class can be planned for at all.
func (v *mover) cannotPlan(c *model.Class) bool {
	return len(c.Shape.Invalid) > 0 || c.Shape.Refuses || len(c.Variants) == 0
}

// appraiseNodes computes what resources are worth at the best prices for all movable pods, and from that how
// overpriced each node is.
func (v *mover) appraiseNodes() {
	m := v.model
	duals := v.resourcePrices()
	for i := range m.Nodes {
		n := &m.Nodes[i]
		capacity, used := 0.0, 0.0
		for l, d := range duals {
			coming := m.DaemonRequests(n)[l]
			capacity += d * float64(max(0, n.Source.Allocatable.At(l)-coming))
		}
		for _, p := range v.pods[i] {
			for l, d := range duals {
				used += d * float64(m.Classes[v.class[p]].Requests[l])
			}
		}
		v.worth[i], v.overpricing[i] = used, v.price[i]/max(capacity, 1e-9)
	}
	v.order = make([]int, 0, len(m.Nodes))
	for i := range m.Nodes {
		v.order = append(v.order, i)
	}
	slices.SortStableFunc(v.order, func(a, b int) int { return cmp.Compare(v.overpricing[a], v.overpricing[b]) })
}

// lowerBound is a lower bound on the cost of any cluster that holds the pods: the cheapest mix of offerings and of
// nodes like the existing ones, for the requests that nodes without a price do not hold. It considers the pods alone,
// because nodes that may not be removed now may be later. Pods that are terminating, and those that are deleted with
// their node, do not count.
func (v *mover) lowerBound() float64 {
	m := v.model
	demand := make([]float64, m.View.Resources.Len())
	cost, rows := v.launchableNodes(len(demand))
	free, seen := make([]float64, len(demand)), map[string]bool{}
	for n := range m.Nodes {
		node := &m.Nodes[n]
		if v.price[n] <= 0 {
			for l := range free {
				free[l] += float64(max(0, node.Free[l]))
			}
			continue
		}
		used, coming := make([]float64, len(demand)), m.DaemonRequests(node)
		for i := range node.Source.Pods {
			if p := &node.Source.Pods[i]; p.Shape != nil && !p.Daemon && !p.Stays && !p.Terminating && !p.Virtual {
				for l := range used {
					used[l] += float64(max(0, p.Shape.Requests.At(l)))
				}
			}
		}
		key := strconv.AppendFloat(nil, v.price[n], 'g', -1, 64)
		row := make([]float64, len(demand))
		for l := range row {
			demand[l] += used[l]
			row[l] = max(used[l], float64(max(0, node.Source.Allocatable.At(l)-coming[l]))) // a node may be overcommitted
			key = strconv.AppendFloat(append(key, ' '), row[l], 'g', -1, 64)
		}
		if !seen[string(key)] {
			seen[string(key)] = true
			cost, rows = append(cost, v.price[n]), append(rows, row...)
		}
	}
	for l := range demand {
		demand[l] = max(0, demand[l]-free[l])
	}
	sol := lp.Cover(cost, rows, len(demand), demand)
	if !sol.OK {
		return 0
	}
	return sol.Value * (1 - 1e-9)
}

// resourcePrices prices resources by the cheapest mix of nodes for everything that can move.
func (v *mover) resourcePrices() []float64 {
	m := v.model
	lanes := m.View.Resources.Len()
	demand := make([]float64, lanes)
	for k := range m.Classes {
		for l := range lanes {
			demand[l] += float64(len(m.Classes[k].Pods)) * float64(m.Classes[k].Requests[l])
		}
	}
	cost, rows := v.launchableNodes(lanes)
	v.nothingLaunchable = len(cost) == 0
	sol := lp.Cover(cost, rows, lanes, demand)
	if !sol.OK {
		return make([]float64, lanes)
	}
	return sol.Duals
}

// launchableNodes lists every node that can be launched: its price and its capacity. The fee per node is left out:
// fewer nodes are no reason to move pods.
func (v *mover) launchableNodes(lanes int) (cost, rows []float64) {
	m := v.model
	for i := range m.Pools {
		pl := &m.Pools[i]
		cat := m.Catalogues[pl.Catalogue]
		for t := pl.Types.Next(0); t >= 0; t = pl.Types.Next(t + 1) {
			price, at := cat.Cheapest(t, pl.Columns)
			if at < 0 {
				continue
			}
			cost = append(cost, price)
			for l := range lanes {
				rows = append(rows, float64(max(0, pl.Capacity.Allocatable[t*m.Lanes+l])))
			}
		}
	}
	return cost, rows
}

// drainNode tries to put every pod of a node on other nodes. If it cannot, it leaves the state unchanged.
func (v *mover) drainNode(n int) bool {
	s := v.state
	v.removed[n] = true
	s.AddNodeCounts(n, -1)
	v.undo, v.binds, v.stayReserved = v.undo[:0], v.binds[:0], v.allReserved(n)
	for _, p := range v.pods[n] {
		k := int(v.class[p])
		at, profileID := v.bestTarget(k)
		if at < 0 {
			v.undoDrain(n)
			return false
		}
		v.takePod(k, profileID, at)
		v.binds = append(v.binds, model.Bind{Pod: v.model.Pods[p].Key, Node: v.model.Nodes[at].Source.Name})
	}
	for _, u := range v.undo {
		v.receives[u.node] = true
	}
	return true
}

func (v *mover) takePod(k, profileID, at int) {
	s := v.state
	v.undo = append(v.undo, nodeBackup{
		node: at, profile: profileID, free: slices.Clone(s.Free[at*s.Model.Lanes : (at+1)*s.Model.Lanes]),
		ports: len(s.Ports[int32(at)]), claims: len(s.Claims[int32(at)]), devices: s.MarkDevices(),
	})
	s.PutOnNode(k, s.Model.Profiles[profileID], at, 1)
	s.Placed = s.Placed[:len(s.Placed)-1]
}

func (v *mover) undoDrain(n int) {
	v.undoPods()
	v.binds = v.binds[:0]
	v.removed[n] = false
	v.state.AddNodeCounts(n, 1)
}

// undoPods removes pods from the nodes that they were put on.
func (v *mover) undoPods() {
	s := v.state
	for _, u := range slices.Backward(v.undo) {
		place := int32(u.node)
		s.CountPods(s.Model.Profiles[u.profile], place, s.Model.Signatures[s.Model.Nodes[u.node].Signature].Values, -1, &s.Model.Nodes[u.node], nil)
		copy(s.Free[u.node*s.Model.Lanes:], u.free)
		s.Ports[place], s.Claims[place] = s.Ports[place][:u.ports], s.Claims[place][:u.claims]
		s.UpdateBlockMax(u.node / exact.BlockSize)
		s.UndoDevices(u.devices)
	}
	v.undo = v.undo[:0]
}

// bestTarget returns the best node for a pod: of the least overpriced ones that can take it, the one it
// fills best. A node that is itself more overpriced than others is a last resort.
func (v *mover) bestTarget(k int) (at, profileID int) {
	c := &v.model.Classes[k]
	for _, variant := range c.Variants[:v.lastMoveStep(k)+1] {
		if at := v.targetFor(c, v.model.Profiles[variant.Profile]); at >= 0 {
			return at, variant.Profile
		}
	}
	return -1, 0
}

// lastMoveStep returns the last step of relaxation that pods of a class may be moved with: the first at which a new
// node could be launched for them. Consolidation must not remove what provisioning launched for a preference.
func (v *mover) lastMoveStep(k int) int {
	c := &v.model.Classes[k]
	if v.lastMoveSteps == nil {
		v.lastMoveSteps = slices.Repeat([]int32{-1}, len(v.model.Classes))
	}
	if v.lastMoveSteps[k] < 0 {
		v.lastMoveSteps[k] = int32(len(c.Variants) - 1)
		for i, variant := range c.Variants {
			if p := v.model.Profiles[variant.Profile]; v.state.FirstPoolFor(k, p, p.Need) != -1 {
				v.lastMoveSteps[k] = int32(i)
				break
			}
		}
	}
	return int(v.lastMoveSteps[k])
}

// similarPrice is how much more overpriced a node may be to be compared with a better one.
const similarPrice = 1.02

func (v *mover) targetFor(c *model.Class, p *model.Profile) int {
	s, m := v.state, v.model
	best, score, upTo := -1, math.Inf(-1), 0.0
	for _, n := range v.order {
		if best >= 0 && v.overpricing[n] > upTo {
			break
		}
		free := s.Free[n*m.Lanes : (n+1)*m.Lanes]
		if v.removed[n] || v.stayReserved && v.reservedValue[n] <= 0 || free[0] < c.Requests[0] || free[1] < c.Requests[1] || s.FitOnNode(c, p, n, 1) == 0 {
			continue
		}
		if best < 0 {
			upTo = v.overpricing[n] * similarPrice
		}
		allocatable := m.Nodes[n].Source.Allocatable
		perCPU, perMemory := 1/float64(max(1, allocatable.At(0))), 1/float64(max(1, allocatable.At(1)))
		cpu, memory := float64(free[0])*perCPU, float64(free[1])*perMemory
		a, b := float64(c.Requests[0])*perCPU, float64(c.Requests[1])*perMemory
		// The fullest node wins: free allocatable counts against it, and so does a shape unlike that of the pod.
		if x := -(cpu + memory) - 4*math.Abs(a*memory-b*cpu); x > score {
			best, score = n, x
		}
	}
	return best
}
