package loop

import (
	"time"

	"github.com/go-logr/logr"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/workqueue"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"
)

// Back-off of everything that drains (G12).
const (
	DrainBackoff    = 100 * time.Millisecond
	DrainBackoffMax = 10 * time.Second
)

// RegisterPodQueue adds a controller that reconciles the pods in its queue, and no
// others. start is handed the queue once it runs. What fails is tried again with the back-off of drains
// (G12).
func RegisterPodQueue(mgr ctrl.Manager, name string, workers int, start source.TypedFunc[PodID], r reconcile.TypedReconciler[PodID]) error {
	logger := mgr.GetLogger().WithValues("controller", name)
	return builder.TypedControllerManagedBy[PodID](mgr).Named(name).
		WatchesRawSource(start).
		WithOptions(controller.TypedOptions[PodID]{
			MaxConcurrentReconciles: max(workers, 1),
			RateLimiter:             workqueue.NewTypedItemExponentialFailureRateLimiter[PodID](DrainBackoff, DrainBackoffMax),
		}).
		WithLogConstructor(func(id *PodID) logr.Logger {
			if id == nil {
				return logger
			}
			return logger.WithValues("namespace", id.Namespace, "name", id.Name)
		}).
		Complete(r)
}

// PodID is one pod; a later one with the same name is another.
type PodID struct {
	Namespace, Name string
	UID             types.UID
}

// String is the name as people write it.
func (id PodID) String() string { return id.Namespace + "/" + id.Name }

// Key is the name as the API server knows it.
func (id PodID) Key() types.NamespacedName {
	return types.NamespacedName{Namespace: id.Namespace, Name: id.Name}
}
