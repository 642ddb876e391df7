package fakenode

import (
	"context"
	"fmt"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// resizeRetry is how often a resize for which there is no room is tried again.
const resizeRetry = 2 * time.Second

// syncPod looks at one bound pod. Pods of nodes that are not ours, or whose kubelet is dead, stay as
// they are.
func (s *Simulator) syncPod(ctx context.Context, key string) (time.Duration, error) {
	namespace, name, err := cache.SplitMetaNamespaceKey(key)
	if err != nil {
		return 0, err
	}
	p, err := s.pods.Pods(namespace).Get(name)
	if err != nil {
		s.abandonPod(key)
		return 0, client.IgnoreNotFound(err)
	}
	m, ok := s.machineOfNode(p.Spec.NodeName)
	if !ok || !m.alive {
		if !ok || m.instance.State != stateRunning { // else only the kubelet is dead
			s.abandonPod(key)
		}
		return 0, nil
	}
	now, retry := time.Now(), time.Duration(0)
	switch alive := p.DeletionTimestamp == nil; {
	case alive && m.ready && p.Status.Phase == corev1.PodPending:
		refused, err := s.admitPod(ctx, p, m)
		if err != nil {
			return 0, err
		}
		if refused != nil {
			if s.room.markRefused(p) {
				s.recordWarning(ctx, p, refused.reason, refused.message)
			}
			return 0, ignoreNotFound(s.patchPod(ctx, p, refused.status()))
		}
	case alive && p.Status.Phase == corev1.PodRunning && wantsResize(p):
		// Room may come when other pods end, which is looked at from time to time.
		if changed, err := s.resizePod(ctx, p, m, metav1.NewTime(now)); changed || err != nil {
			return resizeRetry, ignoreNotFound(err)
		}
		retry = resizeRetry
	}
	if s.runnableContainer(p) != "" {
		return s.syncRun(ctx, key, p, m)
	}
	d := s.decidePod(p, m.ready, now)
	d.after = shorterWait(d.after, retry)
	if d.action == podNothing {
		return d.after, nil
	}
	if d.action == podStart {
		attached, err := s.volumesAttached(p)
		if err != nil || !attached {
			return 250 * time.Millisecond, err
		}
	}
	return d.after, ignoreNotFound(s.performPodAction(ctx, p, m.instance, d.action, metav1.NewTime(now)))
}

// shorterWait is the smaller of two waits, of which 0 is none.
func shorterWait(a, b time.Duration) time.Duration {
	if a == 0 || b == 0 {
		return a + b
	}
	return min(a, b)
}

func (s *Simulator) performPodAction(ctx context.Context, p *corev1.Pod, i Instance, action podAction, now metav1.Time) error {
	var status map[string]any
	switch action {
	case podNothing:
		return nil
	case podStart:
		status = startStatus(p, i.PrivateIP, s.addressOf(p, i), now)
	case podReady:
		status = map[string]any{"conditions": podConditions(p, true, now)}
	case podRestart:
		status = restartStatus(p, now)
	case podBackOff:
		status = s.backOffStatus(p, now)
		s.recordWarning(ctx, p, "BackOff", "Back-off restarting failed container "+names(p.Spec.Containers)+" in pod "+p.Name+"_"+p.Namespace+"("+string(p.UID)+")")
	case podSucceed:
		status = endStatus(p, corev1.PodSucceeded, 0, now)
	case podFail:
		status = endStatus(p, corev1.PodFailed, 1, now)
	case podEnd:
		// SIGTERM ends a simulated process in order; who restarts forever has still failed.
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

// recordWarning records an event of the kubelet. Errors are ignored, since the pod does not depend on the event.
func (s *Simulator) recordWarning(ctx context.Context, p *corev1.Pod, reason, message string) {
	now := metav1.Now()
	_, err := s.Client.CoreV1().Events(p.Namespace).Create(ctx, &corev1.Event{
		ObjectMeta: metav1.ObjectMeta{GenerateName: p.Name + ".", Namespace: p.Namespace},
		InvolvedObject: corev1.ObjectReference{
			APIVersion: "v1", Kind: "Pod", Namespace: p.Namespace, Name: p.Name, UID: p.UID, ResourceVersion: p.ResourceVersion,
		},
		Type: corev1.EventTypeWarning, Reason: reason, Message: message, FirstTimestamp: now, LastTimestamp: now, Count: 1,
		Source: corev1.EventSource{Component: "kubelet", Host: p.Spec.NodeName}, ReportingController: "kubelet", ReportingInstance: p.Spec.NodeName,
	}, metav1.CreateOptions{})
	if err != nil && ctx.Err() == nil {
		s.Log.Warn("fakenode: event", "pod", p.Namespace+"/"+p.Name, "error", err)
	}
}

func startStatus(p *corev1.Pod, hostIP, ip string, now metav1.Time) map[string]any {
	status := map[string]any{
		"phase": corev1.PodRunning, "startTime": now,
		"podIP": ip, "podIPs": []corev1.PodIP{{IP: ip}},
		"conditions": podConditions(p, true, now), "containerStatuses": runningStatuses(p.Spec.Containers, nil, now),
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
			list = append(list, runningStatuses([]corev1.Container{c}, nil, now)...)
			continue
		}
		list = append(list, corev1.ContainerStatus{
			Name: c.Name, Image: c.Image, ImageID: c.Image, Ready: true, Started: new(false),
			State: exitedState(0, now, now),
		})
	}
	return list
}

func runningStatuses(containers []corev1.Container, before []corev1.ContainerStatus, now metav1.Time) []corev1.ContainerStatus {
	var list []corev1.ContainerStatus
	for _, c := range containers {
		status := corev1.ContainerStatus{
			Name: c.Name, Image: c.Image, ImageID: c.Image, ContainerID: "containerd://" + c.Name, Ready: true, Started: new(true),
			State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{StartedAt: now}},
		}
		setAllocated(&status, c, before)
		for _, b := range before {
			if b.Name == c.Name {
				status.RestartCount = b.RestartCount + 1
			}
		}
		list = append(list, status)
	}
	return list
}

func exitedState(code int32, started, now metav1.Time) corev1.ContainerState {
	reason := "Completed"
	if code != 0 {
		reason = "Error"
	}
	return corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{
		ExitCode: code, Reason: reason, StartedAt: started, FinishedAt: now,
	}}
}

