package fakenode

import (
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
)

// podAction is what a kubelet does about a pod next.
type podAction int

const (
	podNothing podAction = iota
	podStart             // all containers run
	podReady             // the Ready condition follows the readiness gates
	podRestart           // all containers exited and run again
	podBackOff           // all containers exited once more and wait before they run again
	podSucceed           // all containers exited with 0, for good
	podFail              // at least one exited with another code, for good
	podEnd               // stopped on demand: a last status, then removal
	podRemove            // from the API
)

// podStep is an action and, when the time has not come, how long to wait before the next decision.
type podStep struct {
	action podAction
	after  time.Duration
}

// annotationDuration of an annotation; one that does not parse counts as absent.
func annotationDuration(p *corev1.Pod, annotation string) (time.Duration, bool) {
	d, err := time.ParseDuration(p.Annotations[annotation])
	return max(d, 0), err == nil
}

// decidePod is pure. ready is the state of the node: a kubelet that is not Ready starts nothing.
func (o Options) decidePod(p *corev1.Pod, ready bool, now time.Time) podStep {
	switch {
	case p.DeletionTimestamp != nil:
		return decideStop(p, now)
	case p.Status.Phase == corev1.PodSucceeded || p.Status.Phase == corev1.PodFailed:
		return podStep{}
	case p.Status.Phase == corev1.PodRunning:
		return o.decideRunning(p, now)
	case !ready:
		return podStep{} // comes again when the node turns Ready
	}
	delay, given := annotationDuration(p, StartAfterAnnotation)
	if !given {
		delay = o.PodStart
	}
	if wait := boundTime(p).Add(delay).Sub(now); wait > 0 {
		return podStep{after: wait}
	}
	return podStep{action: podStart}
}

// boundTime is when the scheduler bound a pod; in whole seconds.
func boundTime(p *corev1.Pod) time.Time {
	for _, c := range p.Status.Conditions {
		if c.Type == corev1.PodScheduled && c.Status == corev1.ConditionTrue {
			return c.LastTransitionTime.Time
		}
	}
	return p.CreationTimestamp.Time
}

func decideStop(p *corev1.Pod, now time.Time) podStep {
	over := p.Status.Phase == corev1.PodSucceeded || p.Status.Phase == corev1.PodFailed
	var grace time.Duration
	if p.DeletionGracePeriodSeconds != nil {
		grace = time.Duration(*p.DeletionGracePeriodSeconds) * time.Second
	}
	if grace == 0 && over {
		return podStep{} // removed already; a finalizer holds it
	}
	stop := grace
	if d, given := annotationDuration(p, StopAfterAnnotation); given {
		stop = min(stop, d)
	}
	if p.Status.Phase == corev1.PodPending || over {
		stop = 0 // nothing runs that would have to stop
	}
	due := p.DeletionTimestamp.Add(stop - grace)
	if stop > 0 {
		due = due.Add(time.Second) // the API cuts times to whole seconds, and a pod gets no less than its due
	}
	if wait := due.Sub(now); wait > 0 {
		return podStep{after: wait}
	}
	if len(p.Finalizers) > 0 && !over {
		return podStep{action: podEnd} // the holder of a finalizer needs the final status
	}
	return podStep{action: podRemove}
}

func (o Options) decideRunning(p *corev1.Pod, now time.Time) podStep {
	if ended := backingOff(p); ended != nil {
		due := ended.FinishedAt.Add(o.backOff(restartCount(p), ended.FinishedAt.Sub(ended.StartedAt.Time)))
		if wait := due.Sub(now); wait > 0 {
			return podStep{after: wait}
		}
		return podStep{action: podRestart}
	}
	after, code, ends := o.exitTime(p)
	if ends {
		if wait := runningSince(p).Add(after).Sub(now); wait > 0 {
			s := readinessGateStep(p)
			s.after = wait
			return s
		}
		again := p.Spec.RestartPolicy == corev1.RestartPolicyAlways || p.Spec.RestartPolicy == corev1.RestartPolicyOnFailure && code != 0
		switch {
		case again && o.backOff(restartCount(p), now.Sub(runningSince(p))) > 0:
			return podStep{action: podBackOff}
		case again:
			return podStep{action: podRestart}
		case code != 0:
			return podStep{action: podFail}
		}
		return podStep{action: podSucceed}
	}
	return readinessGateStep(p)
}

const mostBackOff = 30 // times the first one: five minutes of ten seconds

// backOff is how long a container waits that ended after it had run for a while. The first restart is at
// once, and so is that of a container that ran for long: it begins anew.
func (o Options) backOff(restarts int32, ran time.Duration) time.Duration {
	if restarts == 0 || ran > 2*mostBackOff*o.RestartBackoff {
		return 0
	}
	return min(o.RestartBackoff<<min(restarts-1, 10), mostBackOff*o.RestartBackoff)
}

// backingOff returns how a container ended that waits to run again.
func backingOff(p *corev1.Pod) *corev1.ContainerStateTerminated {
	for _, c := range p.Status.ContainerStatuses {
		if c.State.Waiting != nil && c.LastTerminationState.Terminated != nil {
			return c.LastTerminationState.Terminated
		}
	}
	return nil
}

// restartCount of the containers of a pod, which go together here.
func restartCount(p *corev1.Pod) int32 {
	for _, c := range p.Status.ContainerStatuses {
		return c.RestartCount
	}
	return 0
}

// exitTime says after what time the containers of a pod exit, and with what.
func (o Options) exitTime(p *corev1.Pod) (after time.Duration, code int32, ends bool) {
	if d, ok := annotationDuration(p, FailAfterAnnotation); ok {
		return d, 1, true
	}
	if d, ok := annotationDuration(p, CompleteAfterAnnotation); ok {
		return d, 0, true
	}
	if o.JobTime <= 0 || p.Spec.RestartPolicy == corev1.RestartPolicyAlways {
		return 0, 0, false
	}
	_, hook := p.Annotations["helm.sh/hook"]
	_, job := p.Labels[batchv1.JobNameLabel]
	return o.JobTime, 0, hook || job
}

func runningSince(p *corev1.Pod) time.Time {
	for _, c := range p.Status.ContainerStatuses {
		if c.State.Running != nil {
			return c.State.Running.StartedAt.Time
		}
	}
	return p.CreationTimestamp.Time
}

// readinessGateStep requests an update when the Ready condition does not follow the readiness gates.
func readinessGateStep(p *corev1.Pod) podStep {
	if conditionTrue(p, corev1.PodReady) != gatesOpen(p) {
		return podStep{action: podReady}
	}
	return podStep{}
}

func gatesOpen(p *corev1.Pod) bool {
	for _, g := range p.Spec.ReadinessGates {
		if !conditionTrue(p, g.ConditionType) {
			return false
		}
	}
	return true
}

func conditionTrue(p *corev1.Pod, kind corev1.PodConditionType) bool {
	for _, c := range p.Status.Conditions {
		if c.Type == kind {
			return c.Status == corev1.ConditionTrue
		}
	}
	return false
}
