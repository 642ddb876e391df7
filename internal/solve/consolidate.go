package solve

import (
	"cmp"
	"math"
	"slices"
	"strconv"

	"github.com/dovetail-sh/dovetail/internal/cluster"
	"github.com/dovetail-sh/dovetail/internal/lp"
	"github.com/dovetail-sh/dovetail/internal/reason"
	"github.com/dovetail-sh/dovetail/internal/reqs"
)

// mover looks for nodes that could go. It keeps one state in which nodes disappear one by one; a node
// that has taken in pods of another stays, so no pod moves twice and no move undoes another.
type mover struct {
	s              *state
	m              *model
	pods           [][]int32 // movable pods of each node, into model.pods, largest first
	index          map[cluster.PodKey]int32
	class          []int32 // of each pod
	price          []float64
	overpricing    []float64   // price over what its room is worth: how overpriced a node is
	worth          []float64   // of the pods on it, at the best prices there are
	frees          []float64   // what it costs on demand if it is on reserved capacity, otherwise 0
	staying        bool        // pods of the node that is tried stay on reserved capacity
	may            []bool      // candidate that could go
	stuck          map[int]int // candidates that cannot, and how many pods keep them
	removed        []bool
	host           []bool // has taken pods in
	order          []int  // places to put pods, least overpriced first
	candidate      []bool
	lastMoveSteps  []int32        // of each class, see lastMoveStep
	byName         map[string]int // nodes of the model
	examined       int
	moves          []Move
	undo           []nodeBackup
	binds          []Bind
	most           map[string]int           // of each pool that may go
	first          map[string]bool          // pools that the simple way begins with
	unreached      []string                 // pools that it had no time for
	trimmed        bool                     // more would go without that
	reusable       map[string]bool          // nodes that could be kept instead of buying one like them
	nothingBuyable bool                     // nothing can be bought at all
	refused        map[string]reason.Reason // nodes of moves that would save but may not be made
}

// nodeBackup is a node before a pod was put on it.
type nodeBackup struct {
	node, class, profile int
	free                 []int64
	ports, claims        int
}

const (
	// leastSaving is the share of what is removed that a replacement must save: below it, moving pods
	// costs more than it brings.
	leastSaving = 0.1
	// anySaving is that share if any saving will do: more than prices are off by when they are added up.
	anySaving = 1e-4
	// leastPerPod is what a replacement must save for each pod it moves, USD an hour.
	leastPerPod = 0.001
)

// compiledCluster is a cluster compiled for the search for removable nodes. Movers share it.
type compiledCluster struct {
	m     *model
	from  map[string][2]int // pods of each candidate, into model.pods
	class []int32           // of each pod; -1: cannot be read
	most  map[string]int    // of each pool that may go
	frees []float64         // see mover
	first map[string]bool   // pools that the simple way begins with
	stop  func() bool       // for everything
}

// compileCluster reads the cluster; nil if stop said that time is up. If it is what moves made of another, that one's model helps.
func compileCluster(q Question, earlier *model, stop func() bool) *compiledCluster {
	view := q.View
	if view == nil {
		view = &cluster.Snapshot{}
	}
	candidates := make(map[string]bool, len(q.Candidates))
	for _, name := range q.Candidates {
		candidates[name] = true
	}
	g := &compiledCluster{from: map[string][2]int{}, most: q.Most, first: make(map[string]bool, len(q.First)), stop: stop}
	for _, pool := range q.First {
		g.first[pool] = true
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
		// The order of the input must not show in the answer.
		slices.SortFunc(moved[first:], func(a, b cluster.Pod) int { return a.Key.Compare(b.Key) })
		g.from[n.Name] = [2]int{first, len(moved)}
	}
	policy := q.Policy
	policy.ReservedFallback = true
	if g.m = compile(Problem{View: view, Moved: moved, Policy: policy}, earlier, stop); g.m == nil {
		return nil
	}
	g.class = slices.Repeat([]int32{-1}, len(g.m.pods))
	for k := range g.m.classes {
		for _, p := range g.m.classes[k].pods {
			g.class[p] = int32(k)
		}
	}
	g.readFrees()
	return g
}

