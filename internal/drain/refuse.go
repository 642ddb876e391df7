package drain

import (
	"strings"
	"time"

	policyv1 "k8s.io/api/policy/v1"
)

const (
	noResponseAfter = time.Minute // a pod without a call to the API server for this long is reported
	maxQuoted       = 300         // length of a response that is quoted in a text
)

// Try is the progress of the eviction queue with a pod.
type Try struct {
	Since    time.Time // when the pod was queued or, if there is a response, first refused
	Response string    // last refusal of the API server; empty: none yet, or it accepted
	Budget   bool      // it said no for a PodDisruptionBudget
}

// Refused is the progress after another refusal. The wait began with the first refusal of its kind: by a
// PodDisruptionBudget, or by anything else.
func (t Try) Refused(response string, budget bool, now time.Time) Try {
	next := Try{Since: t.Since, Response: response, Budget: budget}
	if t.Response == "" || t.Budget != budget {
		next.Since = now
	}
	return next
}

// setEvictionCause names why the API server refuses an eviction that no known budget explains. It reports false
// if the pod is about to leave.
func (w *Wait) setEvictionCause(t Try, matching []*policyv1.PodDisruptionBudget, now time.Time) bool {
	waits := now.Sub(t.Since)
	switch {
	case t.Since.IsZero():
		return false
	case t.Since.After(w.Since):
		w.Since = t.Since
	}
	switch {
	case t.Response == "" && waits >= noResponseAfter:
		w.Cause, w.Object = EvictionPending, "eviction queue"
		w.Why = "eviction of the pods was not requested yet, or the API server has not responded"
		w.Fix = "they are in the eviction queue; if it does not get shorter, look at the log of the controller and at the load of the API server"
		return true
	case t.Response == "" || waits < explainAfter:
		return false
	}
	w.Cause, w.Why = EvictionRefused, "the API server refuses to evict pods: "+truncate(t.Response, maxQuoted)
	w.Object, w.Fix = refusedBy(t.Response)
	if t.Budget { // it allowed one when it was read, or it is not among those we see
		w.Cause, w.Object, w.Fix = SpentBudget, "PodDisruptionBudget", "it allows one when more of its pods are ready, or when it requires fewer"
		for _, b := range matching {
			w.Object += " " + b.Namespace + "/" + b.Name
		}
	}
	return true
}

// refusedBy reads from a response what refuses an eviction and what would change that.
func refusedBy(response string) (object, fix string) {
	if _, rest, found := strings.Cut(response, `webhook "`); found {
		name, _, _ := strings.Cut(rest, `"`)
		return "admission webhook " + name, "let the webhook allow it, repair the webhook if it does not respond, or delete it"
	}
	if _, rest, found := strings.Cut(response, "cannot "); found {
		verb, rest, found := strings.Cut(rest, ` resource "`)
		if resource, _, closed := strings.Cut(rest, `"`); found && closed {
			return "RBAC", "give the controller the verb " + verb + " on " + resource + " in its ClusterRole, as the chart does"
		}
	}
	return "API server", "the request is repeated; the response says what has to change"
}

// truncate shortens a text of another component.
func truncate(text string, most int) string {
	if len(text) <= most {
		return text
	}
	const dots = "..."
	cut := most - len(dots)
	for cut > 0 && text[cut]&0xC0 == 0x80 { // not within a character
		cut--
	}
	return text[:cut] + dots
}
