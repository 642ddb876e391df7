package disruption

import (
	"context"
	"fmt"
	"strconv"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	karpv1 "github.com/dovetail-sh/dovetail/api/v1"
	"github.com/dovetail-sh/dovetail/internal/catalog"
	"github.com/dovetail-sh/dovetail/internal/cluster"
	"github.com/dovetail-sh/dovetail/internal/controller/loop"
	"github.com/dovetail-sh/dovetail/internal/disrupt"
	"github.com/dovetail-sh/dovetail/internal/metric"
)

const (
	costEvery = time.Minute
	costOld   = 5 * time.Minute // ranked again although nothing changed
	costNodes = 50              // that are changed in a pass, besides those that go (V15-55)
)

// costStore is the memory that nodes are ranked on.
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

	changes uint64    // when nodes were last ranked
	ranked  time.Time // zero: never
}

// Register adds the loop to a manager.
func (r *DeletionCosts) Register(mgr ctrl.Manager) error {
	return mgr.Add(&loop.Turns{Name: "pod.deletioncost", Metrics: r.Metrics, Every: disruptInterval, Turn: r.turn})
}

func (r *DeletionCosts) turn(ctx context.Context) (time.Duration, error) {
	if !r.Store.Synced() {
		return time.Second, nil
	}
	return costEvery, r.Pass(ctx)
}

// Pass ranks the nodes if something changed. A pass that fails is made again on the same state.
func (r *DeletionCosts) Pass(ctx context.Context) error {
	changes, now := r.Store.Changes(), r.Now()
	if changes == r.changes && !r.ranked.IsZero() && now.Sub(r.ranked) < costOld {
		return nil
	}
	pods, err := r.pods(ctx)
	if err != nil {
		return err
	}
	notes, err := r.notes(ctx, pods)
	if err != nil {
		return err
	}
	offers := map[string][]catalog.InstanceType{}
	for _, pool := range r.Store.Pools() {
		if list, err := r.Cloud.Types(ctx, pool); err == nil {
			offers[pool.Name] = list
		}
	}
	r.Metrics.DeletionCostPending.Reset()
	left := costNodes
	for _, node := range disrupt.DeletionCosts(disrupt.View{DisruptionView: r.Store.Disruption(offers)}, notes) {
		costs := podCosts(pods[node.Node], node.Value)
		if len(costs) == 0 {
			continue
		}
		if !node.Deleting {
			if left == 0 {
				break // those that go come first, so nothing is missed that should not wait
			}
			left--
		}
		r.Metrics.DeletionCostPending.WithLabelValues(node.Pool).Inc()
		r.Queue.Enqueue(costs...)
	}
	r.changes, r.ranked = changes, now
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
		if p.Spec.NodeName != "" && p.Status.Phase != corev1.PodSucceeded && p.Status.Phase != corev1.PodFailed {
			out[p.Spec.NodeName] = append(out[p.Spec.NodeName], p)
		}
	}
	return out, nil
}

// notes says of each node whether it goes and whether a pod pins it (V15-54).
func (r *DeletionCosts) notes(ctx context.Context, pods map[string][]*corev1.Pod) (map[string]disrupt.NodeNote, error) {
	list := &corev1.NodeList{}
	if err := r.Client.List(ctx, list, client.HasLabels{karpv1.LabelNodePool}, client.UnsafeDisableDeepCopy); err != nil {
		return nil, fmt.Errorf("list nodes: %w", err)
	}
	out := make(map[string]disrupt.NodeNote, len(list.Items))
	for i := range list.Items {
		n := &list.Items[i]
		note := disrupt.NodeNote{Tainted: karpv1.Disrupted(n)}
		for _, p := range pods[n.Name] {
			note.Pinned = note.Pinned || pinsNode(p)
		}
		out[n.Name] = note
	}
	return out, nil
}

// pinsNode reports whether a pod would not simply come back elsewhere.
func pinsNode(p *corev1.Pod) bool {
	if p.Namespace == metav1.NamespaceSystem {
		return false
	}
	owner := metav1.GetControllerOf(p)
	if owner == nil {
		return true
	}
	switch owner.Kind {
	case "ReplicaSet", "DaemonSet":
		return owner.APIVersion != "apps/v1"
	case "Job":
		return owner.APIVersion != "batch/v1"
	}
	return true
}

// podCosts lists the pods of ReplicaSets whose deletion cost is not what it should be; 0 means none.
func podCosts(pods []*corev1.Pod, value int32) []PodCost {
	want := ""
	if value != 0 {
		want = strconv.FormatInt(int64(value), 10)
	}
	var out []PodCost
	for _, p := range pods {
		owner := metav1.GetControllerOf(p)
		if owner == nil || owner.Kind != "ReplicaSet" || owner.APIVersion != "apps/v1" || p.Annotations[corev1.PodDeletionCost] == want {
			continue
		}
		out = append(out, PodCost{Pod: loop.PodID{Namespace: p.Namespace, Name: p.Name, UID: p.UID}, Value: want})
	}
	return out
}