// newMover starts on a fork of the model, which must not be shared. Candidates in except are kept.
func (g *compiledCluster) newMover(m *model, except map[string]bool, stop func() bool) *mover {
	m.classes = slices.Clone(m.classes) // their pods will be those that look for a place
	v := &mover{s: newState(m, stop), m: m, class: g.class, most: g.most, frees: g.frees, first: g.first, reusable: map[string]bool{}, refused: map[string]reason.Reason{}}
	v.s.avoidDearer = true
	v.s.countNodesByDomain()
	n := len(m.nodes)
	v.pods, v.price, v.overpricing, v.worth = make([][]int32, n), make([]float64, n), make([]float64, n), make([]float64, n)
	v.may, v.removed, v.host, v.candidate, v.stuck = make([]bool, n), make([]bool, n), make([]bool, n), make([]bool, n), map[int]int{}
	v.byName = make(map[string]int, n)
	for i := range m.nodes {
		src := m.nodes[i].src
		v.byName[src.Name] = i
		v.price[i] = max(0, src.Price)
		span, is := g.from[src.Name]
		v.candidate[i], v.may[i] = is, is && !except[src.Name]
		for p := span[0]; p < span[1]; p++ {
			v.pods[i] = append(v.pods[i], int32(p))
			if v.class[p] < 0 || v.fixed(&m.classes[v.class[p]]) {
				v.stuck[i]++
				v.may[i] = false
			}
		}
		if !v.may[i] {
			v.pods[i] = nil
			continue
		}
		slices.SortFunc(v.pods[i], func(a, b int32) int { return cmp.Or(cmp.Compare(v.class[a], v.class[b]), cmp.Compare(a, b)) })
	}
	v.appraise()
	return v
}

// fixed reports whether pods of a class can be planned for at all.
func (v *mover) fixed(c *class) bool {
	return len(c.shape.Invalid) > 0 || c.shape.Refuses || len(c.variants) == 0
}

// appraise finds out what resources are worth at the best prices for all pods that can move, and from
// that how overpriced each node is.
func (v *mover) appraise() {
	m := v.m
	duals := v.duals()
	for i := range m.nodes {
		n := &m.nodes[i]
		room, used := 0.0, 0.0
		for l, d := range duals {
			coming := m.comingTo(n)[l]
			room += d * float64(max(0, n.src.Allocatable.At(l)-coming))
		}
		for _, p := range v.pods[i] {
			for l, d := range duals {
				used += d * float64(m.classes[v.class[p]].req[l])
			}
		}
		v.worth[i], v.overpricing[i] = used, v.price[i]/max(room, 1e-9)
	}
	v.order = make([]int, 0, len(m.nodes))
	for i := range m.nodes {
		v.order = append(v.order, i)
	}
	slices.SortStableFunc(v.order, func(a, b int) int { return cmp.Compare(v.overpricing[a], v.overpricing[b]) })
}

// bound is what any cluster costs at least that holds the pods: the cheapest mix, of what can be bought and of nodes
// like those that exist, for what the pods ask for and nodes without a price have no room for. It is over the pods
// alone: nodes that may not go now may go later. Pods that end, and those that end with their node, do not count.
func (v *mover) bound() float64 {
	m := v.m
	demand := make([]float64, m.view.Resources.Len())
	cost, rows := v.buyableNodes(len(demand))
	spare, seen := make([]float64, len(demand)), map[string]bool{}
	for n := range m.nodes {
		node := &m.nodes[n]
		if v.price[n] <= 0 {
			for l := range spare {
				spare[l] += float64(max(0, node.free[l]))
			}
			continue
		}
		used, coming := make([]float64, len(demand)), m.comingTo(node)
		for i := range node.src.Pods {
			if p := &node.src.Pods[i]; p.Shape != nil && !p.Daemon && !p.Stays && !p.Terminating && !p.Virtual {
				for l := range used {
					used[l] += float64(max(0, p.Shape.Requests.At(l)))
				}
			}
		}
		key := strconv.AppendFloat(nil, v.price[n], 'g', -1, 64)
		row := make([]float64, len(demand))
		for l := range row {
			demand[l] += used[l]
			row[l] = max(used[l], float64(max(0, node.src.Allocatable.At(l)-coming[l]))) // it may hold more than it should
			key = strconv.AppendFloat(append(key, ' '), row[l], 'g', -1, 64)
		}
		if !seen[string(key)] {
			seen[string(key)] = true
			cost, rows = append(cost, v.price[n]), append(rows, row...)
		}
	}
	for l := range demand {
		demand[l] = max(0, demand[l]-spare[l])
	}
	sol := lp.Cover(cost, rows, len(demand), demand)
	if !sol.OK {
		return 0
	}
	return sol.Value * (1 - 1e-9)
}

