package bars

import (
	"context"
	"errors"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"
)

// phase of a pod, as far as it matters here.
type phase int

const (
	phaseNew phase = iota
	phaseUnschedulable
	phasePlaced
	phaseRunning
)

func phaseOf(p *corev1.Pod) phase {
	switch {
	case p.Status.Phase == corev1.PodRunning:
		return phaseRunning
	case p.Spec.NodeName != "":
		return phasePlaced
	}
	for _, c := range p.Status.Conditions {
		if c.Type == corev1.PodScheduled && c.Status == corev1.ConditionFalse && c.Reason == corev1.PodReasonUnschedulable {
			return phaseUnschedulable
		}
	}
	return phaseNew
}

// census follows the pods of a scenario on a watch.
type census struct {
	cancel  context.CancelFunc
	factory informers.SharedInformerFactory

	mu      sync.Mutex
	pods    map[string]phase // by name
	counts  map[phase]int
	waiting map[string]time.Time // when a pod was first seen to be unschedulable
}

// startCensus starts a census. Only what it counts is kept: measuring should not weigh.
func startCensus(ctx context.Context, client kubernetes.Interface) (*census, error) {
	watching, cancel := context.WithCancel(context.WithoutCancel(ctx)) // until stop
	c := &census{cancel: cancel, pods: map[string]phase{}, counts: map[phase]int{}, waiting: map[string]time.Time{}}
	c.factory = informers.NewSharedInformerFactoryWithOptions(client, 0,
		informers.WithTransform(stripObject), informers.WithNamespace(metav1.NamespaceDefault),
		informers.WithTweakListOptions(func(o *metav1.ListOptions) { o.LabelSelector = benchLabel }))
	registration, err := c.factory.Core().V1().Pods().Informer().AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc: c.countObject, UpdateFunc: func(_, o any) { c.countObject(o) }, DeleteFunc: c.removeObject,
	})
	if err != nil {
		cancel()
		return nil, err
	}
	c.factory.Start(watching.Done())
	if !cache.WaitForCacheSync(ctx.Done(), registration.HasSynced) {
		c.stop()
		return nil, errors.New("stopped before the first list of pods")
	}
	return c, nil
}

func stripObject(o any) (any, error) {
	p, ok := o.(*corev1.Pod)
	if !ok {
		return o, nil
	}
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: p.Name, Namespace: p.Namespace, UID: p.UID, ResourceVersion: p.ResourceVersion},
		Spec:       corev1.PodSpec{NodeName: p.Spec.NodeName},
		Status:     corev1.PodStatus{Phase: p.Status.Phase, Conditions: p.Status.Conditions},
	}, nil
}

func (c *census) countObject(o any) {
	p, ok := o.(*corev1.Pod)
	if !ok {
		return
	}
	now, is := time.Now(), phaseOf(p)
	c.mu.Lock()
	defer c.mu.Unlock()
	if before, known := c.pods[p.Name]; known {
		c.counts[before]--
	}
	c.pods[p.Name] = is
	c.counts[is]++
	if _, known := c.waiting[p.Name]; !known && is == phaseUnschedulable {
		c.waiting[p.Name] = now
	}
}

func (c *census) removeObject(o any) {
	if last, ok := o.(cache.DeletedFinalStateUnknown); ok {
		o = last.Obj
	}
	p, ok := o.(*corev1.Pod)
	if !ok {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if before, known := c.pods[p.Name]; known {
		c.counts[before]--
		delete(c.pods, p.Name)
	}
}

// count is how many pods are in a phase.
func (c *census) count(p phase) int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.counts[p]
}

// countPods is how many pods there are.
func (c *census) countPods() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return len(c.pods)
}

// waitingSince is when a pod was first seen to be unschedulable; zero if it never was.
func (c *census) waitingSince(name string) time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.waiting[name]
}

func (c *census) stop() {
	c.cancel()
	c.factory.Shutdown()
}
