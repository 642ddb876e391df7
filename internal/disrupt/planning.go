package disrupt

import (
	"slices"
	"strings"

	"github.com/dovetail-sh/dovetail/internal/cluster"
	"github.com/dovetail-sh/dovetail/internal/solve"
)

// planningState is the cluster that moves are simulated on. In it, every pending or displaced pod that fits
// an existing node is placed there. Pods that wait for a new node, or are unschedulable, use no capacity
// and block nothing. Placing thousands of pending pods is expensive, so it is done on first use.
type planningState struct {
	view    *View
	policy  solve.Policy
	stop    func() bool
	drifted map[string]bool

	placed         bool
	cluster        *cluster.Snapshot // nil: no move can be simulated
	expected       map[string]bool   // nodes that pending pods were placed on
	buffered       map[string]bool   // nodes that buffer placeholders were placed on
	withoutDrifted *cluster.Snapshot // as cluster, but drifted nodes accept no moved pods; computed on first use
}

func newPlanningState(v *View, stop func() bool) *planningState {
	if stop == nil {
		stop = func() bool { return false }
	}
	g := &planningState{view: v, policy: v.Policy, stop: stop, expected: map[string]bool{}, buffered: map[string]bool{}, drifted: map[string]bool{}}
	g.policy.ReservedFallback = true // V15-46
	g.policy.MinSaving, g.policy.AnySaving = v.Tuning.MinSaving, v.Tuning.AnySaving
	for i := range v.Nodes {
		if v.Nodes[i].Drift != "" {
			g.drifted[v.Nodes[i].Name] = true
		}
	}
	return g
}

// withStop returns a copy that also stops when limit says so.
func (g *planningState) withStop(limit func() bool) *planningState {
	if limit == nil {
		return g
	}
	out, stop := *g, g.stop
	out.stop = func() bool { return stop() || limit() }
	return &out
}

// snapshot returns the cluster with pending pods placed; nil if no move can be simulated.
func (g *planningState) snapshot() *cluster.Snapshot {
	if !g.placed {
		g.placed = true
		g.placePendingPods()
	}
	return g.cluster
}

// expectsPods reports whether pending pods were placed on a node.
func (g *planningState) expectsPods(name string) bool {
	g.snapshot()
	return g.expected[name]
}

// heldByBuffer reports whether buffer placeholders were placed on a node.
func (g *planningState) heldByBuffer(name string) bool {
	if !slices.ContainsFunc(g.view.PodsToPlace, func(p cluster.Pod) bool { return p.Virtual }) {
		return false
	}
	g.snapshot()
	return g.buffered[name]
}

// placePendingPods places the pending and displaced pods. If it is stopped early, no move is simulated at all:
// a move could use the capacity that the remaining pods need.
func (g *planningState) placePendingPods() {
	v := g.view
	g.cluster = v.Cluster
	if v.Cluster == nil || len(v.PodsToPlace) == 0 {
		return
	}
	// Virtual pods come last, as in provisioning: they take nothing that a real pod needs (CB-12).
	virtual := map[cluster.PodKey]bool{}
	var first, last []cluster.Pod
	for i := range v.PodsToPlace {
		if p := &v.PodsToPlace[i]; p.Virtual {
			virtual[p.Key], last = true, append(last, *p)
		} else {
			first = append(first, *p)
		}
	}
	g.place(first, g.expected, func(key cluster.PodKey) bool { return !virtual[key] })
	g.place(last, g.buffered, func(key cluster.PodKey) bool { return virtual[key] })
}

// place places some of the pods on the cluster, and records on which nodes. planned says which of the earlier plans count.
func (g *planningState) place(pods []cluster.Pod, used map[string]bool, planned func(cluster.PodKey) bool) {
	if g.cluster == nil || len(pods) == 0 {
		return
	}
	problem := solve.Problem{View: g.cluster, Pods: pods, Policy: g.view.Policy}
	for _, b := range g.view.PlannedBinds {
		if planned(b.Pod) {
			problem.PlannedBinds = append(problem.PlannedBinds, b)
		}
	}
	plan := solve.Solve(problem, g.stop)
	if plan.Partial {
		g.cluster = nil
		return
	}
	at := make(map[cluster.PodKey]string, len(plan.Bind))
	for _, b := range plan.Bind {
		at[b.Pod], used[b.Node] = b.Node, true
	}
	g.cluster = g.cluster.With(pods, at)
}

