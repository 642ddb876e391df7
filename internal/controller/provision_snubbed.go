package controller

import (
	"fmt"
	"time"

	"github.com/dovetail-sh/dovetail/internal/cluster"
	"github.com/dovetail-sh/dovetail/internal/event"
	"github.com/dovetail-sh/dovetail/internal/solve"
)

// snubs is how many nomination periods in a row a pod may be expected on nodes that are up without coming
// before it is told (FM I01). Fewer are what a busy scheduler needs.
const snubs = 3

// expected says since when plans expect a pod on nodes that are up, and on which of them now.
type expected struct {
	since time.Time
	node  string
}

// expect returns which pods are expected on nodes that are up: those that were before keep their time, those
// that came or need another place are forgotten.
func expect(before map[cluster.PodKey]expected, binds []solve.Bind, up map[string]bool, now time.Time) map[cluster.PodKey]expected {
	after := make(map[cluster.PodKey]expected, len(before))
	for _, b := range binds {
		if !up[b.Node] {
			continue
		}
		e, known := before[b.Pod]
		if !known {
			e.since = now
		}
		e.node = b.Node
		after[b.Pod] = e
	}
	return after
}

// snubbed returns the event for a pod that the scheduler keeps off the nodes it is expected on, for longer
// than it could need.
func (e expected) snubbed(now time.Time, period time.Duration) (event.Event, bool) {
	waited := now.Sub(e.since)
	if period <= 0 || waited < snubs*period {
		return event.Event{}, false
	}
	return event.Event{Reason: event.FailedScheduling, Key: "snubbed", Text: fmt.Sprintf(
		"The pod has room on node/%s and was expected there, or on nodes like it, for %s, but the scheduler did not put it there. "+
			"Something that only the scheduler knows of keeps it away: see its own events on the pod, and its plugins and extenders. No other node is bought for the pod while this one has room",
		e.node, waited.Round(time.Second))}, true
}

// tellSnubbed tells pods that the scheduler keeps off their nodes.
func (p *Provisioner) tellSnubbed(nodes []cluster.Node, binds []solve.Bind) {
	up := make(map[string]bool, len(nodes))
	for i := range nodes {
		if n := &nodes[i]; n.Initialized && !n.Deleting {
			up[n.Name] = true
		}
	}
	p.expected = expect(p.expected, binds, up, p.Now())
	for key, e := range p.expected {
		if news, due := e.snubbed(p.Now(), p.Nomination); due {
			p.tell(key, news)
		}
	}
}
