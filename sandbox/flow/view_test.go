package flow_test

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strconv"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	"k8s.io/client-go/rest"
	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	awsv1 "github.com/dovetail-sh/dovetail/api/aws/v1"
	karpv1 "github.com/dovetail-sh/dovetail/api/v1"
	"github.com/dovetail-sh/dovetail/sandbox/awsemu"
)

// view is what tests look at: the objects of a cluster in memory, fed by watches. Dozens of tests look whenever
// anything changes, and would else list everything from the API server each time.
type view struct {
	objects cache.Cache
	stores  map[string]toolscache.Store // by kind

	dirty chan struct{} // something changed
	mu    sync.Mutex
	next  chan struct{} // closed at the next change
}

// pause is the least time between two looks of a test. All look at every change of anybody's objects.
const pause = 20 * time.Millisecond

// newView follows a cluster until the context ends. It returns once all that is there now is known.
func newView(ctx context.Context, config *rest.Config, scheme client.Client, account *awsemu.Emulator, running *sync.WaitGroup) (*view, error) {
	objects, err := cache.New(config, cache.Options{Scheme: scheme.Scheme()})
	if err != nil {
		return nil, err
	}
	v := &view{objects: objects, stores: map[string]toolscache.Store{}, next: make(chan struct{}), dirty: make(chan struct{}, 1)}
	running.Go(func() { _ = objects.Start(ctx) }) // ends with the context, and says nothing else
	for _, obj := range []client.Object{
		&corev1.Pod{}, &corev1.Node{}, &eventsv1.Event{}, &karpv1.NodeClaim{}, &karpv1.NodePool{}, &awsv1.EC2NodeClass{},
	} {
		informer, err := objects.GetInformer(ctx, obj)
		if err != nil {
			return nil, err
		}
		shared, ok := informer.(toolscache.SharedIndexInformer)
		if !ok {
			return nil, fmt.Errorf("the informer of %T has no store", obj)
		}
		if _, err := shared.AddEventHandler(toolscache.ResourceEventHandlerFuncs{
			AddFunc: func(any) { v.markChanged() }, UpdateFunc: func(any, any) { v.markChanged() }, DeleteFunc: func(any) { v.markChanged() },
		}); err != nil {
			return nil, err
		}
		v.stores[fmt.Sprintf("%T", obj)] = shared.GetStore()
	}
	running.Go(func() { v.notifyWaiters(ctx, account) })
	return v, nil
}

// markChanged notes that something changed.
func (v *view) markChanged() {
	select {
	case v.dirty <- struct{}{}:
	default: // it is noted already
	}
}

// notifyWaiters wakes everybody who waits for a change, with a pause after each.
func (v *view) notifyWaiters(ctx context.Context, account *awsemu.Emulator) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-account.Changed():
		case <-v.dirty:
		}
		v.mu.Lock()
		close(v.next)
		v.next = make(chan struct{})
		v.mu.Unlock()
		select {
		case <-ctx.Done():
			return
		case <-time.After(pause):
		}
	}
}

// nextChange returns a channel that is closed at the next change. Take it before looking.
func (v *view) nextChange() <-chan struct{} {
	v.mu.Lock()
	defer v.mu.Unlock()
	return v.next
}

// copyObjects returns copies of the objects of a kind that a test wants, in the order of the API server.
func copyObjects[T any, P interface {
	*T
	client.Object
	DeepCopyInto(*T)
}](v *view, want func(P) bool,
) []T {
	var found []P
	for _, obj := range v.stores[fmt.Sprintf("%T", P(nil))].List() {
		if p, ok := obj.(P); ok && want(p) {
			found = append(found, p)
		}
	}
	slices.SortFunc(found, func(a, b P) int {
		return cmp.Or(cmp.Compare(a.GetNamespace(), b.GetNamespace()), cmp.Compare(a.GetName(), b.GetName()))
	})
	list := make([]T, len(found))
	for i := range found {
		found[i].DeepCopyInto(&list[i])
	}
	return list
}

// find returns an object as the view has it, not to be changed; nil when it is not there. Kinds that the view
// does not have are not known.
func (v *view) find(obj client.Object) (found client.Object, known bool) {
	store, known := v.stores[fmt.Sprintf("%T", obj)]
	if !known {
		return nil, false
	}
	key := obj.GetName()
	if obj.GetNamespace() != "" {
		key = obj.GetNamespace() + "/" + key
	}
	if item, there, err := store.GetByKey(key); err == nil && there {
		found, _ = item.(client.Object)
	}
	return found, true
}

// waitForCache waits until the view has an object as the test wrote it, or something later.
func (f *flow) waitForCache(obj client.Object) {
	f.Helper()
	version := func(o client.Object) uint64 {
		n, err := strconv.ParseUint(o.GetResourceVersion(), 10, 64)
		if err != nil {
			f.Fatalf("%T %s: %v", o, o.GetName(), err)
		}
		return n
	}
	f.waitForView(obj, "as it was written", func(found client.Object) bool {
		return found == nil || found.GetUID() != obj.GetUID() || version(found) >= version(obj) // or already removed
	})
}

// waitForCacheDeletion waits until the view has it that an object is gone, or goes.
func (f *flow) waitForCacheDeletion(obj client.Object) {
	f.Helper()
	f.waitForView(obj, "gone", func(found client.Object) bool {
		return found == nil || obj.GetUID() != "" && found.GetUID() != obj.GetUID() || found.GetDeletionTimestamp() != nil
	})
}

func (f *flow) waitForView(obj client.Object, what string, holds func(found client.Object) bool) {
	f.Helper()
	if _, known := f.view.find(obj); !known {
		return
	}
	f.waitUntil(soon, fmt.Sprintf("%T %s is seen %s", obj, obj.GetName(), what), func() (bool, string) {
		found, _ := f.view.find(obj)
		return holds(found), "not yet"
	})
}