// excludeEmptyNodes returns the cluster in which empty nodes that can be removed accept no moved pods. Otherwise
// such pods would keep an empty node alive, however expensive it is. allowed is the budget of each pool for Empty.
func (g *planningState) excludeEmptyNodes(allowed map[string]int) *cluster.Snapshot {
	deleting := map[string]bool{}
	for i := range g.view.Nodes {
		n := &g.view.Nodes[i]
		pool := g.view.Pools[n.Pool]
		if isEmpty(n) && allowed[n.Pool] > 0 && !g.expected[n.Name] && !g.buffered[n.Name] && n.ProtectedBy == "" && !pool.Static && !pool.NeverConsolidate && pool.ProtectedBy == "" {
			deleting[n.Name] = true
		}
	}
	if len(deleting) == 0 {
		return g.cluster
	}
	return g.cluster.WithSettling(deleting)
}

// relocation is where the pods of a node would run if it were removed.
type relocation struct {
	Bind     []solve.Bind
	Create   []solve.NewNode
	Cost     float64          // of the created nodes, USD an hour
	Unplaced []solve.Unplaced // unschedulable pods
	Known    bool             // false: not determined, because time was up or there was no cluster to simulate on
}

// allPlaced reports whether every pod is schedulable elsewhere.
func (h *relocation) allPlaced() bool { return h.Known && len(h.Unplaced) == 0 }

// relocatePods finds where the pods of a node could run instead, and with which new nodes. Pods that cannot
// be evicted do not count (disruption 11). With all set they do, if they need another node once they are
// forced to leave (V15-27).
func (g *planningState) relocatePods(n *cluster.ManagedNode, all bool) relocation {
	if g.snapshot() == nil {
		return relocation{}
	}
	rest, _ := g.cluster.Without(n.Name)
	return g.solvePlacement(rest, g.podsToRelocate(n, all), g.policy)
}

// relocateFromDrifted is relocatePods for a drifted node. Other drifted nodes are a last resort, because their
// pods would soon have to move again.
func (g *planningState) relocateFromDrifted(n *cluster.ManagedNode) relocation {
	if g.snapshot() == nil || len(g.drifted) < 2 {
		return g.relocatePods(n, false)
	}
	if g.withoutDrifted == nil {
		g.withoutDrifted = g.cluster.WithSettling(g.drifted)
	}
	rest, _ := g.withoutDrifted.Without(n.Name)
	if h := g.solvePlacement(rest, g.podsToRelocate(n, false), g.policy); h.allPlaced() || !h.Known {
		return h
	}
	return g.relocatePods(n, false)
}

// relocateAfterTermination is relocatePods for a node that is terminated before it is replaced. Its slot in the
// reservation is free again, and reserved capacity is not exchanged for other capacity (V15-47).
func (g *planningState) relocateAfterTermination(n *cluster.ManagedNode, all bool) relocation {
	if g.snapshot() == nil || n.Reservation == "" {
		return relocation{}
	}
	rest, _ := g.cluster.Without(n.Name)
	strict := g.policy
	strict.ReservedFallback = false
	return g.solvePlacement(rest.WithFreedSlot(n.Reservation), g.podsToRelocate(n, all), strict)
}

func (g *planningState) solvePlacement(on *cluster.Snapshot, pods []cluster.Pod, policy solve.Policy) relocation {
	if len(pods) == 0 {
		return relocation{Known: true}
	}
	plan := solve.Solve(solve.Problem{View: on, Moved: pods, Policy: policy}, g.stop)
	if len(plan.Unplaced) > 0 && !plan.Partial {
		// Room for virtual pods is found along with that for real ones if there is any, but no node stays for them alone.
		if real := withoutVirtual(pods); len(real) < len(pods) {
			return g.solvePlacement(on, real, policy)
		}
	}
	return relocation{Bind: plan.Bind, Create: plan.Create, Cost: plan.Cost, Unplaced: plan.Unplaced, Known: !plan.Partial}
}

// podsToRelocate returns the pods that need another node if this one is removed.
func (g *planningState) podsToRelocate(n *cluster.ManagedNode, all bool) []cluster.Pod {
	on := g.cluster.Node(n.Name)
	if on == nil {
		return nil
	}
	moves := make(map[cluster.PodKey]bool, len(n.Pods))
	for i := range n.Pods {
		moves[n.Pods[i].Key] = n.Pods[i].Moves
	}
	var out []cluster.Pod
	for _, p := range on.Pods {
		if p.Virtual {
			out = append(out, p)
			continue
		}
		if _, there := moves[p.Key]; !there {
			continue // a pending pod that was only placed here: the plan for pending pods handles it
		}
		if p.Stays && !(all && !p.Daemon && moves[p.Key]) {
			continue
		}
		p.Stays = false
		out = append(out, p)
	}
	slices.SortFunc(out, func(a, b cluster.Pod) int { return strings.Compare(a.Key.String(), b.Key.String()) })
	return out
}

func withoutVirtual(pods []cluster.Pod) []cluster.Pod {
	return slices.DeleteFunc(slices.Clone(pods), func(p cluster.Pod) bool { return p.Virtual })
}
