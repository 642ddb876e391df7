package provision

import (
	"time"

	"k8s.io/apimachinery/pkg/types"
)

// Retrigger is what requests a plan on behalf of all pending pods.
const Retrigger = types.UID("waiting")

// ReplanInterval is how often pending pods are planned again (SC-02).
const ReplanInterval = 10 * time.Second

// PlanTimeout is how long one plan takes at most; what was decided until then is kept.
const PlanTimeout = time.Minute

// minNomination is how long a node is reserved for nominated pods at least.
const minNomination = 10 * time.Second

// NominationPeriod is how long a node is reserved for nominated pods, for a maximum length of windows (SC-52).
func NominationPeriod(maxWindow time.Duration) time.Duration { return max(2*maxWindow, minNomination) }

// Window collects triggers of a plan (SC-04). The first trigger opens a window, and each new one extends it. It closes
// after an idle time, or when its maximum length is reached.
type Window struct {
	Idle, Max time.Duration

	open   bool
	opened time.Time
	last   time.Time          // of the last new trigger
	seen   map[types.UID]bool // in the window; while none is open, the first that will open one
}

// Trigger requests a plan and reports whether that is new. A trigger that is already in this window is not. While no
// window is open only the first trigger is kept: a process that does not lead never opens one.
func (w *Window) Trigger(uid types.UID, now time.Time) bool {
	if w.seen[uid] || !w.open && len(w.seen) > 0 {
		return false
	}
	if w.seen == nil {
		w.seen = map[types.UID]bool{}
	}
	w.seen[uid], w.last = true, now
	return true
}

// Open opens a window if there is a trigger, and reports whether it did.
func (w *Window) Open(now time.Time) bool {
	if w.open || len(w.seen) == 0 {
		return false
	}
	w.open, w.opened, w.last = true, now, now
	return true
}

// Closes is when the open window closes unless there is a new trigger before.
func (w *Window) Closes() time.Time {
	idle, longest := w.last.Add(w.Idle), w.opened.Add(w.Max)
	if longest.Before(idle) {
		return longest
	}
	return idle
}

// Close closes the window if it is time, and reports whether it did. Triggers of a window that is closed are served.
func (w *Window) Close(now time.Time) bool {
	if !w.open || now.Before(w.Closes()) {
		return false
	}
	w.Drop()
	return true
}

// Drop closes the window and drops its triggers, whether or not it is time.
func (w *Window) Drop() {
	w.open = false
	clear(w.seen)
}
