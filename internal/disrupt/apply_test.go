package disrupt_test

import (
	"maps"
	"slices"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"

	karpv1 "github.com/dovetail-sh/dovetail/api/v1"
	"github.com/dovetail-sh/dovetail/internal/catalog"
	"github.com/dovetail-sh/dovetail/internal/cluster"
	"github.com/dovetail-sh/dovetail/internal/disrupt"
	"github.com/dovetail-sh/dovetail/internal/solve"
)

// carriedOut is the cluster once every command was carried out: pods are where commands said, and new
// nodes turn out as their offers say.
func carriedOut(before *cluster.Snapshot, d disrupt.Decision, round int) *cluster.Snapshot {
	view := *before
	view.Nodes, view.Pools = slices.Clone(view.Nodes), slices.Clone(view.Pools)
	for i := range view.Nodes {
		view.Nodes[i].Pods = slices.Clone(view.Nodes[i].Pods)
	}
	for i := range view.Pools {
		view.Pools[i].Limits = slices.Clone(view.Pools[i].Limits)
	}
	for i := range d.Commands {
		c := &d.Commands[i]
		pods := map[cluster.PodKey]cluster.Pod{}
		for j := range c.Remove {
			at := slices.IndexFunc(view.Nodes, func(n cluster.Node) bool { return n.Name == c.Remove[j].Node })
			for _, p := range view.Nodes[at].Pods {
				p.Terminating = false // what comes back is a new pod
				pods[p.Key] = p
			}
			account(&view, &view.Nodes[at], 1)
			view.Nodes = slices.Delete(view.Nodes, at, at+1)
		}
		for _, b := range c.Bind {
			at := slices.IndexFunc(view.Nodes, func(n cluster.Node) bool { return n.Name == b.Node })
			view.Nodes[at].Pods = append(view.Nodes[at].Pods, pods[b.Pod])
		}
		for j := range c.Create {
			n := launched(&view, &c.Create[j], "made-"+strconv.Itoa(round)+"-"+strconv.Itoa(i)+"-"+strconv.Itoa(j))
			for _, key := range c.Create[j].Pods {
				n.Pods = append(n.Pods, pods[key])
			}
			account(&view, &n, -1)
			view.Nodes = append(view.Nodes, n)
		}
	}
	slices.SortFunc(view.Nodes, func(a, b cluster.Node) int { return strings.Compare(a.Name, b.Name) })
	for i := range view.Nodes {
		slices.SortFunc(view.Nodes[i].Pods, func(a, b cluster.Pod) int { return strings.Compare(a.Key.String(), b.Key.String()) })
	}
	view.Version++
	return &view
}

// account gives a node's capacity back to its pool's limits, or takes it.
func account(view *cluster.Snapshot, n *cluster.Node, sign int64) {
	for i := range view.Pools {
		p := &view.Pools[i]
		if p.Name != n.Pool || n.Deleting {
			continue
		}
		for j := range p.Limits {
			lane, _ := view.Resources.Lane(p.Limits[j].Resource)
			p.Limits[j].Remaining += sign * n.Capacity.At(lane)
		}
		if p.NodeLimit != nil {
			p.NodeLimit = new(*p.NodeLimit + sign)
		}
	}
}

func launched(view *cluster.Snapshot, c *solve.NewNode, name string) cluster.Node {
	pool := &view.Pools[slices.IndexFunc(view.Pools, func(p cluster.Pool) bool { return p.Name == c.Pool })]
	t := &pool.Types[slices.IndexFunc(pool.Types, func(t catalog.InstanceType) bool { return t.Name == c.Offer.Type })]
	labels := map[string]string{}
	for key, r := range c.Needs {
		switch {
		case len(r.Values) > 0 && !r.Not:
			labels[key] = r.Values[0]
		case r.Not && len(r.Values) == 0:
			labels[key] = "0"
		}
	}
	for key, r := range t.Labels {
		delete(labels, key)
		if len(r.Values) == 1 {
			labels[key] = r.Values[0]
		}
	}
	maps.Copy(labels, map[string]string{corev1.LabelTopologyZone: c.Offer.Zone, karpv1.LabelCapacityType: c.Offer.CapacityType, corev1.LabelHostname: name})
	return cluster.Node{
		Name: name, Claim: name, Pool: c.Pool, Labels: labels, Taints: pool.Taints, Capacity: t.Capacity, Allocatable: t.Allocatable(),
		VolumeLimits: t.VolumeLimits, InstanceType: t.Name, Zone: c.Offer.Zone, CapacityType: c.Offer.CapacityType, Price: c.Offer.Price, Initialized: true,
	}
}
