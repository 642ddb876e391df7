package store

import (
	"maps"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"

	"github.com/dovetail-sh/dovetail/internal/cluster"
)

// owners knows the Services and the controllers of pods. It is only fed when the cluster has default
// spread constraints, whose selector follows from them (SC-37).
type owners struct {
	services  map[string]map[string]map[string]string // namespace, name: selector
	selectors map[types.UID]*metav1.LabelSelector     // of ReplicaSets, StatefulSets and ReplicationControllers
}

func newOwners() owners {
	return owners{services: map[string]map[string]map[string]string{}, selectors: map[types.UID]*metav1.LabelSelector{}}
}

// setService stores a Service; nil removes it.
func (o owners) setService(key podKey, svc *corev1.Service) {
	if svc == nil || len(svc.Spec.Selector) == 0 {
		delete(o.services[key.Namespace], key.Name)
		return
	}
	if o.services[key.Namespace] == nil {
		o.services[key.Namespace] = map[string]map[string]string{}
	}
	o.services[key.Namespace][key.Name] = svc.Spec.Selector
}

// setController stores a controller of pods.
func (o owners) setController(obj metav1.Object, gone bool) {
	if gone {
		delete(o.selectors, obj.GetUID())
		return
	}
	switch c := obj.(type) {
	case *appsv1.ReplicaSet:
		o.selectors[c.UID] = c.Spec.Selector
	case *appsv1.StatefulSet:
		o.selectors[c.UID] = c.Spec.Selector
	case *corev1.ReplicationController:
		o.selectors[c.UID] = &metav1.LabelSelector{MatchLabels: c.Spec.Selector}
	}
}

// selectorOf is the selector of the default constraints of a pod, as kube-scheduler deduces it: the combined
// selectors of the Services that select the pod and of its controller.
func (o owners) selectorOf(p *corev1.Pod) cluster.Selector {
	merged := metav1.LabelSelector{MatchLabels: map[string]string{}}
	// any order: they agree, since each matches the labels of the pod
	for _, selector := range o.services[p.Namespace] {
		if labels.SelectorFromSet(selector).Matches(labels.Set(p.Labels)) {
			maps.Copy(merged.MatchLabels, selector)
		}
	}
	if ref := metav1.GetControllerOf(p); ref != nil {
		if s := o.selectors[ref.UID]; s != nil {
			maps.Copy(merged.MatchLabels, s.MatchLabels)
			merged.MatchExpressions = s.MatchExpressions
		}
	}
	if len(merged.MatchLabels)+len(merged.MatchExpressions) == 0 {
		return cluster.Selector{}
	}
	selector, err := cluster.NewSelector(&merged)
	if err != nil {
		return cluster.Selector{}
	}
	return selector
}
