package nodes

import (
	"context"
	"fmt"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/workqueue"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/dovetail-sh/dovetail/internal/cluster"
	"github.com/dovetail-sh/dovetail/internal/controller/loop"
	"github.com/dovetail-sh/dovetail/internal/controller/write"
	"github.com/dovetail-sh/dovetail/internal/drain"
	"github.com/dovetail-sh/dovetail/internal/metric"
)

// Evictions evicts pods as a drain.EvictionQueue decides. It must not be copied.
type Evictions struct {
	Client  client.Client
	Events  write.Announcer
	Metrics *metric.Set
	Workers int
	Now     func() time.Time
	Evicted func(pool, namespace string) // called for pods that begin to leave a node of a NodePool; may be nil

	mu    sync.Mutex
	state drain.EvictionQueue
	queue workqueue.TypedRateLimitingInterface[cluster.PodID] // nil until started
}

// Register adds the queue to a manager.
func (q *Evictions) Register(mgr ctrl.Manager) error {
	return loop.RegisterPodQueue(mgr, "eviction-queue", q.Workers, q.start, q)
}

// start takes the queue of the controller and puts in what was requested before.
func (q *Evictions) start(_ context.Context, queue workqueue.TypedRateLimitingInterface[cluster.PodID]) error {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.queue = queue
	for _, id := range q.state.Pods() {
		queue.Add(id)
	}
	return nil
}

// Add requests evictions.
func (q *Evictions) Add(list ...drain.Eviction) {
	q.mu.Lock()
	defer q.mu.Unlock()
	for _, id := range q.state.Add(q.Now(), list...) {
		if q.queue != nil {
			q.queue.Add(id)
		}
	}
}

// Len is how many pods have to leave.
func (q *Evictions) Len() int {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.state.Len()
}

// Tries returns the progress with those pods that are in the queue.
func (q *Evictions) Tries(pods []*corev1.Pod) map[types.UID]drain.Try {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.state.Tries(pods)
}

// Reconcile does what can be done now about one pod.
func (q *Evictions) Reconcile(ctx context.Context, id cluster.PodID) (ctrl.Result, error) {
	q.mu.Lock()
	e, found := q.state.Eviction(id)
	q.mu.Unlock()
	if !found {
		return ctrl.Result{}, nil
	}
	p, n, err := q.observe(ctx, &e)
	if err != nil {
		return ctrl.Result{}, fmt.Errorf("evicting pod %s: %w", id, err)
	}
	q.mu.Lock()
	e, _ = q.state.Eviction(id) // its limit may be another by now
	now := q.Now()
	step := q.state.Next(id, p, n, now)
	q.mu.Unlock()
	switch step.Act {
	case drain.Evict:
		err = q.evict(ctx, id, p)
	case drain.Delete:
		err = q.delete(ctx, id, p, step.Grace)
	case drain.Hold, drain.Drop:
		return ctrl.Result{RequeueAfter: step.After}, nil
	}
	q.mu.Lock()
	out := q.state.Record(id, step.Act, err, now)
	q.mu.Unlock()
	if step.Act == drain.Evict {
		q.reportEviction(ctx, &e, p, n, out.Response, err)
	} else {
		q.reportDeletion(&e, p, n, step.Grace, out.Response, err)
	}
	if out.Failed {
		return ctrl.Result{}, fmt.Errorf("evicting pod %s: %w", id, err)
	}
	return ctrl.Result{RequeueAfter: out.After}, nil
}

// observe reads the pod and its node; nil if there is none.
func (q *Evictions) observe(ctx context.Context, e *drain.Eviction) (*corev1.Pod, *corev1.Node, error) {
	p, n := &corev1.Pod{}, &corev1.Node{}
	if err := q.Client.Get(ctx, e.Pod.Key(), p); err != nil {
		return nil, nil, client.IgnoreNotFound(err)
	}
	if err := q.Client.Get(ctx, types.NamespacedName{Name: e.Node}, n); err != nil {
		return p, nil, client.IgnoreNotFound(err)
	}
	return p, n, nil
}
