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
	launchMemory     = time.Hour // LC-02
	firstLaunchRetry = time.Second
	lastLaunchRetry  = time.Minute
)

// launches remembers what launches answered: an instance for an hour, so that a status that cannot be
// written does not buy a second one (FM A02); an error until it may be tried again, so that writing it
// down does not by itself call for the next try (G12). The zero value is ready.
type launches struct {
	mu      sync.Mutex
	known   map[types.UID]launch
	swept   time.Time
	running map[types.UID]bool
	closed  bool
	slots   chan struct{}
	all     sync.WaitGroup // of what runs
}

type launch struct {
	outcome lifecycle.Outcome
	first   time.Time // when the cloud was first asked
	until   time.Time // the instance is forgotten, or the next try may be made
	wait    time.Duration
	told    bool // the claim was looked at since
}

// begin notes that a launch is on its way. It fails if one is, or if the process ends.
func (l *launches) begin(uid types.UID) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed || l.running[uid] {
		return false
	}
	if l.running == nil {
		l.running = map[types.UID]bool{}
	}
	l.running[uid] = true
	l.all.Add(1)
	return true
}

// end notes that a launch that was begun is over.
func (l *launches) end(uid types.UID) {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.running, uid)
	l.all.Done()
}

// turns is where launches wait for their turn.
func (l *launches) turns() chan struct{} {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.slots == nil {
		l.slots = make(chan struct{}, launchesAtATime)
	}
	return l.slots
}

func (l *launches) busy(uid types.UID) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.running[uid]
}

// close lets no launch begin any more, and waits for those that run.
func (l *launches) close() {
	l.mu.Lock()
	l.closed = true
	l.mu.Unlock()
	l.all.Wait()
}

// tried is when the cloud was first asked about a claim; zero if it was not.
func (l *launches) tried(uid types.UID) time.Time {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.known[uid].first
}

// remember keeps what was answered to a launch that began at a time.
func (l *launches) remember(uid types.UID, instance cloud.Instance, err error, asked, now time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.known == nil {
		l.known = map[types.UID]launch{}
	}
	entry := launch{outcome: lifecycle.Outcome{Instance: instance, Err: err}, first: l.known[uid].first, until: now.Add(launchMemory)}
	if entry.first.IsZero() {
		entry.first = asked
	}
	if err != nil {
		entry.wait = min(max(2*l.known[uid].wait, firstLaunchRetry), lastLaunchRetry)
		entry.until = now.Add(entry.wait)
	}
	l.known[uid] = entry
	l.sweep(now)
}

// recall returns nil if nothing is known, or it is time to try again.
func (l *launches) recall(uid types.UID, now time.Time) *lifecycle.Outcome {
	l.mu.Lock()
	defer l.mu.Unlock()
	entry, known := l.known[uid]
	if !known || !now.Before(entry.until) {
		return nil
	}
	return entry.answer(now)
}

// tell returns what recall does, and as news what nobody was told yet. That does not lapse: a claim whose turn
// comes late would else be tried again and again, and never say why it has no instance.
func (l *launches) tell(uid types.UID, now time.Time) *lifecycle.Outcome {
	l.mu.Lock()
	defer l.mu.Unlock()
	entry, known := l.known[uid]
	if !known || entry.told && !now.Before(entry.until) {
		return nil
	}
	outcome := entry.answer(now)
	entry.told = true
	l.known[uid] = entry
	return outcome
}

func (e launch) answer(now time.Time) *lifecycle.Outcome {
	outcome := e.outcome
	outcome.Told = e.told
	if outcome.Err != nil {
		outcome.Wait = max(e.until.Sub(now), firstLaunchRetry)
	}
	return &outcome
}

// sweep drops what nobody will ask for. A failure is kept for as long as a claim may try, since the
// next wait follows from it.
func (l *launches) sweep(now time.Time) {
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

// written remembers which version of each claim is the earliest to decide on: a cache that is behind our
// own write would let us decide twice, and a write that another one overtook fails again for as long as
// the cache does not have that other one. The zero value is ready.
type written struct {
	mu       sync.Mutex
	versions map[string]seenFrom  // by name
	deleted  map[string]types.UID // by name, until the cache shows it
}

// seenFrom is a version that the cache has to reach, or to pass.
type seenFrom struct {
	version string
	passed  bool
	looks   int // how often the cache was found not to have passed it
}

// enoughLooks is how often the cache is given time for a later version that a conflict told of. There may
// be none: not every conflict is about the version (FM D08).
const enoughLooks = 3

// removed notes that a claim was deleted.
func (w *written) removed(claim *karpv1.NodeClaim) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.deleted == nil {
		w.deleted = map[string]types.UID{}
	}
	w.deleted[claim.Name] = claim.UID
}

// note says that we wrote this version.
func (w *written) note(claim *karpv1.NodeClaim) { w.await(claim, false) }

// overtaken says that somebody wrote a later version than this one.
func (w *written) overtaken(claim *karpv1.NodeClaim) { w.await(claim, true) }

func (w *written) await(claim *karpv1.NodeClaim, passed bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.versions == nil {
		w.versions = map[string]seenFrom{}
	}
	w.versions[claim.Name] = seenFrom{version: claim.ResourceVersion, passed: passed}
}

// ahead reports whether there is a later version than this one, as far as we know.
func (w *written) ahead(claim *karpv1.NodeClaim) bool {
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
	if from.looks++; err == nil && from.passed && order == 0 && from.looks <= enoughLooks {
		w.versions[claim.Name] = from
		return true
	}
	delete(w.versions, claim.Name) // it caught up
	return false
}

func (w *written) forget(name string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	delete(w.versions, name)
	delete(w.deleted, name)
}
