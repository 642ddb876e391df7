package resources

import (
	"slices"

	corev1 "k8s.io/api/core/v1"
)

// PodRequests returns what a pod takes from a node (SC-11): the larger of what runs together and
// what the hungriest init step needs, then pod-level requests in place of cpu, memory and huge
// pages, then overhead, then one of Pods. Limits never count. A pod of nil requests nothing.
//
// It agrees with PodRequests of k8s.io/component-helpers/resource 0.37 using UseStatusResources,
// except where SC-11 says otherwise; each difference counts more, never less:
//   - A resize takes the maximum per container; the library takes it per pod, over the three sums.
//   - An infeasible resize of a container without status resources counts its spec, not zero.
//   - Each container's request rounds up to whole units before summing, not the sum afterwards.
//
// Status of pod-level resizes and node-allocatable resource claims are not read: the library does so
// only behind gates, and SC-11 does not mention them.
func (t Table) PodRequests(pod *corev1.Pod) Vec {
	if pod == nil {
		return Vec{}
	}
	var running, sidecars, starting, one Vec
	for i := range pod.Spec.Containers {
		one = Vec{}
		t.containerRequests(&one, pod, &pod.Spec.Containers[i])
		if i == 0 {
			running = one
		} else {
			AddTo(&running, &one)
		}
	}
	for i := range pod.Spec.InitContainers {
		container := &pod.Spec.InitContainers[i]
		one = Vec{}
		t.containerRequests(&one, pod, container)
		if isSidecar(container) {
			AddTo(&running, &one)
		}
		// At its turn a container runs beside the sidecars declared before it.
		step := Add(one, sidecars)
		MaxTo(&starting, &step)
		if isSidecar(container) {
			sidecars = step
		}
	}
	MaxTo(&running, &starting)
	if level := pod.Spec.Resources; level != nil {
		t.replace(&running, level.Requests)
	}
	if len(pod.Spec.Overhead) > 0 {
		overhead := t.Requests(pod.Spec.Overhead)
		AddTo(&running, &overhead)
	}
	running.base[Pods] = add(running.base[Pods], 1)
	return running
}

// PodNames returns every resource name that PodRequests may meet in the pods, for Extend.
func PodNames(pods ...*corev1.Pod) []corev1.ResourceName {
	var names []corev1.ResourceName
	for _, pod := range pods {
		if pod == nil {
			continue
		}
		lists := []corev1.ResourceList{pod.Spec.Overhead}
		if pod.Spec.Resources != nil {
			lists = append(lists, pod.Spec.Resources.Requests)
		}
		for _, containers := range [][]corev1.Container{pod.Spec.Containers, pod.Spec.InitContainers} {
			for i := range containers {
				lists = append(lists, containers[i].Resources.Requests)
			}
		}
		for _, statuses := range [][]corev1.ContainerStatus{pod.Status.ContainerStatuses, pod.Status.InitContainerStatuses} {
			for i := range statuses {
				actuated, allocated, _ := statusRequests(&statuses[i])
				lists = append(lists, actuated, allocated)
			}
		}
		names = append(names, Names(lists...)...)
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// containerRequests puts the request of one container into a vector of zeros: what the spec requests, or
// while a resize runs the largest of requested, actuated and allocated. What an infeasible resize requests
// is never granted.
func (t Table) containerRequests(v *Vec, pod *corev1.Pod, container *corev1.Container) {
	actuated, allocated, found := statusRequests(containerStatus(pod, container.Name))
	if !found {
		t.requests(v, container.Resources.Requests)
		return
	}
	t.requests(v, actuated)
	other := t.Requests(allocated)
	MaxTo(v, &other)
	if !resizeInfeasible(pod) {
		spec := t.Requests(container.Resources.Requests)
		MaxTo(v, &spec)
	}
}

// replace puts pod-level requests in place of those summed over containers. Other resources cannot
// be requested for a pod as a whole.
func (t Table) replace(v *Vec, level corev1.ResourceList) {
	// any order: each name has a lane of its own, and integers are added up
	for name, quantity := range level {
		if name == corev1.ResourceCPU || name == corev1.ResourceMemory || isHugePages(name) {
			t.request(v, name, quantity)
		}
	}
}

// statusRequests returns what the kubelet reports for a container; found is false when it reports
// no resources at all.
func statusRequests(status *corev1.ContainerStatus) (actuated, allocated corev1.ResourceList, found bool) {
	if status == nil || (status.Resources == nil && status.AllocatedResources == nil) {
		return nil, nil, false
	}
	if status.Resources != nil {
		actuated = status.Resources.Requests
	}
	return actuated, status.AllocatedResources, true
}

func containerStatus(pod *corev1.Pod, name string) *corev1.ContainerStatus {
	for _, statuses := range [...][]corev1.ContainerStatus{pod.Status.ContainerStatuses, pod.Status.InitContainerStatuses} {
		for i := range statuses {
			if statuses[i].Name == name {
				return &statuses[i]
			}
		}
	}
	return nil
}

func isSidecar(container *corev1.Container) bool {
	return container.RestartPolicy != nil && *container.RestartPolicy == corev1.ContainerRestartPolicyAlways
}

// resizeInfeasible reports whether the kubelet has refused the pod's resize for good.
func resizeInfeasible(pod *corev1.Pod) bool {
	for i := range pod.Status.Conditions {
		if pod.Status.Conditions[i].Type == corev1.PodResizePending {
			return pod.Status.Conditions[i].Reason == corev1.PodReasonInfeasible
		}
	}
	return false
}
