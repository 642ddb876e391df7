package disruption

import (
	"context"
	"encoding/json"
	"fmt"
	"sync"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/workqueue"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/dovetail-sh/dovetail/internal/cluster"
	"github.com/dovetail-sh/dovetail/internal/controller/loop"
	"github.com/dovetail-sh/dovetail/internal/metric"
	"github.com/dovetail-sh/dovetail/internal/rights"
)

// Results of writing a deletion cost, as the metric names them (V15-56).
const (
	costUpdated   = "updated"
	costUnchanged = "skipped_unchanged"
	costGone      = "skipped_notfound"
	costConflict  = "skipped_conflict"
	costFailed    = "error"
)

// PodCost is a deletion cost that a pod should have; empty: none.
type PodCost struct {
	Pod   cluster.PodID
	Value string
}

// CostWrites writes deletion costs on pods, one pod at a time (V15-56). It is in-memory state: after a
// restart nodes are ranked anew. It must not be copied.
type CostWrites struct {
	Client  client.Client
	Metrics *metric.Set
	Workers int

	mu           sync.Mutex
	pending      map[cluster.PodID]string
	queue        workqueue.TypedRateLimitingInterface[cluster.PodID] // nil until started
	denialLogged bool                                                // that pods may not be patched
}

// Register adds the queue to a manager.
func (q *CostWrites) Register(mgr ctrl.Manager) error {
	return loop.RegisterPodQueue(mgr, "pod.deletioncost.queue", q.Workers, q.start, q)
}

// start takes the queue of the controller and adds what was enqueued before.
func (q *CostWrites) start(_ context.Context, queue workqueue.TypedRateLimitingInterface[cluster.PodID]) error {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.queue = queue
	// any order: workers take them side by side
	for id := range q.pending {
		queue.Add(id)
	}
	return nil
}

// Enqueue adds deletion costs to be written. The last one for a pod wins.
func (q *CostWrites) Enqueue(costs ...PodCost) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.pending == nil {
		q.pending = map[cluster.PodID]string{}
	}
	for _, w := range costs {
		q.pending[w.Pod] = w.Value
		if q.queue != nil {
			q.queue.Add(w.Pod)
		}
	}
}

// Len is how many pods wait.
func (q *CostWrites) Len() int {
	q.mu.Lock()
	defer q.mu.Unlock()
	return len(q.pending)
}

// Reconcile writes the cost of one pod. One that another client wrote meanwhile is left to the next
// ranking.
func (q *CostWrites) Reconcile(ctx context.Context, id cluster.PodID) (ctrl.Result, error) {
	q.mu.Lock()
	value, pending := q.pending[id]
	q.mu.Unlock()
	if !pending {
		return ctrl.Result{}, nil
	}
	result, err := q.write(ctx, id, value)
	q.Metrics.DeletionCostWrites.WithLabelValues(result).Inc()
	_, denied := rights.Read(fmt.Sprint(err))
	if err != nil && !denied {
		return ctrl.Result{}, fmt.Errorf("writing the deletion cost of pod %s: %w", id, err)
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	if denied && !q.denialLogged { // the next ranking tries again
		q.denialLogged = true
		log.FromContext(ctx).Error(nil, "deletion costs of pods are not written, so ReplicaSets do not prefer pods on nodes that are about to be removed; "+
			"allow the service account to patch pods (value settings.featureGates.podDeletionCostManagement of the chart), or switch the gate PodDeletionCostManagement off", "reason", err.Error())
	}
	if q.pending[id] == value { // otherwise a new value was enqueued meanwhile
		delete(q.pending, id)
	}
	return ctrl.Result{}, nil
}

func (q *CostWrites) write(ctx context.Context, id cluster.PodID, value string) (result string, err error) {
	pod := &corev1.Pod{}
	err = q.Client.Get(ctx, id.Key(), pod)
	switch {
	case apierrors.IsNotFound(err), err == nil && pod.UID != id.UID:
		return costGone, nil
	case err != nil:
		return costFailed, err
	case pod.Annotations[corev1.PodDeletionCost] == value:
		return costUnchanged, nil
	}
	patch, err := costPatch(pod, value)
	if err != nil {
		return costFailed, err
	}
	err = q.Client.Patch(ctx, pod.DeepCopy(), client.RawPatch(types.MergePatchType, patch))
	switch {
	case err == nil:
		return costUpdated, nil
	case apierrors.IsNotFound(err):
		return costGone, nil
	case apierrors.IsConflict(err):
		return costConflict, nil
	}
	return costFailed, err
}

// costPatch sets or removes one annotation of the version that was read. It is written out: what was read
// lacks most annotations, and a patch made from it would remove them all when the last one is removed.
func costPatch(pod *corev1.Pod, value string) ([]byte, error) {
	annotations := map[string]any{corev1.PodDeletionCost: nil}
	if value != "" {
		annotations[corev1.PodDeletionCost] = value
	}
	return json.Marshal(map[string]any{"metadata": map[string]any{"resourceVersion": pod.ResourceVersion, "annotations": annotations}})
}
