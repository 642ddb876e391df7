package nodes

import (
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	karpv1 "github.com/dovetail-sh/dovetail/api/v1"
	"github.com/dovetail-sh/dovetail/internal/cluster"
	"github.com/dovetail-sh/dovetail/internal/controller/loop"
	"github.com/dovetail-sh/dovetail/internal/controller/write"
	"github.com/dovetail-sh/dovetail/internal/drain"
	"github.com/dovetail-sh/dovetail/internal/event"
	"github.com/dovetail-sh/dovetail/internal/metric"
)

const impossibleBudgetsInterval = time.Minute

// ImpossibleBudgets emits events on PodDisruptionBudgets that can never allow an eviction. It leaves out
// budgets that hold no pod on a managed node.
type ImpossibleBudgets struct {
	Client  client.Client
	Events  write.Emitter
	Metrics *metric.Set
}

// Register adds the loop to a manager.
func (r *ImpossibleBudgets) Register(mgr ctrl.Manager) error {
	return mgr.Add(&loop.Ticker{Name: "poddisruptionbudget.impossible", Every: impossibleBudgetsInterval, Metrics: r.Metrics, Pass: r.Pass})
}

// Pass checks all budgets once. The recorder drops events that it sent recently.
func (r *ImpossibleBudgets) Pass(ctx context.Context) error {
	budgets := &policyv1.PodDisruptionBudgetList{}
	if err := r.Client.List(ctx, budgets, client.UnsafeDisableDeepCopy); err != nil {
		return fmt.Errorf("list poddisruptionbudgets: %w", err)
	}
	var nodes map[string]bool
	for i := range budgets.Items {
		b := &budgets.Items[i]
		cannot, fix := drain.Cannot(b)
		selector, err := cluster.NewSelector(b.Spec.Selector)
		if cannot == "" || err != nil || selector.Inert() {
			continue
		}
		if nodes == nil {
			if nodes, err = r.managedNodes(ctx); err != nil {
				return err
			}
		}
		held, err := r.countHeldPods(ctx, b.Namespace, selector, nodes)
		if err != nil {
			return err
		}
		if held > 0 {
			r.Events.Emit(b.DeepCopy(), event.Event{Reason: event.EvictionImpossible, Text: fmt.Sprintf(
				"The budget %s. It holds %d pod(s) on nodes that Dovetail manages: these nodes are not consolidated, and one that has to go waits until its terminationGracePeriod is over, for ever without one. To change that, %s", cannot, held, fix)})
		}
	}
	return nil
}

// managedNodes returns the nodes that belong to a NodePool.
func (r *ImpossibleBudgets) managedNodes(ctx context.Context) (map[string]bool, error) {
	nodes := &corev1.NodeList{}
	if err := r.Client.List(ctx, nodes, client.HasLabels{karpv1.LabelNodePool}, client.UnsafeDisableDeepCopy); err != nil {
		return nil, fmt.Errorf("list nodes: %w", err)
	}
	out := make(map[string]bool, len(nodes.Items))
	for i := range nodes.Items {
		out[nodes.Items[i].Name] = true
	}
	return out, nil
}

// countHeldPods counts the running pods on these nodes that a selector matches.
func (r *ImpossibleBudgets) countHeldPods(ctx context.Context, namespace string, selector cluster.Selector, nodes map[string]bool) (int, error) {
	pods := &corev1.PodList{}
	if err := r.Client.List(ctx, pods, client.InNamespace(namespace), client.UnsafeDisableDeepCopy); err != nil {
		return 0, fmt.Errorf("list pods of namespace %s: %w", namespace, err)
	}
	count := 0
	for i := range pods.Items {
		p := &pods.Items[i]
		ended := cluster.PodEnded(p)
		if nodes[p.Spec.NodeName] && !ended && p.DeletionTimestamp == nil && selector.Matches(p.Labels) {
			count++
		}
	}
	return count, nil
}
