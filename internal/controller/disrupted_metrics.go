package controller

import (
	"context"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	karpv1 "github.com/dovetail-sh/dovetail/api/v1"
	"github.com/dovetail-sh/dovetail/internal/cluster"
	"github.com/dovetail-sh/dovetail/internal/lifecycle"
	"github.com/dovetail-sh/dovetail/internal/metric"
)

// CountDisrupted counts a claim whose forceful removal began, and those of the pods on its node that will have
// to start elsewhere. The reason is one of the documented reasons of the metric, in snake case.
func CountDisrupted(m *metric.Set, claim *karpv1.NodeClaim, reason string, pods []*corev1.Pod) {
	moving := countMoving(pods)
	labels := disruptedLabels(claim, reason)
	m.NodeClaimsDisrupted.WithLabelValues(labels...).Inc()
	m.PodsDisruptionInitiated.WithLabelValues(labels...).Add(float64(moving))
}

func disruptedLabels(claim *karpv1.NodeClaim, reason string) []string {
	return []string{reason, claim.Labels[karpv1.LabelNodePool], claim.Labels[karpv1.LabelCapacityType], "", lifecycle.TerminationMode(claim)}
}

// initDisruptedSeries creates the series of a removal that may follow, with value 0. Prometheus does not see
// the first increase of a counter without a previous sample, so the first node that does not join would raise
// no alert.
func initDisruptedSeries(m *metric.Set, claim *karpv1.NodeClaim, reason string) {
	m.NodeClaimsDisrupted.WithLabelValues(disruptedLabels(claim, reason)...)
}

// PodsToMove counts the pods on a node that will have to start elsewhere. It reads the cache. A list that fails
// counts as no pods, since the number is only for a metric.
func PodsToMove(c client.Client) func(ctx context.Context, node string) int {
	return func(ctx context.Context, node string) int {
		pods, err := podsOn(ctx, c, node)
		if err != nil {
			return 0
		}
		return countMoving(pods)
	}
}

func countMoving(pods []*corev1.Pod) int {
	moving := 0
	for _, p := range pods {
		if cluster.Reschedulable(p) {
			moving++
		}
	}
	return moving
}
