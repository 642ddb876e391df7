package lifecycle

import (
	"time"

	karpv1 "github.com/dovetail-sh/dovetail/api/v1"
	"github.com/dovetail-sh/dovetail/internal/duration"
)

// Expiry is when a claim, in its effective form, has lived long enough (LC-16); false if it never has,
// also if the text cannot be read, since nothing is removed because of a typing error.
func Expiry(claim *karpv1.NodeClaim) (time.Time, bool) {
	life, never, err := duration.ParseOrNever(string(claim.Spec.ExpireAfter))
	if never || err != nil {
		return time.Time{}, false
	}
	return claim.CreationTimestamp.Add(life), true
}

// clockOffWait is how long a claim waits that would expire and may not.
const clockOffWait = time.Minute

// ExpiryStep is what to do about the expiry of a claim.
type ExpiryStep struct {
	Delete bool
	Why    string        // it is deleted
	After  time.Duration // when to reconcile again; zero: when it changes
}

// NextExpiry decides whether a claim, in its effective form, has expired (LC-16). Nothing expires while the
// clock is too far off to go by ages (FM N06).
func NextExpiry(claim *karpv1.NodeClaim, clockOff bool, now time.Time) ExpiryStep {
	at, ever := Expiry(claim)
	switch {
	case !ever || claim.DeletionTimestamp != nil:
		return ExpiryStep{}
	case now.Before(at):
		return ExpiryStep{After: at.Sub(now)}
	case clockOff:
		return ExpiryStep{After: clockOffWait}
	}
	return ExpiryStep{Delete: true, Why: "it has lived since " + claim.CreationTimestamp.UTC().Format(time.RFC3339) + ", and its expireAfter is " + string(claim.Spec.ExpireAfter)}
}

// TerminationMode is how hard the end of a claim may become, as metrics label it.
func TerminationMode(claim *karpv1.NodeClaim) string {
	grace, err := duration.Parse(string(claim.Spec.TerminationGracePeriod))
	switch {
	case err != nil: // absent
		return "graceful"
	case grace > 0:
		return "eventual"
	default:
		return "forceful"
	}
}

// BoundedMode is the TerminationMode of a claim whose drain is bounded; nil: it is not.
func BoundedMode(claim *karpv1.NodeClaim, bound *time.Duration) string {
	switch {
	case bound == nil:
		return TerminationMode(claim)
	case *bound > 0:
		return "eventual"
	default:
		return "forceful"
	}
}
