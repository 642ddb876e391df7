package write

import (
	"context"

	"sigs.k8s.io/controller-runtime/pkg/client"

	karpv1 "github.com/dovetail-sh/dovetail/api/v1"
	"github.com/dovetail-sh/dovetail/internal/cluster"
	"github.com/dovetail-sh/dovetail/internal/controller/lookup"
	"github.com/dovetail-sh/dovetail/internal/execute"
	"github.com/dovetail-sh/dovetail/internal/metric"
)

// NewRemover is what removes claims, with the pods counted that the cache knows.
func NewRemover(c client.Client, events Emitter, m *metric.Set, removed func(claim, node, reason string)) execute.Remover {
	return execute.Remover{Client: c, Events: events, Metrics: m, PodsToMove: PodsToMove(c), Removed: removed}
}

// RemoveClaim removes a claim with the Nodes that the cache knows of it.
func RemoveClaim(ctx context.Context, c client.Client, r execute.Remover, x execute.Removal) error {
	nodes, err := lookup.NodesOf(ctx, c, x.Claim.Status.ProviderID)
	if err != nil {
		return err
	}
	x.Nodes = nodes
	return r.Remove(ctx, x)
}

// PodsToMove counts the pods on a node that will have to start elsewhere. It reads the cache. A list that fails
// counts as no pods, since the number is only for a metric.
func PodsToMove(c client.Client) func(ctx context.Context, node string) int {
	return func(ctx context.Context, node string) int {
		pods, err := lookup.PodsOn(ctx, c, node)
		if err != nil {
			return 0
		}
		moving := 0
		for _, p := range pods {
			if cluster.Reschedulable(p) {
				moving++
			}
		}
		return moving
	}
}

// CountUnhealthy counts a claim that is removed or rebooted because of a condition of its node (V15-32). The mode is how
// hard its drain may become.
func CountUnhealthy(m *metric.Set, claim *karpv1.NodeClaim, condition, mode string) {
	m.NodeClaimsUnhealthyDisrupted.WithLabelValues(metric.SnakeCase(condition), claim.Labels[karpv1.LabelNodePool], claim.Labels[karpv1.LabelCapacityType], claim.Status.ImageID, mode).Inc()
}
