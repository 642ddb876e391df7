package adopt

import (
	"context"
	"maps"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"
)

// keepEntry is how long the instance of a claim is cached. By then the status of the claim has it.
const keepEntry = time.Hour

// Ledger caches which instance was assigned to which claim, until the status of the claim has it. An instance
// is assigned at most once, and a claim that launches again gets the same one (A01, A02). It is safe for
// concurrent use.
type Ledger struct {
	now     func() time.Time
	started func() time.Time

	mu      sync.Mutex
	entries map[types.UID]entry
	turns   map[types.UID]*turn // of claims that are being launched
}

// turn is held by who launches a claim.
type turn struct {
	taken chan struct{} // of one
	users int           // who has it, and who waits
}

type entry struct {
	instance string
	at       time.Time
}

// NewLedger makes a ledger without entries.
func NewLedger(now func() time.Time) *Ledger {
	return &Ledger{now: now, started: sync.OnceValue(now), entries: map[types.UID]entry{}, turns: map[types.UID]*turn{}}
}

// Started is when this process began to act, which is when it began to lead, not when it began to wait. It
// is the time of the first call.
func (l *Ledger) Started() time.Time { return l.started() }

// Turn waits until no other caller launches a claim. Two launches of one claim at the same time would launch twice: neither
// knows yet what the other gets. End it with done, unless the context ended first.
func (l *Ledger) Turn(ctx context.Context, claim types.UID) (done func(), err error) {
	l.mu.Lock()
	mine := l.turns[claim]
	if mine == nil {
		mine = &turn{taken: make(chan struct{}, 1)}
		l.turns[claim] = mine
	}
	mine.users++
	l.mu.Unlock()
	leave := func() {
		l.mu.Lock()
		defer l.mu.Unlock()
		if mine.users--; mine.users == 0 {
			delete(l.turns, claim)
		}
	}
	select {
	case mine.taken <- struct{}{}:
		return func() { <-mine.taken; leave() }, nil
	case <-ctx.Done():
		leave()
		return nil, ctx.Err()
	}
}

// Assign records the instance of a claim. It fails if another claim has it.
func (l *Ledger) Assign(claim types.UID, instance string) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	now := l.now()
	maps.DeleteFunc(l.entries, func(_ types.UID, e entry) bool { return now.Sub(e.at) > keepEntry })
	for other, e := range l.entries {
		if e.instance == instance && other != claim {
			return false
		}
	}
	l.entries[claim] = entry{instance: instance, at: now}
	return true
}

// Instance returns the instance of a claim.
func (l *Ledger) Instance(claim types.UID) (instance string, given bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	e, given := l.entries[claim]
	return e.instance, given
}

// Drop drops the instance of a claim, which has ended.
func (l *Ledger) Drop(claim types.UID) {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.entries, claim)
}

// Owners is who got what, by instance.
func (l *Ledger) Owners() map[string]types.UID {
	l.mu.Lock()
	defer l.mu.Unlock()
	out := make(map[string]types.UID, len(l.entries))
	// any order: Assign lets no instance have two claims
	for claim, e := range l.entries {
		out[e.instance] = claim
	}
	return out
}
