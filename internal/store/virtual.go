package store

import (
	"cmp"
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/types"

	"github.com/dovetail-sh/dovetail/internal/cluster"
)

// bufferTrigger is what requests a plan on behalf of CapacityBuffers.
const bufferTrigger = types.UID("capacity buffers")

// AddFeed adds a source of facts that is no watch of the Store: it is complete once synced says so.
func (s *Store) AddFeed(kind string, synced func() bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.feeds = append(s.feeds, feed{kind: kind, synced: synced})
}

// SetVirtualPods replaces the pods that CapacityBuffers keep room for. They take part in every snapshot, and in nothing
// else: they are not pending, no node is nominated for them, and nothing waits for them (CB-13). The pods must not change
// afterwards. It reports whether anything changed.
func (s *Store) SetVirtualPods(pods []*corev1.Pod) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	next, changed := make(map[podKey]*podSlot, len(pods)), len(pods) != len(s.virtual)
	known := map[[2]*corev1.Container]bool{} // pods of one buffer share their spec, so each pair of specs is compared once
	for _, pod := range pods {
		key := keyOf(pod)
		if old := s.virtual[key]; old != nil && old.pod.UID == pod.UID && sameTemplate(old.pod, pod, known) {
			next[key] = old
			continue
		}
		changed = true
		s.selects.Note(pod)
		next[key] = &podSlot{pod: pod}
	}
	if !changed {
		return false
	}
	// any order: entries are independent
	for key, old := range s.virtual {
		if slot := next[key]; slot == nil || slot.pod.UID != old.pod.UID {
			delete(s.plannedClaims, key)
		}
	}
	s.virtual = next
	s.revision++
	s.changes++
	return true
}

// VirtualPods returns them, by namespace and name. They must not be changed.
func (s *Store) VirtualPods() []*corev1.Pod {
	s.mu.Lock()
	defer s.mu.Unlock()
	out := make([]*corev1.Pod, 0, len(s.virtual))
	for _, slot := range s.virtual {
		out = append(out, slot.pod)
	}
	slices.SortFunc(out, func(a, b *corev1.Pod) int { return keyOf(a).Compare(keyOf(b)) })
	return out
}

// sameTemplate reports whether two virtual pods mean the same to planning. known has what was found out before.
func sameTemplate(a, b *corev1.Pod, known map[[2]*corev1.Container]bool) bool {
	if len(a.Spec.Containers) == 0 || len(b.Spec.Containers) == 0 {
		return false
	}
	pair := [2]*corev1.Container{&a.Spec.Containers[0], &b.Spec.Containers[0]}
	same, found := known[pair]
	if !found {
		same = equality.Semantic.DeepEqual(a.Spec, b.Spec) && maps.Equal(a.Labels, b.Labels)
		known[pair] = same
	}
	return same
}

// DefaultRequests are the requests that LimitRanges give to containers of a namespace. They must not be changed.
func (s *Store) DefaultRequests(namespace string) corev1.ResourceList {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.defaults[namespace]
}

// RuntimeOverhead is the overhead of the newest pod of a RuntimeClass, which admission gave it; nil if there is none. To read
// the RuntimeClass itself would take a right that nothing else needs.
func (s *Store) RuntimeOverhead(class string) corev1.ResourceList {
	s.mu.Lock()
	defer s.mu.Unlock()
	var newest *corev1.Pod
	// any order: the newest is kept, and of those the first by UID
	for _, slot := range s.pods {
		p := slot.pod
		if p == nil || p.Spec.RuntimeClassName == nil || *p.Spec.RuntimeClassName != class {
			continue
		}
		if newest == nil || cmp.Or(newest.CreationTimestamp.Compare(p.CreationTimestamp.Time), cmp.Compare(p.UID, newest.UID)) < 0 {
			newest = p
		}
	}
	if newest == nil {
		return nil
	}
	return newest.Spec.Overhead
}

// readVirtual reads the virtual pods, in order: those that are planned for, and those that cannot be.
func (s *Store) readVirtual() (pods, invalid []cluster.Pod) {
	if len(s.virtual) == 0 {
		return nil, nil
	}
	// any order: sorted below
	for key, slot := range s.virtual {
		if s.pods[key] != nil {
			continue // a real pod has its name
		}
		pod := s.readPod(slot)
		pod.Virtual = true
		if pod.Shape.Refuses || len(pod.Shape.Invalid) > 0 {
			invalid = append(invalid, pod)
		} else {
			pods = append(pods, pod)
		}
	}
	byKey := func(a, b cluster.Pod) int { return a.Key.Compare(b.Key) }
	slices.SortFunc(pods, byKey)
	slices.SortFunc(invalid, byKey)
	return pods, invalid
}

// requestRefill requests a plan if there are buffers: something changed that may have taken their room.
func (s *Store) requestRefill() {
	if len(s.virtual) > 0 {
		s.opts.Wake(bufferTrigger)
	}
}
