package periodic

import (
	"context"
	"time"

	"k8s.io/client-go/util/workqueue"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"
)

const (
	firstRetry = time.Second
	lastRetry  = 1000 * time.Second // about 17 minutes
	justBefore = 10 * time.Minute
)

// Task is repeated: it returns when to run next.
type Task func(ctx context.Context) (next time.Duration, err error)

// Every makes a task that runs at fixed intervals.
func Every(interval time.Duration, do func(ctx context.Context) error) Task {
	return func(ctx context.Context) (time.Duration, error) { return interval, do(ctx) }
}

// EveryAfter is Every for a task that may have run just before: the first run may be skipped.
func EveryAfter(done time.Time, now func() time.Time, interval time.Duration, do func(ctx context.Context) error) Task {
	first := true
	return func(ctx context.Context) (time.Duration, error) {
		skip := first && now().Sub(done) < justBefore
		first = false
		if skip {
			return interval, nil
		}
		return interval, do(ctx)
	}
}

// Add adds a task to the manager as a controller of that name, so that its log lines and metrics are those
// of a controller. It begins when this process leads. A failed round is repeated, first soon and then
// ever later; a panic is a failure.
func Add(mgr ctrl.Manager, name string, do Task) error {
	return ctrl.NewControllerManagedBy(mgr).
		Named(name).
		WatchesRawSource(source.Func(func(_ context.Context, queue workqueue.TypedRateLimitingInterface[reconcile.Request]) error {
			queue.Add(reconcile.Request{})
			return nil
		})).
		WithOptions(controller.Options{
			MaxConcurrentReconciles: 1,
			RateLimiter:             workqueue.NewTypedItemExponentialFailureRateLimiter[reconcile.Request](firstRetry, lastRetry),
		}).
		Complete(reconcile.Func(func(ctx context.Context, _ reconcile.Request) (reconcile.Result, error) {
			next, err := do(ctx)
			if err != nil {
				return reconcile.Result{}, err
			}
			return reconcile.Result{RequeueAfter: next}, nil
		}))
}
