package drain

import (
	"time"

	karpv1 "github.com/dovetail-sh/dovetail/api/v1"
	"github.com/dovetail-sh/dovetail/internal/event"
)

// Deadline is the moment at which what is left on the node of a claim is forced to go; zero if there is
// none. The annotation decides. Where it is absent or cannot be read, a claim that is being deleted has
// the deadline that its terminationGracePeriod gives (LC-20, L18).
func Deadline(claim *karpv1.NodeClaim) time.Time {
	if claim == nil {
		return time.Time{}
	}
	if at, ok := parsedDeadline(claim); ok {
		return at
	}
	return computedDeadline(claim)
}

// parsedDeadline is the deadline on the claim; a second one is never written over it.
func parsedDeadline(claim *karpv1.NodeClaim) (time.Time, bool) {
	at, err := time.Parse(time.RFC3339, claim.Annotations[karpv1.AnnotationTerminationTimestamp])
	return at, err == nil
}

// computedDeadline is the deadline that follows from the spec of a claim that is being deleted, or zero.
func computedDeadline(claim *karpv1.NodeClaim) time.Time {
	if claim.DeletionTimestamp == nil || claim.Spec.TerminationGracePeriod == "" {
		return time.Time{}
	}
	period, err := claim.Spec.TerminationGracePeriod.Parse()
	if err != nil {
		return time.Time{}
	}
	return claim.DeletionTimestamp.Add(period)
}

func expiring(at time.Time) event.Event {
	return event.Event{
		Reason: event.TerminationGracePeriodExpiring,
		Text:   "Pods that are still on the node are deleted in time to end by " + at.UTC().Format(time.RFC3339),
	}
}
