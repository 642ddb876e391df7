package store

import (
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	karpv1 "github.com/dovetail-sh/dovetail/api/v1"
	"github.com/dovetail-sh/dovetail/internal/cluster"
)

func keyOf(p metav1.Object) podKey { return podKey{Namespace: p.GetNamespace(), Name: p.GetName()} }

// setPod stores a pod; nil removes it, and so does a pod that has terminated.
func (s *Store) setPod(key podKey, pod *corev1.Pod) {
	if pod != nil && cluster.PodEnded(pod) {
		s.dropDaemonPod(pod)
		pod = nil
	}
	old := s.pods[key]
	if old == nil && pod != nil || old != nil && podChanged(old.pod, pod) {
		s.changes++
	}
	if old != nil && pod != nil {
		s.reportBound(key, old.pod, pod)
	}
	if old != nil {
		s.removeFromNode(key, old)
		if pod == nil || pod.UID != old.pod.UID {
			delete(s.plannedClaims, key)
		}
	}
	if pod == nil {
		if old != nil {
			s.dropDaemonPod(old.pod)
		}
		delete(s.pods, key)
		delete(s.waiting, key)
		delete(s.nearlyBound, key)
		return
	}
	slot := &podSlot{pod: pod, volumes: mountsVolumes(pod)}
	if old != nil && old.pod.UID == pod.UID {
		slot.seen, slot.decided, slot.target, slot.targetSince = old.seen, old.decided, old.target, old.targetSince
	}
	s.selects.Note(pod)
	s.pods[key] = slot
	s.noteDaemonPod(pod)
	s.updateCountedNode(key, slot)
	if slot.countedNode != "" && (old == nil || old.countedNode != slot.countedNode) {
		s.requestRefill()
	}
}

// reportBound calls OnBound for a planned pod that has just been bound.
func (s *Store) reportBound(key podKey, before, after *corev1.Pod) {
	claim, planned := s.plannedClaims[key]
	if !planned || s.opts.OnBound == nil || before.UID != after.UID || before.Spec.NodeName != "" || after.Spec.NodeName == "" {
		return
	}
	p := s.places[claimKey(claim)]
	s.opts.OnBound(p != nil && p.node != nil && p.node.Name == after.Spec.NodeName)
}

// removeFromNode removes a pod from the node whose capacity it uses.
func (s *Store) removeFromNode(key podKey, slot *podSlot) {
	on := s.onNode[slot.countedNode]
	if on == nil {
		return
	}
	delete(on, key)
	if len(on) == 0 {
		delete(s.onNode, slot.countedNode)
	}
	s.invalidateNode(slot.countedNode)
}

// addToNode adds a pod to the node whose capacity it uses.
func (s *Store) addToNode(key podKey, slot *podSlot) {
	if slot.countedNode == "" {
		return
	}
	on := s.onNode[slot.countedNode]
	if on == nil {
		on = map[podKey]*podSlot{}
		s.onNode[slot.countedNode] = on
	}
	on[key] = slot
	s.invalidateNode(slot.countedNode)
}

// invalidateNode marks the place of a Node to be read again.
func (s *Store) invalidateNode(node string) {
	if p := s.places[s.placeKeys[node]]; p != nil {
		p.valid = false
	}
}

// Provisionable reports whether a pod waits for a node that we could order (scheduling 3.1).
func Provisionable(p *corev1.Pod) bool { return isUnschedulable(p) && p.Status.NominatedNodeName == "" }

// isUnschedulable reports whether the scheduler has found no node for a pod, even if it preempts pods for it on one.
func isUnschedulable(p *corev1.Pod) bool {
	if p.Spec.NodeName != "" || p.DeletionTimestamp != nil {
		return false
	}
	gaveUp := slices.ContainsFunc(p.Status.Conditions, func(c corev1.PodCondition) bool {
		return c.Type == corev1.PodScheduled && c.Status == corev1.ConditionFalse && c.Reason == corev1.PodReasonUnschedulable
	})
	return gaveUp && !slices.ContainsFunc(p.OwnerReferences, func(o metav1.OwnerReference) bool {
		return o.Kind == "DaemonSet" && o.APIVersion == "apps/v1" || o.Kind == "Node" && o.APIVersion == "v1"
	})
}

func mountsVolumes(p *corev1.Pod) bool {
	return slices.ContainsFunc(p.Spec.Volumes, func(v corev1.Volume) bool { return v.PersistentVolumeClaim != nil || v.Ephemeral != nil })
}

// protectedTemporarily reports whether a pod's protection ends by itself.
func protectedTemporarily(p *corev1.Pod) bool {
	value, set := p.Annotations[karpv1.AnnotationDoNotDisrupt]
	return set && value != "true"
}

// noteDaemonPod records the newest pod of each DaemonSet (SC-22).
func (s *Store) noteDaemonPod(pod *corev1.Pod) {
	owner := daemonSetOf(pod)
	if owner == nil {
		return
	}
	d := s.daemons[owner.UID]
	if d == nil {
		d = &daemon{pods: map[podKey]*corev1.Pod{}}
		s.daemons[owner.UID] = d
	}
	d.pods[keyOf(pod)] = pod
	if d.newest == nil || keyOf(d.newest) == keyOf(pod) || newer(pod, d.newest) {
		d.newest = pod
	}
}

func (s *Store) dropDaemonPod(pod *corev1.Pod) {
	owner := daemonSetOf(pod)
	if owner == nil || s.daemons[owner.UID] == nil {
		return
	}
	d := s.daemons[owner.UID]
	delete(d.pods, keyOf(pod))
	if d.newest != nil && keyOf(d.newest) == keyOf(pod) {
		d.newest = nil
		// any order: newer says which of any two
		for _, other := range d.pods {
			if d.newest == nil || newer(other, d.newest) {
				d.newest = other
			}
		}
	}
	if d.set == nil && len(d.pods) == 0 {
		delete(s.daemons, owner.UID)
	}
}

func newer(a, b *corev1.Pod) bool {
	if !a.CreationTimestamp.Equal(&b.CreationTimestamp) {
		return b.CreationTimestamp.Before(&a.CreationTimestamp)
	}
	return a.Name < b.Name // any order, but always the same
}

func daemonSetOf(p *corev1.Pod) *metav1.OwnerReference {
	for i := range p.OwnerReferences {
		if o := &p.OwnerReferences[i]; o.Kind == "DaemonSet" && o.APIVersion == "apps/v1" {
			return o
		}
	}
	return nil
}

// podsOn lists the pods of a Node.
func (s *Store) podsOn(node string) []*corev1.Pod {
	on := s.onNode[node]
	pods := make([]*corev1.Pod, 0, len(on))
	// any order: the reader sorts them
	for _, slot := range on {
		pods = append(pods, slot.pod)
	}
	return pods
}

// read reads a waiting pod, unless that was done and nothing it depends on changed.
func (s *Store) readPod(slot *podSlot) cluster.Pod {
	if !slot.valid || slot.volumes {
		slot.read, slot.valid = s.reader.Pod(slot.pod, s.volumes), true
	}
	return slot.read
}
