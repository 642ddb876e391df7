package drain

import (
	"maps"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/dovetail-sh/dovetail/internal/cluster"
)

// Back-off of everything that drains (G12).
const (
	FirstRetry = 100 * time.Millisecond
	LastRetry  = 10 * time.Second
)

// Backoff is the time until the next try after some failures in a row; it doubles with each.
func Backoff(failures int) time.Duration {
	const doublings = 7 // FirstRetry becomes more than LastRetry
	return min(FirstRetry<<min(failures, doublings), LastRetry)
}

// Eviction requests that one pod leaves its node.
type Eviction struct {
	Pod    cluster.PodID
	Node   string
	Limit  Limit
	Reason string // why the node is removed
	Due    bool   // the deadline has passed: process the pod at once
}

// Evictions are the pods of a step that leave a node now, for the eviction queue.
func (p *Pods) Evictions(node string, limit Limit, reason string) []Eviction {
	out := make([]Eviction, 0, len(p.Delete)+len(p.Evict))
	for _, d := range p.Delete {
		out = append(out, Eviction{Pod: cluster.PodIDOf(d.Pod), Node: node, Limit: limit, Reason: reason, Due: true})
	}
	for _, pod := range p.Evict {
		out = append(out, Eviction{Pod: cluster.PodIDOf(pod), Node: node, Limit: limit, Reason: reason})
	}
	return out
}

// EvictionQueue holds the pods to be evicted, each with its own back-off, until they have ended or their node stays (LC-34).
// It is in-memory state: after a restart the drains fill it again. The zero value is empty.
type EvictionQueue struct{ entries map[cluster.PodID]*queued }

// queued is one pod in the queue.
type queued struct {
	Eviction
	failures int               // in a row
	try      Try               // progress, for explanations
	accepted map[Act]time.Time // when a request was accepted
}

// Add requests evictions. It returns the pods to be decided about at once. A repeated request changes nothing, unless the
// limit is tighter then or due: the pod keeps its back-off.
func (q *EvictionQueue) Add(now time.Time, list ...Eviction) (wake []cluster.PodID) {
	for _, e := range list {
		known, found := q.entries[e.Pod]
		if !found {
			if q.entries == nil {
				q.entries = map[cluster.PodID]*queued{}
			}
			q.entries[e.Pod] = &queued{Eviction: e, try: Try{Since: now}, accepted: map[Act]time.Time{}}
			wake = append(wake, e.Pod)
			continue
		}
		limit := known.Limit.Join(e.Limit)
		if e.Due || limit != known.Limit {
			wake = append(wake, e.Pod)
		}
		known.Limit = limit
		if !limit.Stay {
			known.Reason = e.Reason
		}
	}
	return wake
}

// Len is how many pods have to leave.
func (q *EvictionQueue) Len() int { return len(q.entries) }

// Pods lists them, in any order.
func (q *EvictionQueue) Pods() []cluster.PodID {
	// any order: each is decided about by itself
	return slices.Collect(maps.Keys(q.entries))
}

// Eviction is what was requested for a pod, if it is in the queue.
func (q *EvictionQueue) Eviction(id cluster.PodID) (Eviction, bool) {
	if e := q.entries[id]; e != nil {
		return e.Eviction, true
	}
	return Eviction{}, false
}

// EvictionStep is what to do about a pod in the queue.
type EvictionStep struct {
	Act   Act           // Evict or Delete: send that request, and record the response. Otherwise there is nothing to do
	Grace time.Duration // of a deletion
	After time.Duration // when to decide again; 0: the pod has left the queue, or a response decides
}

// Next decides about a pod in the queue. The pod of that name is nil if there is none, and so is its node.
func (q *EvictionQueue) Next(id cluster.PodID, pod *corev1.Pod, node *corev1.Node, now time.Time) EvictionStep {
	e := q.entries[id]
	switch {
	case e == nil:
		return EvictionStep{Act: Drop}
	case pod == nil, pod.UID != id.UID, node == nil, !e.Limit.Empties(node): // V15-63
		delete(q.entries, id)
		return EvictionStep{Act: Drop}
	}
	act, grace := e.Limit.Act(pod, now)
	switch act {
	case Drop:
		delete(q.entries, id)
	case Hold:
		e.try = Try{Since: now} // the last refusal is over: the pod is protected now, and the API server is not called
		return EvictionStep{Act: Hold, After: e.backOff()}
	case Evict, Delete:
		if until := e.accepted[act].Add(CacheDelay); now.Before(until) {
			return EvictionStep{Act: Hold, After: until.Sub(now)} // it is done, the cache does not show it yet
		}
	}
	return EvictionStep{Act: act, Grace: grace}
}

// backOff counts a failure and returns the time until the next try.
func (e *queued) backOff() time.Duration {
	e.failures++
	return Backoff(e.failures - 1)
}

// EvictionOutcome is what follows from the response to a request.
type EvictionOutcome struct {
	Response EvictionResponse
	Failed   bool          // the request should have been accepted, or refused for a reason that is known to pass
	After    time.Duration // when to decide again; 0: the pod has left the queue
}

// Record records the response of the API server to the request of a step (LC-35).
func (q *EvictionQueue) Record(id cluster.PodID, act Act, err error, now time.Time) EvictionOutcome {
	out := EvictionOutcome{Response: ReadEvictionResponse(err)}
	e := q.entries[id]
	if e == nil {
		return out
	}
	switch out.Response {
	case EvictionAccepted:
		e.accepted[act], e.failures, e.try = now, 0, Try{Since: now}
		out.After = CacheDelay
		return out
	case EvictionObsolete:
		delete(q.entries, id)
		return out
	case EvictionFailed:
		out.Failed = true
	case EvictionNotNeeded, EvictionForbidden, EvictionThrottled:
		out.Failed = act == Delete // no budget counts for it
	}
	e.try = e.try.Refused(ResponseText(err), act == Evict && out.Response == EvictionForbidden, now)
	out.After = e.backOff()
	return out
}

// Tries returns the progress with those pods that are in the queue.
func (q *EvictionQueue) Tries(pods []*corev1.Pod) map[types.UID]Try {
	out := map[types.UID]Try{}
	for _, p := range pods {
		if e := q.entries[cluster.PodIDOf(p)]; e != nil {
			out[p.UID] = e.try
		}
	}
	return out
}
