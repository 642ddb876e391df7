package controller

import (
	"context"

	"sigs.k8s.io/controller-runtime/pkg/client"

	karpv1 "github.com/dovetail-sh/dovetail/api/v1"
	"github.com/dovetail-sh/dovetail/internal/event"
)

// emitTerminatingEvent says on a claim that was deleted, and on its Nodes, why. Nodes that cannot be read are not told.
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
