package bench

import (
	"context"
	"errors"
	"sync"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"
)

// count is how many objects there are, and how many of them are as wanted.
type count struct{ total, good int }

// tally counts objects on a watch.
type tally struct {
	cancel  context.CancelFunc
	factory informers.SharedInformerFactory

	mu      sync.Mutex
	objects map[types.UID]bool // whether it is as wanted
	good    int
	changed chan struct{} // closed and replaced at every change
}

func (t *tally) count() count {
	t.mu.Lock()
	defer t.mu.Unlock()
	return count{total: len(t.objects), good: t.good}
}

// nextChange returns a channel that is closed at the next change. Take it before looking.
func (t *tally) nextChange() <-chan struct{} {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.changed
}

func (t *tally) stop() {
	t.cancel()
	t.factory.Shutdown()
}

func (t *tally) set(id types.UID, good bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	before, known := t.objects[id]
	if known && before == good {
		return
	}
	t.objects[id] = good
	if good {
		t.good++
	} else if before {
		t.good--
	}
	t.notifyChange()
}

func (t *tally) remove(id types.UID) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.objects[id] {
		t.good--
	}
	delete(t.objects, id)
	t.notifyChange()
}

func (t *tally) notifyChange() {
	close(t.changed)
	t.changed = make(chan struct{})
}

// watchNodes counts the nodes of the benchmark; good ones are Ready.
func watchNodes(ctx context.Context, client kubernetes.Interface) (*tally, error) {
	return watch(ctx, client, func(f informers.SharedInformerFactory) cache.SharedIndexInformer {
		return f.Core().V1().Nodes().Informer()
	},
		func(o any) any {
			n, ok := o.(*corev1.Node)
			if !ok {
				return o
			}
			return &corev1.Node{ObjectMeta: trimmedMeta(n), Status: corev1.NodeStatus{Conditions: n.Status.Conditions}}
		},
		func(o any) bool {
			n, ok := o.(*corev1.Node)
			if !ok {
				return false
			}
			for _, c := range n.Status.Conditions {
				if c.Type == corev1.NodeReady {
					return c.Status == corev1.ConditionTrue
				}
			}
			return false
		})
}

// watchPods counts the pods of the benchmark; good ones run.
func watchPods(ctx context.Context, client kubernetes.Interface) (*tally, error) {
	return watch(ctx, client, func(f informers.SharedInformerFactory) cache.SharedIndexInformer {
		return f.Core().V1().Pods().Informer()
	},
		func(o any) any {
			p, ok := o.(*corev1.Pod)
			if !ok {
				return o
			}
			return &corev1.Pod{ObjectMeta: trimmedMeta(p), Status: corev1.PodStatus{Phase: p.Status.Phase}}
		},
		func(o any) bool {
			p, ok := o.(*corev1.Pod)
			return ok && p.Status.Phase == corev1.PodRunning && p.DeletionTimestamp == nil
		})
}

// trimmedMeta is what a watch needs to know an object by. The measuring itself should not weigh.
func trimmedMeta(o metav1.Object) metav1.ObjectMeta {
	return metav1.ObjectMeta{
		Name: o.GetName(), Namespace: o.GetNamespace(), UID: o.GetUID(), ResourceVersion: o.GetResourceVersion(), DeletionTimestamp: o.GetDeletionTimestamp(),
	}
}

func watch(ctx context.Context, client kubernetes.Interface, of func(informers.SharedInformerFactory) cache.SharedIndexInformer, shrink func(any) any, good func(any) bool) (*tally, error) {
	watching, cancel := context.WithCancel(context.WithoutCancel(ctx)) // until stop
	t := &tally{cancel: cancel, objects: map[types.UID]bool{}, changed: make(chan struct{})}
	t.factory = informers.NewSharedInformerFactoryWithOptions(client, 0,
		informers.WithTransform(func(o any) (any, error) { return shrink(o), nil }),
		informers.WithTweakListOptions(func(o *metav1.ListOptions) { o.LabelSelector = benchLabel }))
	informer := of(t.factory)
	seen := func(o any) {
		if m, ok := o.(metav1.Object); ok {
			t.set(m.GetUID(), good(o))
		}
	}
	registration, err := informer.AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc: seen, UpdateFunc: func(_, o any) { seen(o) },
		DeleteFunc: func(o any) {
			if last, ok := o.(cache.DeletedFinalStateUnknown); ok {
				o = last.Obj
			}
			if m, ok := o.(metav1.Object); ok {
				t.remove(m.GetUID())
			}
		},
	})
	if err != nil {
		cancel()
		return nil, err
	}
	t.factory.Start(watching.Done())
	if !cache.WaitForCacheSync(ctx.Done(), registration.HasSynced) {
		t.stop()
		return nil, errors.New("stopped before the first list")
	}
	return t, nil
}
