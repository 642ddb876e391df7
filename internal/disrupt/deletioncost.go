package disrupt

import (
	"cmp"
	"math"
	"slices"

	karpv1 "github.com/dovetail-sh/dovetail/api/v1"
	"github.com/dovetail-sh/dovetail/internal/cluster"
)

// NodeNote is what ranking needs to know of a node beyond the view.
type NodeNote struct {
	Tainted bool // has the disrupted taint
	Pinned  bool // holds a pod that ReplicaSets, Jobs and DaemonSets do not look after
}

// NodeCost is the deletion cost that the pods of a node should have, so that ReplicaSets that shrink
// isEmpty the nodes that would go next.
type NodeCost struct {
	Node, Pool string
	Deleting   bool  // it is terminating: its pods are not protected
	Value      int32 // below 0; 0: none, an existing value is to be removed
}

// DeletionCosts ranks all nodes (V15-54): those that go, those that drifted, those that consolidation
// would take, as many as budgets leave, and the rest, which get no cost.
func DeletionCosts(v View, notes map[string]NodeNote) []NodeCost {
	d := Decision{At: v.Now, Allowed: map[karpv1.DisruptionReason]map[string]int{}, Busy: map[karpv1.DisruptionReason]map[string]int{}}
	d.computeBudgets(&v)
	drift, waste := d.remainingBudgets(karpv1.ReasonDrifted), d.remainingBudgets(karpv1.ReasonUnderutilized)
	types := offeredTypes(v.Cluster)
	var groups [4][]*cluster.ManagedNode
	nodes := make([]*cluster.ManagedNode, 0, len(v.Nodes))
	for i := range v.Nodes {
		nodes = append(nodes, &v.Nodes[i])
	}
	slices.SortFunc(nodes, func(a, b *cluster.ManagedNode) int {
		return cmp.Or(cmp.Compare(b.Price/moveCost(b), a.Price/moveCost(a)), cmp.Compare(a.Name, b.Name))
	})
	for _, n := range nodes {
		pool := v.Pools[n.Pool]
		eligible := !notes[n.Name].Pinned && types[n.Pool][n.InstanceType] && blocked(&v, n, graceful) == nil
		group := 3
		switch {
		case n.BeingRemoved || notes[n.Name].Tainted:
			group = 0
		case !eligible:
		case n.Drift != "" && !pool.Static:
			if drift[n.Pool] > 0 {
				drift[n.Pool]--
				group = 1
			}
		case !pool.NeverConsolidate && waste[n.Pool] > 0:
			waste[n.Pool]--
			group = 2
		}
		groups[group] = append(groups[group], n)
	}
	out := make([]NodeCost, 0, len(nodes))
	value := -int32(min(len(groups[1])+len(groups[2]), math.MaxInt32-1))
	for g, list := range groups {
		for _, n := range list {
			c := NodeCost{Node: n.Name, Pool: n.Pool}
			switch g {
			case 0:
				c.Deleting, c.Value = true, math.MinInt32
			case 1, 2:
				c.Value = value
				value++
			}
			out = append(out, c)
		}
	}
	return out
}

// offeredTypes returns which instance types each pool could launch.
func offeredTypes(view *cluster.Snapshot) map[string]map[string]bool {
	out := map[string]map[string]bool{}
	if view == nil {
		return out
	}
	for i := range view.Pools {
		p := &view.Pools[i]
		out[p.Name] = make(map[string]bool, len(p.Types))
		for j := range p.Types {
			out[p.Name][p.Types[j].Name] = true
		}
	}
	return out
}
