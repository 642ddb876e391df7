package lifecycle

import "time"

// How long a result is kept, and how launches are retried.
const (
	launchResultTTL  = time.Hour // LC-02
	FirstLaunchRetry = time.Second
	LastLaunchRetry  = time.Minute
)

// LaunchResult is what the cloud last returned for a claim. An instance is kept for an hour, so that a status that
// cannot be written does not launch a second one (FM A02). An error is kept until the next attempt is due, so that
// writing it to the status does not itself trigger that attempt (G12). The zero value is that of a claim that was
// never launched.
type LaunchResult struct {
	First time.Time // when the cloud was first called

	outcome  Outcome
	until    time.Time // when the instance expires, or the next attempt may be made
	wait     time.Duration
	reported bool // a reconcile has seen the result
}

// Next is the result after a launch that was requested at a time and returned now. The waits between failures double.
func (r LaunchResult) Next(outcome Outcome, requested, now time.Time) LaunchResult {
	next := LaunchResult{First: r.First, outcome: outcome, until: now.Add(launchResultTTL)}
	if next.First.IsZero() {
		next.First = requested
	}
	if outcome.Err != nil {
		next.wait = min(max(2*r.wait, FirstLaunchRetry), LastLaunchRetry)
		next.until = now.Add(next.wait)
	}
	return next
}

// Outcome returns nil if there is none, or if the next attempt is due.
func (r LaunchResult) Outcome(now time.Time) *Outcome {
	if !now.Before(r.until) {
		return nil
	}
	return r.outcomeAt(now)
}

// Report returns what Outcome does, and the result as one that was reported. An unreported result does not expire: a
// claim that is reconciled late would otherwise be retried forever and never show why it has no instance.
func (r LaunchResult) Report(now time.Time) (*Outcome, LaunchResult) {
	if r.First.IsZero() || r.reported && !now.Before(r.until) {
		return nil, r
	}
	outcome := r.outcomeAt(now)
	r.reported = true
	return outcome, r
}

// Expired reports whether a result is of no use any more. A failure is kept for as long as a claim may retry, since the
// next wait depends on it.
func (r LaunchResult) Expired(now time.Time) bool { return now.Sub(r.until) > LaunchTimeout }

func (r LaunchResult) outcomeAt(now time.Time) *Outcome {
	outcome := r.outcome
	outcome.Reported = r.reported
	if outcome.Err != nil {
		outcome.Wait = max(r.until.Sub(now), FirstLaunchRetry)
	}
	return &outcome
}
