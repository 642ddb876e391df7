package drain

import (
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/dovetail-sh/dovetail/internal/cluster"
)

const (
	minGrace     = time.Second      // zero would let two pods of one StatefulSet run at once (LC-36)
	defaultGrace = 30 * time.Second // of a pod that does not say
	maxGrace     = 100 * 365 * 24 * time.Hour
)

// Protected reports whether an annotation keeps a pod from being evicted now (disruption 7). A pod that
// ends already cannot be protected.
func Protected(p *corev1.Pod, now time.Time) bool {
	if p.DeletionTimestamp != nil || cluster.PodEnded(p) {
		return false
	}
	return cluster.DoNotDisrupt(p, now)
}

// Forced reports whether the deadline of the node has come for a pod, and the grace that is left for it
// (LC-36). Without a deadline it never comes.
func Forced(p *corev1.Pod, deadline, now time.Time) (grace time.Duration, forced bool) {
	if deadline.IsZero() || cluster.PodEnded(p) {
		return 0, false
	}
	grace = max(minGrace, deadline.Sub(now).Truncate(time.Second))
	if p.DeletionTimestamp == nil {
		return grace, now.After(deadline.Add(-graceOf(p)))
	}
	// Deleting again with the same grace period is a no-op, so only a shorter one is requested.
	given := p.DeletionGracePeriodSeconds
	shorter := given == nil || *given > int64(grace/time.Second)
	return grace, p.DeletionTimestamp.After(deadline) && shorter
}

// graceOf is the grace period of a pod.
func graceOf(p *corev1.Pod) time.Duration {
	seconds := p.Spec.TerminationGracePeriodSeconds
	switch {
	case seconds == nil:
		return defaultGrace
	case *seconds > int64(maxGrace/time.Second):
		return maxGrace
	default:
		return max(0, time.Duration(*seconds)*time.Second)
	}
}

// group is the place of a pod in the order of leaving (LC-31), from 0.
func group(p *corev1.Pod) int {
	g := 0
	if p.Spec.PriorityClassName == "system-cluster-critical" || p.Spec.PriorityClassName == "system-node-critical" {
		g += 2
	}
	if ownedBy(p, "DaemonSet") {
		g++
	}
	return g
}

func ownedBy(p *corev1.Pod, kind string) bool {
	for i := range p.OwnerReferences {
		ref := &p.OwnerReferences[i]
		if ref.Kind == kind && (ref.APIVersion == "apps/v1" || kind == "Node" && ref.APIVersion == "v1") {
			return true
		}
	}
	return false
}
