package disruption

import (
	"context"
	"errors"
	"fmt"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	karpv1 "github.com/dovetail-sh/dovetail/api/v1"
	"github.com/dovetail-sh/dovetail/internal/condition"
	"github.com/dovetail-sh/dovetail/internal/controller/lookup"
	"github.com/dovetail-sh/dovetail/internal/disrupt"
	"github.com/dovetail-sh/dovetail/internal/event"
	"github.com/dovetail-sh/dovetail/internal/metric"
)

// blockedConditions keeps condition DisruptionBlocked of claims.
type blockedConditions struct {
	objects

	metrics *metric.Set
	now     func() time.Time
	state   disrupt.BlockedConditions
}

// write writes the conditions that changed.
func (b *blockedConditions) write(ctx context.Context, view disrupt.View) error {
	claims := &karpv1.NodeClaimList{}
	if err := b.client.List(ctx, claims, client.UnsafeDisableDeepCopy); err != nil {
		return fmt.Errorf("list nodeclaims: %w", err)
	}
	changes := b.state.Advance(disrupt.PersistentBlocks(view), lookup.ByName(claims.Items), b.now())
	return errors.Join(forEach(b.metrics, len(changes), func(i int) error {
		claim := &karpv1.NodeClaim{ObjectMeta: metav1.ObjectMeta{Name: changes[i].Claim}}
		err := client.IgnoreNotFound(b.patchWithRetry(ctx, claim, true, func() bool { return !changes[i].Apply(claim) }))
		if err != nil && !onlyConflicts(err) { // a conflict: the next pass retries
			return fmt.Errorf("nodeclaim %s: %w", claim.Name, err)
		}
		return nil
	})...)
}

// withBlockedSince adds to an event since when a node is blocked, if the condition of its claim has the same
// reason. That time does not change, so the event can be deduplicated.
func withBlockedSince(e event.Event, claim *karpv1.NodeClaim) event.Event {
	c := condition.Find(claim.Status.Conditions, karpv1.ConditionDisruptionBlocked)
	if e.Reason == event.DisruptionBlocked && c != nil && c.Reason == e.Key {
		e.Text += "; it is kept since " + c.LastTransitionTime.UTC().Format(time.RFC3339)
	}
	return e
}
