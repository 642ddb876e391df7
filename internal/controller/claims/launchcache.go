package claims

import (
	"maps"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/dovetail-sh/dovetail/internal/cloud"
	"github.com/dovetail-sh/dovetail/internal/lifecycle"
)

// launchCache holds the results of launches and those in flight. What is kept, and for how long, is decided by
// lifecycle.LaunchResult. The zero value is ready.
type launchCache struct {
	mu       sync.Mutex
	known    map[types.UID]lifecycle.LaunchResult
	swept    time.Time
	running  map[types.UID]bool
	closed   bool
	slots    chan struct{}
	inFlight sync.WaitGroup // launches in flight
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
	return l.known[uid].First
}

// recordOutcome caches the result of a launch that began at a time.
func (l *launchCache) recordOutcome(uid types.UID, instance cloud.Instance, err error, requested, now time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.known == nil {
		l.known = map[types.UID]lifecycle.LaunchResult{}
	}
	l.known[uid] = l.known[uid].Next(lifecycle.Outcome{Instance: instance, Err: err}, requested, now)
	l.dropExpired(now)
}

// cachedOutcome returns nil if nothing is cached, or if the next attempt is due.
func (l *launchCache) cachedOutcome(uid types.UID, now time.Time) *lifecycle.Outcome {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.known[uid].Outcome(now)
}

// takeOutcome returns what cachedOutcome does, or an older result that was not reported yet, and marks it reported.
func (l *launchCache) takeOutcome(uid types.UID, now time.Time) *lifecycle.Outcome {
	l.mu.Lock()
	defer l.mu.Unlock()
	outcome, next := l.known[uid].Report(now)
	if outcome != nil {
		l.known[uid] = next
	}
	return outcome
}

// dropExpired drops results that are no longer needed.
func (l *launchCache) dropExpired(now time.Time) {
	if now.Sub(l.swept) < lifecycle.LastLaunchRetry {
		return
	}
	l.swept = now
	maps.DeleteFunc(l.known, func(_ types.UID, r lifecycle.LaunchResult) bool { return r.Expired(now) })
}
