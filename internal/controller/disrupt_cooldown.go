package controller

import (
	"time"

	disruption "github.com/dovetail-sh/dovetail/internal/disrupt"
)

// cooldownEnd is until when consolidation finds nothing again if nothing changes. Time alone changes what it
// finds when a node is old enough, and when pods are not expected on a node any longer, of which nothing
// tells.
func (d *Disruption) cooldownEnd(view disruption.View) time.Time {
	now := d.Now()
	until := now.Add(maxCooldown)
	for i := range view.Nodes {
		n := &view.Nodes[i]
		if n.Nominated || n.Refuge {
			return now
		}
		if old := n.Created.Add(d.Tuning.MinAge); old.After(now) && old.Before(until) {
			until = old
		}
	}
	return until
}
