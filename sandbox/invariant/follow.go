package invariant

import (
	"context"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	autoscalingv1beta1 "github.com/dovetail-sh/dovetail/api/autoscaling/v1beta1"
	karpv1 "github.com/dovetail-sh/dovetail/api/v1"
	"github.com/dovetail-sh/dovetail/sandbox/apiproxy"
	"github.com/dovetail-sh/dovetail/sandbox/awsemu"
)

// beat is how often what only time shows is judged.
const beat = 500 * time.Millisecond

// Sources are what a checker is fed from.
type Sources struct {
	Kube  client.WithWatch // past the proxy, so that faults do not blind the checker
	AWS   *awsemu.Emulator
	Proxy *apiproxy.Proxy // of the controller; nil when it does not use one, and then nothing shows of its requests
}

// Follow feeds the checker until the context ends, and returns when all has stopped.
func (c *Checker) Follow(ctx context.Context, s Sources) {
	var running sync.WaitGroup
	defer running.Wait()
	for _, kind := range []struct {
		object client.Object
		list   client.ObjectList
	}{
		{&karpv1.NodePool{}, &karpv1.NodePoolList{}}, // first: claims are judged by their pool
		{&autoscalingv1beta1.CapacityBuffer{}, &autoscalingv1beta1.CapacityBufferList{}},
		{&corev1.Pod{}, &corev1.PodList{}},
		{&corev1.Node{}, &corev1.NodeList{}},
		{&policyv1.PodDisruptionBudget{}, &policyv1.PodDisruptionBudgetList{}},
		{&eventsv1.Event{}, &eventsv1.EventList{}},
		{&karpv1.NodeClaim{}, &karpv1.NodeClaimList{}},
	} {
		reflector := cache.NewReflectorWithOptions(listWatch(ctx, s.Kube, kind.list), kind.object, &sink{checker: c, known: map[types.UID]client.Object{}}, cache.ReflectorOptions{})
		running.Go(func() { reflector.RunWithContext(ctx) })
	}
	defer s.AWS.Watch(func(call awsemu.Call) { c.Call(time.Now(), call) })()
	if s.Proxy != nil {
		defer s.Proxy.Watch(c.Request)()
	}
	c.watchCloud(ctx, s.AWS)
}

// watchCloud looks at the account whenever it changed, and at the clock.
func (c *Checker) watchCloud(ctx context.Context, emulator *awsemu.Emulator) {
	ticker := time.NewTicker(beat)
	defer ticker.Stop()
	for {
		changed := emulator.Changed()
		c.Cloud(time.Now(), emulator.Instances())
		select {
		case <-ctx.Done():
			return
		case <-changed:
		case <-ticker.C:
			c.Advance(time.Now())
		}
	}
}

func listWatch(ctx context.Context, kube client.WithWatch, list client.ObjectList) *cache.ListWatch {
	return &cache.ListWatch{
		ListWithContextFunc: func(_ context.Context, o metav1.ListOptions) (runtime.Object, error) {
			items, _ := list.DeepCopyObject().(client.ObjectList) // a copy of a list is a list
			return items, kube.List(ctx, items, &client.ListOptions{Raw: &o, Continue: o.Continue, Limit: o.Limit})
		},
		WatchFuncWithContext: func(_ context.Context, o metav1.ListOptions) (watch.Interface, error) {
			items, _ := list.DeepCopyObject().(client.ObjectList)
			return kube.Watch(ctx, items, &client.ListOptions{Raw: &o})
		},
	}
}

// sink hands on what a reflector reads. It knows what there was, so that a list shows what went.
type sink struct {
	checker *Checker
	mu      sync.Mutex
	known   map[types.UID]client.Object
}

func (s *sink) set(obj any) error {
	o, isObject := obj.(client.Object)
	if !isObject {
		return nil
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.known[o.GetUID()] = o
	s.checker.Object(time.Now(), Set, o)
	return nil
}

// Add reports a new object.
func (s *sink) Add(obj any) error { return s.set(obj) }

// Update reports a changed object.
func (s *sink) Update(obj any) error { return s.set(obj) }

// Delete reports an object that is gone.
func (s *sink) Delete(obj any) error {
	o, isObject := obj.(client.Object)
	if !isObject {
		return nil
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.known, o.GetUID())
	s.checker.Object(time.Now(), Removed, o)
	return nil
}

// Replace reports all objects there are, and those that are gone.
func (s *sink) Replace(list []any, _ string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	there := map[types.UID]client.Object{}
	for _, obj := range list {
		if o, isObject := obj.(client.Object); isObject {
			there[o.GetUID()] = o
			s.checker.Object(time.Now(), Set, o)
		}
	}
	for uid, o := range s.known {
		if there[uid] == nil {
			s.checker.Object(time.Now(), Removed, o)
		}
	}
	s.known = there
	return nil
}

// Resync is not needed.
func (s *sink) Resync() error { return nil }
