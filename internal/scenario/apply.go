package scenario

import (
	"fmt"
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"

	"github.com/dovetail-sh/dovetail/internal/cluster"
	"github.com/dovetail-sh/dovetail/internal/reqs"
	"github.com/dovetail-sh/dovetail/internal/resources"
	"github.com/dovetail-sh/dovetail/internal/solve"
)

// Applied is what making moves came to.
type Applied struct {
	Moved   int // pods
	Removed int // nodes
	Added   int // nodes
	Invalid int // nodes that took pods and cannot hold what is now on them
}

// Apply makes moves at once, in order: replacements come up on their offer, pods go where the move
// says, the nodes are removed. The view is replaced, never written to. The error is a move that cannot be
// made: it names a node or pod that is not there, or leaves pods behind.
func (c *Compiled) Apply(moves []solve.Move) (Applied, error) {
	a := applier{compiled: c, at: make(map[string]int, len(c.View.Nodes)), nodes: slices.Clone(c.View.Nodes)}
	for i := range a.nodes {
		a.at[a.nodes[i].Name] = i
	}
	for i := range moves {
		if err := a.move(&moves[i]); err != nil {
			return a.done, fmt.Errorf("move %d: %w", i, err)
		}
	}
	view := *c.View
	view.Version++
	view.Nodes = slices.DeleteFunc(a.nodes, func(n cluster.Node) bool { _, there := a.at[n.Name]; return !there })
	view.Pools = c.pools(view.Nodes)
	c.View = c.reader.Snapshot(view)
	return a.done, nil
}

// applier works on a list of nodes that is its own, while what the nodes point to is shared.
type applier struct {
	compiled *Compiled
	nodes    []cluster.Node
	at       map[string]int // nodes that are there, by name
	done     Applied
}

func (a *applier) move(m *solve.Move) error {
	leaving, err := a.leaving(m.Remove)
	if err != nil {
		return err
	}
	touched := map[int]bool{}
	place := func(pod cluster.PodKey, node int) error {
		p, there := leaving[pod]
		if !there {
			return fmt.Errorf("pod %s is on none of the removed nodes", pod)
		}
		delete(leaving, pod)
		a.nodes[node].Pods = append(slices.Clip(a.nodes[node].Pods), p)
		touched[node] = true
		a.done.Moved++
		return nil
	}
	for i := range m.Create {
		node := a.launch(&m.Create[i])
		for _, pod := range m.Create[i].Pods {
			if err := place(pod, node); err != nil {
				return err
			}
		}
	}
	for _, b := range m.Bind {
		node, there := a.at[b.Node]
		if !there {
			return fmt.Errorf("pod %s is to go to node %s, which is not there", b.Pod, b.Node)
		}
		if err := place(b.Pod, node); err != nil {
			return err
		}
	}
	if len(leaving) > 0 {
		first := slices.SortedFunc(maps.Keys(leaving), cluster.PodKey.Compare)[0]
		return fmt.Errorf("%d pods fit on no other node, among them %s", len(leaving), first)
	}
	for _, name := range m.Remove {
		delete(a.at, name)
		a.done.Removed++
	}
	for node := range touched {
		if _, there := a.at[a.nodes[node].Name]; !there || !a.compiled.checkNode(&a.nodes[node]) {
			a.done.Invalid++
		}
	}
	return nil
}

// leaving returns the pods of nodes that are removed, less those that end with their node.
func (a *applier) leaving(names []string) (map[cluster.PodKey]cluster.Pod, error) {
	pods := map[cluster.PodKey]cluster.Pod{}
	for _, name := range names {
		i, there := a.at[name]
		if !there {
			return nil, fmt.Errorf("node %s is to go and is not there", name)
		}
		for _, p := range a.nodes[i].Pods {
			if !p.Stays {
				pods[p.Key] = p
			}
		}
	}
	return pods, nil
}

// launch brings up a node on its offer and returns its place in the list.
func (a *applier) launch(n *solve.NewNode) int {
	c := a.compiled
	c.launched++
	node := Node{
		Name: fmt.Sprintf("new-%05d", c.launched), NodePool: n.Pool,
		InstanceType: n.Offer.Type, Zone: n.Offer.Zone, CapacityType: n.Offer.CapacityType,
	}
	if pool := c.World.pool(n.Pool); pool != nil {
		node.Taints = pool.Spec.Template.Spec.Taints
	}
	place := c.World.place(&node)
	if isProtected(&place, c.World.Now) {
		c.held[node.Name] = true
	}
	a.nodes = append(a.nodes, c.reader.Node(place))
	a.at[node.Name] = len(a.nodes) - 1
	a.done.Added++
	return len(a.nodes) - 1
}

// checkNode checks a node by itself, with none of the solver's code: that its pods and the DaemonSets fit,
// and that every pod selects and tolerates it.
func (c *Compiled) checkNode(n *cluster.Node) bool {
	labels := reqs.FromLabels(n.Labels, c.World.Words)
	var sum resources.Vec
	for i := range c.View.Daemons {
		if shape := c.View.Daemons[i].Shape; len(shape.Invalid) == 0 && nodeAccepts(n, labels, shape) {
			resources.AddTo(&sum, &shape.Requests)
		}
	}
	for i := range n.Pods {
		if !nodeAccepts(n, labels, n.Pods[i].Shape) {
			return false
		}
		resources.AddTo(&sum, &n.Pods[i].Shape.Requests)
	}
	return resources.Fits(&sum, &n.Allocatable)
}

func nodeAccepts(n *cluster.Node, labels reqs.Set, shape *cluster.Shape) bool {
	for i := range n.Taints {
		t := &n.Taints[i]
		tolerated := func(o corev1.Toleration) bool { return tolerates(&o, t) }
		if t.Effect != corev1.TaintEffectPreferNoSchedule && !slices.ContainsFunc(shape.Tolerations, tolerated) {
			return false
		}
	}
	return slices.ContainsFunc(shape.Required, func(needs reqs.Set) bool {
		_, ok := reqs.Compatible(needs, labels, reqs.Options{})
		return ok
	})
}

func tolerates(o *corev1.Toleration, t *corev1.Taint) bool {
	exists := o.Operator == corev1.TolerationOpExists
	key := o.Key == t.Key || o.Key == "" && exists
	effect := o.Effect == t.Effect || o.Effect == ""
	return key && effect && (exists || o.Value == t.Value)
}
