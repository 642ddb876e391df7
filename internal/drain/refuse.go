package drain

import (
	"strings"
	"time"

	policyv1 "k8s.io/api/policy/v1"
)

const (
	unansweredAfter = time.Minute // a pod that the API server was not asked about for so long is worth a word
	maxAnswer       = 300         // of an answer that is repeated in a text
)

// Try is how far the eviction queue is with a pod.
type Try struct {
	Since  time.Time // when the pod came into the queue or, if there is an answer, was first refused
	Answer string    // what the API server said last instead of yes; empty: nothing yet, or it agreed
	Budget bool      // it said no for a PodDisruptionBudget
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
	case t.Answer == "" && waits >= unansweredAfter:
		w.Cause, w.Object = Unanswered, "eviction queue"
		w.Why = "eviction of the pods was not requested yet, or the API server has not responded"
		w.Fix = "they are in the eviction queue; if it does not get shorter, look at the log of the controller and at the load of the API server"
		return true
	case t.Answer == "" || waits < explainAfter:
		return false
	}
	w.Cause, w.Why = EvictionRefused, "the API server refuses to evict pods: "+truncate(t.Answer, maxAnswer)
	w.Object, w.Fix = refusedBy(t.Answer)
	if t.Budget { // it allowed one when we looked, or it is not among those we see
		w.Cause, w.Object, w.Fix = SpentBudget, "PodDisruptionBudget", "it allows one when more of its pods are ready, or when it requires fewer"
		for _, b := range matching {
			w.Object += " " + b.Namespace + "/" + b.Name
		}
	}
	return true
}

// refusedBy reads from a response what refuses an eviction and what would change that.
func refusedBy(answer string) (object, fix string) {
	if _, rest, found := strings.Cut(answer, `webhook "`); found {
		name, _, _ := strings.Cut(rest, `"`)
		return "admission webhook " + name, "let the webhook allow it, repair the webhook if it does not respond, or delete it"
	}
	if _, rest, found := strings.Cut(answer, "cannot "); found {
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
