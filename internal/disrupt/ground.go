package disrupt

import (
	"slices"
	"strings"

	"github.com/dovetail-sh/dovetail/internal/cluster"
	"github.com/dovetail-sh/dovetail/internal/solve"
)

// ground is what moves are tried on: the cluster once every pod that looks for a place has the one it
// will get on nodes that exist. Pods that have to wait for a new node, or have no place at all, take
// no room and stop nothing. Thousands of pods may wait, so that is worked out when a node could go, and
// not before.
type ground struct {
	view    *View
	policy  solve.Policy
	stop    func() bool
	drifted map[string]bool

	settled  bool
	cluster  *cluster.Snapshot // nil: nothing can be tried
	expected map[string]bool   // nodes that pods are on their way to
	buffered map[string]bool   // nodes that placeholders of buffers hold
	lasting  *cluster.Snapshot // as cluster, but nodes that have drifted take nobody in; made when it is needed
}

func newGround(v *View, stop func() bool) *ground {
	if stop == nil {
		stop = func() bool { return false }
	}
	g := &ground{view: v, policy: v.Policy, stop: stop, expected: map[string]bool{}, buffered: map[string]bool{}, drifted: map[string]bool{}}
	g.policy.ReservedFallback = true // V15-46
	g.policy.MinSaving, g.policy.AnySaving = v.Tuning.MinSaving, v.Tuning.AnySaving
	for i := range v.Nodes {
		if v.Nodes[i].Drift != "" {
			g.drifted[v.Nodes[i].Name] = true
		}
	}
	return g
}

// within is the same with another limit besides.
func (g *ground) within(limit func() bool) *ground {
	if limit == nil {
		return g
	}
	out, stop := *g, g.stop
	out.stop = func() bool { return stop() || limit() }
	return &out
}

// on is the cluster with the homeless let in; nil if nothing can be tried.
func (g *ground) on() *cluster.Snapshot {
	if !g.settled {
		g.settled = true
		g.settle()
	}
	return g.cluster
}

// expects reports whether pods are on their way to a node.
func (g *ground) expects(name string) bool {
	g.on()
	return g.expected[name]
}

// buffers reports whether placeholders of buffers hold a node.
func (g *ground) buffers(name string) bool {
	g.on()
	return g.buffered[name]
}

// settle lets the homeless in. If it is stopped before all of them were asked nothing can be tried:
// a move might take the room they need.
func (g *ground) settle() {
	v := g.view
	g.cluster = v.Cluster
	if v.Cluster == nil || len(v.Homeless) == 0 {
		return
	}
	plan := solve.Solve(solve.Problem{View: v.Cluster, Pods: v.Homeless, Policy: v.Policy, Promised: v.Promised}, g.stop)
	if plan.Partial {
		g.cluster = nil
		return
	}
	at := make(map[cluster.PodKey]string, len(plan.Bind))
	for _, b := range plan.Bind {
		at[b.Pod] = b.Node
	}
	for i := range v.Homeless {
		switch p := &v.Homeless[i]; {
		case at[p.Key] == "":
		case p.Virtual:
			g.buffered[at[p.Key]] = true
		default:
			g.expected[at[p.Key]] = true
		}
	}
	g.cluster = v.Cluster.With(v.Homeless, at)
}

// withoutEmpty is the cluster in which nodes that go as soon as they may take nobody in: pods that moved
// to one would keep it, however dear it is. allowed says of which pools empty nodes may go.
func (g *ground) withoutEmpty(allowed map[string]int) *cluster.Snapshot {
	going := map[string]bool{}
	for i := range g.view.Nodes {
		n := &g.view.Nodes[i]
		pool := g.view.Pools[n.Pool]
		if n.empty() && allowed[n.Pool] > 0 && !g.expected[n.Name] && !n.Protected && !pool.Static && !pool.Never && !pool.Protected {
			going[n.Name] = true
		}
	}
	if len(going) == 0 {
		return g.cluster
	}
	return g.cluster.Settled(going)
}

// home is where the pods of a node would live without it.
type home struct {
	Bind   []solve.Bind
	Create []solve.NewNode
	Cost   float64          // of what is created, USD an hour
	Lost   []solve.Unplaced // pods without a place
	Known  bool             // false: it was not found out, as there was no time or nothing to try it on
}

// ok reports whether every pod has a place.
func (h *home) ok() bool { return h.Known && len(h.Lost) == 0 }

// without answers whether the pods of a node can live elsewhere, and with which new nodes. Pods that
// are held where they are do not count (disruption 11), unless all is set: then every pod does that
// would need a place once it is made to leave (V15-27).
func (g *ground) without(n *Node, all bool) home {
	if g.on() == nil {
		return home{}
	}
	rest, _ := g.cluster.Without(n.Name)
	return g.place(rest, g.leaving(n, all), g.policy)
}

// renewed answers the same for a node that has drifted. Pods go to others that have only if there is no
// other way: they would have to move again soon.
func (g *ground) renewed(n *Node) home {
	if g.on() == nil || len(g.drifted) < 2 {
		return g.without(n, false)
	}
	if g.lasting == nil {
		g.lasting = g.cluster.Settled(g.drifted)
	}
	rest, _ := g.lasting.Without(n.Name)
	if h := g.place(rest, g.leaving(n, false), g.policy); h.ok() || !h.Known {
		return h
	}
	return g.without(n, false)
}

// vacated answers the same for a node that is removed first: its slot of a reservation can be had again,
// and reserved capacity is not given up for other (V15-47).
func (g *ground) vacated(n *Node, all bool) home {
	if g.on() == nil || n.Reservation == "" {
		return home{}
	}
	rest, _ := g.cluster.Without(n.Name)
	strict := g.policy
	strict.ReservedFallback = false
	return g.place(rest.Vacated(n.Reservation), g.leaving(n, all), strict)
}

func (g *ground) place(on *cluster.Snapshot, pods []cluster.Pod, policy solve.Policy) home {
	if len(pods) == 0 {
		return home{Known: true}
	}
	plan := solve.Solve(solve.Problem{View: on, Moved: pods, Policy: policy}, g.stop)
	return home{Bind: plan.Bind, Create: plan.Create, Cost: plan.Cost, Lost: plan.Unplaced, Known: !plan.Partial}
}

// leaving are the pods that need a place without a node.
func (g *ground) leaving(n *Node, all bool) []cluster.Pod {
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
