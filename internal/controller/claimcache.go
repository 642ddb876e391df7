package controller

import (
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/resourceversion"

	karpv1 "github.com/dovetail-sh/dovetail/api/v1"
	"github.com/dovetail-sh/dovetail/internal/cloud"
	"github.com/dovetail-sh/dovetail/internal/lifecycle"
)

const (
	launchCacheTTL   = time.Hour // LC-02
	firstLaunchRetry = time.Second
	lastLaunchRetry  = time.Minute
)

// launchCache remembers what launches answered: an instance for an hour, so that a status that cannot be
// written does not buy a second one (FM A02); an error until it may be tried again, so that writing it
// down does not by itself call for the next try (G12). The zero value is ready.
type launchCache struct {
	mu       sync.Mutex
	known    map[types.UID]launchEntry
	swept    time.Time
	running  map[types.UID]bool
	closed   bool
	slots    chan struct{}
	inFlight sync.WaitGroup // of what runs
}

type launchEntry struct {
	outcome  lifecycle.Outcome
	first    time.Time // when the cloud was first asked
	until    time.Time // the instance is forgotten, or the next try may be made
	wait     time.Duration
	reported bool // the claim was looked at since
}

// beginLaunch notes that a launch is on its way. It fails if one is, or if the process ends.
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

// endLaunch notes that a launch that was begun is over.
func (l *launchCache) endLaunch(uid types.UID) {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.running, uid)
	l.inFlight.Done()
}

// launchSlots is where launches wait for their turn.
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

// closeAndWait lets no launch begin any more, and waits for those that run.
func (l *launchCache) closeAndWait() {
	l.mu.Lock()
	l.closed = true
	l.mu.Unlock()
	l.inFlight.Wait()
}

// firstAttemptAt is when the cloud was first asked about a claim; zero if it was not.
func (l *launchCache) firstAttemptAt(uid types.UID) time.Time {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.known[uid].first
}

// recordOutcome keeps what was answered to a launch that began at a time.
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

// cachedOutcome returns nil if nothing is known, or it is time to try again.
func (l *launchCache) cachedOutcome(uid types.UID, now time.Time) *lifecycle.Outcome {
	l.mu.Lock()
	defer l.mu.Unlock()
	entry, known := l.known[uid]
	if !known || !now.Before(entry.until) {
		return nil
	}
	return entry.outcomeAt(now)
}

// takeOutcome returns what recall does, and as news what nobody was told yet. That does not lapse: a claim whose turn
// comes late would else be tried again and again, and never say why it has no instance.
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

// dropExpired drops what nobody will ask for. A failure is kept for as long as a claim may try, since the
// next wait follows from it.
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

// writtenVersions remembers which version of each claim is the earliest to decide on: a cache that is behind our
// own write would let us decide twice, and a write that another one overtook fails again for as long as
// the cache does not have that other one. The zero value is ready.
type writtenVersions struct {
	mu       sync.Mutex
	versions map[string]awaitedVersion // by name
	deleted  map[string]types.UID      // by name, until the cache shows it
}

// awaitedVersion is a version that the cache has to reach, or to pass.
type awaitedVersion struct {
	version    string
	passed     bool
	staleReads int // how often the cache was found not to have passed it
}

// maxStaleReads is how often the cache is given time for a later version that a conflict told of. There may
// be none: not every conflict is about the version (FM D08).
const maxStaleReads = 3

// recordDeletion notes that a claim was deleted.
func (w *writtenVersions) recordDeletion(claim *karpv1.NodeClaim) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.deleted == nil {
		w.deleted = map[string]types.UID{}
	}
	w.deleted[claim.Name] = claim.UID
}

// recordWrite says that we wrote this version.
func (w *writtenVersions) recordWrite(claim *karpv1.NodeClaim) { w.awaitVersion(claim, false) }

// recordConflict says that somebody wrote a later version than this one.
func (w *writtenVersions) recordConflict(claim *karpv1.NodeClaim) { w.awaitVersion(claim, true) }

func (w *writtenVersions) awaitVersion(claim *karpv1.NodeClaim, passed bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.versions == nil {
		w.versions = map[string]awaitedVersion{}
	}
	w.versions[claim.Name] = awaitedVersion{version: claim.ResourceVersion, passed: passed}
}

// cacheIsStale reports whether there is a later version than this one, as far as we know.
func (w *writtenVersions) cacheIsStale(claim *karpv1.NodeClaim) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	if uid, gone := w.deleted[claim.Name]; gone {
		if uid == claim.UID && claim.DeletionTimestamp == nil {
			return true
		}
		delete(w.deleted, claim.Name)
	}
	from, known := w.versions[claim.Name]
	if !known {
		return false
	}
	order, err := resourceversion.CompareResourceVersion(claim.ResourceVersion, from.version)
	if err == nil && order < 0 {
		return true
	}
	if from.staleReads++; err == nil && from.passed && order == 0 && from.staleReads <= maxStaleReads {
		w.versions[claim.Name] = from
		return true
	}
	delete(w.versions, claim.Name) // it caught up
	return false
}

func (w *writtenVersions) dropClaim(name string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	delete(w.versions, name)
	delete(w.deleted, name)
}
