package discover

import (
	"context"
	"errors"
	"sync"
	"time"
)

// responseCache caches responses for a while. They are shared and must not be changed.
type responseCache[K comparable, V any] struct {
	lifetime time.Duration
	now      func() time.Time

	mu      sync.Mutex
	entries map[K]entry[V]
	pending map[K]*pendingCall[V] // calls without a response yet
}

// pendingCall is a call that several callers may wait for. value and err are set when done is closed.
type pendingCall[V any] struct {
	done  chan struct{}
	value V
	err   error
}

type entry[V any] struct {
	value V
	until time.Time
}

func newResponseCache[K comparable, V any](lifetime time.Duration, now func() time.Time) *responseCache[K, V] {
	return &responseCache[K, V]{lifetime: lifetime, now: now, entries: map[K]entry[V]{}, pending: map[K]*pendingCall[V]{}}
}

func (m *responseCache[K, V]) load(key K) (V, bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	e, found := m.entries[key]
	if !found || !m.now().Before(e.until) {
		var none V
		return none, false
	}
	return e.value, true
}

// loadOrCall returns the cached response, unless a fresh one is requested, or makes the call. Concurrent
// callers share one call. Errors are not cached.
func (m *responseCache[K, V]) loadOrCall(ctx context.Context, key K, anew bool, call func() (V, error)) (V, error) {
	for {
		if kept, found := m.load(key); found && !anew {
			return kept, nil
		}
		m.mu.Lock()
		q, waits := m.pending[key]
		if !waits {
			q = &pendingCall[V]{done: make(chan struct{}), err: errCallPanicked}
			m.pending[key] = q
		}
		m.mu.Unlock()
		if !waits {
			m.callAndStore(key, q, call)
			return q.value, q.err
		}
		select {
		case <-ctx.Done():
			var none V
			return none, ctx.Err()
		case <-q.done:
		}
		if !errors.Is(q.err, context.Canceled) && !errors.Is(q.err, context.DeadlineExceeded) && !errors.Is(q.err, errCallPanicked) {
			return q.value, q.err // a context that ended for another caller is no response
		}
	}
}

// errCallPanicked is the result of a call that panicked.
var errCallPanicked = errors.New("the call panicked")

func (m *responseCache[K, V]) callAndStore(key K, q *pendingCall[V], call func() (V, error)) {
	defer func() {
		m.mu.Lock()
		delete(m.pending, key)
		m.mu.Unlock()
		close(q.done)
	}()
	if q.value, q.err = call(); q.err == nil {
		m.store(key, q.value)
	}
}

// store caches a response and drops those that are too old.
func (m *responseCache[K, V]) store(key K, value V) { m.storeFor(key, value, m.lifetime) }

func (m *responseCache[K, V]) storeFor(key K, value V, lifetime time.Duration) {
	m.mu.Lock()
	defer m.mu.Unlock()
	now := m.now()
	for k, e := range m.entries {
		if !now.Before(e.until) {
			delete(m.entries, k)
		}
	}
	m.entries[key] = entry[V]{value: value, until: now.Add(lifetime)}
}

// dropMatching drops the keys that match.
func (m *responseCache[K, V]) dropMatching(match func(K) bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for k := range m.entries {
		if match(k) {
			delete(m.entries, k)
		}
	}
}

// snapshot returns a copy of what is kept.
func (m *responseCache[K, V]) snapshot() map[K]V {
	m.mu.Lock()
	defer m.mu.Unlock()
	now, out := m.now(), map[K]V{}
	for k, e := range m.entries {
		if now.Before(e.until) {
			out[k] = e.value
		}
	}
	return out
}
