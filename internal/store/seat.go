package store

import (
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/dovetail-sh/dovetail/internal/cluster"
)

const (
	// selectedNode is on a claim for a volume that the scheduler has chosen a node for. It stays there when the
	// claim is bound, and means nothing then.
	selectedNode = "volume.kubernetes.io/selected-node"

	// trusted is how long a pod counts on the node that it is about to be bound to. A scheduler takes back what
	// does not come true, but not always; and while pods that make room are still there it has to wait for them.
	// One that has thousands of pods to look at may need minutes.
	trusted = 5 * time.Minute
)

// aim is the node that a pod is about to be bound to, if anything says so: the scheduler preempts others for
// it there, or has a volume made for it there.
func (s *Store) aim(slot *podSlot) string {
	switch p := slot.pod; {
	case p.Spec.NodeName != "" || p.DeletionTimestamp != nil:
		return ""
	case p.Status.NominatedNodeName != "":
		return p.Status.NominatedNodeName
	case !slot.volumes:
		return ""
	}
	for i := range slot.pod.Spec.Volumes {
		if node := chosen(s.volumes.Claim(slot.pod.Namespace, cluster.ClaimOf(slot.pod, &slot.pod.Spec.Volumes[i]))); node != "" {
			return node
		}
	}
	return ""
}

// sit finds the node that a pod counts on, and has it wait if there is none and it should.
func (s *Store) sit(key podKey, slot *podSlot) {
	now := s.opts.Now()
	if aim := s.aim(slot); aim != slot.aim {
		slot.aim, slot.aimed = aim, now
	}
	seat := slot.pod.Spec.NodeName
	if seat == "" && s.stands(slot, now) {
		seat = slot.aim
	}
	if seat != slot.seat {
		s.leave(key, slot)
		slot.seat = seat
		s.enter(key, slot)
	}
	if delete(s.seated, key); seat != "" && slot.pod.Spec.NodeName == "" {
		s.seated[key] = slot
	}
	s.queue(key, slot, now)
}

// stands reports whether a pod can still be expected to be bound where it is about to be.
func (s *Store) stands(slot *podSlot, now time.Time) bool {
	if slot.aim == "" || s.nodes[slot.aim] == nil {
		return false
	}
	if now.Sub(slot.aimed) < trusted {
		return true
	}
	// any order: whether there is one
	for _, other := range s.onNode[slot.aim] {
		if other.pod.DeletionTimestamp != nil {
			return true
		}
	}
	return false
}

// queue has a pod wait for a node, or not.
func (s *Store) queue(key podKey, slot *podSlot, now time.Time) {
	if slot.seat != "" || !waits(slot.pod) {
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

// lapse has pods wait again that were about to be bound and were not.
func (s *Store) lapse(now time.Time) {
	// any order: each is looked at by itself
	for key, slot := range s.seated {
		if !s.stands(slot, now) {
			s.revision++
			s.changes++
			s.sit(key, slot)
		}
	}
}

// seatAll looks again at the pods that are about to be bound to a node that came or went.
func (s *Store) seatAll(node string) {
	for _, pods := range []map[podKey]*podSlot{s.seated, s.waiting} {
		// any order: each is looked at by itself
		for key, slot := range pods {
			if slot.aim == node {
				s.sit(key, slot)
			}
		}
	}
}

// chosenFor looks again at the pods that wait for a claim for a volume.
func (s *Store) chosenFor(before, after *corev1.PersistentVolumeClaim) {
	if chosen(before) == chosen(after) {
		return
	}
	claim := after
	if claim == nil {
		claim = before
	}
	for _, pods := range []map[podKey]*podSlot{s.seated, s.waiting} {
		// any order: each is looked at by itself
		for key, slot := range pods {
			if !slot.volumes || key.Namespace != claim.Namespace {
				continue
			}
			for i := range slot.pod.Spec.Volumes {
				if cluster.ClaimOf(slot.pod, &slot.pod.Spec.Volumes[i]) == claim.Name {
					s.changes++
					s.sit(key, slot)
					break
				}
			}
		}
	}
}

// chosen is the node that a volume is being made for.
func chosen(c *corev1.PersistentVolumeClaim) string {
	if c == nil || c.Spec.VolumeName != "" || c.DeletionTimestamp != nil {
		return ""
	}
	return c.Annotations[selectedNode]
}
