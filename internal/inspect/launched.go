package inspect

import (
	"maps"
	"slices"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"

	karpv1 "github.com/dovetail-sh/dovetail/api/v1"
	"github.com/dovetail-sh/dovetail/internal/catalog"
	"github.com/dovetail-sh/dovetail/internal/cluster"
	"github.com/dovetail-sh/dovetail/internal/reqs"
	"github.com/dovetail-sh/dovetail/internal/resources"
	"github.com/dovetail-sh/dovetail/internal/solve"
)

const launchPrefix = "launch "

// launchName names a node that a plan launches. No node of a cluster can be called so.
func launchName(number int) string { return launchPrefix + strconv.Itoa(number) }

// isLaunch reports whether a node is one that a plan launches.
func isLaunch(name string) bool { return strings.HasPrefix(name, launchPrefix) }

// plannedNode is the node that a plan launches, as its cheapest offering: registered, without pods.
func plannedNode(view *cluster.Snapshot, n *solve.NewNode, name string) cluster.Node {
	out := cluster.Node{
		Name: name, Claim: name, Pool: n.Pool, InstanceType: n.Offer.Type, Zone: n.Offer.Zone, CapacityType: n.Offer.CapacityType, Price: n.Offer.Price,
		Allocatable: n.Requests, Capacity: n.Requests, // of a type that is not known, as with a NodeClaim before its launch
	}
	labels := map[string]string{}
	pool := slices.IndexFunc(view.Pools, func(p cluster.Pool) bool { return p.Name == n.Pool })
	if pool >= 0 {
		p := &view.Pools[pool]
		out.Taints = p.Taints
		if i := slices.IndexFunc(p.Types, func(t catalog.InstanceType) bool { return t.Name == n.Offer.Type }); i >= 0 {
			setSize(&out, &p.Types[i], n.Offer, labels)
		}
	}
	addCertain(labels, n.Needs)
	labels[corev1.LabelInstanceTypeStable], labels[corev1.LabelTopologyZone] = out.InstanceType, out.Zone
	labels[karpv1.LabelCapacityType], labels[karpv1.LabelNodePool], labels[corev1.LabelHostname] = out.CapacityType, out.Pool, name
	out.Labels = labels
	return out
}

// setSize sets what an instance type and its offering say about a node.
func setSize(n *cluster.Node, t *catalog.InstanceType, offer solve.Offer, labels map[string]string) {
	addCertain(labels, t.Labels)
	n.Capacity, n.Allocatable, n.VolumeLimits = t.Capacity, t.Allocatable(), t.VolumeLimits
	for i := range t.Offerings {
		o := &t.Offerings[i]
		if o.Zone != offer.Zone || o.CapacityType != offer.CapacityType || o.Reservation != offer.Reservation {
			continue
		}
		maps.Copy(labels, o.Labels)
		n.Free = o.Free
		if o.Size != nil {
			n.Capacity, n.Allocatable = o.Size.Capacity, o.Size.Allocatable()
		}
		return
	}
}

// addCertain adds the labels that can have one value only.
func addCertain(labels map[string]string, set reqs.Set) {
	// any order: each key is set by itself
	for key, r := range set {
		if !r.Not && len(r.Values) == 1 {
			labels[key] = r.Values[0]
		}
	}
}

// daemonRequests is what DaemonSets will request of a node that a plan launches.
func daemonRequests(n *solve.NewNode, pods map[cluster.PodKey]*cluster.Pod) resources.Vec {
	out := n.Requests
	for _, key := range n.Pods {
		if p := pods[key]; p != nil && p.Shape != nil {
			out = resources.Sub(out, p.Shape.Requests)
		}
	}
	return resources.Max(out, resources.Vec{})
}
