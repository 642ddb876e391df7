package store

import (
	karpv1 "github.com/dovetail-sh/dovetail/api/v1"
	"github.com/dovetail-sh/dovetail/internal/cluster"
)

// Loads returns the loads of the nodes of a pool, by claim.
func (s *Store) Loads(name string) map[string]cluster.ClaimLoad {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := s.opts.Now()
	exposed := s.unreplicatedLeaderNode()
	out := map[string]cluster.ClaimLoad{}
	// any order: each claim is independent of the others
	for _, p := range s.places {
		if p.claim == nil || p.claim.Labels[karpv1.LabelNodePool] != name {
			continue
		}
		load := cluster.ClaimLoad{Held: p.commanded || p.removing}
		if p.node != nil {
			load.Protected = p.node.Name == exposed
			// any order: costs are multiples of 1/2^27, so that their sum is exact
			for _, slot := range s.onNode[p.node.Name] {
				if cluster.Reschedulable(slot.pod) {
					load.Pods = true
					load.Cost += cluster.EvictCost(slot.pod, s.opts.CostManaged)
				}
				load.Protected = load.Protected || slot.pod.DeletionTimestamp == nil && cluster.DoNotDisrupt(slot.pod, now)
			}
		}
		out[p.claim.Name] = load
	}
	return out
}

// Claims counts the claims of a pool, including terminating ones.
func (s *Store) Claims(name string) int64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	count := int64(0)
	for _, p := range s.places {
		if p.claim != nil && p.claim.Labels[karpv1.LabelNodePool] == name {
			count++
		}
	}
	return count
}
