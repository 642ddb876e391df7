package ledger

import (
	"strings"
	"time"

	"github.com/dovetail-sh/dovetail/internal/cluster"
	"github.com/dovetail-sh/dovetail/internal/resources"
)

// Observation is what the managed nodes of a cluster cost at a time.
type Observation struct {
	At         time.Time
	Nodes      []Node             // that run, also those that start or terminate
	Pods       int                // on them
	Namespaces map[string]float64 // USD an hour of these nodes, as far as pods request them
	Pools      []string           // all NodePools
	Bound      float64            // USD an hour: no nodes that hold the pods cost less; 0: not known
	Unchanged  bool               // nothing has changed since the last observation: its bound still holds
}

// Node is a managed node.
type Node struct {
	Claim    string
	Pool     string
	Price    float64 // USD an hour
	Unpriced bool    // the price is not known: that of the last observation counts
}

// ObservationOf reads what a view says. It costs a walk over the nodes and their pods.
//
// A namespace has the share of a node that its pods request: the mean of CPU and memory or, where that is more, what they
// request of a device, such as a GPU: it is what the node is bought for. Shares of more than the node are scaled to it.
func ObservationOf(v *cluster.DisruptionView, bound float64) Observation {
	o := Observation{At: v.Now, Namespaces: map[string]float64{}, Bound: bound}
	s := v.Cluster
	if s == nil {
		return o
	}
	for i := range s.Pools {
		o.Pools = append(o.Pools, s.Pools[i].Name)
	}
	var used []share
	devices := devicesOf(s.Resources)
	for i := range s.Nodes {
		n := &s.Nodes[i]
		if n.Claim == "" || n.InstanceType == "" { // not ours, or not launched
			continue
		}
		o.Nodes = append(o.Nodes, Node{Claim: n.Claim, Pool: n.Pool, Price: n.Price, Unpriced: n.Price <= 0 && !n.Free})
		o.Pods += len(n.Pods)
		if n.Price <= 0 {
			continue
		}
		used = sharesOf(used[:0], n, devices)
		sum := 0.0
		for _, u := range used {
			sum += u.part
		}
		for _, u := range used {
			o.Namespaces[u.namespace] += n.Price * u.part / max(1, sum)
		}
	}
	return o
}

// share is how much of a node the pods of a namespace request.
type share struct {
	namespace string
	part      float64
}

// sharesOf adds up the shares of the pods of a node. A node has pods of few namespaces.
func sharesOf(used []share, n *cluster.Node, devices []int) []share {
	for i := range n.Pods {
		p := &n.Pods[i]
		if p.Shape == nil {
			continue
		}
		part := partOf(&p.Shape.Requests, &n.Allocatable, devices)
		at := 0
		for at < len(used) && used[at].namespace != p.Key.Namespace {
			at++
		}
		if at == len(used) {
			used = append(used, share{namespace: p.Key.Namespace})
		}
		used[at].part += part
	}
	return used
}

// devicesOf returns the lanes of extended resources.
func devicesOf(table resources.Table) []int {
	var lanes []int
	for lane := resources.Unknown + 1; lane < table.Len(); lane++ {
		if strings.Contains(string(table.Name(lane)), "/") {
			lanes = append(lanes, lane)
		}
	}
	return lanes
}

// partOf is what a pod requests of a node, from 0 to 1.
func partOf(requests, allocatable *resources.Vec, devices []int) float64 {
	part := (fraction(requests, allocatable, resources.CPU) + fraction(requests, allocatable, resources.Memory)) / 2
	for _, lane := range devices {
		part = max(part, fraction(requests, allocatable, lane))
	}
	return part
}

func fraction(requests, allocatable *resources.Vec, lane int) float64 {
	have := allocatable.At(lane)
	if have <= 0 {
		return 0
	}
	return min(1, float64(max(0, requests.At(lane)))/float64(have))
}
