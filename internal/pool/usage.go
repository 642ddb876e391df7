package pool

import (
	"maps"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	karpv1 "github.com/dovetail-sh/dovetail/api/v1"
)

// resourceNodes is the name under which the number of nodes counts as a resource.
const resourceNodes corev1.ResourceName = "nodes"

// Count returns the status of a pool with what its nodes have together, and whether that is news
// (LC-54). The usual resources are always there, with zero where there is none.
func Count(status karpv1.NodePoolStatus, usage corev1.ResourceList, nodes int64) (next karpv1.NodePoolStatus, changed bool) {
	next = status
	next.Nodes = &nodes
	next.Resources = corev1.ResourceList{}
	for _, name := range []corev1.ResourceName{corev1.ResourceCPU, corev1.ResourceMemory, corev1.ResourcePods, corev1.ResourceEphemeralStorage} {
		next.Resources[name] = *resource.NewQuantity(0, resource.DecimalSI)
	}
	maps.Copy(next.Resources, usage)
	next.Resources[resourceNodes] = *resource.NewQuantity(nodes, resource.DecimalSI)
	changed = status.Nodes == nil || *status.Nodes != nodes || len(status.Resources) != len(next.Resources)
	for name, quantity := range next.Resources {
		have, found := status.Resources[name]
		changed = changed || !found || have.Cmp(quantity) != 0
	}
	return next, changed
}
