package lifecycle

import (
	"slices"

	corev1 "k8s.io/api/core/v1"

	karpv1 "github.com/dovetail-sh/dovetail/api/v1"
	"github.com/dovetail-sh/dovetail/internal/cloud"
	"github.com/dovetail-sh/dovetail/internal/condition"
)

// Collectable returns the claims whose instance is gone (LC-38). The claims must have been listed
// before the instances. A node that is ready is believed more than the cloud; a claim that is not
// registered is left to its timeout.
func Collectable(claims []*karpv1.NodeClaim, instances []cloud.Instance, nodes func(id string) []*corev1.Node) []*karpv1.NodeClaim {
	alive := make(map[string]bool, len(instances))
	for _, i := range instances {
		alive[string(i.ID)] = alive[string(i.ID)] || !i.Terminating
	}
	var out []*karpv1.NodeClaim
	for _, c := range claims {
		id := c.Status.ProviderID
		registered := condition.True(c.Status.Conditions, karpv1.ConditionRegistered)
		if c.DeletionTimestamp != nil || !registered || id == "" || alive[id] || slices.ContainsFunc(nodes(id), Ready) {
			continue
		}
		out = append(out, c)
	}
	return out
}
