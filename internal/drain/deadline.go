package drain

import (
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	karpv1 "github.com/dovetail-sh/dovetail/api/v1"
	"github.com/dovetail-sh/dovetail/internal/event"
)

// Deadline is when the remaining pods on the node of a claim are forcibly deleted; zero if there is none. The
// annotation decides. If it is absent or malformed, a claim that is being deleted has the deadline that its
// terminationGracePeriod gives (LC-20, L18).
func Deadline(claim *karpv1.NodeClaim) time.Time {
	if claim == nil {
		return time.Time{}
	}
	if at, ok := parsedDeadline(claim); ok {
		return at
	}
	return computedDeadline(claim)
}

// AdvanceDeadline sets the deadline of a claim and reports whether that changed the claim, which is written to. A
// deadline is only ever made earlier (V15-29). A text that cannot be read is no deadline, and is replaced (FM-L18).
func AdvanceDeadline(claim *karpv1.NodeClaim, at time.Time) bool {
	if have, ok := parsedDeadline(claim); ok && !have.After(at) {
		return false
	}
	metav1.SetMetaDataAnnotation(&claim.ObjectMeta, karpv1.AnnotationTerminationTimestamp, at.UTC().Format(time.RFC3339))
	return true
}

// AdvanceCommandDeadline is AdvanceDeadline for a command, whose token is written next to the deadline: a claim that
// stays after all loses both again (V15-29).
func AdvanceCommandDeadline(claim *karpv1.NodeClaim, at time.Time, token string) bool {
	if !AdvanceDeadline(claim, at) {
		return false
	}
	if token != "" {
		metav1.SetMetaDataAnnotation(&claim.ObjectMeta, karpv1.AnnotationHeldBy, token)
	}
	return true
}

// RemoveCommandDeadline removes the deadline that a command wrote on a claim that stays, and reports whether that
// changed the claim, which is written to. A deadline that is not from a command stays.
func RemoveCommandDeadline(claim *karpv1.NodeClaim) bool {
	if _, ours := claim.Annotations[karpv1.AnnotationHeldBy]; !ours || claim.DeletionTimestamp != nil {
		return false
	}
	delete(claim.Annotations, karpv1.AnnotationHeldBy)
	delete(claim.Annotations, karpv1.AnnotationTerminationTimestamp)
	return true
}

// BoundedPeriod is how long the drain of a claim may take that a command bounds: the shorter of the bound and the
// claim's own terminationGracePeriod (V15-26). A period that cannot be read is none, here as in Deadline.
func BoundedPeriod(claim *karpv1.NodeClaim, bound time.Duration) time.Duration {
	if own, err := claim.Spec.TerminationGracePeriod.Parse(); err == nil {
		return min(bound, own)
	}
	return bound
}

// parsedDeadline is the deadline on the claim, if there is one that can be read.
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
