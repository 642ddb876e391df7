package app

import (
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/healthz"
)

// stuckAfter is how long a loop that has work may make no progress before the process counts as dead (FM D12).
const stuckAfter = 15 * time.Minute

// Pulse is the heartbeat of one loop. A loop without work is healthy however long it waits: a replica that does
// not lead has no work, so it never fails. A loop that makes progress is healthy however long its pass takes: a
// process that was killed for it would start over and be killed again. Pulse is safe for concurrent use.
type Pulse struct {
	name string
	now  func() time.Time

	mu    sync.Mutex
	since time.Time // when there was work and last some progress; zero: no work
}

// NewPulse returns the heartbeat of a loop.
func NewPulse(name string, now func() time.Time) *Pulse { return &Pulse{name: name, now: now} }

// Begin records that there is work. It is idempotent.
func (p *Pulse) Begin() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.since.IsZero() {
		p.since = p.now()
	}
}

// Beat records progress of a pass: a plan checked whether to stop, or a call got a response.
func (p *Pulse) Beat() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.since.IsZero() {
		p.since = p.now()
	}
}

// Done records that a pass is over, even if it failed.
func (p *Pulse) Done() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.since = time.Time{}
}

// Check fails when work has been there for too long without any progress.
func (p *Pulse) Check(now time.Time) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if waited := now.Sub(p.since); !p.since.IsZero() && waited > stuckAfter {
		return fmt.Errorf("%s has had work for %s and has made no progress", p.name, waited.Truncate(time.Second))
	}
	return nil
}

// stuckLoopCheck is the check behind /healthz. It fails when a loop is stuck, and the kubelet restarts the
// process.
func stuckLoopCheck(now func() time.Time, pulses ...*Pulse) healthz.Checker {
	return func(*http.Request) error {
		var stuck []error
		for _, p := range pulses {
			stuck = append(stuck, p.Check(now()))
		}
		return errors.Join(stuck...)
	}
}

// feeds is cluster state that watches fill.
type feeds interface {
	Unsynced() (late time.Duration, missing []string)
}

// watchCheck fails when watches have not delivered existing objects for too long. A restarted process opens new
// watches.
func watchCheck(state feeds) healthz.Checker {
	return func(*http.Request) error {
		if late, missing := state.Unsynced(); late > stuckAfter {
			return fmt.Errorf("watches have delivered nothing of %s for %s", strings.Join(missing, ", "), late.Truncate(time.Second))
		}
		return nil
	}
}
