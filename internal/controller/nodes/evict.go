package nodes

import (
	"context"
	"fmt"
	"maps"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/workqueue"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/dovetail-sh/dovetail/internal/controller/loop"
	"github.com/dovetail-sh/dovetail/internal/controller/write"
	"github.com/dovetail-sh/dovetail/internal/drain"
	"github.com/dovetail-sh/dovetail/internal/metric"
)

// Eviction requests that one pod leaves its node.
type Eviction struct {
	Pod    loop.PodID
	Node   string
	Limit  drain.Limit
	Reason string // why the node is removed
	Due    bool   // the deadline has passed: process the pod at once
}

// Evictions is the queue of pods to evict. It is in-memory state: after a restart the drains fill
// it again. It must not be copied.
type Evictions struct {
	Client  client.Client
	Events  write.Announcer
	Metrics *metric.Set
	Workers int
	Now     func() time.Time
	Evicted func(pool, namespace string) // called for pods that begin to leave a node of a NodePool; may be nil

	mu      sync.Mutex
	entries map[loop.PodID]*entry
	queue   workqueue.TypedRateLimitingInterface[loop.PodID] // nil until started
}

// entry is one pod in the queue.
type entry struct {
	Eviction
	tries int
	try   drain.Try               // progress, for explanations
	acted map[drain.Act]time.Time // when an act succeeded
}

// Register adds the queue to a manager.
func (q *Evictions) Register(mgr ctrl.Manager) error {
	return loop.RegisterPodQueue(mgr, "eviction-queue", q.Workers, q.start, q)
}

// start takes the queue of the controller and puts in what was requested before.
func (q *Evictions) start(_ context.Context, queue workqueue.TypedRateLimitingInterface[loop.PodID]) error {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.queue = queue
	// any order: workers take them side by side
	for id := range q.entries {
		queue.Add(id)
	}
	return nil
}

// Add requests evictions. A repeated request changes nothing, unless the limit is tighter then or due:
// the pod keeps its back-off.
func (q *Evictions) Add(list ...Eviction) {
	q.mu.Lock()
	defer q.mu.Unlock()
	for _, e := range list {
		known, found := q.entries[e.Pod]
		wake := !found || e.Due
		if found {
			limit := known.Limit.Join(e.Limit)
			wake = wake || limit != known.Limit
			known.Limit = limit
			if !limit.Stay {
				known.Reason = e.Reason
			}
		} else {
			if q.entries == nil {
				q.entries = map[loop.PodID]*entry{}
			}
			q.entries[e.Pod] = &entry{Eviction: e, try: drain.Try{Since: q.Now()}, acted: map[drain.Act]time.Time{}}
		}
		if wake && q.queue != nil {
			q.queue.Add(e.Pod)
		}
	}
}

// Len is how many pods have to leave.
func (q *Evictions) Len() int {
	q.mu.Lock()
	defer q.mu.Unlock()
	return len(q.entries)
}

// Reconcile does what can be done now about one pod.
func (q *Evictions) Reconcile(ctx context.Context, id loop.PodID) (ctrl.Result, error) {
	e, found := q.find(id)
	if !found {
		return ctrl.Result{}, nil
	}
	p, n, err := q.observe(ctx, e)
	if err != nil {
		return ctrl.Result{}, fmt.Errorf("evicting pod %s: %w", id, err)
	}
	if p == nil {
		return q.drop(id)
	}
	now := q.Now()
	act, grace := e.Limit.Act(p, now)
	if until := e.acted[act].Add(drain.CacheDelay); now.Before(until) {
		return ctrl.Result{RequeueAfter: until.Sub(now)}, nil // it is done, the cache does not show it yet
	}
	var done evictionResult
	switch act {
	case drain.Evict:
		done, err = q.evict(ctx, e, p, n)
	case drain.Delete:
		done, err = q.delete(ctx, e, p, n, grace)
	case drain.Hold:
		done = refused
		q.recordProtected(id, now)
	case drain.Drop:
		done = over
	}
	if err != nil {
		return ctrl.Result{}, fmt.Errorf("evicting pod %s: %w", id, err)
	}
	switch done {
	case over:
		return q.drop(id)
	case accepted:
		q.recordEvicted(id, act, now)
		return ctrl.Result{RequeueAfter: drain.CacheDelay}, nil
	default:
		return ctrl.Result{RequeueAfter: q.backoff(id)}, nil
	}
}

// observe reads the pod and its node; a nil pod means that there is nothing left to do: it is gone, or
// its node is no longer to be drained (V15-63).
func (q *Evictions) observe(ctx context.Context, e entry) (*corev1.Pod, *corev1.Node, error) {
	p, n := &corev1.Pod{}, &corev1.Node{}
	if err := q.Client.Get(ctx, types.NamespacedName{Namespace: e.Pod.Namespace, Name: e.Pod.Name}, p); err != nil {
		return nil, nil, client.IgnoreNotFound(err)
	}
	if p.UID != e.Pod.UID {
		return nil, nil, nil
	}
	if err := q.Client.Get(ctx, types.NamespacedName{Name: e.Node}, n); err != nil {
		return nil, nil, client.IgnoreNotFound(err)
	}
	if !e.Limit.Empties(n) {
		return nil, nil, nil
	}
	return p, n, nil
}

// find returns a copy of an entry.
func (q *Evictions) find(id loop.PodID) (entry, bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	e, found := q.entries[id]
	if !found {
		return entry{}, false
	}
	out := *e
	out.acted = maps.Clone(e.acted)
	return out, true
}

func (q *Evictions) drop(id loop.PodID) (ctrl.Result, error) {
	q.mu.Lock()
	defer q.mu.Unlock()
	delete(q.entries, id)
	return ctrl.Result{}, nil
}

// recordEvicted records an action on a pod that succeeded.
func (q *Evictions) recordEvicted(id loop.PodID, act drain.Act, now time.Time) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if e := q.entries[id]; e != nil {
		e.acted[act], e.tries, e.try = now, 0, drain.Try{Since: now}
	}
}

// recordRefusal records why the API server refused an eviction.
func (q *Evictions) recordRefusal(id loop.PodID, err error, budget bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	e := q.entries[id]
	if e == nil {
		return
	}
	e.try = e.try.Refused(drain.ResponseText(err), budget, q.Now())
}

// recordProtected drops the last refusal: the pod is protected now, and the API server is not called.
func (q *Evictions) recordProtected(id loop.PodID, now time.Time) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if e := q.entries[id]; e != nil {
		e.try = drain.Try{Since: now}
	}
}

// Tries returns the progress with those pods that are in the queue.
func (q *Evictions) Tries(pods []*corev1.Pod) map[types.UID]drain.Try {
	q.mu.Lock()
	defer q.mu.Unlock()
	out := map[types.UID]drain.Try{}
	for _, p := range pods {
		if e := q.entries[loop.PodID{Namespace: p.Namespace, Name: p.Name, UID: p.UID}]; e != nil {
			out[p.UID] = e.try
		}
	}
	return out
}

// backoff is the time until the next try; it doubles with each.
func (q *Evictions) backoff(id loop.PodID) time.Duration {
	q.mu.Lock()
	defer q.mu.Unlock()
	e := q.entries[id]
	if e == nil {
		return loop.DrainBackoff
	}
	const doublings = 7 // 100 ms become more than 10 s
	wait := min(loop.DrainBackoff<<min(e.tries, doublings), loop.DrainBackoffMax)
	e.tries++
	return wait
}
