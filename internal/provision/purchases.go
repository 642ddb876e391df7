package provision

import (
	"maps"
	"slices"
	"time"

	"github.com/dovetail-sh/dovetail/internal/cluster"
	"github.com/dovetail-sh/dovetail/internal/reason"
	"github.com/dovetail-sh/dovetail/internal/resources"
	"github.com/dovetail-sh/dovetail/internal/solve"
)

const (
	nodesAtOnce  = 2               // that may be launched for one pod without a delay
	boughtWindow = 5 * time.Minute // delay before the next node; it doubles for each further one
	longestWait  = time.Hour
)

// purchases are the nodes that were launched for pods that are still pending. Nodes of a type may be smaller than
// planned, each time anew, so a pod that did not fit on its nodes must not get one after another.
type purchases map[cluster.PodKey]*buyer

// buyer is a pod that nodes were launched for.
type buyer struct {
	uid   string
	nodes []purchase // by time
	why   reason.Reason
}

type purchase struct {
	claim string
	at    time.Time
	seen  bool // launched; a claim without capacity does not count
}

// recordPurchase records that a claim was created for pods.
func (p purchases) recordPurchase(pods []cluster.PodKey, uids map[cluster.PodKey]string, claim string, now time.Time) {
	for _, key := range pods {
		if uid, waits := uids[key]; waits {
			if p[key] == nil || p[key].uid != uid {
				p[key] = &buyer{uid: uid, why: reason.Reason{Code: reason.BoughtInVain}}
			}
			p[key].nodes = append(p[key].nodes, purchase{claim: claim, at: now})
		}
	}
}

// observe drops pods that are no longer pending, and records what became of the nodes of the others.
func (p purchases) observe(nodes []cluster.Node, pending []cluster.Pod, lanes resources.Table) {
	if len(p) == 0 {
		return
	}
	byClaim, waiting := make(map[string]*cluster.Node, len(nodes)), make(map[cluster.PodKey]*cluster.Pod, len(pending))
	for i := range nodes {
		byClaim[nodes[i].Claim] = &nodes[i]
	}
	for i := range pending {
		waiting[pending[i].Key] = &pending[i]
	}
	// any order: each is independent of the others
	for key, b := range p {
		pod := waiting[key]
		if pod == nil || pod.UID != b.uid {
			delete(p, key)
			continue
		}
		for i := range b.nodes {
			node := byClaim[b.nodes[i].claim]
			if node == nil || node.Needs != nil {
				continue
			}
			if b.nodes[i].seen = true; node.Initialized {
				b.why = roomFor(pod, node, lanes)
			}
		}
	}
}

// roomFor returns why a pod does not fit the node that was launched for it: the node is too small, or other
// pods are there.
func roomFor(pod *cluster.Pod, node *cluster.Node, lanes resources.Table) reason.Reason {
	room := node.Allocatable
	for i := range node.Pods {
		if node.Pods[i].Daemon || node.Pods[i].Stays {
			room = resources.Sub(room, node.Pods[i].Shape.Requests)
		}
	}
	lane, small := resources.Short(&pod.Shape.Requests, &room)
	if !small {
		return reason.Reason{Code: reason.RoomTaken, Have: "node/" + node.Name}
	}
	only := func(v resources.Vec) string {
		list := make([]int64, lane+1)
		list[lane] = max(v.At(lane), 0)
		if text := lanes.Format(resources.Of(list...)); text != "" {
			return text
		}
		return string(lanes.Name(lane)) + ":0"
	}
	return reason.Reason{Code: reason.NodeCameUpSmall, Have: "node/" + node.Name + ", of type " + node.InstanceType + ", came up with " + only(room), Want: only(pod.Shape.Requests)}
}

// wait is for how long no further node is launched for a pod.
func (b *buyer) wait(now time.Time) time.Duration {
	n, last := 0, time.Time{}
	for _, one := range b.nodes {
		if one.seen {
			n, last = n+1, one.at
		}
	}
	if n < nodesAtOnce {
		return 0
	}
	length := boughtWindow
	for range min(n-nodesAtOnce, 10) {
		length = min(2*length, longestWait)
	}
	return max(0, last.Add(length).Sub(now))
}

// blocked returns the pods that a plan would launch a node for too soon, and why.
func (p purchases) blocked(plan solve.Plan, now time.Time) map[cluster.PodKey]reason.Reason {
	out := map[cluster.PodKey]reason.Reason{}
	for i := range plan.Create {
		for _, key := range plan.Create[i].Pods {
			b := p[key]
			if b == nil {
				continue
			}
			if wait := b.wait(now); wait > 0 {
				out[key] = b.why
			}
		}
	}
	return out
}

// cameUpSmall reports whether a node was launched for a pod and is too small for it, even without other pods.
func (p purchases) cameUpSmall(key cluster.PodKey) bool {
	return p[key] != nil && p[key].why.Code == reason.NodeCameUpSmall
}

// undersized returns the nodes that are too small for pods of a plan, and counts the pods.
func (p purchases) undersized(plan solve.Plan) (nodes []string, pods int) {
	names := map[string]bool{}
	for i := range plan.Create {
		for _, key := range plan.Create[i].Pods {
			if p.cameUpSmall(key) {
				pods++
				names[p[key].why.Have] = true
			}
		}
	}
	return slices.Sorted(maps.Keys(names)), pods
}

// without is a plan's pods less some.
func without(pods []cluster.Pod, some map[cluster.PodKey]reason.Reason) []cluster.Pod {
	return slices.DeleteFunc(slices.Clone(pods), func(p cluster.Pod) bool { _, is := some[p.Key]; return is })
}

// refusedBuyers are pods that wait because of the nodes launched for them, listed as unschedulable pods of a plan.
func refusedBuyers(blocked map[cluster.PodKey]reason.Reason) []solve.Unplaced {
	var out []solve.Unplaced
	for _, key := range slices.SortedFunc(maps.Keys(blocked), cluster.PodKey.Compare) {
		out = append(out, solve.Unplaced{Pod: key, Why: []reason.Reason{blocked[key]}})
	}
	return out
}
