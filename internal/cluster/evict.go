package cluster

import (
	"strconv"

	corev1 "k8s.io/api/core/v1"

	karpv1 "github.com/dovetail-sh/dovetail/api/v1"
)

const labelNodePool = karpv1.LabelNodePool

// owners is what matters of who made a pod.
type owners struct {
	daemonSet   bool
	statefulSet bool
	node        bool // a mirror pod: the kubelet runs it from a file
	controller  bool // a controller creates it again
}

func ownersOf(p *corev1.Pod) owners {
	var own owners
	for i := range p.OwnerReferences {
		ref := &p.OwnerReferences[i]
		own.controller = own.controller || ref.Controller != nil && *ref.Controller
		switch ref.Kind {
		case "DaemonSet":
			own.daemonSet = own.daemonSet || ref.APIVersion == "apps/v1"
		case "StatefulSet":
			own.statefulSet = own.statefulSet || ref.APIVersion == "apps/v1"
		case "Node":
			own.node = own.node || ref.APIVersion == "v1"
		}
	}
	return own
}

// staysOnNode reports whether a pod is not planned elsewhere when its node is removed (3.2): no controller creates it
// again, it runs wherever a node is, or it cannot be evicted yet and so should not cause a surplus node.
func (r *Reader) staysOnNode(p *corev1.Pod, own owners) bool {
	return !own.movesWithNode(p) || r.opts.Evictable != nil && !r.opts.Evictable(p)
}

// Reschedulable reports whether a pod needs another place when its node is removed, be it held by something
// at the moment.
func Reschedulable(p *corev1.Pod) bool { return ownersOf(p).movesWithNode(p) }

// Bare reports whether no controller makes a pod again once it is gone.
func Bare(p *corev1.Pod) bool { return !ownersOf(p).controller }

// movesWithNode is Reschedulable. A pod of a StatefulSet that ends comes back under the same name, so it counts.
func (own owners) movesWithNode(p *corev1.Pod) bool {
	return !own.daemonSet && !own.node && !PodEnded(p) && (p.DeletionTimestamp == nil || own.statefulSet)
}

// PodEnded reports whether the containers of a pod have ended for good.
func PodEnded(p *corev1.Pod) bool {
	return p.Status.Phase == corev1.PodSucceeded || p.Status.Phase == corev1.PodFailed
}

// EvictCost is what evicting a pod costs (V15-52), one for an ordinary pod. managed says that
// pod-deletion-cost is written by the controller and so is not set by the user.
func EvictCost(p *corev1.Pod, managed bool) float64 {
	const (
		perCost, perPriority = 1 << 27, 1 << 25
		most                 = 10
	)
	cost := 1.0
	if len(p.Annotations) > 0 {
		cost += float64(statedCost(p, managed)) / perCost
	}
	cost += float64(priority(p)) / perPriority
	return min(max(cost, -most), most)
}

func priority(p *corev1.Pod) int32 {
	if p.Spec.Priority == nil {
		return 0
	}
	return *p.Spec.Priority
}

// statedCost is the cost the user wrote on a pod; one that cannot be read counts as zero.
func statedCost(p *corev1.Pod, managed bool) int64 {
	text, stated := p.Annotations[karpv1.AnnotationDisruptionCost]
	if !stated && !managed {
		text, stated = p.Annotations[corev1.PodDeletionCost]
	}
	if !stated {
		return 0
	}
	n, err := strconv.ParseInt(text, 10, 32)
	if err != nil {
		return 0
	}
	return n
}
