package claims

import (
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/dovetail-sh/dovetail/internal/cloud"
	"github.com/dovetail-sh/dovetail/internal/lifecycle"
)

const (
	launchCacheTTL   = time.Hour // LC-02
	firstLaunchRetry = time.Second
	lastLaunchRetry  = time.Minute
)

// launchCache holds the results of launches. An instance is kept for an hour, so that a status that cannot be
// written does not launch a second one (FM A02). An error is kept until the next attempt is due, so that
// writing it to the status does not itself trigger that attempt (G12). The zero value is ready.
type launchCache struct {
	mu       sync.Mutex
	known    map[types.UID]launchEntry
	swept    time.Time
	running  map[types.UID]bool
	closed   bool
	slots    chan struct{}
	inFlight sync.WaitGroup // launches in flight
}

type launchEntry struct {
	outcome  lifecycle.Outcome
	first    time.Time // when the cloud was first called
	until    time.Time // when the instance expires, or the next attempt may be made
	wait     time.Duration
	reported bool // a reconcile has seen the result
}

// beginLaunch records a launch in flight. It returns false if there is one for the claim already, or if the
// process is shutting down.
func (l *launchCache) beginLaunch(uid types.UID) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed || l.running[uid] {
		return false
	}
	if l.running == nil {
		l.running = map[types.UID]bool{}
	}
	l.running[uid] = true
	l.inFlight.Add(1)
	return true
}

// endLaunch records that a launch is over.
func (l *launchCache) endLaunch(uid types.UID) {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.running, uid)
	l.inFlight.Done()
}

// launchSlots is the semaphore of concurrent launches.
func (l *launchCache) launchSlots() chan struct{} {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.slots == nil {
		l.slots = make(chan struct{}, launchesAtATime)
	}
	return l.slots
}

func (l *launchCache) isLaunching(uid types.UID) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.running[uid]
}

// closeAndWait prevents new launches and waits for those in flight.
func (l *launchCache) closeAndWait() {
	l.mu.Lock()
	l.closed = true
	l.mu.Unlock()
	l.inFlight.Wait()
}

// firstAttemptAt is when the cloud was first called for a claim; zero if it was not.
func (l *launchCache) firstAttemptAt(uid types.UID) time.Time {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.known[uid].first
}

// recordOutcome caches the result of a launch that began at a time.
func (l *launchCache) recordOutcome(uid types.UID, instance cloud.Instance, err error, asked, now time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.known == nil {
		l.known = map[types.UID]launchEntry{}
	}
	entry := launchEntry{outcome: lifecycle.Outcome{Instance: instance, Err: err}, first: l.known[uid].first, until: now.Add(launchCacheTTL)}
	if entry.first.IsZero() {
		entry.first = asked
	}
	if err != nil {
		entry.wait = min(max(2*l.known[uid].wait, firstLaunchRetry), lastLaunchRetry)
		entry.until = now.Add(entry.wait)
	}
	l.known[uid] = entry
	l.dropExpired(now)
}

// cachedOutcome returns nil if nothing is cached, or if the next attempt is due.
func (l *launchCache) cachedOutcome(uid types.UID, now time.Time) *lifecycle.Outcome {
	l.mu.Lock()
	defer l.mu.Unlock()
	entry, known := l.known[uid]
	if !known || !now.Before(entry.until) {
		return nil
	}
	return entry.outcomeAt(now)
}

// takeOutcome returns what cachedOutcome does, and marks a result that was not reported yet. An unreported
// result does not expire: a claim that is reconciled late would otherwise be retried for ever and never show
// why it has no instance.
func (l *launchCache) takeOutcome(uid types.UID, now time.Time) *lifecycle.Outcome {
	l.mu.Lock()
	defer l.mu.Unlock()
	entry, known := l.known[uid]
	if !known || entry.reported && !now.Before(entry.until) {
		return nil
	}
	outcome := entry.outcomeAt(now)
	entry.reported = true
	l.known[uid] = entry
	return outcome
}

func (e launchEntry) outcomeAt(now time.Time) *lifecycle.Outcome {
	outcome := e.outcome
	outcome.Told = e.reported
	if outcome.Err != nil {
		outcome.Wait = max(e.until.Sub(now), firstLaunchRetry)
	}
	return &outcome
}

// dropExpired drops entries that are no longer needed. A failure is kept for as long as a claim may retry,
// since the next delay depends on it.
func (l *launchCache) dropExpired(now time.Time) {
	if now.Sub(l.swept) < lastLaunchRetry {
		return
	}
	l.swept = now
	for uid, entry := range l.known {
		if now.Sub(entry.until) > lifecycle.LaunchTimeout {
			delete(l.known, uid)
		}
	}
}
