package disruption

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	karpv1 "github.com/dovetail-sh/dovetail/api/v1"
	"github.com/dovetail-sh/dovetail/internal/condition"
	"github.com/dovetail-sh/dovetail/internal/controller/lookup"
	"github.com/dovetail-sh/dovetail/internal/disrupt"
	"github.com/dovetail-sh/dovetail/internal/event"
	"github.com/dovetail-sh/dovetail/internal/lifecycle"
	"github.com/dovetail-sh/dovetail/internal/reason"
)

const (
	blockedFor       = time.Minute // budgets change while workloads roll out: shorter blocks are not written
	maxBlockedWrites = 50          // claims that one pass writes at most
)

// block is since when a claim is blocked, and when the condition was last written.
type block struct{ since, wrote time.Time }

// writeBlockedConditions keeps condition DisruptionBlocked: true on claims whose disruption needs an action of
// a user, absent on all others. It writes only changes, and a bounded number of claims per pass.
func (d *Disruption) writeBlockedConditions(ctx context.Context, view disrupt.View) error {
	kept := disrupt.PersistentBlocks(view)
	maps.DeleteFunc(d.blocks, func(name string, _ *block) bool { _, still := kept[name]; return !still })
	claims := &karpv1.NodeClaimList{}
	if err := d.Client.List(ctx, claims, client.UnsafeDisableDeepCopy); err != nil {
		return fmt.Errorf("list nodeclaims: %w", err)
	}
	var names []string
	for _, c := range lookup.ByName(claims.Items) {
		why, is := kept[c.Name]
		if len(names) < maxBlockedWrites && d.blockedConditionIsOutdated(c, why, is) {
			names = append(names, c.Name)
		}
	}
	return errors.Join(d.forEach(len(names), func(i int) error {
		why, is := kept[names[i]]
		if err := d.writeBlockedCondition(ctx, names[i], why, is); err != nil && !onlyConflicts(err) { // a conflict: the next pass looks again
			return fmt.Errorf("nodeclaim %s: %w", names[i], err)
		}
		return nil
	})...)
}

// blockedConditionIsOutdated reports whether the condition of a claim has to be written now.
func (d *Disruption) blockedConditionIsOutdated(c *karpv1.NodeClaim, why reason.Reason, is bool) bool {
	have := condition.Find(c.Status.Conditions, karpv1.ConditionDisruptionBlocked)
	if !is {
		return have != nil
	}
	now, b := d.Now(), d.blocks[c.Name]
	if b == nil {
		b = &block{since: now}
		if have != nil {
			b.since = have.LastTransitionTime.Time // a process before this one knew
		}
		if d.blocks == nil {
			d.blocks = map[string]*block{}
		}
		d.blocks[c.Name] = b
	}
	says := have != nil && have.Status == metav1.ConditionTrue && have.Reason == string(why.Code) && have.Message == blockedMessage(why)
	if says || now.Sub(b.since) < blockedFor || now.Sub(b.wrote) < blockedFor {
		return false
	}
	b.wrote = now
	return true
}

// blockedMessage says what blocks the disruption of a node and what ends that.
func blockedMessage(why reason.Reason) string {
	why.Subject = "" // the claim that carries it
	return why.Text()
}

// writeBlockedCondition sets condition DisruptionBlocked of a claim, or removes it.
func (d *Disruption) writeBlockedCondition(ctx context.Context, name string, why reason.Reason, is bool) error {
	claim := &karpv1.NodeClaim{ObjectMeta: metav1.ObjectMeta{Name: name}}
	since := metav1.NewTime(d.Now())
	if b := d.blocks[name]; b != nil {
		since = metav1.NewTime(b.since)
	}
	return client.IgnoreNotFound(d.patchWithRetry(ctx, claim, true, func() bool {
		if !is {
			had := len(claim.Status.Conditions)
			claim.Status.Conditions = condition.Remove(slices.Clone(claim.Status.Conditions), karpv1.ConditionDisruptionBlocked)
			return len(claim.Status.Conditions) == had
		}
		object := condition.Object{Generation: claim.Generation, Created: claim.CreationTimestamp, Deleting: claim.DeletionTimestamp != nil}
		claim.Status.Conditions = lifecycle.Conditions().Apply(claim.Status.Conditions, object, since,
			condition.Change{Type: karpv1.ConditionDisruptionBlocked, Status: metav1.ConditionTrue, Reason: string(why.Code), Message: blockedMessage(why)})
		return false
	}))
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
