package disrupt

import (
	"slices"
	"strings"

	"github.com/dovetail-sh/dovetail/internal/cluster"
	"github.com/dovetail-sh/dovetail/internal/solve"
)

// planningState is what moves are tried on: the cluster once every pod that looks for a place has the one it
// will get on nodes that exist. Pods that have to wait for a new node, or have no place at all, take
// no room and stop nothing. Thousands of pods may wait, so that is worked out when a node could go, and
// not before.
type planningState struct {
	view    *View
	policy  solve.Policy
	stop    func() bool
	drifted map[string]bool

	placed         bool
	cluster        *cluster.Snapshot // nil: nothing can be tried
	expected       map[string]bool   // nodes that pods are on their way to
	buffered       map[string]bool   // nodes that placeholders of buffers hold
	withoutDrifted *cluster.Snapshot // as cluster, but nodes that have drifted take nobody in; made when it is needed
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

// withStop is the same with another limit besides.
func (g *planningState) withStop(limit func() bool) *planningState {
	if limit == nil {
		return g
	}
	out, stop := *g, g.stop
	out.stop = func() bool { return stop() || limit() }
	return &out
}

// snapshot is the cluster with the homeless let in; nil if nothing can be tried.
func (g *planningState) snapshot() *cluster.Snapshot {
	if !g.placed {
		g.placed = true
		g.placePendingPods()
	}
	return g.cluster
}

// expectsPods reports whether pods are on their way to a node.
func (g *planningState) expectsPods(name string) bool {
	g.snapshot()
	return g.expected[name]
}

// heldByBuffer reports whether placeholders of buffers hold a node.
func (g *planningState) heldByBuffer(name string) bool {
	g.snapshot()
	return g.buffered[name]
}

// placePendingPods lets the homeless in. If it is stopped before all of them were asked nothing can be tried:
// a move might take the room they need.
func (g *planningState) placePendingPods() {
	v := g.view
	g.cluster = v.Cluster
	if v.Cluster == nil || len(v.PodsToPlace) == 0 {
		return
	}
	plan := solve.Solve(solve.Problem{View: v.Cluster, Pods: v.PodsToPlace, Policy: v.Policy, PlannedBinds: v.PlannedBinds}, g.stop)
	if plan.Partial {
		g.cluster = nil
		return
	}
	at := make(map[cluster.PodKey]string, len(plan.Bind))
	for _, b := range plan.Bind {
		at[b.Pod] = b.Node
	}
	for i := range v.PodsToPlace {
		switch p := &v.PodsToPlace[i]; {
		case at[p.Key] == "":
		case p.Virtual:
			g.buffered[at[p.Key]] = true
		default:
			g.expected[at[p.Key]] = true
		}
	}
	g.cluster = v.Cluster.With(v.PodsToPlace, at)
}

// excludeEmptyNodes is the cluster in which nodes that go as soon as they may take nobody in: pods that moved
// to one would keep it, however dear it is. allowed says of which pools empty nodes may go.
func (g *planningState) excludeEmptyNodes(allowed map[string]int) *cluster.Snapshot {
	deleting := map[string]bool{}
	for i := range g.view.Nodes {
		n := &g.view.Nodes[i]
		pool := g.view.Pools[n.Pool]
		if n.empty() && allowed[n.Pool] > 0 && !g.expected[n.Name] && !n.Protected && !pool.Static && !pool.NeverConsolidate && !pool.Protected {
			deleting[n.Name] = true
		}
	}
	if len(deleting) == 0 {
		return g.cluster
	}
	return g.cluster.WithSettling(deleting)
}

// relocation is where the pods of a node would live without it.
type relocation struct {
	Bind     []solve.Bind
	Create   []solve.NewNode
	Cost     float64          // of what is created, USD an hour
	Unplaced []solve.Unplaced // pods without a place
	Known    bool             // false: it was not found out, as there was no time or nothing to try it on
}

// allPlaced reports whether every pod has a place.
func (h *relocation) allPlaced() bool { return h.Known && len(h.Unplaced) == 0 }

// relocatePods answers whether the pods of a node can live elsewhere, and with which new nodes. Pods that
// are held where they are do not count (disruption 11), unless all is set: then every pod does that
// would need a place once it is made to leave (V15-27).
func (g *planningState) relocatePods(n *Node, all bool) relocation {
	if g.snapshot() == nil {
		return relocation{}
	}
	rest, _ := g.cluster.Without(n.Name)
	return g.solvePlacement(rest, g.podsToRelocate(n, all), g.policy)
}

// relocateFromDrifted answers the same for a node that has drifted. Pods go to others that have only if there is no
// other way: they would have to move again soon.
func (g *planningState) relocateFromDrifted(n *Node) relocation {
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

// relocateAfterTermination answers the same for a node that is removed first: its slot of a reservation can be had again,
// and reserved capacity is not given up for other (V15-47).
func (g *planningState) relocateAfterTermination(n *Node, all bool) relocation {
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
	return relocation{Bind: plan.Bind, Create: plan.Create, Cost: plan.Cost, Unplaced: plan.Unplaced, Known: !plan.Partial}
}

// podsToRelocate are the pods that need a place without a node.
func (g *planningState) podsToRelocate(n *Node, all bool) []cluster.Pod {
	on := g.cluster.Node(n.Name)
	if on == nil {
		return nil
	}
	moves := make(map[string]bool, len(n.Pods))
	for i := range n.Pods {
		moves[n.Pods[i].Name] = n.Pods[i].Moves
	}
	var out []cluster.Pod
	for _, p := range on.Pods {
		if _, there := moves[p.Key.String()]; !there {
			continue // it was to come, and is not for us to place
		}
		if p.Stays && !(all && !p.Daemon && moves[p.Key.String()]) {
			continue
		}
		p.Stays = false
		out = append(out, p)
	}
	slices.SortFunc(out, func(a, b cluster.Pod) int { return strings.Compare(a.Key.String(), b.Key.String()) })
	return out
}
