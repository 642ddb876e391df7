package store

import (
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/types"
)

// rebootMemory is how long reboots count: after too many in this time a node is replaced (V15-30). A
// restart forgets them.
const rebootMemory = 24 * time.Hour

// Rebooted says that a reboot of the node of a claim was requested just now.
func (s *Store) Rebooted(claim types.UID) {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := s.opts.Now()
	for uid, times := range s.reboots {
		if !times[len(times)-1].After(now.Add(-rebootMemory)) {
			delete(s.reboots, uid)
		}
	}
	s.reboots[claim] = append(s.reboots[claim], now)
}

// rebootsOf counts the reboots of the last 24 hours.
func (s *Store) rebootsOf(claim types.UID, now time.Time) int {
	times := s.reboots[claim]
	first, _ := slices.BinarySearchFunc(times, now.Add(-rebootMemory), func(t, from time.Time) int {
		if t.After(from) {
			return 1
		}
		return -1
	})
	return len(times) - first
}
