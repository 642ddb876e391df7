package inventory

import (
	"maps"
	"sync"
	"time"
)

const (
	// launchVisibleAfter is how long a new instance may be missing in responses of EC2 although it exists (E01).
	launchVisibleAfter = 2 * time.Minute
	// goneAfterLeading is how long a process has to have led to take an instance it never saw for gone: EC2 shows new ones
	// within a minute (E01), and a claim of an instance that is gone is to be removed within 90 s of a restart.
	goneAfterLeading = 75 * time.Second
	// endedTTL is how long a terminated instance stays in the cache as such; EC2 itself shows it for about an hour.
	endedTTL = 2 * time.Hour
)

// instanceCache caches instances. There is no expiry: a complete list prunes it.
type instanceCache struct {
	mu     sync.Mutex
	known  map[string]entry
	ended  map[string]time.Time // when an instance was seen terminated: that is never taken back (E20)
	onGone func(gone Instance, seen time.Time)
}

type entry struct {
	instance Instance
	stored   time.Time
	launched time.Time // by this process, by our own clock; zero: by others
}

func newInstanceCache(onGone func(gone Instance, seen time.Time)) *instanceCache {
	return &instanceCache{known: map[string]entry{}, ended: map[string]time.Time{}, onGone: onGone}
}

// store caches an instance and returns it as callers should see it: one that was terminated before stays terminated.
func (m *instanceCache) store(i Instance, now time.Time, launched bool) Instance {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.putLocked(i, now, launched)
}

func (m *instanceCache) putLocked(i Instance, now time.Time, launched bool) Instance {
	if i.State == StateTerminated {
		m.ended[i.ID] = now
	}
	if _, over := m.ended[i.ID]; over {
		m.dropGone(i.ID)
		i.State = StateTerminated
		return i
	}
	before := m.known[i.ID]
	if i.ZoneID == "" && before.instance.Zone == i.Zone {
		i.ZoneID = before.instance.ZoneID
	}
	e := entry{instance: i, stored: now, launched: before.launched}
	if launched {
		e.launched = now
	}
	m.known[i.ID] = e
	return i
}

// find returns the cached instance; over says that it is terminated.
func (m *instanceCache) find(id string) (i Instance, known, over bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	_, over = m.ended[id]
	e, known := m.known[id]
	return e.instance, known, over
}

// launchedRecently reports whether this process launched the instance so recently that EC2 may not show it yet.
func (m *instanceCache) launchedRecently(id string, now time.Time) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	e, known := m.known[id]
	return known && e.launchedRecently(now)
}

// launchedRecently does not look at what EC2 says about the time of the launch: its clock may be ahead of ours for longer
// than the instance lives, and would keep it from being ended.
func (e entry) launchedRecently(now time.Time) bool {
	return !e.launched.IsZero() && now.Sub(e.launched) < launchVisibleAfter
}

func (m *instanceCache) deleteEntry(id string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.dropGone(id)
}

// dropGone drops a terminated instance, and calls Ended if it was known.
func (m *instanceCache) dropGone(id string) {
	if e, known := m.known[id]; known {
		delete(m.known, id)
		m.onGone(e.instance, e.stored)
	}
}

// replaceAll takes a complete list that was begun at a time, and returns it as it is to be read. What is
// not in it is dropped, unless it came later, is too young to be seen, or is to be kept.
func (m *instanceCache) replaceAll(list []Instance, begun, now time.Time, keep func(Instance) bool) []Instance {
	m.mu.Lock()
	defer m.mu.Unlock()
	listed := make(map[string]bool, len(list))
	out := make([]Instance, 0, len(list))
	for _, i := range list {
		listed[i.ID] = true
		if i = m.putLocked(i, now, false); i.State != StateTerminated {
			out = append(out, i)
		}
	}
	// any order: each is dropped by itself
	for id, e := range m.known {
		if !listed[id] && e.stored.Before(begun) && !e.launchedRecently(now) && !keep(e.instance) {
			m.dropGone(id)
		}
	}
	maps.DeleteFunc(m.ended, func(_ string, at time.Time) bool { return now.Sub(at) > endedTTL })
	return out
}
