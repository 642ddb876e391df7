package provision

import (
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/dovetail-sh/dovetail/internal/cluster"
	"github.com/dovetail-sh/dovetail/internal/event"
	"github.com/dovetail-sh/dovetail/internal/solve"
)

// unboundPeriods is how many nomination periods in a row a pod may be expected on initialized nodes without
// being bound, before it gets an event (FM I01). A scheduler may need fewer.
const unboundPeriods = 3

// expectations are the pods that plans expect on initialized nodes, and when such pods were last bound.
type expectations struct {
	pods map[cluster.PodKey]expected
	came time.Time // when an expected pod was last bound
	last time.Time // the latest time since when a bound pod had been expected
}

// expected is since when plans expect a pod on initialized nodes, and on which node now.
type expected struct {
	since time.Time
	node  string
}

// next returns the expectations after another plan. Pods that were expected before keep their time. Pods that
// need another node now, or are gone, are dropped. Only pending pods count: others still run on a terminating
// node.
func (x expectations) next(binds []solve.Bind, up map[string]bool, waiting map[cluster.PodKey]bool, arrived func(cluster.PodKey) bool, now time.Time) expectations {
	out := expectations{pods: make(map[cluster.PodKey]expected, len(x.pods)), came: x.came, last: x.last}
	for _, b := range binds {
		if !up[b.Node] || !waiting[b.Pod] {
			continue
		}
		e, known := x.pods[b.Pod]
		if !known {
			e.since = now
		}
		e.node = b.Node
		out.pods[b.Pod] = e
	}
	// any order: the latest is kept
	for key, e := range x.pods {
		if !waiting[key] && arrived(key) {
			out.came = now
			if e.since.After(out.last) {
				out.last = e.since
			}
		}
	}
	return out
}

// unboundEvent returns the event for a pod that the scheduler does not bind to the node it is expected on. It
// is due when the scheduler had more time than it needs and is not merely busy with other pods.
func (x expectations) unboundEvent(e expected, now time.Time, period time.Duration) (event.Event, bool) {
	waited, busy := now.Sub(e.since), now.Sub(x.came) < period && !x.last.After(e.since)
	if period <= 0 || waited < unboundPeriods*period || busy {
		return event.Event{}, false
	}
	return event.Event{Reason: event.FailedScheduling, Key: "unbound", Text: fmt.Sprintf(
		"The pod has room on node/%s and was expected there, or on nodes like it, for %s, but the scheduler did not put it there. "+
			"Something that only the scheduler knows of keeps it away: see its own events on the pod, and its plugins and extenders. No other node is launched for the pod while this one has room",
		e.node, waited.Round(time.Second))}, true
}

// PodEvent is an event about a pod.
type PodEvent struct {
	Pod   cluster.PodKey
	Event event.Event
}

// ObserveBinds records where a plan expects pods, and returns events for those that the scheduler does not bind to their
// nodes, by pod: events are rate limited, so that the order matters. arrived reports whether a pod is bound now; a
// nomination lasts for period.
func (s *State) ObserveBinds(view *cluster.Snapshot, binds []solve.Bind, arrived func(cluster.PodKey) bool, now time.Time, period time.Duration) []PodEvent {
	up, waiting := make(map[string]bool, len(view.Nodes)), make(map[cluster.PodKey]bool, len(view.Pending))
	for i := range view.Nodes {
		if n := &view.Nodes[i]; n.Initialized && !n.Deleting {
			up[n.Name] = true
		}
	}
	for i := range view.Pending {
		waiting[view.Pending[i].Key] = true
	}
	s.expected = s.expected.next(binds, up, waiting, arrived, now)
	var out []PodEvent
	for _, key := range slices.SortedFunc(maps.Keys(s.expected.pods), cluster.PodKey.Compare) {
		if news, due := s.expected.unboundEvent(s.expected.pods[key], now, period); due {
			out = append(out, PodEvent{key, news})
		}
	}
	return out
}
