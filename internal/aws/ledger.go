package aws

import (
	"maps"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"
)

// leaderSince is when this process began to act, which is when it began to lead, not when it began to wait. It
// is the time of the first call.
type leaderSince struct {
	once sync.Once
	time time.Time
}

func (s *leaderSince) firstCallAt(now func() time.Time) time.Time {
	s.once.Do(func() { s.time = now() })
	return s.time
}

// keepEntry is how long the instance of a claim is cached. By then the status of the claim has it.
const keepEntry = time.Hour

// ledger caches which instance was assigned to which claim, until the status of the claim has it. An instance
// is assigned at most once, and a claim that launches again gets the same one (A01, A02).
type ledger struct {
	mu      sync.Mutex
	entries map[types.UID]ledgerEntry
}

type ledgerEntry struct {
	instance string
	at       time.Time
}

func newLedger() *ledger { return &ledger{entries: map[types.UID]ledgerEntry{}} }

// assignInstance records the instance of a claim. It fails if another claim has it.
func (l *ledger) assignInstance(claim types.UID, instance string, now time.Time) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	maps.DeleteFunc(l.entries, func(_ types.UID, e ledgerEntry) bool { return now.Sub(e.at) > keepEntry })
	for other, e := range l.entries {
		if e.instance == instance && other != claim {
			return false
		}
	}
	l.entries[claim] = ledgerEntry{instance: instance, at: now}
	return true
}

// instanceOfClaim returns the instance of a claim.
func (l *ledger) instanceOfClaim(claim types.UID) (instance string, given bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	e, given := l.entries[claim]
	return e.instance, given
}

func (l *ledger) dropClaim(claim types.UID) {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.entries, claim)
}

// claimsByInstance is who got what, by instance.
func (l *ledger) claimsByInstance() map[string]types.UID {
	l.mu.Lock()
	defer l.mu.Unlock()
	out := make(map[string]types.UID, len(l.entries))
	// any order: give lets no instance have two claims
	for claim, e := range l.entries {
		out[e.instance] = claim
	}
	return out
}
