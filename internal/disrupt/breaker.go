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
	health := make([][]corev1.NodeCondition, 0, len(v.Nodes))
	for i := range v.Nodes {
		n := &v.Nodes[i]
		b.nodes[n.Pool]++
		if v.Repairs.sick(n) {
			b.sick[n.Pool]++
		}
		health = append(health, n.Health)
	}
	b.silent = Silent(health)
	return b
}

// stops says why no node of a pool is repaired now; empty if one may be.
func (b breaker) stops(pool string) string {
	most := (b.nodes[pool] + sickShare - 1) / sickShare
	switch {
	case b.silent > 0:
		return SilentText(b.silent, b.all)
	case b.sick[pool] > most:
		return fmt.Sprintf("%d of %d nodes of NodePool %s are unhealthy and repair stops above %d: a fault of so many is rarely cured by new nodes", b.sick[pool], b.nodes[pool], pool, most)
	default:
		return ""
	}
}

// Silent is how many of all nodes fell silent at about the same time, if that is most of them; else 0.
func Silent(all [][]corev1.NodeCondition) int {
	var since []time.Time
	for _, health := range all {
		for i := range health {
			if c := &health[i]; c.Type == corev1.NodeReady && c.Status == corev1.ConditionUnknown {
				since = append(since, c.LastTransitionTime.Time)
			}
		}
	}
	if together := mostWithin(since, silentWindow); together >= silentLeast && 2*together > len(all) {
		return together
	}
	return 0
}

// SilentText says what that means.
func SilentText(silent, all int) string {
	return fmt.Sprintf("%d of %d nodes of the cluster stopped reporting within %s: that is a fault of the network or the control plane rather than of nodes, so none is repaired", silent, all, silentWindow)
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
