package invariant

import (
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	karpv1 "github.com/dovetail-sh/dovetail/api/v1"
	"github.com/dovetail-sh/dovetail/internal/condition"
)

// hold is a node that got the taint which announces its end, and what its pool was like then.
type hold struct {
	at    time.Time
	node  string
	pool  *karpv1.NodePool
	total int      // nodes that are initialized
	going []string // of those, the ones that are tainted or whose claims are being deleted
}

// recordTaint takes note of a node that was tainted just now.
func (c *Checker) recordTaint(at time.Time, next *corev1.Node) {
	pool := c.pools[next.Labels[karpv1.LabelNodePool]]
	if pool == nil || !isInitialized(next) {
		return
	}
	h := hold{at: at, node: next.Name, pool: pool}
	for _, n := range c.nodes {
		if n.Labels[karpv1.LabelNodePool] != pool.Name || !isInitialized(n) {
			continue
		}
		h.total++
		owner := c.claimOfNode(n.Name)
		if hasTaint(n, karpv1.TaintKeyDisrupted) || owner != nil && owner.DeletionTimestamp != nil {
			h.going = append(h.going, n.Name)
		}
	}
	c.holds = append(c.holds, h)
}

// checkBudgets is G5. It judges a node that was tainted once other watches have shown what belongs to it: a
// claim with a reason for its disruption is disrupted voluntarily. Nodes that are not ready use up budgets too,
// which is not counted here: when that was known to the controller cannot be seen. For the same reason a
// node counts that must go only if it had to for some seconds, and so does a budget that was changed.
func (c *Checker) checkBudgets(at time.Time) {
	var open []hold
	for _, h := range c.holds {
		if at.Sub(h.at) < c.options.Limits.WatchLag {
			open = append(open, h)
			continue
		}
		owner := c.claimOfNode(h.node)
		if owner == nil {
			continue
		}
		cause := condition.Find(owner.Status.Conditions, karpv1.ConditionDisruptionReason)
		if cause == nil || cause.Status != metav1.ConditionTrue {
			continue
		}
		allowed := allowedDisruptions(h.pool.Spec.Disruption, cause.Reason, h.total, h.at)
		if now := c.pools[h.pool.Name]; now != nil {
			allowed = max(allowed, allowedDisruptions(now.Spec.Disruption, cause.Reason, h.total, h.at))
		}
		if n := c.countRemoving(h); n > allowed {
			c.reportViolation(Violation{
				Rule: G5, At: h.at, Object: nodeObject(h.node), Pool: h.pool.Name,
				What: fmt.Sprintf("with it, %d of %d nodes were going; the budgets for reason %s allow %d", n, h.total, cause.Reason, allowed),
			})
		}
	}
	c.holds = open
}

// countRemoving counts the nodes that were going when one of them was tainted, as far as that is certain now.
func (c *Checker) countRemoving(h hold) int {
	n := 0
	for _, name := range h.going {
		owner := c.claimOfNode(name)
		if owner == nil {
			continue // gone: its instance was ending already
		}
		ending := condition.Find(owner.Status.Conditions, karpv1.ConditionInstanceTerminating)
		forced := !condition.True(owner.Status.Conditions, karpv1.ConditionDisruptionReason)
		switch {
		case ending != nil && ending.Status == metav1.ConditionTrue && !ending.LastTransitionTime.After(h.at):
		case forced && (owner.DeletionTimestamp == nil || h.at.Sub(owner.DeletionTimestamp.Time) < recently):
		default:
			n++
		}
	}
	return n
}

func isInitialized(n *corev1.Node) bool { return n.Labels[karpv1.LabelInitialized] == "true" }
