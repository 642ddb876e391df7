package fakenode

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Runtime runs containers, where without it the simulator only says that they run.
type Runtime interface {
	// Runs reports whether containers of an image are run.
	Runs(image string) bool
	// Start runs a container of a pod, on a node that has the allocatable, after that many restarts.
	Start(ctx context.Context, p *corev1.Pod, container string, allocatable corev1.ResourceList, restarts int32) (Process, error)
	// Remove removes what a pod leaves that is gone.
	Remove(p *corev1.Pod) error
}

// Process is a container that a Runtime started.
type Process interface {
	// Done is closed when it has ended. ExitCode says how, from then on.
	Done() <-chan struct{}
	ExitCode() int32
	// Stop ends it: as SIGTERM does, or at once.
	Stop(atOnce bool)
	// Address is where a port of the container is reached from here; empty if nothing listens there.
	Address(port int32) string
	// Log is the file that it writes to.
	Log() string
}

const (
	killedCode   = 137              // of a container that did not end by itself
	setupRetry   = 2 * time.Second  // after a container could not even be set up
	shutdownTime = 10 * time.Second // that containers have to end when the simulator does
)

// run is a pod of which one container runs, or waits to.
type run struct {
	pod        *corev1.Pod
	container  string
	stopProbes context.CancelFunc

	mu       sync.Mutex
	process  Process // nil while it waits
	previous Process // the one before
	began    metav1.Time
	restarts int32
	waiting  *corev1.ContainerStateWaiting // set while it does not run
	due      time.Time                     // when it does then
	last     corev1.ContainerState
	ready    bool
	stopping bool
}

// runs are the pods that run, by namespace and name.
type runs struct {
	mu    sync.Mutex
	byKey map[string]*run
}

func (r *runs) get(key string) *run {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.byKey[key]
}

func (r *runs) set(key string, to *run) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if to == nil {
		delete(r.byKey, key)
		return
	}
	if r.byKey == nil {
		r.byKey = map[string]*run{}
	}
	r.byKey[key] = to
}

func (r *runs) allRuns() []*run {
	r.mu.Lock()
	defer r.mu.Unlock()
	var list []*run
	for _, run := range r.byKey {
		list = append(list, run)
	}
	return list
}

// runnableContainer is the container of a pod that the Runtime runs; empty if there is none. The others are simulated.
func (o Options) runnableContainer(p *corev1.Pod) string {
	if o.Runtime == nil {
		return ""
	}
	for _, c := range p.Spec.Containers {
		if o.Runtime.Runs(c.Image) {
			return c.Name
		}
	}
	return ""
}

// liveProcess returns the process that runs; nil if none does.
func (r *run) liveProcess() Process {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.process == nil {
		return nil
	}
	select {
	case <-r.process.Done():
		return nil
	default:
		return r.process
	}
}

// syncRun does what a kubelet does next about a pod that is run.
func (s *Simulator) syncRun(ctx context.Context, key string, p *corev1.Pod, m machine) (time.Duration, error) {
	r, now := s.runs.get(key), time.Now()
	if r != nil && r.pod.UID != p.UID {
		s.abandonPod(key)
		r = nil
	}
	switch {
	case p.Status.Phase == corev1.PodSucceeded || p.Status.Phase == corev1.PodFailed:
		if r != nil && r.liveProcess() != nil { // another goroutine reported it
			r.liveProcess().Stop(true)
		}
		d := decideStop(p, now)
		if p.DeletionTimestamp == nil || d.action == podNothing {
			return d.after, nil
		}
		return d.after, s.performPodAction(ctx, p, m.instance, d.action, metav1.NewTime(now))
	case p.DeletionTimestamp != nil:
		return s.stopRun(ctx, p, m, r, now)
	case r == nil && !m.ready:
		return 0, nil // comes again when the node turns Ready
	case r == nil:
		r = &run{pod: p, container: s.runnableContainer(p), stopProbes: func() {}}
		if before := statusOf(p, r.container); before != nil {
			// Of an earlier run of the simulator, whose processes are gone.
			r.restarts, r.last = before.RestartCount+1, exitedState(killedCode, metav1.NewTime(runningSince(p)), apiTime(now))
		}
		s.runs.set(key, r)
		return s.launch(ctx, key, p, m, r)
	case r.process == nil:
		if wait := r.due.Sub(now); wait > 0 {
			return wait, s.reportRun(ctx, p, m.instance, r, now)
		}
		return s.launch(ctx, key, p, m, r)
	case r.liveProcess() == nil:
		return s.handleExit(ctx, key, p, m, r, now)
	}
	return 0, s.reportRun(ctx, p, m.instance, r, now)
}

