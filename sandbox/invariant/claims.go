package invariant

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"

	karpv1 "github.com/dovetail-sh/dovetail/api/v1"
	"github.com/dovetail-sh/dovetail/internal/condition"
)

func claimObject(name string) string { return "NodeClaim " + name }

// claimChanged follows claims, and judges what a change itself shows: G1, G3, G4, G10 and G11.
func (c *Checker) claimChanged(at time.Time, kind Kind, next *karpv1.NodeClaim) {
	object := claimObject(next.Name)
	before := c.claims[next.Name]
	if before != nil && before.UID != next.UID {
		before = nil // another one of the same name
	}
	c.checkFinalizer(at, kind, before, next)
	if kind == Removed {
		c.recordHistory(at, object, "gone")
		c.matching.release(next.UID)
		delete(c.claims, next.Name)
		return
	}
	c.recordHistory(at, object, sayClaim(next))
	now := &claim{NodeClaim: next, seen: at}
	if before != nil {
		now.seen, now.judged, now.launch, now.atBirth = before.seen, before.judged, before.launch, before.atBirth
	} else if pool := c.pools[poolOf(next)]; pool != nil {
		now.atBirth = corev1.ResourceList{} // known, even if there are none
		maps.Copy(now.atBirth, pool.Spec.Limits)
	}
	c.claims[next.Name] = now
	if next.DeletionTimestamp != nil || condition.True(next.Status.Conditions, karpv1.ConditionInitialized) {
		c.matching.release(next.UID)
	}
	c.checkSharedInstance(at, now)
	c.checkRelaunch(at, before, now)
	c.checkLimits(at, now)
	c.checkStart(at, before, now)
}

// checkFinalizer is G3. It sees the finalizer go in a watch, and looks at the instance at that moment: a
// finalizer that went shortly before the instance did is not found out. A claim whose status never named
// an instance counts as never launched; if it was, G2 finds the orphan.
func (c *Checker) checkFinalizer(at time.Time, kind Kind, before *claim, next *karpv1.NodeClaim) {
	had := before != nil && slices.Contains(before.Finalizers, karpv1.FinalizerTermination)
	has := kind == Set && slices.Contains(next.Finalizers, karpv1.FinalizerTermination)
	if !had || has {
		return
	}
	id := instanceID(before.Status.ProviderID)
	instance, known := c.instances[id]
	if id == "" || !known || instance.State == stateTerminated {
		return
	}
	c.reportViolation(Violation{
		Rule: G3, At: at, Object: claimObject(next.Name), Pool: poolOf(next),
		What: fmt.Sprintf("its finalizer went while instance %s is %s", id, instance.State),
	})
}

// checkSharedInstance is the part of G1 that never has an excuse: one instance was given to two claims.
func (c *Checker) checkSharedInstance(at time.Time, now *claim) {
	if now.Status.ProviderID == "" {
		return
	}
	for _, other := range c.claims {
		if other.UID != now.UID && other.Status.ProviderID == now.Status.ProviderID {
			c.reportViolation(Violation{
				Rule: G1, At: at, Object: claimObject(now.Name), Pool: poolOf(now.NodeClaim),
				What: fmt.Sprintf("it has the instance of NodeClaim %s, %s", other.Name, now.Status.ProviderID),
			})
		}
	}
}

// checkLimits is G10. A claim is counted once its capacity is known, with all others of its pool that
// are not going. It may not lift the pool above its limits, unless they were lowered after the claim
// was made.
func (c *Checker) checkLimits(at time.Time, now *claim) {
	pool := c.pools[poolOf(now.NodeClaim)]
	if now.launch || len(now.Status.Capacity) == 0 || pool == nil {
		return
	}
	now.launch = true
	if pool.Spec.Replicas != nil {
		return // static pools have limits.nodes alone, which their own tests judge
	}
	used, nodes := corev1.ResourceList{}, int64(0)
	for _, other := range c.claims {
		if poolOf(other.NodeClaim) != pool.Name || other.DeletionTimestamp != nil {
			continue
		}
		nodes++
		for name, quantity := range other.Status.Capacity {
			sum := used[name]
			sum.Add(quantity)
			used[name] = sum
		}
	}
	used["nodes"] = *newCount(nodes)
	for name, limit := range pool.Spec.Limits {
		if born, had := now.atBirth[name]; had && born.Cmp(limit) > 0 {
			limit = born
		} else if !had && now.atBirth != nil {
			continue // there was none
		}
		if have := used[name]; have.Cmp(limit) > 0 {
			c.reportViolation(Violation{
				Rule: G10, At: at, Object: claimObject(now.Name), Pool: pool.Name,
				What: fmt.Sprintf("with it, NodePool %s has %s of %s, above its limit of %s", pool.Name, have.String(), name, limit.String()),
			})
		}
	}
}

// sayClaim is one line of history.
func sayClaim(n *karpv1.NodeClaim) string {
	parts := []string{}
	for _, kind := range []string{karpv1.ConditionLaunched, karpv1.ConditionRegistered, karpv1.ConditionInitialized, karpv1.ConditionDrained, karpv1.ConditionInstanceTerminating, karpv1.ConditionDisruptionReason} {
		if found := condition.Find(n.Status.Conditions, kind); found != nil {
			parts = append(parts, fmt.Sprintf("%s=%s(%s)", kind, found.Status, found.Reason))
		}
	}
	if n.Status.ProviderID != "" {
		parts = append(parts, n.Status.ProviderID)
	}
	if n.DeletionTimestamp != nil {
		parts = append(parts, "deleting")
	}
	if len(n.Finalizers) > 0 {
		parts = append(parts, "held by "+strings.Join(n.Finalizers, ","))
	}
	return strings.Join(parts, " ")
}

func poolOf(n *karpv1.NodeClaim) string { return n.Labels[karpv1.LabelNodePool] }

// instanceID is the last part of a provider id.
func instanceID(providerID string) string {
	return providerID[strings.LastIndex(providerID, "/")+1:]
}
