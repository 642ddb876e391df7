package controller

import (
	"context"

	"sigs.k8s.io/controller-runtime/pkg/client"

	karpv1 "github.com/dovetail-sh/dovetail/api/v1"
	"github.com/dovetail-sh/dovetail/internal/event"
)

// emitTerminatingEvent records on a deleted claim, and on its Nodes, why it was deleted. It is best effort:
// Nodes that cannot be listed get no event.
func emitTerminatingEvent(ctx context.Context, c client.Client, events emitter, claim *karpv1.NodeClaim, why string) {
	e := event.Event{Reason: event.DisruptionTerminating, Text: "Disrupting the node, reason " + why}
	events.Emit(claim, e)
	nodes, err := nodesOf(ctx, c, claim.Status.ProviderID)
	if err != nil {
		return
	}
	for _, n := range nodes {
		events.Emit(n, e)
	}
}
