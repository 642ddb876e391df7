package keep

import (
	"context"
	"sync"
	"time"

	karpv1 "github.com/dovetail-sh/dovetail/api/v1"
	"github.com/dovetail-sh/dovetail/internal/disrupt"
	"github.com/dovetail-sh/dovetail/internal/inspect"
	"github.com/dovetail-sh/dovetail/internal/ledger"
	"github.com/dovetail-sh/dovetail/internal/metric"
)

// Ledger records what is decided and what the cluster costs. It is safe for concurrent use.
type Ledger struct {
	now func() time.Time

	mu      sync.Mutex
	book    *ledger.Book
	began   time.Time // of the process
	reading bool      // what was stored is being read: what the cluster costs now cannot be added yet
	note    string    // why it is not stored; empty: it is
	totals  totals    // as metrics show them
}

// New returns an empty Ledger in memory, whose totals are shown as metrics.
func New(now func() time.Time, metrics *metric.Set) *Ledger {
	return &Ledger{now: now, book: ledger.New(ledger.DefaultLimits()), began: now(), note: offNote, totals: totals{metrics: metrics, shown: map[string]float64{}}}
}

// offNote says what to do to keep a ledger.
const offNote = "it is kept in memory only, and is lost when the controller restarts or another replica leads: set --ledger (settings.ledger=true in the chart) to keep it in ConfigMaps"

// Record implements the forwarding of internal/journal.
func (l *Ledger) Record(e inspect.Event, minor bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.book.Record(ledger.Entry{Event: e, Minor: minor})
}

// Observed records what a pass saw and found.
func (l *Ledger) Observed(v *disrupt.View, d *disrupt.Decision) {
	if v.Unpriced { // prices are not read yet: what was known before goes on
		return
	}
	o := ledger.ObservationOf(&v.DisruptionView, d.Bound)
	o.Unchanged = v.Unchanged
	l.observe(o)
}

func (l *Ledger) observe(o ledger.Observation) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.reading {
		return
	}
	l.book.Observe(o)
	l.totals.show(l.book.Total())
}

// Deleted records a node that a command deletes. Only what consolidation deletes saves anything.
func (l *Ledger) Deleted(r *disrupt.Running, n *disrupt.Candidate) {
	if r.Reason != karpv1.ReasonEmpty && r.Reason != karpv1.ReasonUnderutilized {
		return
	}
	removal := ledger.Removal{Command: r.Token(), Claim: n.Claim, Pool: n.Pool, Price: n.Price, Replacements: r.ReplacementClaims}
	for i := range r.Remove {
		removal.All += r.Remove[i].Price
	}
	removal.Planned = max(0, removal.All-r.Saves)
	l.mu.Lock()
	defer l.mu.Unlock()
	l.book.Removed(removal)
}

// Launched records a node that is launched for pods that have none.
func (l *Ledger) Launched(claim string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.book.Launched(claim, l.now())
}

// Evicted records a pod that leaves a node of a NodePool.
func (l *Ledger) Evicted(pool, namespace string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.book.Evicted(l.now(), pool, namespace)
}

// History implements inspect.Historian.
func (l *Ledger) History(_ context.Context, q inspect.HistoryQuery) (inspect.History, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	h := l.book.History(q)
	if q.Object == (inspect.Subject{}) && l.note != "" {
		h.Notes = append(h.Notes, l.aboutStorage())
	}
	return h, nil
}

// Savings implements inspect.Accountant.
func (l *Ledger) Savings(_ context.Context, q inspect.SavingsQuery) (inspect.Savings, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	s := l.book.Savings(q)
	if l.note != "" {
		s.Notes = append(s.Notes, l.aboutStorage())
	}
	return s, nil
}

// aboutStorage says why the ledger is not stored. The caller holds the lock.
func (l *Ledger) aboutStorage() string {
	return "the ledger began at " + l.began.UTC().Format(time.RFC3339) + "; " + l.note
}
