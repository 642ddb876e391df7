package store

import (
	corev1 "k8s.io/api/core/v1"

	karpv1 "github.com/dovetail-sh/dovetail/api/v1"
	"github.com/dovetail-sh/dovetail/internal/catalog"
	"github.com/dovetail-sh/dovetail/internal/cluster"
	"github.com/dovetail-sh/dovetail/internal/resources"
)

// total is what nodes have.
type total struct {
	capacity resources.Vec
	nodes    int64
}

func (t total) plus(o total) total {
	return total{resources.Add(t.capacity, o.capacity), t.nodes + o.nodes}
}

func (t total) minus(o total) total {
	return total{resources.Sub(t.capacity, o.capacity), t.nodes - o.nodes}
}

func (t total) list(table resources.Table) corev1.ResourceList { return table.List(t.capacity) }

// recordTypes records what each pool could launch when that was last known.
func (s *Store) recordTypes(types map[string][]catalog.InstanceType) {
	for name, list := range types {
		if len(list) > 0 {
			s.lastTypes[name] = list
		}
	}
	for name := range s.lastTypes {
		if s.pools[name] == nil {
			delete(s.lastTypes, name)
		}
	}
}

// countsTowardLimits reports whether a node counts against the limits of its pool: terminating nodes do not (API
// 4.2). A node of a command counts until it is deleted, because it stays if the command is given up (G10).
func countsTowardLimits(n *cluster.Node, p *place) bool {
	return n.Pool != "" && (!n.Deleting || p.removing && !p.isDeleting())
}

// sizeOf is what a node takes of the limits of its pool. A claim that is not launched counts as the
// largest it can become: limits then hold however the cloud decides.
func (s *Store) sizeOf(n *cluster.Node, sizes index) total {
	t := total{capacity: n.Capacity, nodes: 1}
	if p := s.pools[n.Pool]; n.Needs != nil && p != nil && len(p.effective.Spec.Limits) > 0 {
		t.capacity = resources.Max(n.Capacity, sizes.largestCapacity(n.Pool, n.Needs[corev1.LabelInstanceTypeStable].Values))
	}
	return t
}

// Usage is what the nodes of a pool have and how many there are, without those that go (LC-54).
func (s *Store) Usage(pool string) (corev1.ResourceList, int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	sum := corev1.ResourceList{}
	count := int64(0)
	// any order: amounts are added up exactly
	for _, p := range s.places {
		if p.claim == nil || p.claim.Labels[karpv1.LabelNodePool] != pool || p.claim.DeletionTimestamp != nil {
			continue
		}
		count++
		capacity := p.claim.Status.Capacity
		if p.node != nil && len(p.node.Status.Capacity) > 0 && p.node.Labels[karpv1.LabelRegistered] == "true" {
			capacity = p.node.Status.Capacity
		}
		// any order: each resource is added up by itself
		for name, quantity := range capacity {
			have := sum[name]
			have.Add(quantity)
			have.Format = resources.FormatOf(name) // not that of whichever was added first
			sum[name] = have
		}
	}
	return sum, count
}
