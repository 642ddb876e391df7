package loop

import (
	"time"

	"k8s.io/client-go/util/workqueue"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
)

// Workers is how many objects a controller works on at a time: least with one core or less, most with
// sixty or more, and in proportion between.
func Workers(least, most, millicores int) int {
	const few, many = 1_000, 60_000
	share := min(max(millicores, few), many) - few
	return least + (most-least)*share/(many-few)
}

// Options are those of a controller that waits from first to longest, doubling, after a failure.
func Options(workers int, first, longest time.Duration) controller.Options {
	return controller.Options{
		MaxConcurrentReconciles: max(workers, 1),
		RateLimiter:             workqueue.NewTypedItemExponentialFailureRateLimiter[reconcile.Request](first, longest),
	}
}

// DefaultOptions are the options of a controller with the usual waits after a failure. Those of the framework
// grow to a quarter of an hour, which is longer than an outage may be felt (G14).
func DefaultOptions(n int) controller.Options {
	return Options(n, 100*time.Millisecond, time.Minute)
}

// Soon is when to reconcile again after another client wrote, or our own write is not in the cache yet. The
// watch mostly calls earlier.
const Soon = time.Second

// RequeueAfter is the result of a reconcile that has to be repeated after a while; 0: only when something changes.
func RequeueAfter(after time.Duration) ctrl.Result { return ctrl.Result{RequeueAfter: after} }
