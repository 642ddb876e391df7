package drain

import (
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	karpv1 "github.com/dovetail-sh/dovetail/api/v1"
	"github.com/dovetail-sh/dovetail/internal/event"
)

// Reasons of condition InstanceTerminating while the cloud does not agree; a provider may have its own.
const (
	Unauthorized      = "Unauthorized"
	Throttled         = "Throttled"
	TerminationFailed = "TerminationFailed"
)

// Refusal is what the cloud said instead of ending an instance.
type Refusal struct {
	Reason string // for the condition
	Text   string
}

// terminatingCondition is the condition of a claim whose instance ends or has ended, unless it is there. Until then the
// claim counts as disrupting, and others may hold its Node for long.
func terminatingCondition(claim *karpv1.NodeClaim) []Mark {
	if isTrue(claim, karpv1.ConditionInstanceTerminating) {
		return nil
	}
	return []Mark{{Type: karpv1.ConditionInstanceTerminating, Status: metav1.ConditionTrue}}
}

// terminateBackoff is the back-off after a call to terminate an instance: as long as the termination has taken so
// far. Many instances terminate at once, and a slow one is not queried all the time.
func terminateBackoff(claim *karpv1.NodeClaim, accepted time.Time) time.Duration {
	c := find(claim, karpv1.ConditionInstanceTerminating)
	if c == nil || c.Status != metav1.ConditionTrue {
		return recheckFirst
	}
	return min(max(accepted.Sub(c.LastTransitionTime.Time), recheckFirst), recheckCloud)
}

// instanceWaits returns why an instance still exists that should not: the cloud refuses to terminate it, or accepted
// long ago. Most failed calls succeed when they are repeated, so nothing is reported at first.
func instanceWaits(claim *karpv1.NodeClaim, state State, no Refusal, said, now time.Time) (waits []Wait, marks []Mark) {
	c := find(claim, karpv1.ConditionInstanceTerminating)
	agreed := c != nil && c.Status == metav1.ConditionTrue
	since := instanceWaitSince(claim)
	if agreed {
		since = c.LastTransitionTime.Time
	}
	w := Wait{Cause: InstanceStays, Object: "instance " + claim.Status.ProviderID, Names: []string{claim.Status.ProviderID}, Count: 1, Since: since}
	switch {
	case state == Staying && now.Sub(since) >= explainAfter:
		w.Why, w.Fix = "the cloud does not terminate the instance: "+truncate(no.Text, maxQuoted), "the request is repeated, and the node is deleted once it succeeds"
		switch no.Reason {
		case Unauthorized:
			w.Fix = "give the controller the permission that the response names"
		case Throttled:
			w.Fix = "the request is repeated when the rate limit allows it; nothing has to be done"
		}
	case agreed && now.Sub(since) >= longWaitAfter:
		w.Why, w.Fix = "the cloud accepted the termination, but the instance still exists", "look at it in the console of the cloud: its shutdown may hang"
	default:
		return nil, nil
	}
	waits = []Wait{w}
	if agreed { // and so it stays: nothing is drained twice
		return waits, nil
	}
	return waits, []Mark{{
		Type: karpv1.ConditionInstanceTerminating, Status: metav1.ConditionUnknown, Reason: no.Reason,
		Message: rateLimitedMessage(c, "", Explain(waits, time.Time{}), said, now),
	}}
}

// instanceWaitSince is since when nothing but the cloud holds the end of a claim.
func instanceWaitSince(claim *karpv1.NodeClaim) time.Time {
	since := claim.DeletionTimestamp.Time
	for _, kind := range []string{karpv1.ConditionDrained, karpv1.ConditionVolumesDetached} {
		if c := find(claim, kind); c != nil && c.Status != metav1.ConditionUnknown && c.LastTransitionTime.After(since) {
			since = c.LastTransitionTime.Time
		}
	}
	return since
}

// longWaitEvents is the event about waits that have become long; none before.
func longWaitEvents(what string, waits []Wait, began, deadline, now time.Time) []event.Event {
	text := Explain(waits, deadline)
	if text == "" || now.Sub(began) < longWaitAfter {
		return nil
	}
	return []event.Event{{Reason: event.DrainBlocked, Key: "drain", Text: "The end of the " + what + " " + text}}
}
