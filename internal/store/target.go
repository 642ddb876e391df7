package store

import (
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/dovetail-sh/dovetail/internal/cluster"
)

const (
	// selectedNode is an annotation of a PersistentVolumeClaim that the scheduler has chosen a node for. It remains
	// after the claim is bound, and has no meaning then.
	selectedNode = "volume.kubernetes.io/selected-node"

	// targetTimeout is how long a pod counts on the node that it is about to be bound to. A scheduler withdraws a
	// choice that fails, but not always; and it has to wait while preempted pods terminate. With thousands of pending
	// pods it may need minutes.
	targetTimeout = 5 * time.Minute
)

// nodeAboutToBind returns the node that a pod is about to be bound to; empty if unknown. The scheduler preempts
// other pods there, or has a volume provisioned there.
func (s *Store) nodeAboutToBind(slot *podSlot) string {
	switch p := slot.pod; {
	case p.Spec.NodeName != "" || p.DeletionTimestamp != nil:
		return ""
	case p.Status.NominatedNodeName != "":
		return p.Status.NominatedNodeName
	case !slot.volumes:
		return ""
	}
	for i := range slot.pod.Spec.Volumes {
		if node := selectedNodeOf(s.volumes.Claim(slot.pod.Namespace, cluster.ClaimOf(slot.pod, &slot.pod.Spec.Volumes[i]))); node != "" {
			return node
		}
	}
	return ""
}

// updateCountedNode finds the node whose capacity a pod uses, and adds the pod to waiting if it needs one.
func (s *Store) updateCountedNode(key podKey, slot *podSlot) {
	now := s.opts.Now()
	if aim := s.nodeAboutToBind(slot); aim != slot.target {
		slot.target, slot.targetSince = aim, now
	}
	seat := slot.pod.Spec.NodeName
	if seat == "" && s.targetStillValid(slot, now) {
		seat = slot.target
	}
	if seat != slot.countedNode {
		s.removeFromNode(key, slot)
		slot.countedNode = seat
		s.addToNode(key, slot)
	}
	if delete(s.nearlyBound, key); seat != "" && slot.pod.Spec.NodeName == "" {
		s.nearlyBound[key] = slot
	}
	s.updateWaiting(key, slot, now)
}

// targetStillValid reports whether a pod can still be expected to be bound to its target.
func (s *Store) targetStillValid(slot *podSlot, now time.Time) bool {
	if slot.target == "" || s.nodes[slot.target] == nil {
		return false
	}
	if now.Sub(slot.targetSince) < targetTimeout {
		return true
	}
	// any order: whether there is one
	for _, other := range s.onNode[slot.target] {
		if other.pod.DeletionTimestamp != nil {
			return true
		}
	}
	return false
}

// updateWaiting adds a pod to waiting if it is unschedulable and has no node, and removes it otherwise.
func (s *Store) updateWaiting(key podKey, slot *podSlot, now time.Time) {
	if slot.countedNode != "" || !isUnschedulable(slot.pod) {
		delete(s.waiting, key)
		return
	}
	if slot.seen.IsZero() {
		slot.seen = now
	}
	first := s.waiting[key] == nil
	s.waiting[key] = slot
	if first {
		s.opts.Wake(slot.pod.UID)
	}
}

// expireTargets makes pods pending again that were not bound to their target in time.
func (s *Store) expireTargets(now time.Time) {
	// any order: each is independent of the others
	for key, slot := range s.nearlyBound {
		if !s.targetStillValid(slot, now) {
			s.revision++
			s.changes++
			s.updateCountedNode(key, slot)
		}
	}
}

// recheckTargets updates the pods whose target is a node that was added or deleted.
func (s *Store) recheckTargets(node string) {
	for _, pods := range []map[podKey]*podSlot{s.nearlyBound, s.waiting} {
		// any order: each is independent of the others
		for key, slot := range pods {
			if slot.target == node {
				s.updateCountedNode(key, slot)
			}
		}
	}
}

// recheckVolumeTargets updates the pods that use a PersistentVolumeClaim whose selected node changed.
func (s *Store) recheckVolumeTargets(before, after *corev1.PersistentVolumeClaim) {
	if selectedNodeOf(before) == selectedNodeOf(after) {
		return
	}
	claim := after
	if claim == nil {
		claim = before
	}
	for _, pods := range []map[podKey]*podSlot{s.nearlyBound, s.waiting} {
		// any order: each is independent of the others
		for key, slot := range pods {
			if !slot.volumes || key.Namespace != claim.Namespace {
				continue
			}
			for i := range slot.pod.Spec.Volumes {
				if cluster.ClaimOf(slot.pod, &slot.pod.Spec.Volumes[i]) == claim.Name {
					s.changes++
					s.updateCountedNode(key, slot)
					break
				}
			}
		}
	}
}

// selectedNodeOf returns the node that a volume is being provisioned for.
func selectedNodeOf(c *corev1.PersistentVolumeClaim) string {
	if c == nil || c.Spec.VolumeName != "" || c.DeletionTimestamp != nil {
		return ""
	}
	return c.Annotations[selectedNode]
}
