package controller

import (
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/dovetail-sh/dovetail/internal/cluster"
	"github.com/dovetail-sh/dovetail/internal/event"
	"github.com/dovetail-sh/dovetail/internal/solve"
	"github.com/dovetail-sh/dovetail/internal/store"
)

// unboundPeriods is how many nomination periods in a row a pod may be expected on nodes that are up without coming
// before it is told (FM I01). Fewer are what a scheduler may need.
const unboundPeriods = 3

// expectations is who is expected on nodes that are up, and who came of those.
type expectations struct {
	pods map[cluster.PodKey]expected
	came time.Time // when one of them last did
	last time.Time // since when those that came were expected: the latest
}

// expected says since when plans expect a pod on nodes that are up, and on which of them now.
type expected struct {
	since time.Time
	node  string
}

// next returns what is expected after another plan. Pods that were expected before keep their time; those
// that need another place now, or are gone, are forgotten. Only waiting pods count: others still run on a
// node that goes.
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

// unboundEvent returns the event for a pod that the scheduler keeps off the nodes it is expected on: for longer
// than it could need, and not because there are many pods and it has not come to this one.
func (x expectations) unboundEvent(e expected, now time.Time, period time.Duration) (event.Event, bool) {
	waited, busy := now.Sub(e.since), now.Sub(x.came) < period && !x.last.After(e.since)
	if period <= 0 || waited < unboundPeriods*period || busy {
		return event.Event{}, false
	}
	return event.Event{Reason: event.FailedScheduling, Key: "snubbed", Text: fmt.Sprintf(
		"The pod has room on node/%s and was expected there, or on nodes like it, for %s, but the scheduler did not put it there. "+
			"Something that only the scheduler knows of keeps it away: see its own events on the pod, and its plugins and extenders. No other node is bought for the pod while this one has room",
		e.node, waited.Round(time.Second))}, true
}

// reportUnbound tells pods that the scheduler keeps off their nodes.
func (p *Provisioner) reportUnbound(view store.View, binds []solve.Bind) {
	up, waiting := make(map[string]bool, len(view.Nodes)), make(map[cluster.PodKey]bool, view.Pending)
	for i := range view.Nodes {
		if n := &view.Nodes[i]; n.Initialized && !n.Deleting {
			up[n.Name] = true
		}
	}
	for i := range view.Snapshot.Pending {
		waiting[view.Snapshot.Pending[i].Key] = true
	}
	arrived := func(key cluster.PodKey) bool {
		pod := p.Store.Pod(key)
		return pod != nil && pod.Spec.NodeName != ""
	}
	now := p.Now()
	p.expected = p.expected.next(binds, up, waiting, arrived, now)
	for _, key := range slices.SortedFunc(maps.Keys(p.expected.pods), cluster.PodKey.Compare) { // not all may be told
		if news, due := p.expected.unboundEvent(p.expected.pods[key], now, p.Nomination); due {
			p.emitPodEvent(key, news)
		}
	}
}
