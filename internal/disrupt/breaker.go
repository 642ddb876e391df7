package disrupt

import (
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
)

// Repair must not take down a cluster that only appears unhealthy. At most a fifth of the nodes of a pool may be
// unhealthy, rounded up (V15-25). If most nodes of the cluster became unreachable at about the same time, the cause
// is the network path to the API server, not the nodes (features 4, FM K12, M12).
const (
	unhealthyDivisor  = 5 // one unhealthy node in this many is tolerated
	unreachableWindow = 5 * time.Minute
	minUnreachable    = 3 // fewer unreachable nodes are no evidence
)

// breaker stops repair when too many nodes are unhealthy.
type breaker struct {
	nodes, unhealthy map[string]int // by pool
	unreachable, of  int            // nodes that became unreachable together, and of how many; 0: less than a majority
}

// newBreaker counts all nodes of each pool, including those being deleted.
func newBreaker(v *View) breaker {
	b := breaker{nodes: map[string]int{}, unhealthy: map[string]int{}}
	all := make([]NodeHealth, 0, len(v.Nodes))
	for i := range v.Nodes {
		n := &v.Nodes[i]
		b.nodes[n.Pool]++
		if v.Repairs.unhealthy(n) {
			b.unhealthy[n.Pool]++
		}
		all = append(all, NodeHealth{Created: n.Created, Health: n.Health})
	}
	b.unreachable, b.of = CountUnreachable(all)
	return b
}

// blockedReason returns why no node of a pool is repaired now; empty if repair is allowed.
func (b breaker) blockedReason(pool string) string {
	most := (b.nodes[pool] + unhealthyDivisor - 1) / unhealthyDivisor
	switch {
	case b.unreachable > 0:
		return UnreachableText(b.unreachable, b.of)
	case b.unhealthy[pool] > most:
		return fmt.Sprintf("%d of %d nodes of NodePool %s are unhealthy and repair stops above %d: a failure of so many nodes is rarely fixed by replacing them", b.unhealthy[pool], b.nodes[pool], pool, most)
	default:
		return ""
	}
}

// NodeHealth is what CountUnreachable needs of a node.
type NodeHealth struct {
	Created time.Time
	Health  []corev1.NodeCondition
}

func (w *NodeHealth) unreachableSince() (time.Time, bool) {
	for i := range w.Health {
		if c := &w.Health[i]; c.Type == corev1.NodeReady && c.Status == corev1.ConditionUnknown {
			return c.LastTransitionTime.Time, true
		}
	}
	return time.Time{}, false
}

// CountUnreachable returns how many nodes became unreachable at about the same time, and of how many; 0 unless
// it is a majority. Nodes created later do not count: they replace unreachable ones, and would soon be the
// majority.
func CountUnreachable(all []NodeHealth) (silent, of int) {
	var since []time.Time
	for i := range all {
		if at, is := all[i].unreachableSince(); is {
			since = append(since, at)
		}
	}
	together, from := mostWithin(since, unreachableWindow)
	for i := range all {
		if _, is := all[i].unreachableSince(); is || !all[i].Created.After(from) {
			of++
		}
	}
	if together >= minUnreachable && 2*together > of {
		return together, of
	}
	return 0, of
}

// UnreachableText explains the result of CountUnreachable to users.
func UnreachableText(silent, all int) string {
	return fmt.Sprintf("%d of %d nodes of the cluster stopped reporting within %s: that is a fault of the network or the control plane rather than of nodes, so none is repaired", silent, all, unreachableWindow)
}

// mostWithin returns the largest number of times within a window, and the first of them.
func mostWithin(times []time.Time, window time.Duration) (most int, from time.Time) {
	slices.SortFunc(times, time.Time.Compare)
	first := 0
	for last := range times {
		for times[last].Sub(times[first]) > window {
			first++
		}
		if n := last - first + 1; n > most {
			most, from = n, times[first]
		}
	}
	return most, from
}
