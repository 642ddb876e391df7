package cluster

import (
	"time"

	corev1 "k8s.io/api/core/v1"

	karpv1 "github.com/dovetail-sh/dovetail/api/v1"
)

// DoNotDisrupt reports whether a pod's annotation is in force now.
func DoNotDisrupt(p *corev1.Pod, now time.Time) bool { return PodProtectedBy(p, now) != "" }

// PodProtectedBy names the annotation that keeps a pod where it is: do-not-disrupt with "true" or with a
// duration since the pod started that has not passed (disruption 7), or a deprecated one with "true" (LC-62).
// Anything else means nothing.
func PodProtectedBy(p *corev1.Pod, now time.Time) string {
	if key := ProtectedBy(p.Annotations); key != "" {
		return key
	}
	d, err := time.ParseDuration(p.Annotations[karpv1.AnnotationDoNotDisrupt])
	if err != nil || d <= 0 || p.Status.StartTime != nil && now.Sub(p.Status.StartTime.Time) >= d {
		return ""
	}
	return karpv1.AnnotationDoNotDisrupt
}

// ProtectedBy names the annotation by which a Node or a NodePool protects nodes from voluntary disruption; empty:
// none does. Durations are for pods only (disruption 5).
func ProtectedBy(annotations map[string]string) string {
	for _, key := range [...]string{karpv1.AnnotationDoNotDisrupt, karpv1.AnnotationDoNotEvict, karpv1.AnnotationDoNotConsolidate} {
		if annotations[key] == "true" {
			return key
		}
	}
	return ""
}

// NodeProtectedBy returns why a node may not be disrupted voluntarily: an annotation of the Node, or of its NodePool
// (L-15, LC-62); empty if none forbids it. An object that is not known is nil and forbids nothing.
func NodeProtectedBy(node *corev1.Node, pool *karpv1.NodePool) string {
	if node != nil {
		if key := ProtectedBy(node.Annotations); key != "" {
			return "node " + node.Name + " carries annotation " + key
		}
	}
	if pool != nil {
		if key := ProtectedBy(pool.Annotations); key != "" {
			return "NodePool " + pool.Name + " carries annotation " + key
		}
	}
	return ""
}
