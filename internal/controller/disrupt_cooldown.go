package controller

import (
	"time"

	disruption "github.com/dovetail-sh/dovetail/internal/disrupt"
)

// cooldownEnd returns until when consolidation need not run again if nothing in the cluster changes. Two things
// change its result without an event: a node reaches its minimum age, and a nomination of a node expires.
func (d *Disruption) cooldownEnd(view disruption.View) time.Time {
	now := d.Now()
	until := now.Add(maxCooldown)
	for i := range view.Nodes {
		n := &view.Nodes[i]
		if n.Nominated || n.ExpectsDisplaced {
			return now
		}
		if old := n.Created.Add(d.Tuning.MinAge); old.After(now) && old.Before(until) {
			until = old
		}
	}
	return until
}
