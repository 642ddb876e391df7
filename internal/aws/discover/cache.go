package discover

import (
	"context"
	"errors"
	"sync"
	"time"
)

// memory keeps answers for a while. Answers are shared: nobody changes them.
type memory[K comparable, V any] struct {
	lifetime time.Duration
	now      func() time.Time

	mu      sync.Mutex
	entries map[K]entry[V]
	asked   map[K]*question[V] // that nobody has answered yet
}

// question is one that several may wait for. value and err are there when done is closed.
type question[V any] struct {
	done  chan struct{}
	value V
	err   error
}

type entry[V any] struct {
	value V
	until time.Time
}

func remember[K comparable, V any](lifetime time.Duration, now func() time.Time) *memory[K, V] {
	return &memory[K, V]{lifetime: lifetime, now: now, entries: map[K]entry[V]{}, asked: map[K]*question[V]{}}
}

func (m *memory[K, V]) load(key K) (V, bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	e, found := m.entries[key]
	if !found || !m.now().Before(e.until) {
		var none V
		return none, false
	}
	return e.value, true
}

// answer returns what is kept, unless it is to be anew, or asks. Whoever wants the same meanwhile waits for
// that answer. Errors are not kept.
func (m *memory[K, V]) answer(ctx context.Context, key K, anew bool, ask func() (V, error)) (V, error) {
	for {
		if kept, found := m.load(key); found && !anew {
			return kept, nil
		}
		m.mu.Lock()
		q, waits := m.asked[key]
		if !waits {
			q = &question[V]{done: make(chan struct{}), err: errUnanswered}
			m.asked[key] = q
		}
		m.mu.Unlock()
		if !waits {
			m.put(key, q, ask)
			return q.value, q.err
		}
		select {
		case <-ctx.Done():
			var none V
			return none, ctx.Err()
		case <-q.done:
		}
		if !errors.Is(q.err, context.Canceled) && !errors.Is(q.err, context.DeadlineExceeded) && !errors.Is(q.err, errUnanswered) {
			return q.value, q.err // what ended the wait of another is no answer
		}
	}
}

// errUnanswered is the answer of one who panicked while asking.
var errUnanswered = errors.New("nobody answered")

func (m *memory[K, V]) put(key K, q *question[V], ask func() (V, error)) {
	defer func() {
		m.mu.Lock()
		delete(m.asked, key)
		m.mu.Unlock()
		close(q.done)
	}()
	if q.value, q.err = ask(); q.err == nil {
		m.store(key, q.value)
	}
}

// store keeps an answer and drops those that are too old.
func (m *memory[K, V]) store(key K, value V) { m.storeFor(key, value, m.lifetime) }

func (m *memory[K, V]) storeFor(key K, value V, lifetime time.Duration) {
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

// drop forgets the keys that match.
func (m *memory[K, V]) drop(match func(K) bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for k := range m.entries {
		if match(k) {
			delete(m.entries, k)
		}
	}
}

// list returns a copy of what is kept.
func (m *memory[K, V]) list() map[K]V {
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
