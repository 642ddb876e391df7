package cluster

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// LabelUse is the set of pod label keys that selectors mention. Controllers put a label of its own on
// every pod of a StatefulSet, on every Job and on every ReplicaSet of a Deployment; unless a selector
// looks at it, such a label would only keep equal pods from sharing a shape.
//
// Note every pod of the view first, then read with Keep as ReaderOptions.KeepLabel. A key noted later
// needs a new Reader: shapes read before lack the label.
type LabelUse map[string]bool

// Note adds the keys that the constraints of a pod use.
func (u LabelUse) Note(p *corev1.Pod) {
	for i := range p.Spec.TopologySpreadConstraints {
		c := &p.Spec.TopologySpreadConstraints[i]
		u.NoteSelector(c.LabelSelector)
		for _, key := range c.MatchLabelKeys {
			u[key] = true
		}
	}
	if p.Spec.Affinity == nil {
		return
	}
	if a := p.Spec.Affinity.PodAffinity; a != nil {
		u.noteTerms(a.RequiredDuringSchedulingIgnoredDuringExecution, a.PreferredDuringSchedulingIgnoredDuringExecution)
	}
	if a := p.Spec.Affinity.PodAntiAffinity; a != nil {
		u.noteTerms(a.RequiredDuringSchedulingIgnoredDuringExecution, a.PreferredDuringSchedulingIgnoredDuringExecution)
	}
}

func (u LabelUse) noteTerms(required []corev1.PodAffinityTerm, preferred []corev1.WeightedPodAffinityTerm) {
	for i := range required {
		u.NoteSelector(required[i].LabelSelector)
	}
	for i := range preferred {
		u.NoteSelector(preferred[i].PodAffinityTerm.LabelSelector)
	}
}

// NoteSelector adds the keys of a selector over pods that is not part of a pod, such as the one of a
// default constraint.
func (u LabelUse) NoteSelector(s *metav1.LabelSelector) {
	if s == nil {
		return
	}
	for key := range s.MatchLabels {
		u[key] = true
	}
	for i := range s.MatchExpressions {
		u[s.MatchExpressions[i].Key] = true
	}
}

// Keep reports whether a label must be part of a shape: all but those that controllers number pods
// with, and those too if a selector mentions them.
func (u LabelUse) Keep(key string) bool {
	switch key {
	case "pod-template-hash", "controller-revision-hash", "pod-template-generation",
		"statefulset.kubernetes.io/pod-name", "apps.kubernetes.io/pod-index",
		"batch.kubernetes.io/job-completion-index", "batch.kubernetes.io/job-name", "job-name",
		"batch.kubernetes.io/controller-uid", "controller-uid":
		return u[key]
	default:
		return true
	}
}
