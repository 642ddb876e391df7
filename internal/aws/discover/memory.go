package discover

import (
	"sync"
	"time"
)

// memory keeps answers for a while. Answers are shared: nobody changes them.
type memory[K comparable, V any] struct {
	lifetime time.Duration
	now      func() time.Time

	mu      sync.Mutex
	entries map[K]entry[V]
}

type entry[V any] struct {
	value V
	until time.Time
}

func remember[K comparable, V any](lifetime time.Duration, now func() time.Time) *memory[K, V] {
	return &memory[K, V]{lifetime: lifetime, now: now, entries: map[K]entry[V]{}}
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
