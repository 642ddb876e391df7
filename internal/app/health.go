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

// Pulse is the sign of life of one loop. A loop without work is well however long it waits: a replica
// that does not lead has none, so it never fails. A loop that advances is well however long its pass takes: a process
// that was killed for it would begin anew and be killed again. Pulse is safe for concurrent use.
type Pulse struct {
	name string
	now  func() time.Time

	mu    sync.Mutex
	since time.Time // when there was work and last some progress; zero: no work
}

// NewPulse returns the sign of life of a loop.
func NewPulse(name string, now func() time.Time) *Pulse { return &Pulse{name: name, now: now} }

// Begin says that there is work. Saying so again while it waits changes nothing.
func (p *Pulse) Begin() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.since.IsZero() {
		p.since = p.now()
	}
}

// Beat says that a pass has come a step further: the search for a plan was asked whether to stop, a call was answered.
func (p *Pulse) Beat() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.since.IsZero() {
		p.since = p.now()
	}
}

// Done says that a pass is over, whether or not it went well.
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

// stuckLoopCheck is the check behind /healthz: it fails, and the kubelet restarts us, when a loop is stuck.
func stuckLoopCheck(now func() time.Time, pulses ...*Pulse) healthz.Checker {
	return func(*http.Request) error {
		var stuck []error
		for _, p := range pulses {
			stuck = append(stuck, p.Check(now()))
		}
		return errors.Join(stuck...)
	}
}

// feeds is memory that watches fill.
type feeds interface {
	Unsynced() (late time.Duration, missing []string)
}

// watchCheck fails when watches have not delivered what exists for so long that they never will: a new
// process asks anew.
func watchCheck(memory feeds) healthz.Checker {
	return func(*http.Request) error {
		if late, missing := memory.Unsynced(); late > stuckAfter {
			return fmt.Errorf("watches have delivered nothing of %s for %s", strings.Join(missing, ", "), late.Truncate(time.Second))
		}
		return nil
	}
}
