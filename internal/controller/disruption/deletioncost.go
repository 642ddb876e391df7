package disruption

import (
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	karpv1 "github.com/dovetail-sh/dovetail/api/v1"
	"github.com/dovetail-sh/dovetail/internal/catalog"
	"github.com/dovetail-sh/dovetail/internal/cluster"
	"github.com/dovetail-sh/dovetail/internal/controller/loop"
	"github.com/dovetail-sh/dovetail/internal/disrupt"
	"github.com/dovetail-sh/dovetail/internal/disrupt/command"
	"github.com/dovetail-sh/dovetail/internal/metric"
)

// costStore is the cluster state that nodes are ranked on.
type costStore interface {
	Synced() bool
	Changes() uint64
	Pools() []*karpv1.NodePool
	Disruption(types map[string][]catalog.InstanceType) cluster.DisruptionView
}

// costQueue takes what is to be written on pods.
type costQueue interface {
	Enqueue(costs ...PodCost)
}

// DeletionCosts makes ReplicaSets that shrink empty the nodes that would go next: it ranks nodes and
// enqueues a deletion cost for each of their pods (V15-53 to V15-55).
type DeletionCosts struct {
	Client  client.Client
	Store   costStore
	Cloud   typeSource
	Queue   costQueue
	Metrics *metric.Set
	Now     func() time.Time

	ranked disrupt.CostRanking
}

// Register adds the loop to a manager.
func (r *DeletionCosts) Register(mgr ctrl.Manager) error {
	return mgr.Add(&loop.Turns{Name: "pod.deletioncost", Metrics: r.Metrics, Every: command.PassInterval, Turn: r.turn})
}

func (r *DeletionCosts) turn(ctx context.Context) (time.Duration, error) {
	if !r.Store.Synced() {
		return command.Unsynced, nil
	}
	return disrupt.CostInterval, r.Pass(ctx)
}

// Pass ranks the nodes if something changed. A pass that fails is made again on the same state.
func (r *DeletionCosts) Pass(ctx context.Context) error {
	changes, now := r.Store.Changes(), r.Now()
	if r.ranked.Covers(changes, now) {
		return nil
	}
	pods, err := r.pods(ctx)
	if err != nil {
		return err
	}
	nodes := &corev1.NodeList{}
	if err := r.Client.List(ctx, nodes, client.HasLabels{karpv1.LabelNodePool}, client.UnsafeDisableDeepCopy); err != nil {
		return fmt.Errorf("list nodes: %w", err)
	}
	offers := map[string][]catalog.InstanceType{}
	for _, pool := range r.Store.Pools() {
		if list, err := r.Cloud.Types(ctx, pool); err == nil {
			offers[pool.Name] = list
		}
	}
	r.Metrics.DeletionCostPending.Reset()
	for _, change := range disrupt.CostChanges(disrupt.View{DisruptionView: r.Store.Disruption(offers)}, nodes.Items, pods) {
		r.Metrics.DeletionCostPending.WithLabelValues(change.Pool).Inc()
		for _, p := range change.Pods {
			r.Queue.Enqueue(PodCost{Pod: cluster.PodIDOf(p), Value: change.Value})
		}
	}
	r.ranked = disrupt.CostRanking{Changes: changes, At: now}
	return nil
}

// pods lists the pods that run, by node. Nothing of what is listed is written to.
func (r *DeletionCosts) pods(ctx context.Context) (map[string][]*corev1.Pod, error) {
	list := &corev1.PodList{}
	if err := r.Client.List(ctx, list, client.UnsafeDisableDeepCopy); err != nil {
		return nil, fmt.Errorf("list pods: %w", err)
	}
	out := map[string][]*corev1.Pod{}
	for i := range list.Items {
		p := &list.Items[i]
		if p.Spec.NodeName != "" && !cluster.PodEnded(p) {
			out[p.Spec.NodeName] = append(out[p.Spec.NodeName], p)
		}
	}
	return out, nil
}
