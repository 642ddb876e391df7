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
	sickShare    = 5 // one in so many
	silentWindow = 5 * time.Minute
	silentLeast  = 3 // fewer silent nodes are no sign
)

// breaker stops repair where too many nodes are sick.
type breaker struct {
	nodes, sick map[string]int // by pool
	silent      int            // nodes that fell silent together; 0: not most of them
	all         int
}

// newBreaker counts the nodes of each pool, whatever becomes of them.
func newBreaker(v *View) breaker {
	b := breaker{nodes: map[string]int{}, sick: map[string]int{}, all: len(v.Nodes)}
	var silent []time.Time
	for i := range v.Nodes {
		n := &v.Nodes[i]
		b.nodes[n.Pool]++
		if v.Repairs.sick(n) {
			b.sick[n.Pool]++
		}
		if since, lost := silentSince(n); lost {
			silent = append(silent, since)
		}
	}
	if together := mostWithin(silent, silentWindow); together >= silentLeast && 2*together > b.all {
		b.silent = together
	}
	return b
}

// stops says why no node of a pool is repaired now; empty if one may be.
func (b breaker) stops(pool string) string {
	most := (b.nodes[pool] + sickShare - 1) / sickShare
	switch {
	case b.silent > 0:
		return fmt.Sprintf("%d of %d nodes of the cluster stopped reporting within %s: that is a fault of the network or the control plane rather than of nodes, so none is repaired", b.silent, b.all, silentWindow)
	case b.sick[pool] > most:
		return fmt.Sprintf("%d of %d nodes of NodePool %s are unhealthy and repair stops above %d: a fault of so many is rarely cured by new nodes", b.sick[pool], b.nodes[pool], pool, most)
	default:
		return ""
	}
}

// silentSince is when the API server last lost touch with a kubelet.
func silentSince(n *Node) (time.Time, bool) {
	for i := range n.Health {
		if c := &n.Health[i]; c.Type == corev1.NodeReady && c.Status == corev1.ConditionUnknown {
			return c.LastTransitionTime.Time, true
		}
	}
	return time.Time{}, false
}

// mostWithin is the largest number of times that lie within a window.
func mostWithin(times []time.Time, window time.Duration) int {
	slices.SortFunc(times, time.Time.Compare)
	most, first := 0, 0
	for last := range times {
		for times[last].Sub(times[first]) > window {
			first++
		}
		most = max(most, last-first+1)
	}
	return most
}
