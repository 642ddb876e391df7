package controller

import (
	"slices"
	"sync"
	"time"
)

const (
	restAfter   = 10              // claims of a pool that failed for lack of capacity
	restWindow  = time.Minute     // within this time
	longestRest = 8 * time.Minute // a pool is left alone
)

// Rest keeps a pool whose launches all fail from being bought from again and again (FM F02): ten
// failures within a minute close it for a minute, and each time that happens again for twice as long. So
// does one claim that the API server denies (FM A14).
type Rest struct {
	mu    sync.Mutex
	pools map[string]*resting
}

type resting struct {
	failed []time.Time
	until  time.Time
	length time.Duration
}

// NewRest returns a Rest that closes nothing.
func NewRest() *Rest { return &Rest{pools: map[string]*resting{}} }

// Failed notes that a claim of a pool could not be launched for lack of capacity.
func (r *Rest) Failed(pool string, now time.Time) {
	r.mu.Lock()
	defer r.mu.Unlock()
	p := r.pool(pool)
	p.failed = append(slices.DeleteFunc(p.failed, func(at time.Time) bool { return now.Sub(at) >= restWindow }), now)
	if len(p.failed) >= restAfter {
		p.close(now)
	}
}

// Denied notes that the API server refuses claims of a pool.
func (r *Rest) Denied(pool string, now time.Time) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if p := r.pool(pool); !now.Before(p.until) { // a plan brings many claims of one pool
		p.close(now)
	}
}

func (r *Rest) pool(name string) *resting {
	if r.pools[name] == nil {
		r.pools[name] = &resting{}
	}
	return r.pools[name]
}

func (p *resting) close(now time.Time) {
	p.length = min(max(2*p.length, restWindow), longestRest)
	p.until, p.failed = now.Add(p.length), nil
}

// Worked notes that a claim of a pool was launched.
func (r *Rest) Worked(pool string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.pools, pool)
}

// Resting reports whether a pool is to be left alone.
func (r *Rest) Resting(pool string, now time.Time) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	p := r.pools[pool]
	return p != nil && now.Before(p.until)
}
