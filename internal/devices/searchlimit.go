package devices

import (
	"context"
	"errors"
	"time"
)

// mostSteps is the number of steps after which a search is cut off. It takes the place of a timeout: the same input is cut off at
// the same step. A step takes a few microseconds.
const mostSteps = 100_000

var (
	errTooHard = errors.New("the search for devices was cut off")
	errStopped = errors.New("planning was stopped")
)

// searchLimit is the context of a search. The allocator checks it before every step.
type searchLimit struct {
	left    int
	stop    func() bool
	stopped bool
}

var _ context.Context = (*searchLimit)(nil)

// Deadline says that there is none.
func (e *searchLimit) Deadline() (time.Time, bool) { return time.Time{}, false }

// Done is never closed.
func (e *searchLimit) Done() <-chan struct{} { return nil }

// Value has none.
func (e *searchLimit) Value(any) any { return nil }

// Err counts a step, and ends the search when there were too many or planning has to stop.
func (e *searchLimit) Err() error {
	const between = 256 // steps between two calls of stop
	if e.left--; e.left < 0 {
		return errTooHard
	}
	if e.stop != nil && e.left%between == 0 && e.stop() {
		e.stopped = true
	}
	if e.stopped {
		return errStopped
	}
	return nil
}
