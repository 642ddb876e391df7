package invariant

import (
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	karpv1 "github.com/dovetail-sh/dovetail/api/v1"
	"github.com/dovetail-sh/dovetail/internal/condition"
)

// recently is how long a pod counts as a reason for claims after it last needed a place: a plan may be
// as old as a batch and a solve.
const recently = 15 * time.Second

// matching gives every claim in flight a pod of its own that can have been the reason for it.
type matching struct {
	reasons map[types.UID][]types.UID // pods that can be the reason, by claim
	podOf   map[types.UID]types.UID
	claimOf map[types.UID]types.UID
}

func newMatching() matching {
	return matching{reasons: map[types.UID][]types.UID{}, podOf: map[types.UID]types.UID{}, claimOf: map[types.UID]types.UID{}}
}

// add finds a pod for a claim, if need be by giving other claims another one, and says whether there is one.
func (m *matching) add(claim types.UID, reasons []types.UID) bool {
	m.reasons[claim] = reasons
	if m.augmentPath(claim, map[types.UID]bool{}) {
		return true
	}
	delete(m.reasons, claim)
	return false
}

func (m *matching) augmentPath(claim types.UID, tried map[types.UID]bool) bool {
	for _, free := range []bool{true, false} { // an unmatched pod comes first
		for _, p := range m.reasons[claim] {
			other, taken := m.claimOf[p]
			if taken == free || tried[p] {
				continue
			}
			tried[p] = true
			if !taken || m.augmentPath(other, tried) {
				m.claimOf[p], m.podOf[claim] = claim, p
				return true
			}
		}
	}
	return false
}

// release takes a claim out that is not in flight any more.
func (m *matching) release(claim types.UID) {
	if p, had := m.podOf[claim]; had {
		delete(m.claimOf, p)
	}
	delete(m.podOf, claim)
	delete(m.reasons, claim)
}

// checkDemand is G8. What caused a claim cannot be seen, but this can: every claim in flight must have a
// pod to itself among those that needed a place when it was made. If there is no such choice, at least
// one pod has two claims. A claim is in flight until it is initialized, deleted, or failed. Pods that
// select a pool by its label count for that pool alone, all others for every pool. Claims of static
// pools and those without a pool have other causes, and so has the replacement of a disrupted node, for
// which the pods on that node count. Each pod of a CapacityBuffer counts as one that needs a place.
func (c *Checker) checkDemand(at time.Time) {
	for _, now := range c.claims {
		if now.judged || at.Sub(now.seen) < c.options.Limits.WatchLag {
			continue
		}
		now.judged = true
		pool := c.pools[poolOf(now.NodeClaim)]
		if pool == nil || pool.Spec.Replicas != nil || now.DeletionTimestamp != nil ||
			condition.True(now.Status.Conditions, karpv1.ConditionInitialized) {
			continue
		}
		reasons := c.podsNeedingClaim(pool.Name, now)
		if c.matching.add(now.UID, reasons) {
			continue
		}
		c.reportViolation(Violation{
			Rule: G8, At: at, Object: claimObject(now.Name), Pool: pool.Name,
			What: fmt.Sprintf("%d claims were in flight already for the %d pods that needed a place", len(c.matching.podOf), len(reasons)),
		})
	}
}

// podsNeedingClaim are the pods that needed a place on a node of a pool around the time a claim was made.
func (c *Checker) podsNeedingClaim(pool string, now *claim) []types.UID {
	var list []types.UID
	for uid, p := range c.pods {
		if !mayUse(p.Pod, pool) || p.CreationTimestamp.After(now.CreationTimestamp.Time) {
			continue
		}
		if p.gone.IsZero() && needsPlace(p.Pod) || now.seen.Sub(p.wanted) < recently && !p.wanted.IsZero() || c.willBeDisplaced(p.Pod) {
			list = append(list, uid)
		}
	}
	// The pods of CapacityBuffers are no objects. Which pools they may use is not known here.
	for buffer, n := range c.buffers {
		for i := range n {
			list = append(list, types.UID(fmt.Sprintf("%s/%d", buffer, i)))
		}
	}
	return list
}

// willBeDisplaced says whether a pod will need another node.
func (c *Checker) willBeDisplaced(p *corev1.Pod) bool {
	n := c.nodes[p.Spec.NodeName]
	if p.Spec.NodeName == "" || isTerminal(p) {
		return false
	}
	if n == nil {
		return true
	}
	owner := c.claimOfNode(n.Name)
	return n.DeletionTimestamp != nil || hasTaint(n, karpv1.TaintKeyDisrupted) || owner != nil && owner.DeletionTimestamp != nil
}

func needsPlace(p *corev1.Pod) bool {
	return p.Spec.NodeName == "" && p.DeletionTimestamp == nil && !isTerminal(p) && len(p.Spec.SchedulingGates) == 0
}

// mayUse says whether a pod does not request another pool by name.
func mayUse(p *corev1.Pod, pool string) bool {
	wanted, restricted := p.Spec.NodeSelector[karpv1.LabelNodePool]
	return !restricted || wanted == pool
}
