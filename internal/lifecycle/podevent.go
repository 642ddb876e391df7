package lifecycle

import (
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	karpv1 "github.com/dovetail-sh/dovetail/api/v1"
	"github.com/dovetail-sh/dovetail/internal/cluster"
)

// podEventGap is the time within which pod events are one (LC-56).
const podEventGap = 10 * time.Second

// PodEvent is the last time a pod came to its node, ended, or began to end; zero for pods that do not
// count. It is read from the pod alone, so that seeing all pods anew after a restart changes nothing
// (FM C08), and what happened meanwhile is not lost.
func PodEvent(pod *corev1.Pod) time.Time {
	daemon := func(o metav1.OwnerReference) bool { return o.APIVersion == "apps/v1" && o.Kind == "DaemonSet" }
	if pod.Spec.NodeName == "" || slices.ContainsFunc(pod.OwnerReferences, daemon) {
		return time.Time{}
	}
	return latest(podBoundAt(pod), podEndedAt(pod), deletionRequestedAt(pod))
}

// PodRemoved is the time of the event that a pod does not exist any more; zero for pods that do not count. One that
// ended or whose deletion was requested has had its event; one that was deleted without grace has not.
func PodRemoved(pod *corev1.Pod, now time.Time) time.Time {
	at := PodEvent(pod)
	if !at.IsZero() && pod.DeletionTimestamp == nil && !cluster.PodEnded(pod) {
		return now
	}
	return at
}

// PodEvents are the latest pod events of nodes. The zero value has none.
type PodEvents struct {
	last    map[string]time.Time // by node, written or not
	written map[string]time.Time // by node: the claim as it is read may not show it yet
}

// Record records an event of a node, and reports whether it is later than all before, so that it may be due.
func (e *PodEvents) Record(node string, at time.Time) (later bool) {
	if !at.After(e.last[node]) {
		return false
	}
	if e.last == nil {
		e.last = map[string]time.Time{}
	}
	e.last[node] = at
	return true
}

// Due says whether the latest event of a node is to be written on its claim, and as which time. A time in the future is a clock
// that is ahead.
func (e *PodEvents) Due(node string, claim *karpv1.NodeClaim, now time.Time) (at time.Time, due bool) {
	if at = e.last[node]; at.After(now) {
		at = now
	}
	return at, !at.IsZero() && at.Sub(latest(claim.Status.LastPodEventTime.Time, e.written[node])) >= podEventGap
}

// Written records what was written on the claim of a node.
func (e *PodEvents) Written(node string, at time.Time) {
	if e.written == nil {
		e.written = map[string]time.Time{}
	}
	e.written[node] = at
}

// Drop drops a node that is gone.
func (e *PodEvents) Drop(node string) {
	delete(e.last, node)
	delete(e.written, node)
}

// LosesNomination reports whether a pod lost its nomination for a node without being bound: the scheduler tried the node
// before it accepts pods, so that the pod has to be nominated again.
func LosesNomination(before, after *corev1.Pod) bool {
	return before.Status.NominatedNodeName != "" && after.Status.NominatedNodeName == "" && after.Spec.NodeName == ""
}

func podBoundAt(pod *corev1.Pod) time.Time {
	if t := conditionChangedAt(pod, corev1.PodScheduled); !t.IsZero() {
		return t
	}
	if pod.Status.StartTime != nil {
		return pod.Status.StartTime.Time
	}
	return pod.CreationTimestamp.Time
}

// podEndedAt is when the last container of a pod that has ended did so.
func podEndedAt(pod *corev1.Pod) time.Time {
	if !cluster.PodEnded(pod) {
		return time.Time{}
	}
	var last time.Time
	for _, s := range pod.Status.ContainerStatuses {
		if s.State.Terminated != nil {
			last = latest(last, s.State.Terminated.FinishedAt.Time)
		}
	}
	return latest(last, conditionChangedAt(pod, corev1.PodReady), conditionChangedAt(pod, corev1.ContainersReady))
}

// deletionRequestedAt is when the deletion of a pod was requested: its deletionTimestamp is that plus the grace period.
func deletionRequestedAt(pod *corev1.Pod) time.Time {
	if pod.DeletionTimestamp == nil {
		return time.Time{}
	}
	requested := pod.DeletionTimestamp.Time
	if grace := pod.DeletionGracePeriodSeconds; grace != nil {
		requested = requested.Add(-time.Duration(*grace) * time.Second)
	}
	return requested
}

func conditionChangedAt(pod *corev1.Pod, name corev1.PodConditionType) time.Time {
	for _, c := range pod.Status.Conditions {
		if c.Type == name {
			return c.LastTransitionTime.Time
		}
	}
	return time.Time{}
}

func latest(times ...time.Time) time.Time { return slices.MaxFunc(times, time.Time.Compare) }