// apiTime is a time as the API keeps it.
func apiTime(t time.Time) metav1.Time { return metav1.NewTime(t.Truncate(time.Second)) }

func statusOf(p *corev1.Pod, container string) *corev1.ContainerStatus {
	at := slices.IndexFunc(p.Status.ContainerStatuses, func(s corev1.ContainerStatus) bool { return s.Name == container })
	if at < 0 {
		return nil
	}
	return &p.Status.ContainerStatuses[at]
}

// launch starts the container. One that cannot be set up is tried again, as a kubelet does.
func (s *Simulator) launch(ctx context.Context, key string, p *corev1.Pod, m machine, r *run) (time.Duration, error) {
	now := time.Now()
	own := p.DeepCopy()
	own.Status.HostIP, own.Status.PodIP = m.instance.PrivateIP, s.addressOf(p, m.instance)
	process, err := s.Runtime.Start(ctx, own, r.container, m.allocatable, r.restarts)
	if err != nil {
		wait := &corev1.ContainerStateWaiting{Reason: "CreateContainerConfigError", Message: err.Error()}
		r.mu.Lock()
		reported := r.waiting != nil && *r.waiting == *wait
		r.waiting, r.due = wait, now.Add(setupRetry)
		r.mu.Unlock()
		if !reported {
			s.recordWarning(ctx, p, "Failed", "Error: "+err.Error())
		}
		return setupRetry, s.reportRun(ctx, p, m.instance, r, now)
	}
	probing, cancel := context.WithCancel(ctx)
	spec := containerOf(p, r.container)
	r.mu.Lock()
	r.process, r.began, r.waiting, r.stopProbes = process, apiTime(now), nil, cancel
	r.ready = spec.ReadinessProbe == nil
	r.mu.Unlock()
	s.running.Go(func() {
		<-process.Done()
		cancel()
		s.podQueue.Add(key)
	})
	s.probeContainer(probing, key, p, spec, r, process)
	return 0, s.reportRun(ctx, p, m.instance, r, now)
}

func containerOf(p *corev1.Pod, name string) *corev1.Container {
	for i := range p.Spec.Containers {
		if p.Spec.Containers[i].Name == name {
			return &p.Spec.Containers[i]
		}
	}
	return &corev1.Container{}
}

// handleExit looks at a container that has, and runs it again if the pod says so.
func (s *Simulator) handleExit(ctx context.Context, key string, p *corev1.Pod, m machine, r *run, now time.Time) (time.Duration, error) {
	code := r.process.ExitCode()
	last := exitedState(code, r.began, apiTime(now))
	again := p.Spec.RestartPolicy == corev1.RestartPolicyAlways || p.Spec.RestartPolicy == corev1.RestartPolicyOnFailure && code != 0
	if !again {
		phase := corev1.PodSucceeded
		if code != 0 {
			phase = corev1.PodFailed
		}
		return 0, s.patchPod(ctx, p, endStatus(p, phase, code, apiTime(now)))
	}
	wait := s.backOff(r.restarts, now.Sub(r.began.Time))
	r.mu.Lock()
	r.previous, r.process, r.last, r.ready = r.process, nil, last, false
	r.due = now.Add(wait)
	r.waiting = &corev1.ContainerStateWaiting{
		Reason:  "CrashLoopBackOff",
		Message: fmt.Sprintf("back-off %s restarting failed container=%s pod=%s_%s(%s)", wait, r.container, p.Name, p.Namespace, p.UID),
	}
	r.restarts++
	r.mu.Unlock()
	if wait == 0 {
		return s.launch(ctx, key, p, m, r)
	}
	s.recordWarning(ctx, p, "BackOff", "Back-off restarting failed container "+r.container+" in pod "+p.Name+"_"+p.Namespace+"("+string(p.UID)+")")
	return wait, s.reportRun(ctx, p, m.instance, r, now)
}

// stopRun ends the container of a pod that is deleted, and then the pod.
func (s *Simulator) stopRun(ctx context.Context, p *corev1.Pod, m machine, r *run, now time.Time) (time.Duration, error) {
	var process Process
	if r != nil {
		process = r.liveProcess()
	}
	if process == nil {
		action := podRemove
		if len(p.Finalizers) > 0 {
			action = podEnd // the holder of a finalizer needs the final status
		}
		return 0, ignoreNotFound(s.performPodAction(ctx, p, m.instance, action, metav1.NewTime(now)))
	}
	if !r.stopping {
		r.stopping = true
		r.stopProbes()
		process.Stop(false)
	}
	if grace := p.DeletionGracePeriodSeconds; grace != nil && *grace > 0 {
		// The API cuts times to whole seconds, and a pod gets no less than its due.
		if wait := p.DeletionTimestamp.Add(time.Second).Sub(now); wait > 0 {
			return wait, nil
		}
	}
	process.Stop(true)
	return 0, nil // its end brings the pod back
}

