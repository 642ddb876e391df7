package scenario

import (
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	karpv1 "github.com/dovetail-sh/dovetail/api/v1"
	"github.com/dovetail-sh/dovetail/internal/cluster"
	"github.com/dovetail-sh/dovetail/internal/resources"
)

// Compiled is a world as decisions see it.
type Compiled struct {
	World *World
	View  *cluster.Snapshot

	reader   *cluster.Reader
	launched int // nodes that moves brought up, for their names
}

// Compile reads the objects. It is all the work between being handed them and the first decision.
func (w *World) Compile() *Compiled {
	c := &Compiled{World: w, reader: cluster.NewReader(w.Words, cluster.ReaderOptions{Resources: w.Lanes, KeepLabel: w.selected()})}
	parts := cluster.Snapshot{
		Version: 1, Now: w.Now,
		Pending: make([]cluster.Pod, 0, len(w.Pending)),
		Nodes:   make([]cluster.Node, 0, len(w.Places)),
	}
	for _, p := range w.Pending {
		parts.Pending = append(parts.Pending, c.reader.Pod(p, nil))
	}
	for _, set := range w.Daemons {
		parts.Daemons = append(parts.Daemons, c.reader.Daemon(set, nil))
	}
	for i := range w.Places {
		parts.Nodes = append(parts.Nodes, c.reader.Node(w.Places[i]))
	}
	parts.Pools = c.pools(parts.Nodes)
	c.View = c.reader.Snapshot(parts)
	return c
}

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

// selected says which pod labels any selector looks at. The rest cannot matter, and pods that differ
// in nothing else are alike.
func (w *World) selected() func(label string) bool {
	keys := map[string]bool{}
	for _, p := range w.Pending {
		addSelected(keys, &p.Spec)
	}
	for i := range w.Places {
		for _, p := range w.Places[i].Pods {
			addSelected(keys, &p.Spec)
		}
	}
	return func(label string) bool { return keys[label] }
}

func addSelected(keys map[string]bool, spec *corev1.PodSpec) {
	add := func(s *metav1.LabelSelector, more []string) {
		for _, key := range more {
			keys[key] = true
		}
		if s == nil {
			return
		}
		for key := range s.MatchLabels {
			keys[key] = true
		}
		for i := range s.MatchExpressions {
			keys[s.MatchExpressions[i].Key] = true
		}
	}
	for i := range spec.TopologySpreadConstraints {
		add(spec.TopologySpreadConstraints[i].LabelSelector, spec.TopologySpreadConstraints[i].MatchLabelKeys)
	}
	if spec.Affinity == nil {
		return
	}
	each := func(required []corev1.PodAffinityTerm, preferred []corev1.WeightedPodAffinityTerm) {
		for i := range required {
			add(required[i].LabelSelector, slices.Concat(required[i].MatchLabelKeys, required[i].MismatchLabelKeys))
		}
		for i := range preferred {
			t := &preferred[i].PodAffinityTerm
			add(t.LabelSelector, slices.Concat(t.MatchLabelKeys, t.MismatchLabelKeys))
		}
	}
	if a := spec.Affinity.PodAffinity; a != nil {
		each(a.RequiredDuringSchedulingIgnoredDuringExecution, a.PreferredDuringSchedulingIgnoredDuringExecution)
	}
	if a := spec.Affinity.PodAntiAffinity; a != nil {
		each(a.RequiredDuringSchedulingIgnoredDuringExecution, a.PreferredDuringSchedulingIgnoredDuringExecution)
	}
}

// Cost is how many nodes there are and what they come to an hour.
func (c *Compiled) Cost() (nodes int, hourly float64) {
	for i := range c.View.Nodes {
		hourly += c.View.Nodes[i].Price
	}
	return len(c.View.Nodes), hourly
}

// Candidates names the nodes that consolidation may remove: those of pools that allow it, and of
// pools that allow it when empty the empty ones. Budgets are not looked at: they say how many may go
// at a time, not which.
func (c *Compiled) Candidates() []string {
	policy := map[string]karpv1.ConsolidationPolicy{}
	for _, np := range c.World.Pools {
		if d := &np.Spec.Disruption; d.ConsolidateAfter != "Never" {
			policy[np.Name] = d.ConsolidationPolicy
		}
	}
	var names []string
	for i := range c.View.Nodes {
		n := &c.View.Nodes[i]
		allowed := policy[n.Pool]
		used := slices.ContainsFunc(n.Pods, func(p cluster.Pod) bool { return !p.Stays })
		if allowed != "" && (allowed != karpv1.ConsolidationWhenEmpty || !used) {
			names = append(names, n.Name)
		}
	}
	return names
}
