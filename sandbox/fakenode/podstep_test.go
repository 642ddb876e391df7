package fakenode

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func TestDecidePod(t *testing.T) {
	t.Parallel()
	now := epoch
	ago := func(d time.Duration) metav1.Time { return metav1.NewTime(now.Add(-d)) }
	pod := func(phase corev1.PodPhase, annotations ...string) *corev1.Pod {
		p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Annotations: map[string]string{}, CreationTimestamp: ago(time.Minute)}}
		p.Spec.RestartPolicy = corev1.RestartPolicyNever
		p.Status.Phase = phase
		p.Status.Conditions = []corev1.PodCondition{
			{Type: corev1.PodScheduled, Status: corev1.ConditionTrue, LastTransitionTime: ago(2 * time.Second)},
			{Type: corev1.PodReady, Status: corev1.ConditionTrue},
		}
		p.Status.ContainerStatuses = []corev1.ContainerStatus{{State: corev1.ContainerState{
			Running: &corev1.ContainerStateRunning{StartedAt: ago(10 * time.Second)},
		}}}
		for i := 0; i+1 < len(annotations); i += 2 {
			p.Annotations[annotations[i]] = annotations[i+1]
		}
		return p
	}
	with := func(p *corev1.Pod, edit func(*corev1.Pod)) *corev1.Pod { edit(p); return p }
	// deleted requested it d ago.
	deleted := func(p *corev1.Pod, d, grace time.Duration) *corev1.Pod {
		at := metav1.NewTime(now.Add(grace - d))
		p.DeletionTimestamp, p.DeletionGracePeriodSeconds = &at, new(int64(grace/time.Second))
		return p
	}
	always := func(p *corev1.Pod) { p.Spec.RestartPolicy = corev1.RestartPolicyAlways }
	finalizer := func(p *corev1.Pod) { p.Finalizers = []string{"job"} }
	const s = time.Second
	for name, tc := range map[string]struct {
		pod   *corev1.Pod
		down  bool // the node is not Ready
		want  podStep
		tasks time.Duration
	}{
		"starts":                   {pod: pod(corev1.PodPending), want: podStep{action: podStart}},
		"starts when the node is":  {pod: pod(corev1.PodPending), down: true},
		"starts later":             {pod: pod(corev1.PodPending, StartAfterAnnotation, "5s"), want: podStep{after: 3 * s}},
		"a bad annotation is none": {pod: pod(corev1.PodPending, StartAfterAnnotation, "soon"), want: podStep{action: podStart}},
		"runs for ever":            {pod: pod(corev1.PodRunning)},
		"runs on an unready node":  {pod: pod(corev1.PodRunning), down: true},
		"will complete":            {pod: pod(corev1.PodRunning, CompleteAfterAnnotation, "15s"), want: podStep{after: 5 * s}},
		"completes":                {pod: pod(corev1.PodRunning, CompleteAfterAnnotation, "5s"), want: podStep{action: podSucceed}},
		"fails":                    {pod: pod(corev1.PodRunning, FailAfterAnnotation, "5s"), want: podStep{action: podFail}},
		"restarts":                 {pod: with(pod(corev1.PodRunning, CompleteAfterAnnotation, "5s"), always), want: podStep{action: podRestart}},
		"waits before it restarts": {
			pod:  with(with(pod(corev1.PodRunning, FailAfterAnnotation, "5s"), always), func(p *corev1.Pod) { p.Status.ContainerStatuses[0].RestartCount = 1 }),
			want: podStep{action: podBackOff},
		},
		"still waits": {
			pod: with(with(pod(corev1.PodRunning, FailAfterAnnotation, "5s"), always), func(p *corev1.Pod) {
				p.Status.ContainerStatuses[0] = corev1.ContainerStatus{
					RestartCount: 2, State: corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{}},
					LastTerminationState: corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{StartedAt: ago(13 * time.Second), FinishedAt: ago(8 * time.Second)}},
				}
			}),
			want: podStep{after: 12 * s},
		},
		"has waited": {
			pod: with(with(pod(corev1.PodRunning, FailAfterAnnotation, "5s"), always), func(p *corev1.Pod) {
				p.Status.ContainerStatuses[0] = corev1.ContainerStatus{
					RestartCount: 1, State: corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{}},
					LastTerminationState: corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{StartedAt: ago(16 * time.Second), FinishedAt: ago(11 * time.Second)}},
				}
			}),
			want: podStep{action: podRestart},
		},
		"a task":                       {pod: pod(corev1.PodRunning, "helm.sh/hook", "test"), tasks: s, want: podStep{action: podSucceed}},
		"no task":                      {pod: pod(corev1.PodRunning), tasks: s},
		"is over":                      {pod: pod(corev1.PodSucceeded)},
		"a gate is closed":             {pod: with(pod(corev1.PodRunning), func(p *corev1.Pod) { p.Spec.ReadinessGates = []corev1.PodReadinessGate{{ConditionType: "x"}} }), want: podStep{action: podReady}},
		"stops in time":                {pod: deleted(pod(corev1.PodRunning), 10*s, 30*s), want: podStep{after: 21 * s}},
		"has stopped":                  {pod: deleted(pod(corev1.PodRunning), 31*s, 30*s), want: podStep{action: podRemove}},
		"stops sooner":                 {pod: deleted(pod(corev1.PodRunning, StopAfterAnnotation, "12s"), 10*s, 30*s), want: podStep{after: 3 * s}},
		"not longer than its grace":    {pod: deleted(pod(corev1.PodRunning, StopAfterAnnotation, "1h"), 31*s, 30*s), want: podStep{action: podRemove}},
		"stops at once":                {pod: deleted(pod(corev1.PodRunning, StopAfterAnnotation, "0s"), 0, 30*s), want: podStep{action: podRemove}},
		"stops on an unready node":     {pod: deleted(pod(corev1.PodRunning), 31*s, 30*s), down: true, want: podStep{action: podRemove}},
		"never began":                  {pod: deleted(pod(corev1.PodPending), 0, 30*s), want: podStep{action: podRemove}},
		"ended before it was deleted":  {pod: deleted(pod(corev1.PodFailed), 0, 30*s), want: podStep{action: podRemove}},
		"someone wants to see its end": {pod: with(deleted(pod(corev1.PodRunning), 31*s, 30*s), finalizer), want: podStep{action: podEnd}},
		"and holds it":                 {pod: with(deleted(pod(corev1.PodSucceeded), 31*s, 0), finalizer)},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if got := (Options{JobTime: tc.tasks, RestartBackoff: 10 * s}).decidePod(tc.pod, !tc.down, now); got != tc.want {
				t.Errorf("got %+v, want %+v", got, tc.want)
			}
		})
	}
}

func TestAddressesAreUnique(t *testing.T) {
	t.Parallel()
	a := newAddresses()
	old := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{UID: "old"}, Status: corev1.PodStatus{PodIP: "10.128.0.2"}}
	a.recordAddress(old)
	seen := map[string]bool{"10.128.0.2": true}
	for range 1000 {
		ip := a.takeFreeAddress("new")
		if seen[ip] {
			t.Fatalf("%s twice", ip)
		}
		seen[ip] = true
	}
	a.release(old)
	if len(a.used) != 1000 {
		t.Errorf("%d in use", len(a.used))
	}
}
