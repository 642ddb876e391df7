package fakenode

import (
	"context"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// syncPod looks at one bound pod. Pods of nodes that are not ours, or whose kubelet is dead, stay as
// they are.
func (s *Simulator) syncPod(ctx context.Context, key string) (time.Duration, error) {
	namespace, name, err := cache.SplitMetaNamespaceKey(key)
	if err != nil {
		return 0, err
	}
	p, err := s.pods.Pods(namespace).Get(name)
	if err != nil {
		return 0, client.IgnoreNotFound(err)
	}
	m, ok := s.kubelet(p.Spec.NodeName)
	if !ok || !m.alive {
		return 0, nil
	}
	now := time.Now()
	d := s.decidePod(p, m.ready, now)
	if d.action == podNothing {
		return d.after, nil
	}
	if d.action == podStart {
		attached, err := s.attached(ctx, p)
		if err != nil || !attached {
			return 250 * time.Millisecond, err
		}
	}
	return d.after, ignoreNotFound(s.act(ctx, p, m.instance, d.action, metav1.NewTime(now)))
}

func (s *Simulator) act(ctx context.Context, p *corev1.Pod, i Instance, action podAction, now metav1.Time) error {
	var status map[string]any
	switch action {
	case podNothing:
		return nil
	case podStart:
		ip := i.PrivateIP
		if !p.Spec.HostNetwork {
			if ip = p.Status.PodIP; ip == "" {
				ip = s.addresses.take(p.UID)
			}
		}
		status = startStatus(p, i.PrivateIP, ip, now)
	case podReady:
		status = map[string]any{"conditions": podConditions(p, true, now)}
	case podRestart:
		status = restartStatus(p, now)
	case podSucceed:
		status = endStatus(p, corev1.PodSucceeded, 0, now)
	case podFail:
		status = endStatus(p, corev1.PodFailed, 1, now)
	case podEnd:
		// SIGTERM ends a simulated process in order; who restarts for ever has still failed.
		phase := corev1.PodSucceeded
		if p.Spec.RestartPolicy == corev1.RestartPolicyAlways || p.Status.Phase == corev1.PodPending {
			phase = corev1.PodFailed
		}
		if err := s.patchPod(ctx, p, endStatus(p, phase, 0, now)); err != nil {
			return err
		}
		return s.removePod(ctx, p)
	case podRemove:
		return s.removePod(ctx, p)
	}
	return s.patchPod(ctx, p, status)
}

func (s *Simulator) removePod(ctx context.Context, p *corev1.Pod) error {
	return s.Client.CoreV1().Pods(p.Namespace).Delete(ctx, p.Name, metav1.DeleteOptions{
		GracePeriodSeconds: new(int64(0)), Preconditions: metav1.NewUIDPreconditions(string(p.UID)),
	})
}

func (s *Simulator) patchPod(ctx context.Context, p *corev1.Pod, status map[string]any) error {
	body := patch(map[string]any{"metadata": map[string]any{"uid": p.UID}, "status": status})
	_, err := s.Client.CoreV1().Pods(p.Namespace).Patch(ctx, p.Name, types.StrategicMergePatchType, body, metav1.PatchOptions{}, "status")
	return err
}

func startStatus(p *corev1.Pod, hostIP, ip string, now metav1.Time) map[string]any {
	status := map[string]any{
		"phase": corev1.PodRunning, "startTime": now,
		"podIP": ip, "podIPs": []corev1.PodIP{{IP: ip}},
		"conditions": podConditions(p, true, now), "containerStatuses": running(p.Spec.Containers, nil, now),
	}
	if hostIP != "" {
		status["hostIP"], status["hostIPs"] = hostIP, []corev1.HostIP{{IP: hostIP}}
	}
	if len(p.Spec.InitContainers) > 0 {
		status["initContainerStatuses"] = initStatuses(p, true, now)
	}
	return status
}

// initStatuses are those of init containers: each has completed, or runs on as a sidecar.
func initStatuses(p *corev1.Pod, alive bool, now metav1.Time) []corev1.ContainerStatus {
	var list []corev1.ContainerStatus
	for _, c := range p.Spec.InitContainers {
		if alive && c.RestartPolicy != nil && *c.RestartPolicy == corev1.ContainerRestartPolicyAlways {
			list = append(list, running([]corev1.Container{c}, nil, now)...)
			continue
		}
		list = append(list, corev1.ContainerStatus{
			Name: c.Name, Image: c.Image, ImageID: c.Image, Ready: true, Started: new(false),
			State: exited(0, now, now),
		})
	}
	return list
}

func running(containers []corev1.Container, before []corev1.ContainerStatus, now metav1.Time) []corev1.ContainerStatus {
	var list []corev1.ContainerStatus
	for _, c := range containers {
		status := corev1.ContainerStatus{
			Name: c.Name, Image: c.Image, ImageID: c.Image, ContainerID: "containerd://" + c.Name, Ready: true, Started: new(true),
			State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{StartedAt: now}},
		}
		for _, b := range before {
			if b.Name == c.Name {
				status.RestartCount = b.RestartCount + 1
			}
		}
		list = append(list, status)
	}
	return list
}

