package cluster

import (
	"time"

	corev1 "k8s.io/api/core/v1"
)

// stuckAfter is how long past the end of its grace a pod is still waited for (LC-29).
const stuckAfter = time.Minute

// DrainWaits reports whether the end of a node waits for a pod (LC-29): it runs or ends in time, and the
// taint would have kept it away. DaemonSet pods count.
func DrainWaits(p *corev1.Pod, taint corev1.Taint, now time.Time) bool {
	return !PodEnded(p) && !LeftBehind(p, taint, now)
}

// LeftBehind reports whether a pod is left on its node by a drain although it may still run.
func LeftBehind(p *corev1.Pod, taint corev1.Taint, now time.Time) bool {
	return mirror(p) || tolerates(p, taint) || p.DeletionTimestamp != nil && now.After(p.DeletionTimestamp.Add(stuckAfter))
}

// mirror reports whether the kubelet runs the pod from a file: deleting it has no effect.
func mirror(p *corev1.Pod) bool {
	_, marked := p.Annotations[corev1.MirrorPodAnnotationKey]
	return marked || ownersOf(p).node
}

func tolerates(p *corev1.Pod, taint corev1.Taint) bool {
	for i := range p.Spec.Tolerations {
		t := &p.Spec.Tolerations[i]
		switch {
		case t.Effect != "" && t.Effect != taint.Effect, t.Key != "" && t.Key != taint.Key:
		case t.Operator == corev1.TolerationOpExists:
			return true
		case (t.Operator == "" || t.Operator == corev1.TolerationOpEqual) && t.Key != "" && t.Value == taint.Value:
			return true
		}
	}
	return false
}
