package command

import (
	"slices"
	"time"

	"github.com/dovetail-sh/dovetail/internal/disrupt"
)

// Times between passes of disruption.
const (
	PassInterval = 10 * time.Second
	AfterWake    = time.Second            // shortest time between a pass and one that was woken
	AfterWrite   = 100 * time.Millisecond // for the watch to deliver what was written
	TaintTimeout = 5 * time.Second        // a command waits no longer for its taints to come back through the watch
	Unsynced     = time.Second            // until it is checked again whether a pass may be made
)

// MayPass reports whether a pass may be made, and if not, when to check again. Without a complete cache nothing is known, and
// with a clock that is off ages and budgets are wrong (FM N06). Commands that run are finished all the same.
func MayPass(cacheComplete, clockOff bool) (retryIn time.Duration, may bool) {
	return Unsynced, cacheComplete && !clockOff
}

// Failure is what went wrong in a pass.
type Failure int

// Failures of a pass.
const (
	NoFailure     Failure = iota
	OnlyConflicts         // another client wrote the same objects
	OtherFailure
)

// AfterFailure returns in what time the next pass is due after a failure, given what NextPass returned. Nodes that
// failed do not keep others waiting.
func AfterFailure(f Failure, in time.Duration, others bool) time.Duration {
	switch {
	case f == NoFailure:
		return in
	case f == OnlyConflicts:
		return AfterWrite
	case others:
		return in
	}
	return PassInterval
}

// NextPass returns in what time the next pass is due if all went well, and whether it is a pass for other nodes: no
// command could be started, and those that failed are backed off.
func NextPass(decided []disrupt.Command, started int) (in time.Duration, others bool) {
	switch {
	case len(decided) == 0:
		return PassInterval, false
	case started == 0:
		return AfterWake, true
	case slices.ContainsFunc(decided, func(c disrupt.Command) bool { return c.Decision == disrupt.Reboot }):
		return AfterWrite, false
	}
	return 0, false // there may be more to do
}
