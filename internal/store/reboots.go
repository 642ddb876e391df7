package store

import (
	"slices"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	karpv1 "github.com/dovetail-sh/dovetail/api/v1"
	"github.com/dovetail-sh/dovetail/internal/cluster"
	"github.com/dovetail-sh/dovetail/internal/condition"
)

// rebootWindow is how long reboots count: after too many in this time a node is replaced (V15-30). They are lost in a
// restart.
const rebootWindow = 24 * time.Hour

// rebootTimeout is how long pods that left a node for its reboot are expected back on it (V15-42). A drain
// without a bound may wait for longer: for those very pods, if a PodDisruptionBudget wants them to run before
// it lets others go. Then they need another place.
const rebootTimeout = 5 * time.Minute

// rebootWaits reports whether the reboot of a claim waits for pods, and whether it has for too long.
func rebootWaits(claim *karpv1.NodeClaim, now time.Time) (waits, long bool) {
	if claim == nil {
		return false, false
	}
	c := condition.Find(claim.Status.Conditions, karpv1.ConditionRebooting)
	waits = c != nil && c.Status == metav1.ConditionTrue && c.Reason == cluster.RebootRequested
	return waits, waits && now.Sub(c.LastTransitionTime.Time) >= rebootTimeout
}

// Rebooted says that a reboot of the node of a claim was requested just now.
func (s *Store) Rebooted(claim types.UID) {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := s.opts.Now()
	for uid, times := range s.reboots {
		if !times[len(times)-1].After(now.Add(-rebootWindow)) {
			delete(s.reboots, uid)
		}
	}
	s.reboots[claim] = append(s.reboots[claim], now)
}

// rebootsOf counts the reboots of the last 24 hours.
func (s *Store) rebootsOf(claim types.UID, now time.Time) int {
	times := s.reboots[claim]
	first, _ := slices.BinarySearchFunc(times, now.Add(-rebootWindow), func(t, from time.Time) int {
		if t.After(from) {
			return 1
		}
		return -1
	})
	return len(times) - first
}
