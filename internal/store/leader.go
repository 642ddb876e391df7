package store

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// UnreplicatedLeaderNode returns the Node that must not be removed because this very process runs there and no other
// replica could take over; empty if there is none.
func (s *Store) UnreplicatedLeaderNode() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.unreplicatedLeaderNode()
}

// unreplicatedLeaderNode returns the Node that this process runs on, if it is managed and no replica on another node
// could take over; otherwise nothing (FM C17). A replica on the same node, or on a terminating one, would be evicted
// too.
func (s *Store) unreplicatedLeaderNode() string {
	self := s.pods[s.opts.Self]
	if self == nil {
		return ""
	}
	on := self.pod.Spec.NodeName
	if at := s.places[s.placeKeys[on]]; at == nil || at.claim == nil {
		return ""
	}
	owner := metav1.GetControllerOf(self.pod)
	if owner == nil {
		return on
	}
	for key, slot := range s.pods {
		p := slot.pod
		if key.Namespace != s.opts.Self.Namespace || p.Spec.NodeName == on || p.DeletionTimestamp != nil || !ready(p) {
			continue
		}
		if other := metav1.GetControllerOf(p); other != nil && other.UID == owner.UID && s.nodeStays(p.Spec.NodeName) {
			return ""
		}
	}
	return on
}

// nodeStays reports whether nothing is known to take a node away.
func (s *Store) nodeStays(node string) bool {
	p := s.places[s.placeKeys[node]]
	return p != nil && p.node != nil && p.node.DeletionTimestamp == nil && !p.commanded && !p.removing && (p.claim == nil || p.claim.DeletionTimestamp == nil)
}

func ready(p *corev1.Pod) bool {
	for i := range p.Status.Conditions {
		if c := &p.Status.Conditions[i]; c.Type == corev1.PodReady {
			return c.Status == corev1.ConditionTrue
		}
	}
	return false
}
