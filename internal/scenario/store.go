package scenario

import (
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/dovetail-sh/dovetail/internal/cluster"
)

// Store is the nodes of a world with the pods bound to them, read. A controller has that at any time: it
// reads what changes when a watch reports it.
type Store struct {
	world    *World
	reader   *cluster.Reader
	nodes    []cluster.Node
	held     map[string]bool // nodes that may not be disrupted, by name
	selected map[string]bool // pod labels that some selector looks at
	left     map[string]bool // pod labels left out of what was read
}

// Store reads the nodes. The Store and what is made from it belong to one goroutine.
func (w *World) Store() *Store {
	selected := map[string]bool{}
	for i := range w.Places {
		for _, p := range w.Places[i].Pods {
			addSelected(selected, &p.Spec)
		}
	}
	return w.store(selected)
}

func (w *World) store(selected map[string]bool) *Store {
	s := &Store{world: w, selected: selected, left: map[string]bool{}, held: map[string]bool{}, nodes: make([]cluster.Node, 0, len(w.Places))}
	s.reader = cluster.NewReader(w.Words, cluster.ReaderOptions{Resources: w.Lanes, KeepLabel: s.isSelected})
	for i := range w.Places {
		s.nodes = append(s.nodes, s.reader.Node(w.Places[i]))
		if isProtected(&w.Places[i], w.Now) {
			s.held[w.Places[i].Node.Name] = true
		}
	}
	return s
}

// isSelected says whether any selector looks at a label. One that none looks at cannot matter, and pods that
// differ in nothing else are alike.
func (s *Store) isSelected(label string) bool {
	if s.selected[label] {
		return true
	}
	s.left[label] = true
	return false
}

// withLabelsOf returns the Store with the labels that further pods look at. If pods that were read have
// such a label all are read again, as they would have to be by a controller.
func (s *Store) withLabelsOf(pods []*corev1.Pod) *Store {
	more := map[string]bool{}
	for _, p := range pods {
		addSelected(more, &p.Spec)
	}
	again := false
	for label := range more {
		again = again || s.left[label] && !s.selected[label]
	}
	if again {
		maps.Copy(more, s.selected)
		return s.world.store(more)
	}
	maps.Copy(s.selected, more)
	return s
}

func addSelected(keys map[string]bool, spec *corev1.PodSpec) {
	add := func(s *metav1.LabelSelector, more []string) {
		for _, key := range more {
			keys[key] = true
		}
		if s == nil {
			return
		}
		for key := range s.MatchLabels {
			keys[key] = true
		}
		for i := range s.MatchExpressions {
			keys[s.MatchExpressions[i].Key] = true
		}
	}
	for i := range spec.TopologySpreadConstraints {
		add(spec.TopologySpreadConstraints[i].LabelSelector, spec.TopologySpreadConstraints[i].MatchLabelKeys)
	}
	if spec.Affinity == nil {
		return
	}
	each := func(required []corev1.PodAffinityTerm, preferred []corev1.WeightedPodAffinityTerm) {
		for i := range required {
			add(required[i].LabelSelector, slices.Concat(required[i].MatchLabelKeys, required[i].MismatchLabelKeys))
		}
		for i := range preferred {
			t := &preferred[i].PodAffinityTerm
			add(t.LabelSelector, slices.Concat(t.MatchLabelKeys, t.MismatchLabelKeys))
		}
	}
	if a := spec.Affinity.PodAffinity; a != nil {
		each(a.RequiredDuringSchedulingIgnoredDuringExecution, a.PreferredDuringSchedulingIgnoredDuringExecution)
	}
	if a := spec.Affinity.PodAntiAffinity; a != nil {
		each(a.RequiredDuringSchedulingIgnoredDuringExecution, a.PreferredDuringSchedulingIgnoredDuringExecution)
	}
}