// abandonPod kills what runs of a pod that is gone, or whose machine is.
func (s *Simulator) abandonPod(key string) {
	r := s.runs.get(key)
	if r == nil {
		return
	}
	s.runs.set(key, nil)
	r.stopProbes()
	if process := r.liveProcess(); process != nil {
		process.Stop(true)
		<-process.Done()
	}
	if err := s.Runtime.Remove(r.pod); err != nil {
		s.Log.Warn("fakenode: what a pod left", "pod", key, "error", err)
	}
}

// stopRuns ends all containers, in order if they do so in time.
func (s *Simulator) stopRuns() {
	var ending sync.WaitGroup
	for _, r := range s.runs.allRuns() {
		process := r.liveProcess()
		if process == nil {
			continue
		}
		ending.Go(func() {
			process.Stop(false)
			timer := time.NewTimer(shutdownTime)
			defer timer.Stop()
			select {
			case <-process.Done():
			case <-timer.C:
				process.Stop(true)
				<-process.Done()
			}
		})
	}
	ending.Wait()
}

// addressOf is the address of a pod.
func (s *Simulator) addressOf(p *corev1.Pod, i Instance) string {
	switch {
	case p.Spec.HostNetwork:
		return i.PrivateIP
	case p.Status.PodIP != "":
		return p.Status.PodIP
	}
	return s.addresses.takeFreeAddress(p.UID)
}

// reportRun writes the status of a pod that is run, if it is not yet so.
func (s *Simulator) reportRun(ctx context.Context, p *corev1.Pod, i Instance, r *run, now time.Time) error {
	r.mu.Lock()
	list, conditions := r.containerStatuses(p), r.podConditions(p, apiTime(now))
	waits := r.waiting != nil && p.Status.Phase == corev1.PodPending
	r.mu.Unlock()
	if p.Status.Phase == corev1.PodRunning && equality.Semantic.DeepEqual(list, p.Status.ContainerStatuses) && hasConditions(p, conditions) {
		return nil
	}
	phase := corev1.PodRunning
	if waits {
		phase = corev1.PodPending // it has not run yet
		if equality.Semantic.DeepEqual(list, p.Status.ContainerStatuses) {
			return nil
		}
	}
	status := startStatus(p, i.PrivateIP, s.addressOf(p, i), apiTime(now))
	if p.Status.StartTime != nil {
		delete(status, "startTime")
	}
	status["phase"], status["containerStatuses"], status["conditions"] = phase, list, conditions
	return ignoreNotFound(s.patchPod(ctx, p, status))
}

func hasConditions(p *corev1.Pod, want []corev1.PodCondition) bool {
	for _, c := range want {
		if !slices.ContainsFunc(p.Status.Conditions, func(have corev1.PodCondition) bool {
			return have.Type == c.Type && have.Status == c.Status && have.Reason == c.Reason
		}) {
			return false
		}
	}
	return true
}

// containerStatuses are those of all containers of the pod: of the one that runs, and of the others, which are simulated.
func (r *run) containerStatuses(p *corev1.Pod) []corev1.ContainerStatus {
	var list []corev1.ContainerStatus
	for _, c := range p.Spec.Containers {
		status := corev1.ContainerStatus{
			Name: c.Name, Image: c.Image, ImageID: c.Image, ContainerID: "containerd://" + c.Name, Ready: true, Started: new(true),
			State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{StartedAt: r.began}},
		}
		if c.Name == r.container {
			status.Ready, status.RestartCount, status.LastTerminationState = r.ready, r.restarts, r.last
		} else if before := statusOf(p, c.Name); before != nil {
			status.State = before.State
		}
		if c.Name == r.container && r.waiting != nil {
			status.State, status.Ready, status.Started = corev1.ContainerState{Waiting: r.waiting}, false, new(false)
			status.RestartCount = max(0, r.restarts-1) // the next one is not yet there
		}
		setAllocated(&status, c, p.Status.ContainerStatuses)
		list = append(list, status)
	}
	return list
}

func (r *run) podConditions(p *corev1.Pod, now metav1.Time) []corev1.PodCondition {
	list := podConditions(p, true, now)
	if r.ready && r.waiting == nil {
		return list
	}
	return unreadyConditions(p, list, r.container, now)
}
