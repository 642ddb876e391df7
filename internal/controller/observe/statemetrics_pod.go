package observe

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	karpv1 "github.com/dovetail-sh/dovetail/api/v1"
	"github.com/dovetail-sh/dovetail/internal/cluster"
	"github.com/dovetail-sh/dovetail/internal/store"
)

// podState is a pod and its progress towards a node.
type podState struct {
	pod       *corev1.Pod
	resources []podResource // counted on its node; nil: not counted
	bound     bool          // was bound, now or before
	started   bool          // was ready, now or before
	decided   bool          // a plan was made with it
	seen      time.Time
	placeable time.Time
}

// takePod follows one pod. Of pods that were there before us, what happened before is not measured.
func (m *StateMetrics) takePod(obj client.Object, gone, first bool) {
	pod, key := obj.(*corev1.Pod), client.ObjectKeyFromObject(obj)
	state := m.pods[key]
	if state != nil {
		m.uncount(state)
		if gone || state.pod.UID != pod.UID {
			delete(m.pods, key)
			state = nil
		}
	}
	if gone {
		return
	}
	if state == nil {
		state = &podState{bound: first && pod.Spec.NodeName != "", started: first && readyCondition(pod) != nil}
		m.pods[key] = state
	}
	state.pod = pod
	if state.seen.IsZero() && store.Provisionable(pod) {
		state.seen = m.Now()
	}
	m.progress(state)
	if pod.Spec.NodeName != "" && !cluster.PodEnded(pod) {
		state.resources = resourcesOf(pod)
		m.nodeOf(pod.Spec.NodeName).count(state.resources, isDaemonPod(pod), 1)
	}
}

func (m *StateMetrics) uncount(state *podState) {
	if state.resources == nil {
		return
	}
	name := state.pod.Spec.NodeName
	node := m.nodeOf(name)
	node.count(state.resources, isDaemonPod(state.pod), -1)
	state.resources = nil
	m.dropNode(name, node)
}

// progress measures what took how long, once it is over.
func (m *StateMetrics) progress(state *podState) {
	pod, dynamic := state.pod, strconv.FormatBool(len(state.pod.Spec.ResourceClaims) > 0)
	if pod.Spec.NodeName != "" && !state.bound {
		state.bound = true
		at := m.Now()
		if c := conditionOfPod(pod, corev1.PodScheduled); c != nil && c.Status == corev1.ConditionTrue {
			at = c.LastTransitionTime.Time
		}
		m.Metrics.PodsBoundDuration.WithLabelValues(dynamic).Observe(elapsed(pod.CreationTimestamp.Time, at))
		if !state.placeable.IsZero() {
			m.Metrics.PodsProvisioningBoundDuration.WithLabelValues(dynamic).Observe(elapsed(state.placeable, at))
		}
	}
	if c := readyCondition(pod); c != nil && !state.started {
		state.started = true
		m.Metrics.PodsStartupDuration.WithLabelValues().Observe(elapsed(pod.CreationTimestamp.Time, c.LastTransitionTime.Time))
		if !state.placeable.IsZero() {
			m.Metrics.PodsProvisioningStartupDuration.WithLabelValues().Observe(elapsed(state.placeable, c.LastTransitionTime.Time))
		}
	}
}

// elapsed is never negative: API times are whole seconds, ours are not.
func elapsed(from, to time.Time) float64 { return max(to.Sub(from).Seconds(), 0) }

func (s *scrape) pod(state *podState, node *nodeState) {
	pod := state.pod
	labels := func(key string) string { return pod.Spec.NodeSelector[key] } // where it wants to be
	ours := false
	if node != nil && node.node != nil {
		labels = func(key string) string { return node.node.Labels[key] } // where it is
		ours = isOurs(node.node)
	}
	s.add(s.set.PodsState, 1,
		pod.Name, pod.Namespace, ownerPath(pod), pod.Spec.NodeName, strconv.FormatBool(pod.Spec.NodeName != ""),
		labels(karpv1.LabelNodePool), labels(corev1.LabelTopologyZone), labels(corev1.LabelArchStable),
		labels(karpv1.LabelCapacityType), labels(corev1.LabelInstanceTypeStable),
		string(pod.Status.Phase), strconv.FormatBool(readyCondition(pod) != nil), strconv.FormatBool(ours))
	if cluster.PodEnded(pod) {
		return
	}
	dynamic := strconv.FormatBool(len(pod.Spec.ResourceClaims) > 0)
	if !state.bound {
		s.add(s.set.PodsUnboundTime, s.since(pod.CreationTimestamp.Time), pod.Name, pod.Namespace, dynamic)
		if !state.placeable.IsZero() {
			s.add(s.set.PodsProvisioningUnboundTime, s.since(state.placeable), pod.Name, pod.Namespace, dynamic)
		}
		if !state.seen.IsZero() && !state.decided {
			s.add(s.set.PodsProvisioningUndecidedTime, s.since(state.seen), pod.Name, pod.Namespace)
		}
	}
	if !state.started {
		s.add(s.set.PodsUnstartedTime, s.since(pod.CreationTimestamp.Time), pod.Name, pod.Namespace)
		if !state.placeable.IsZero() {
			s.add(s.set.PodsProvisioningUnstartedTime, s.since(state.placeable), pod.Name, pod.Namespace)
		}
	}
}

// ownerPath is the API path of the controller of a pod.
func ownerPath(pod *corev1.Pod) string {
	owner := metav1.GetControllerOf(pod)
	if owner == nil {
		return ""
	}
	return fmt.Sprintf("/apis/%s/namespaces/%s/%ss/%s", owner.APIVersion, pod.Namespace, strings.ToLower(owner.Kind), owner.Name)
}

func isDaemonPod(pod *corev1.Pod) bool {
	owner := metav1.GetControllerOf(pod)
	return owner != nil && owner.Kind == "DaemonSet"
}

func conditionOfPod(pod *corev1.Pod, name corev1.PodConditionType) *corev1.PodCondition {
	for i := range pod.Status.Conditions {
		if pod.Status.Conditions[i].Type == name {
			return &pod.Status.Conditions[i]
		}
	}
	return nil
}

// readyCondition is the condition of a pod that is ready, or nil.
func readyCondition(pod *corev1.Pod) *corev1.PodCondition {
	if c := conditionOfPod(pod, corev1.PodReady); c != nil && c.Status == corev1.ConditionTrue {
		return c
	}
	return nil
}