// duals prices resources by the cheapest mix of nodes for everything that can move.
func (v *mover) duals() []float64 {
	m := v.m
	lanes := m.view.Resources.Len()
	demand := make([]float64, lanes)
	for k := range m.classes {
		for l := range lanes {
			demand[l] += float64(len(m.classes[k].pods)) * float64(m.classes[k].req[l])
		}
	}
	cost, rows := v.buyableNodes(lanes)
	v.nothingBuyable = len(cost) == 0
	sol := lp.Cover(cost, rows, lanes, demand)
	if !sol.OK {
		return make([]float64, lanes)
	}
	return sol.Duals
}

// buyableNodes is every node that can be bought: what it costs, and its room. The fee per node is left out:
// fewer nodes are no reason to move pods.
func (v *mover) buyableNodes(lanes int) (cost, rows []float64) {
	m := v.m
	for i := range m.pools {
		pl := &m.pools[i]
		cat := m.catalogues[pl.catalogue]
		for t := pl.types.next(0); t >= 0; t = pl.types.next(t + 1) {
			price, at := cat.cheapest(t, pl.cols)
			if at < 0 {
				continue
			}
			cost = append(cost, price)
			for l := range lanes {
				rows = append(rows, float64(max(0, pl.rooms.room[t*m.lanes+l])))
			}
		}
	}
	return cost, rows
}

// drainNode tries to put every pod of a node on other nodes. It leaves the state as it was if it cannot.
func (v *mover) drainNode(n int) bool {
	s := v.s
	v.removed[n] = true
	s.count(n, -1)
	v.undo, v.binds, v.staying = v.undo[:0], v.binds[:0], v.reserved(n)
	for _, p := range v.pods[n] {
		k := int(v.class[p])
		at, profileID := v.bestTarget(k)
		if at < 0 {
			v.rollback(n)
			return false
		}
		v.takePod(k, profileID, at)
		v.binds = append(v.binds, Bind{v.m.pods[p].Key, v.m.nodes[at].src.Name})
	}
	for _, u := range v.undo {
		v.host[u.node] = true
	}
	return true
}

func (v *mover) takePod(k, profileID, at int) {
	s := v.s
	v.undo = append(v.undo, nodeBackup{
		node: at, class: k, profile: profileID, free: slices.Clone(s.free[at*s.m.lanes : (at+1)*s.m.lanes]),
		ports: len(s.ports[int32(at)]), claims: len(s.claims[int32(at)]),
	})
	s.takeNode(k, s.m.profiles[profileID], at, 1)
	s.placed = s.placed[:len(s.placed)-1]
}

func (v *mover) rollback(n int) {
	v.putBack()
	v.binds = v.binds[:0]
	v.removed[n] = false
	v.s.count(n, 1)
}

// putBack takes pods off the nodes that they were put on.
func (v *mover) putBack() {
	s := v.s
	for _, u := range slices.Backward(v.undo) {
		place := int32(u.node)
		s.note(s.m.profiles[u.profile], place, s.m.signs[s.m.nodes[u.node].sign].values, -1, &s.m.nodes[u.node], nil)
		copy(s.free[u.node*s.m.lanes:], u.free)
		s.ports[place], s.claims[place] = s.ports[place][:u.ports], s.claims[place][:u.claims]
		s.updateBlockMax(u.node / block)
	}
	v.undo = v.undo[:0]
}

// bestTarget returns the best node for a pod: of the least overpriced ones that can take it, the one it
// fills best. A node that is itself more overpriced than others is a last resort.
func (v *mover) bestTarget(k int) (at, profileID int) {
	c := &v.m.classes[k]
	for _, variant := range c.variants[:v.lastMoveStep(k)+1] {
		if at := v.targetFor(c, v.m.profiles[variant.profile]); at >= 0 {
			return at, variant.profile
		}
	}
	return -1, 0
}

