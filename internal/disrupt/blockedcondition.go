package disrupt

import (
	"maps"
	"slices"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	karpv1 "github.com/dovetail-sh/dovetail/api/v1"
	"github.com/dovetail-sh/dovetail/internal/condition"
	"github.com/dovetail-sh/dovetail/internal/lifecycle"
	"github.com/dovetail-sh/dovetail/internal/reason"
)

const (
	blockedFor       = time.Minute // budgets change while workloads roll out: shorter blocks are not written
	maxBlockedWrites = 50          // claims that one pass writes at most
)

// BlockedConditions decides which claims get or lose condition DisruptionBlocked: it is true on claims whose
// disruption needs an action of a user, and absent on all others. The zero value is ready.
type BlockedConditions struct {
	blocks map[string]*block // by claim
}

// block is since when a claim is blocked, and when the condition was last written.
type block struct{ since, wrote time.Time }

// BlockedChange is a claim whose condition has to be written.
type BlockedChange struct {
	Claim string
	why   *reason.Reason // nil: the condition is to be removed
	since time.Time
}

// Advance returns what has to be written now, a bounded number of changes. Kept is what PersistentBlocks returned;
// claims are all claims, in order of priority.
func (b *BlockedConditions) Advance(kept map[string]reason.Reason, claims []*karpv1.NodeClaim, now time.Time) []BlockedChange {
	maps.DeleteFunc(b.blocks, func(name string, _ *block) bool { _, still := kept[name]; return !still })
	var out []BlockedChange
	for _, c := range claims {
		if len(out) == maxBlockedWrites {
			break
		}
		why, is := kept[c.Name]
		have := condition.Find(c.Status.Conditions, karpv1.ConditionDisruptionBlocked)
		if !is {
			if have != nil {
				out = append(out, BlockedChange{Claim: c.Name})
			}
			continue
		}
		if known := b.block(c.Name, have, now); known.isDue(have, why, now) {
			known.wrote = now
			out = append(out, BlockedChange{Claim: c.Name, why: &why, since: known.since})
		}
	}
	return out
}

// block returns what is known of a claim. An earlier process may have written since when it is blocked.
func (b *BlockedConditions) block(claim string, have *metav1.Condition, now time.Time) *block {
	if b.blocks == nil {
		b.blocks = map[string]*block{}
	}
	known := b.blocks[claim]
	if known == nil {
		known = &block{since: now}
		if have != nil {
			known.since = have.LastTransitionTime.Time
		}
		b.blocks[claim] = known
	}
	return known
}

// isDue reports whether the condition has to be written now.
func (b *block) isDue(have *metav1.Condition, why reason.Reason, now time.Time) bool {
	same := have != nil && have.Status == metav1.ConditionTrue && have.Reason == string(why.Code) && have.Message == blockedMessage(why)
	return !same && now.Sub(b.since) >= blockedFor && now.Sub(b.wrote) >= blockedFor
}

// blockedMessage says what blocks the disruption of a node and what ends that.
func blockedMessage(why reason.Reason) string {
	why.Subject = "" // the claim that carries it
	return why.Text()
}

// Apply sets or removes the condition of a claim that the caller owns, and reports whether it has to be written.
func (c BlockedChange) Apply(claim *karpv1.NodeClaim) (write bool) {
	if c.why == nil {
		had := len(claim.Status.Conditions)
		claim.Status.Conditions = condition.Remove(slices.Clone(claim.Status.Conditions), karpv1.ConditionDisruptionBlocked)
		return len(claim.Status.Conditions) != had
	}
	object := condition.Object{Generation: claim.Generation, Created: claim.CreationTimestamp, Deleting: claim.DeletionTimestamp != nil}
	claim.Status.Conditions = lifecycle.Conditions().Apply(claim.Status.Conditions, object, metav1.NewTime(c.since),
		condition.Change{Type: karpv1.ConditionDisruptionBlocked, Status: metav1.ConditionTrue, Reason: string(c.why.Code), Message: blockedMessage(*c.why)})
	return true
}
