package command

import (
	"time"

	"github.com/dovetail-sh/dovetail/internal/disrupt"
)

// maxCooldown is the longest cool-down: consolidation runs again although nothing changed.
const maxCooldown = 5 * time.Minute

// Cooldown is until when consolidation is skipped after it found nothing to do, and the change counter of the
// store at that time.
type Cooldown struct {
	changes uint64
	until   time.Time
}

// Covers reports whether consolidation can be skipped: nothing changed, and time alone changes nothing yet.
func (c Cooldown) Covers(changes uint64, now time.Time) bool {
	return changes == c.changes && now.Before(c.until)
}

// After returns the cool-down that follows a decision on a view. There is none while more may be found: there
// are commands, budgets or time kept the search from the rest, or nodes were hidden from it.
func (c Cooldown) After(decision *disrupt.Decision, view *disrupt.View, changes uint64, hidden bool, now time.Time) Cooldown {
	switch {
	case len(decision.Commands) > 0 || decision.Limited || decision.Partial || hidden || view.Unpriced:
		return Cooldown{}
	case view.Unchanged:
		return c
	}
	return Cooldown{changes: changes, until: cooldownEnd(view, now)}
}

// cooldownEnd returns until when consolidation need not run again if nothing in the cluster changes. Two things
// change its result without an event: a node reaches its minimum age, and a nomination of a node expires.
func cooldownEnd(view *disrupt.View, now time.Time) time.Time {
	until := now.Add(maxCooldown)
	for i := range view.Nodes {
		n := &view.Nodes[i]
		if n.Nominated || n.ExpectsDisplaced {
			return now
		}
		if old := n.Created.Add(view.Tuning.MinAge); old.After(now) && old.Before(until) {
			until = old
		}
	}
	return until
}
