package nodes

import (
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/predicate"

	karpv1 "github.com/dovetail-sh/dovetail/api/v1"
	"github.com/dovetail-sh/dovetail/internal/cluster"
)

// podLeft lets through what can bring a drain forward at once: a pod is gone, ended, or is no longer
// protected. Everything else is seen by the next pass of the drain, a second later.
func podLeft() predicate.Predicate {
	return predicate.Funcs{
		CreateFunc:  func(event.CreateEvent) bool { return false },
		GenericFunc: func(event.GenericEvent) bool { return false },
		DeleteFunc:  func(event.DeleteEvent) bool { return true },
		UpdateFunc: func(e event.UpdateEvent) bool {
			before, ok := e.ObjectOld.(*corev1.Pod)
			after, same := e.ObjectNew.(*corev1.Pod)
			if !ok || !same {
				return false
			}
			return cluster.PodEnded(after) && !cluster.PodEnded(before) ||
				before.Annotations[karpv1.AnnotationDoNotDisrupt] != after.Annotations[karpv1.AnnotationDoNotDisrupt]
		},
	}
}
