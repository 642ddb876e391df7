package drain

import (
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"

	karpv1 "github.com/dovetail-sh/dovetail/api/v1"
	"github.com/dovetail-sh/dovetail/internal/cluster"
)

// Limit is how long a pod may hold the drain of its node. There are two kinds: at a force deadline the pod is deleted
// (a node that is terminated), at a timeout it stays where it is (a node that only reboots).
type Limit struct {
	At   time.Time // zero: no limit
	Stay bool      // a timeout: from then on the pod is left alone
}

// Join returns the limit in force if a pod is requested twice (LC-34, V15-37): a force deadline wins over a timeout,
// whatever the times; of one kind the earlier wins.
func (l Limit) Join(other Limit) Limit {
	switch {
	case l.Stay != other.Stay && l.Stay:
		return other
	case l.Stay != other.Stay:
		return l
	case l.At.IsZero() || !other.At.IsZero() && other.At.Before(l.At):
		return other
	default:
		return l
	}
}

// Empties reports whether a node still has to be drained: until it is gone if it is terminating, and while it has its
// taint if it is to be rebooted (V15-63).
func (l Limit) Empties(node *corev1.Node) bool {
	if !l.Stay {
		return node.DeletionTimestamp != nil
	}
	return slices.ContainsFunc(node.Spec.Taints, func(t corev1.Taint) bool { return t.Key == karpv1.TaintKeyRebooting })
}

// Act is what to do with one pod in the eviction queue.
type Act int

// What can be done with a pod.
const (
	Drop   Act = iota // nothing, ever: it ended, ends, or rides through
	Hold              // nothing yet: it is protected
	Evict             // call the eviction API
	Delete            // delete it with the remaining grace period
)

// Act decides about one pod (LC-34, LC-36). The grace belongs to Delete.
func (l Limit) Act(p *corev1.Pod, now time.Time) (act Act, grace time.Duration) {
	if cluster.PodEnded(p) {
		return Drop, 0
	}
	if !l.Stay {
		if grace, forced := Forced(p, l.At, now); forced {
			return Delete, grace
		}
	}
	switch {
	case p.DeletionTimestamp != nil, l.Stay && !l.At.IsZero() && !now.Before(l.At):
		return Drop, 0
	case Protected(p, now):
		return Hold, 0
	default:
		return Evict, 0
	}
}