func exited(code int32, started, now metav1.Time) corev1.ContainerState {
	reason := "Completed"
	if code != 0 {
		reason = "Error"
	}
	return corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{
		ExitCode: code, Reason: reason, StartedAt: started, FinishedAt: now,
	}}
}

func restartStatus(p *corev1.Pod, now metav1.Time) map[string]any {
	list := running(p.Spec.Containers, p.Status.ContainerStatuses, now)
	_, code, _ := Options{}.ends(p)
	for i := range list {
		list[i].LastTerminationState = exited(code, metav1.NewTime(runningSince(p)), now)
	}
	return map[string]any{"containerStatuses": list, "conditions": podConditions(p, true, now)}
}

func endStatus(p *corev1.Pod, phase corev1.PodPhase, code int32, now metav1.Time) map[string]any {
	var list []any
	for _, c := range p.Spec.Containers {
		status := corev1.ContainerStatus{
			Name: c.Name, Image: c.Image, ImageID: c.Image, Started: new(false),
			State: exited(code, metav1.NewTime(runningSince(p)), now),
		}
		for _, b := range p.Status.ContainerStatuses {
			if b.Name == c.Name {
				status.RestartCount = b.RestartCount
			}
		}
		list = append(list, status)
	}
	status := map[string]any{
		"phase": phase, "conditions": podConditions(p, false, now), "containerStatuses": list,
	}
	if len(p.Spec.InitContainers) > 0 {
		status["initContainerStatuses"] = initStatuses(p, false, now)
	}
	return status
}

// podConditions of a pod whose containers all run, or all do not. Those that are so already keep their
// time.
func podConditions(p *corev1.Pod, alive bool, now metav1.Time) []corev1.PodCondition {
	reason := ""
	if !alive {
		reason = "PodCompleted"
	}
	var list []corev1.PodCondition
	set := func(kind corev1.PodConditionType, value bool, reason string) {
		c := corev1.PodCondition{Type: kind, Status: corev1.ConditionFalse, Reason: reason, LastTransitionTime: now}
		if value {
			c.Status, c.Reason = corev1.ConditionTrue, ""
		}
		for _, old := range p.Status.Conditions {
			if old.Type == kind && old.Status == c.Status {
				c.LastTransitionTime = old.LastTransitionTime
			}
		}
		list = append(list, c)
	}
	set(corev1.PodReadyToStartContainers, alive, reason)
	set(corev1.PodInitialized, true, "")
	set(corev1.ContainersReady, alive, reason)
	if alive {
		reason = "ReadinessGatesNotReady"
	}
	set(corev1.PodReady, alive && gatesOpen(p), reason)
	return list
}
