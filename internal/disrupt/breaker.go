package disrupt

import (
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
)

// Repair must not take a cluster down that only looks sick. Of a pool a fifth of the nodes may be sick,
// rounded up (V15-25). And if most nodes of the cluster fell silent at about the same time, it was not
// they who failed: their way to the API server was cut (features 4, FM K12, M12).
const (
	unhealthyDivisor  = 5 // one in so many
	unreachableWindow = 5 * time.Minute
	minUnreachable    = 3 // fewer silent nodes are no sign
)

// breaker stops repair where too many nodes are sick.
type breaker struct {
	nodes, unhealthy map[string]int // by pool
	unreachable, of  int            // nodes that fell silent together, and of how many; 0: not most of them
}

// newBreaker counts the nodes of each pool, whatever becomes of them.
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

// blockedReason says why no node of a pool is repaired now; empty if one may be.
func (b breaker) blockedReason(pool string) string {
	most := (b.nodes[pool] + unhealthyDivisor - 1) / unhealthyDivisor
	switch {
	case b.unreachable > 0:
		return UnreachableText(b.unreachable, b.of)
	case b.unhealthy[pool] > most:
		return fmt.Sprintf("%d of %d nodes of NodePool %s are unhealthy and repair stops above %d: a fault of so many is rarely cured by new nodes", b.unhealthy[pool], b.nodes[pool], pool, most)
	default:
		return ""
	}
}

// NodeHealth is a node that could tell of a network that is cut.
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

// CountUnreachable is how many nodes fell silent at about the same time, and of how many, if that is most of them;
// else 0. Nodes that came after that are no witnesses: they are bought while the others are silent, and
// would soon be the most.
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

// UnreachableText says what that means.
func UnreachableText(silent, all int) string {
	return fmt.Sprintf("%d of %d nodes of the cluster stopped reporting within %s: that is a fault of the network or the control plane rather than of nodes, so none is repaired", silent, all, unreachableWindow)
}

// mostWithin is the largest number of times that lie within a window, and the first of them.
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