// lastMoveStep returns the last step of relaxation that pods of a class may be moved with: the first at which a
// new node could be bought for them. Consolidation must not remove what provisioning
// launched for a preference.
func (v *mover) lastMoveStep(k int) int {
	c := &v.m.classes[k]
	if v.lastMoveSteps == nil {
		v.lastMoveSteps = slices.Repeat([]int32{-1}, len(v.m.classes))
	}
	if v.lastMoveSteps[k] < 0 {
		v.lastMoveSteps[k] = int32(len(c.variants) - 1)
		for i, variant := range c.variants {
			if p := v.m.profiles[variant.profile]; v.s.firstPoolFor(k, p, p.need) != -1 {
				v.lastMoveSteps[k] = int32(i)
				break
			}
		}
	}
	return int(v.lastMoveSteps[k])
}

// alike is how much more overpriced a node may be to be looked at together with a better one.
const alike = 1.02

func (v *mover) targetFor(c *class, p *profile) int {
	s, m := v.s, v.m
	best, score, upTo := -1, math.Inf(-1), 0.0
	for _, n := range v.order {
		if best >= 0 && v.overpricing[n] > upTo {
			break
		}
		free := s.free[n*m.lanes : (n+1)*m.lanes]
		if v.removed[n] || v.staying && v.frees[n] <= 0 || free[0] < c.req[0] || free[1] < c.req[1] || s.onNode(c, p, n, 1) == 0 {
			continue
		}
		if best < 0 {
			upTo = v.overpricing[n] * alike
		}
		room := m.nodes[n].src.Allocatable
		perCPU, perMemory := 1/float64(max(1, room.At(0))), 1/float64(max(1, room.At(1)))
		cpu, memory := float64(free[0])*perCPU, float64(free[1])*perMemory
		a, b := float64(c.req[0])*perCPU, float64(c.req[1])*perMemory
		// Fullest first: the sum of what is left counts against, unlike shapes count against.
		if x := -(cpu + memory) - 4*math.Abs(a*memory-b*cpu); x > score {
			best, score = n, x
		}
	}
	return best
}

// countNodesByDomain counts the nodes of each domain: one that no pool offers goes with its last node (SC-26).
func (s *state) countNodesByDomain() {
	m := s.m
	s.nodesByDomain, s.removedDomains = make([][]int32, m.table.Len()), make([]set, m.table.Len())
	for k := range m.domains {
		if m.domains[k].used {
			s.nodesByDomain[k], s.removedDomains[k] = make([]int32, m.table.ValueCount(reqs.KeyID(k))), newSet(m.table.ValueCount(reqs.KeyID(k)))
		}
	}
	for n := range m.nodes {
		s.adjustDomainNodes(n, 1)
	}
}

// adjustDomainNodes counts a node in its domains, or takes it out.
func (s *state) adjustDomainNodes(n int, sign int32) {
	for k, v := range s.m.signs[s.m.nodes[n].sign].values {
		if v < 0 || s.nodesByDomain[k] == nil {
			continue
		}
		s.nodesByDomain[k][v] += sign
		s.removedDomains[k].drop(int(v))
		if s.nodesByDomain[k][v] == 0 && !slices.ContainsFunc(s.m.domains[k].byPool, func(offers set) bool { return offers.has(int(v)) }) {
			s.removedDomains[k].add(int(v))
		}
	}
}

// count takes a node and its pods out of the topology groups, or puts them back.
func (s *state) count(n int, sign int32) {
	m := s.m
	if len(m.groups) == 0 {
		return
	}
	s.adjustDomainNodes(n, sign)
	values := m.signs[m.nodes[n].sign].values
	bump := func(id int, sel, own int32) {
		g := m.groups[id]
		if g.host {
			s.total[id] += sign * sel
		} else if v := values[g.key]; v >= 0 {
			s.sel[id][v] += sign * sel
			s.own[id][v] += sign * own
		}
	}
	for i := range m.nodes[n].src.Pods {
		p := &m.nodes[n].src.Pods[i]
		if p.Shape == nil || p.Terminating {
			continue
		}
		for _, id := range m.selecting(m.internLabels(p.Shape)) {
			if m.counts(m.groups[id], &m.nodes[n]) {
				bump(id, 1, 0)
			}
		}
		for t := range p.Shape.AntiAffinity {
			if p.Shape.AntiAffinity[t].Weight == 0 {
				bump(m.termGroup(apart, &p.Shape.AntiAffinity[t]), 0, 1)
			}
		}
	}
}
