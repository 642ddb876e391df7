package cluster

import (
	"time"

	karpv1 "github.com/dovetail-sh/dovetail/api/v1"
	"github.com/dovetail-sh/dovetail/internal/condition"
)

// ConsolidatableAt is when consolidateAfter ends for a NodeClaim of a pool, in their effective forms. ever is false for static
// pools and for those that say so, and before the node is initialized.
func ConsolidatableAt(pool *karpv1.NodePool, claim *karpv1.NodeClaim) (at time.Time, ever bool) {
	conditions := claim.Status.Conditions
	if pool.Spec.Replicas != nil || !condition.True(conditions, karpv1.ConditionInitialized) {
		return time.Time{}, false
	}
	quiet, never, err := pool.Spec.Disruption.ConsolidateAfter.ParseOrNever()
	if never || err != nil {
		return time.Time{}, false
	}
	since := condition.Find(conditions, karpv1.ConditionInitialized).LastTransitionTime.Time
	if last := claim.Status.LastPodEventTime.Time; !last.IsZero() {
		since = last
	}
	return since.Add(quiet), true
}
