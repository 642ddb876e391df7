package disrupt

import (
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"

	karpv1 "github.com/dovetail-sh/dovetail/api/v1"
	"github.com/dovetail-sh/dovetail/internal/lifecycle"
)

// forcedRepairRetry is when a node whose repair is blocked is decided about again (LC-42).
const forcedRepairRetry = 5 * time.Minute

// ForcedRepair is what is done about one node where repair removes nodes by force, without budgets and without a
// replacement first: repair as it was before it became a method of disruption (V15-33).
type ForcedRepair struct {
	Condition string        // delete the claim because of this condition of its node; empty: leave it
	Blocked   string        // why the node is not repaired although it is time, for users
	After     time.Duration // when to decide again; zero: once something changes
}

// DecideForcedRepair decides about a node and the claims of its instance. The other nodes of the cluster matter: where
// too many are unhealthy, of the pool, or of the cluster if the node has no pool, nothing is repaired.
func DecideForcedRepair(ailments *lifecycle.Ailments, node *corev1.Node, claims []*karpv1.NodeClaim, all []*corev1.Node, now time.Time) ForcedRepair {
	condition, at, unhealthy := ailments.Due(node)
	if !unhealthy || node.DeletionTimestamp != nil || len(claims) != 1 || claims[0].DeletionTimestamp != nil {
		return ForcedRepair{}
	}
	if left := at.Sub(now); left > 0 {
		return ForcedRepair{After: left}
	}
	if why := forcedRepairBlocked(ailments, node.Labels[karpv1.LabelNodePool], all); why != "" {
		return ForcedRepair{Blocked: why, After: forcedRepairRetry}
	}
	return ForcedRepair{Condition: condition}
}

func forcedRepairBlocked(ailments *lifecycle.Ailments, pool string, all []*corev1.Node) string {
	var same []*corev1.Node
	health := make([]NodeHealth, 0, len(all))
	for _, n := range all {
		if pool == "" || n.Labels[karpv1.LabelNodePool] == pool {
			same = append(same, n)
		}
		health = append(health, NodeHealth{Created: n.CreationTimestamp.Time, Health: n.Status.Conditions})
	}
	if unreachable, of := CountUnreachable(health); unreachable > 0 {
		return UnreachableText(unreachable, of)
	}
	if unhealthy, stop := ailments.TooMany(same); stop {
		return fmt.Sprintf("%d of %d nodes are unhealthy, more than a fifth: a failure of so many nodes is rarely fixed by replacing them", unhealthy, len(same))
	}
	return ""
}
