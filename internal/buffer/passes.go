package buffer

import "time"

const (
	// PollInterval is how often buffers are resolved although nothing changed, and a plan is made for them (CB-17). What
	// cannot be read until a user acts is looked up again as often.
	PollInterval = 30 * time.Second

	firstRetry    = 2 * time.Second  // after a pass that failed; it doubles up to PollInterval
	startPatience = 30 * time.Second // for which plans wait for the buffers at the start
)

// Passes says when buffers are resolved, and until when plans wait for that after a start: nodes that are kept for buffers
// would be empty without them, but real pods must not wait for long (CB-17).
type Passes struct {
	started, polled time.Time
	retry           time.Duration
}

// Begin begins a pass. poll says that a plan is due even if nothing changed.
func (p *Passes) Begin(now time.Time) (poll bool) {
	if p.started.IsZero() {
		p.started, p.retry = now, firstRetry
	}
	poll = p.polled.IsZero() || now.Sub(p.polled) >= PollInterval
	if poll {
		p.polled = now
	}
	return poll
}

// End ends a pass. It returns when the next one is due unless something changes before, and whether plans no longer wait for
// the buffers.
func (p *Passes) End(failed bool, now time.Time) (next time.Duration, goOn bool) {
	if !failed {
		p.retry = firstRetry
		return PollInterval, true
	}
	next, p.retry = p.retry, min(2*p.retry, PollInterval)
	return next, now.Sub(p.started) >= startPatience
}