func restartStatus(p *corev1.Pod, now metav1.Time) map[string]any {
	list := runningStatuses(p.Spec.Containers, p.Status.ContainerStatuses, now)
	_, code, _ := Options{}.exitTime(p)
	last := exitedState(code, metav1.NewTime(runningSince(p)), now)
	if ended := backingOff(p); ended != nil {
		last = corev1.ContainerState{Terminated: ended}
	}
	for i := range list {
		list[i].LastTerminationState = last
	}
	return map[string]any{"containerStatuses": list, "conditions": podConditions(p, true, now)}
}

// backOffStatus is that of a pod whose containers ended so often that they wait before they run again.
func (o Options) backOffStatus(p *corev1.Pod, now metav1.Time) map[string]any {
	_, code, _ := Options{}.exitTime(p)
	since := runningSince(p)
	wait := o.backOff(restartCount(p), now.Sub(since))
	var list []corev1.ContainerStatus
	for _, c := range p.Spec.Containers {
		status := corev1.ContainerStatus{
			Name: c.Name, Image: c.Image, ImageID: c.Image, Started: new(false), RestartCount: restartCount(p),
			State: corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{
				Reason:  "CrashLoopBackOff",
				Message: fmt.Sprintf("back-off %s restarting failed container=%s pod=%s_%s(%s)", wait, c.Name, p.Name, p.Namespace, p.UID),
			}},
			LastTerminationState: exitedState(code, metav1.NewTime(since), now),
		}
		setAllocated(&status, c, p.Status.ContainerStatuses)
		list = append(list, status)
	}
	conditions := unreadyConditions(p, podConditions(p, true, now), names(p.Spec.Containers), now)
	return map[string]any{"containerStatuses": list, "conditions": conditions}
}

// unreadyConditions is the list of conditions of a pod in which containers are not.
func unreadyConditions(p *corev1.Pod, conditions []corev1.PodCondition, containers string, now metav1.Time) []corev1.PodCondition {
	for i := range conditions {
		kind, since := conditions[i].Type, now
		if kind != corev1.ContainersReady && kind != corev1.PodReady {
			continue
		}
		for _, old := range p.Status.Conditions {
			if old.Type == kind && old.Status == corev1.ConditionFalse {
				since = old.LastTransitionTime
			}
		}
		conditions[i] = corev1.PodCondition{
			Type: kind, Status: corev1.ConditionFalse, Reason: "ContainersNotReady", LastTransitionTime: since,
			Message: "containers with unready status: [" + containers + "]",
		}
	}
	return conditions
}

func names(containers []corev1.Container) string {
	var list []string
	for _, c := range containers {
		list = append(list, c.Name)
	}
	return strings.Join(list, " ")
}

func endStatus(p *corev1.Pod, phase corev1.PodPhase, code int32, now metav1.Time) map[string]any {
	var list []any
	for _, c := range p.Spec.Containers {
		status := corev1.ContainerStatus{
			Name: c.Name, Image: c.Image, ImageID: c.Image, Started: new(false),
			State: exitedState(code, metav1.NewTime(runningSince(p)), now),
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
