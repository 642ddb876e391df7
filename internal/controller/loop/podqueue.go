package loop

import (
	"github.com/go-logr/logr"
	"k8s.io/client-go/util/workqueue"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"

	"github.com/dovetail-sh/dovetail/internal/cluster"
	"github.com/dovetail-sh/dovetail/internal/drain"
)

// RegisterPodQueue adds a controller that reconciles the pods in its queue, and no
// others. start is handed the queue once it runs. What fails is tried again with the back-off of drains
// (G12).
func RegisterPodQueue(mgr ctrl.Manager, name string, workers int, start source.TypedFunc[cluster.PodID], r reconcile.TypedReconciler[cluster.PodID]) error {
	logger := mgr.GetLogger().WithValues("controller", name)
	return builder.TypedControllerManagedBy[cluster.PodID](mgr).Named(name).
		WatchesRawSource(start).
		WithOptions(controller.TypedOptions[cluster.PodID]{
			MaxConcurrentReconciles: max(workers, 1),
			RateLimiter:             workqueue.NewTypedItemExponentialFailureRateLimiter[cluster.PodID](drain.FirstRetry, drain.LastRetry),
		}).
		WithLogConstructor(func(id *cluster.PodID) logr.Logger {
			if id == nil {
				return logger
			}
			return logger.WithValues("namespace", id.Namespace, "name", id.Name)
		}).
		Complete(r)
}
