package disrupt_test

import (
	"cmp"
	"slices"
	"time"

	karpv1 "github.com/dovetail-sh/dovetail/api/v1"
	"github.com/dovetail-sh/dovetail/internal/check"
	"github.com/dovetail-sh/dovetail/internal/cluster"
	"github.com/dovetail-sh/dovetail/internal/disrupt"
	"github.com/dovetail-sh/dovetail/internal/solve"
)

// viewOf shows a cluster as disruption sees it: everything is an hour old and nothing objects, but for
// pods that stay.
func viewOf(view *cluster.Snapshot, pending []cluster.Pod, policy solve.Policy) disrupt.View {
	v := disrupt.View{
		DisruptionView: cluster.DisruptionView{Now: view.Now, Cluster: view, PodsToPlace: pending, Pools: map[string]cluster.ManagedPool{}},
		Policy:         policy, Methods: disrupt.Methods{Static: true},
	}
	for i := range view.Pools {
		p := &view.Pools[i]
		v.Pools[p.Name] = cluster.ManagedPool{Pool: *p, Ready: !p.Closed, MaxNodes: -1}
	}
	for i := range view.Nodes {
		c := &view.Nodes[i]
		if c.Claim == "" || c.Needs != nil {
			continue
		}
		n := cluster.ManagedNode{
			Node:    *c,
			Frees:   view.Frees(c.Pool, c.InstanceType, c.Zone, c.CapacityType),
			Created: view.Now.Add(-time.Hour), Registered: true, Ready: true, BeingRemoved: c.Deleting,
		}
		for _, p := range c.Pods {
			p.EvictCost = cmp.Or(p.EvictCost, 1)
			n.Pods = append(n.Pods, cluster.ManagedPod{Pod: p, Moves: !p.Daemon, ProtectedBy: protection(p.Stays && !p.Daemon)})
		}
		v.Nodes = append(v.Nodes, n)
	}
	return v
}

// settled is the cluster once pods that look for a place have the one they get on nodes that exist.
func settled(v disrupt.View) *cluster.Snapshot {
	plan := solve.Solve(solve.Problem{View: v.Cluster, Pods: v.PodsToPlace, Policy: v.Policy, PlannedBinds: v.PlannedBinds}, nil)
	at := map[cluster.PodKey]string{}
	for _, b := range plan.Bind {
		at[b.Pod] = b.Node
	}
	return v.Cluster.With(v.PodsToPlace, at)
}

// judge returns what is wrong with the commands of a decision that were tried on a cluster.
func judge(v disrupt.View, d disrupt.Decision) []check.Violation {
	q := solve.Question{View: settled(v), Policy: v.Policy}
	result := solve.Consolidation{}
	for i := range v.Cluster.Nodes {
		result.Before += v.Cluster.Nodes[i].Price
	}
	result.After = result.Before
	for i := range d.Commands {
		c := &d.Commands[i]
		if len(c.Template) > 0 || c.Decision == disrupt.TerminateFirst || c.Decision == disrupt.Reboot { // where its pods go is found out later, or they stay
			continue
		}
		m := solve.Move{Bind: c.Bind, Create: c.Create, Saves: c.Saves, Moved: len(c.Bind)}
		for j := range c.Create {
			m.Moved += len(c.Create[j].Pods)
		}
		for j := range c.Remove {
			m.Remove = append(m.Remove, c.Remove[j].Node)
		}
		q.Candidates = append(q.Candidates, m.Remove...)
		result.Moves = append(result.Moves, m)
		result.After -= m.Saves
	}
	found := check.Consolidation(q, result)
	return slices.DeleteFunc(found, func(f check.Violation) bool {
		return f.Code == check.SavesWrong && slices.ContainsFunc(d.Commands, func(c disrupt.Command) bool { return c.Saves <= 0 }) // drift may cost
	})
}

// protection is what protects an object.
func protection(is bool) string {
	if is {
		return karpv1.AnnotationDoNotDisrupt
	}
	return ""
}
