package top

import (
	"time"

	tea "charm.land/bubbletea/v2"

	"github.com/dovetail-sh/dovetail/internal/inspect"
)

// requests are the commands that a Model can give. Their messages have the time at which they were made.
type requests struct {
	begin   tea.Cmd // the first tickMsg, at once
	tick    tea.Cmd // the next
	fleet   tea.Cmd
	plan    tea.Cmd
	explain func(inspect.Subject) tea.Cmd
}

// tickMsg says what time it is, about once in a second.
type tickMsg struct{ now time.Time }

// fleetMsg, planMsg and explainMsg are responses.
type fleetMsg struct {
	response
	fleet inspect.Fleet
}

type planMsg struct {
	response
	changes inspect.Changes
}

type explainMsg struct {
	response
	about    inspect.Subject
	document inspect.Document
}

// response is what all responses have in common.
type response struct {
	at   time.Time
	took time.Duration
	err  error
}

// Intervals between requests. A request never begins before the one before it has ended.
const (
	planEvery       = time.Minute
	planPauseFactor = 20 // as pauseFactor, for plans, which keep a processor busy
	pauseFactor     = 4  // an interval is at least as many times as long as the last response took
	longest         = 30 * time.Second
	slow            = 3 * time.Second // a request that takes longer is shown as running
)

// requestState is the state of one kind of requests.
type requestState struct {
	since    time.Time // start of the request that runs; zero: none runs
	at       time.Time // of the last response
	took     time.Duration
	err      error // of the last response
	failures int   // in a row
}

func (a *requestState) isRunning() bool { return !a.since.IsZero() }

func (a *requestState) recordResponse(r response) {
	a.since, a.at, a.took, a.err = time.Time{}, r.at, r.took, r.err
	if a.failures++; r.err == nil {
		a.failures = 0
	}
}

// due says when the next request is made.
func (a *requestState) due(every time.Duration) time.Time {
	wait := max(every, pauseFactor*a.took)
	for range min(a.failures, 10) {
		wait = max(every, min(2*max(wait, time.Second), longest))
	}
	return a.at.Add(wait)
}
