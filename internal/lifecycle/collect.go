package lifecycle

import (
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"

	karpv1 "github.com/dovetail-sh/dovetail/api/v1"
	"github.com/dovetail-sh/dovetail/internal/cloud"
	"github.com/dovetail-sh/dovetail/internal/cluster"
	"github.com/dovetail-sh/dovetail/internal/condition"
)

// unlisted is how long after its launch an instance may be missing in lists of the cloud although it exists.
// The claim says when that was, so that a process which did not launch it knows as well (FM E01, G3).
const unlisted = 75 * time.Second

// CollectInterval is how often claims are compared with the instances of the cloud.
const CollectInterval = 2 * time.Minute

const confirmAgain = 10 * time.Second // after the cloud could not say whether an instance exists

// NextCollection returns in what time claims are compared again, given when the first claim is old enough to be judged
// (zero: all are) and whether the cloud could not say of some whether their instance exists.
func NextCollection(later time.Duration, unsure bool) time.Duration {
	next := CollectInterval
	if later > 0 {
		next = min(next, later)
	}
	if unsure {
		next = min(next, confirmAgain)
	}
	return next
}

// Missing returns the claims whose instance is not in the list of the cloud, and which have no node that says
// that it runs (LC-38); the cloud has to confirm by id that it is gone. The claims must have been listed
// before the instances. A node that is ready is believed more than the cloud; a claim that is not
// registered is left to its timeout. later is when the first claim that is too young to be judged is old
// enough, counted from now; 0 if there is none.
func Missing(claims []*karpv1.NodeClaim, instances []cloud.Instance, nodes func(id string) []*corev1.Node, now time.Time) (missing []*karpv1.NodeClaim, later time.Duration) {
	alive := make(map[string]bool, len(instances))
	for _, i := range instances {
		alive[string(i.ID)] = alive[string(i.ID)] || !i.Terminating
	}
	for _, c := range claims {
		id := c.Status.ProviderID
		registered := condition.True(c.Status.Conditions, karpv1.ConditionRegistered)
		if c.DeletionTimestamp != nil || !registered || id == "" || alive[id] || slices.ContainsFunc(nodes(id), cluster.NodeReady) {
			continue
		}
		if left := unlisted - launchAge(c, now); left > 0 {
			if later == 0 || left < later {
				later = left
			}
			continue
		}
		missing = append(missing, c)
	}
	return missing, later
}

// launchAge is for how long a claim has been launched; a clock that is behind makes it nothing.
func launchAge(c *karpv1.NodeClaim, now time.Time) time.Duration {
	launched := condition.Find(c.Status.Conditions, karpv1.ConditionLaunched)
	if launched == nil {
		return unlisted
	}
	return max(0, now.Sub(launched.LastTransitionTime.Time))
}
