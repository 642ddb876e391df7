package invariant

import (
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	karpv1 "github.com/dovetail-sh/dovetail/api/v1"
	"github.com/dovetail-sh/dovetail/internal/condition"
)

// Unsettled is G14: it lists what of a pool, of those whose names begin like it, and of a namespace is not
// as it would be had nothing gone wrong: every pod runs, every claim is ready and has its instance and its
// node, nothing is without a claim, nothing is tainted as new or as going. A test whose faults are lifted
// waits until the list is empty. What a test leaves as it should not be on purpose, only the test knows.
func (c *Checker) Unsettled(pool, namespace string) []string {
	c.mu.Lock()
	defer c.mu.Unlock()
	mine := func(name string) bool { return name != "" && strings.HasPrefix(name, pool) }
	var open []string
	for _, p := range c.pods {
		if p.Namespace == namespace && p.gone.IsZero() && !isTerminal(p.Pod) && p.Status.Phase != corev1.PodRunning {
			open = append(open, fmt.Sprintf("%s is %s", podObject(p.Pod), p.Status.Phase))
		}
	}
	for name, n := range c.claims {
		if mine(poolOf(n.NodeClaim)) {
			open = append(open, c.openClaim(name, n)...)
		}
	}
	for name, n := range c.nodes {
		if mine(n.Labels[karpv1.LabelNodePool]) && c.claimOfNode(name) == nil {
			open = append(open, nodeObject(name)+" has no NodeClaim")
		}
	}
	for id, i := range c.instances {
		if mine(i.Tags[karpv1.LabelNodePool]) && i.State != stateTerminated && len(c.claimsOf(id)) == 0 {
			open = append(open, fmt.Sprintf("%s is %s and has no NodeClaim", instanceObject(id), i.State))
		}
	}
	slices.Sort(open)
	return open
}

// openClaim is what is not done about a claim.
func (c *Checker) openClaim(name string, n *claim) []string {
	object := claimObject(name)
	switch node := c.nodes[n.Status.NodeName]; {
	case n.DeletionTimestamp != nil:
		return []string{object + " is going"}
	case n.isDisrupted():
		return []string{object + " is being disrupted: " + n.disruptionReason()}
	case !condition.True(n.Status.Conditions, karpv1.ConditionInitialized):
		return []string{object + " is not initialized"}
	case c.instances[instanceID(n.Status.ProviderID)].State != "running":
		return []string{object + " has no instance that runs"}
	case node == nil:
		return []string{object + " has no Node"}
	case !ready(node):
		return []string{nodeObject(node.Name) + " is not ready"}
	default:
		var open []string
		for _, key := range []string{karpv1.TaintKeyDisrupted, karpv1.TaintKeyUnregistered} {
			if hasTaint(node, key) {
				open = append(open, nodeObject(node.Name)+" is tainted "+key)
			}
		}
		return open
	}
}
