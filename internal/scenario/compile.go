package scenario

import (
	"maps"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"

	karpv1 "github.com/dovetail-sh/dovetail/api/v1"
	"github.com/dovetail-sh/dovetail/internal/cluster"
	"github.com/dovetail-sh/dovetail/internal/resources"
)

// Compiled is a world as decisions see it.
type Compiled struct {
	World *World
	View  *cluster.Snapshot

	reader   *cluster.Reader
	held     map[string]bool // nodes that may not be disrupted
	launched int             // nodes that moves brought up, for their names
}

// Compile reads pending pods, DaemonSets and pools, and cuts a view together with the nodes. It is all
// the work between being requested a decision and making it.
func (s *Store) Compile() *Compiled {
	w := s.world
	s = s.withLabelsOf(w.Pending)
	c := &Compiled{World: w, reader: s.reader, held: maps.Clone(s.held)}
	parts := cluster.Snapshot{
		Version: 1, Now: w.Now,
		Pending: make([]cluster.Pod, 0, len(w.Pending)),
		Nodes:   slices.Clone(s.nodes), // without what they point to: a view only reads that
	}
	for _, p := range w.Pending {
		parts.Pending = append(parts.Pending, c.reader.Pod(p, nil))
	}
	for _, set := range w.Daemons {
		parts.Daemons = append(parts.Daemons, c.reader.Daemon(set, nil, nil))
	}
	parts.Pools = c.pools(parts.Nodes)
	c.View = c.reader.Snapshot(parts)
	return c
}

// Compile is Store and Compile in one.
func (w *World) Compile() *Compiled { return w.Store().Compile() }

// pools reads the pools with what their nodes leave of the limits.
func (c *Compiled) pools(nodes []cluster.Node) []cluster.Pool {
	used := map[string]*resources.Vec{}
	count := map[string]int64{}
	for _, np := range c.World.Pools {
		if len(np.Spec.Limits) > 0 {
			used[np.Name] = &resources.Vec{}
		}
	}
	for i := range nodes {
		if sum := used[nodes[i].Pool]; sum != nil && !nodes[i].Deleting {
			resources.AddTo(sum, &nodes[i].Capacity)
			count[nodes[i].Pool]++
		}
	}
	pools := make([]cluster.Pool, 0, len(c.World.Pools))
	for _, np := range c.World.Pools {
		var taken corev1.ResourceList
		if sum := used[np.Name]; sum != nil {
			taken = c.reader.Table().List(*sum)
		}
		pools = append(pools, c.reader.Pool(np, c.World.Types, taken, count[np.Name]))
	}
	return pools
}

// Cost is how many nodes there are and what they come to an hour.
func (c *Compiled) Cost() (nodes int, hourly float64) {
	for i := range c.View.Nodes {
		hourly += c.View.Nodes[i].Price
	}
	return len(c.View.Nodes), hourly
}

// Candidates names the nodes that consolidation may remove: those of pools that allow it, and of
// pools that allow it when empty the empty ones. Nodes stay that something says may not be disrupted,
// that a static pool keeps in number, or that go with their pool anyway. Budgets are not looked at:
// they say how many may go at a time, not which.
func (c *Compiled) Candidates() []string {
	policy := map[string]karpv1.ConsolidationPolicy{}
	for _, np := range c.World.Pools {
		d := &np.Spec.Disruption
		if d.ConsolidateAfter != "Never" && np.Spec.Replicas == nil && np.DeletionTimestamp == nil {
			policy[np.Name] = d.ConsolidationPolicy
		}
	}
	var names []string
	for i := range c.View.Nodes {
		n := &c.View.Nodes[i]
		allowed := policy[n.Pool]
		used := slices.ContainsFunc(n.Pods, func(p cluster.Pod) bool { return !p.Stays })
		if allowed != "" && (allowed != karpv1.ConsolidationWhenEmpty || !used) && !c.held[n.Name] {
			names = append(names, n.Name)
		}
	}
	return names
}

// isProtected reports whether the annotation do-not-disrupt of a node, or of a pod on it, is in force.
func isProtected(place *cluster.NodeFacts, now time.Time) bool {
	return place.Node.Annotations[karpv1.AnnotationDoNotDisrupt] == "true" ||
		slices.ContainsFunc(place.Pods, func(p *corev1.Pod) bool { return cluster.DoNotDisrupt(p, now) })
}
