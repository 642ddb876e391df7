package nodes

import (
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	karpv1 "github.com/dovetail-sh/dovetail/api/v1"
	"github.com/dovetail-sh/dovetail/internal/controller/lookup"
	"github.com/dovetail-sh/dovetail/internal/controller/loop"
	"github.com/dovetail-sh/dovetail/internal/controller/write"
	"github.com/dovetail-sh/dovetail/internal/disrupt"
	"github.com/dovetail-sh/dovetail/internal/event"
	"github.com/dovetail-sh/dovetail/internal/execute"
	"github.com/dovetail-sh/dovetail/internal/lifecycle"
	"github.com/dovetail-sh/dovetail/internal/metric"
)

// repairRetry is when a node that may not be repaired now is looked at again (LC-42).
const repairRetry = 5 * time.Minute

// NodeHealth removes unhealthy nodes by force, without budgets and without a replacement first: repair as it
// was before it became a method of disruption (V15-33). It runs only if the settings ask for it.
type NodeHealth struct {
	Client   client.Client
	Ailments *lifecycle.Ailments
	Events   write.Emitter
	Metrics  *metric.Set
	Remover  execute.Remover
	Classes  []schema.GroupKind // kinds of node classes this controller manages
	Workers  int
	Now      func() time.Time
}

// Register adds the reconciler to a manager.
func (r *NodeHealth) Register(mgr ctrl.Manager) error {
	return ctrl.NewControllerManagedBy(mgr).Named("node.health").
		For(&corev1.Node{}).
		WithOptions(loop.DefaultOptions(r.Workers)).
		Complete(r)
}

// Reconcile removes one node if it has been unhealthy for too long.
func (r *NodeHealth) Reconcile(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	n := &corev1.Node{}
	if err := r.Client.Get(ctx, req.NamespacedName, n); err != nil {
		return ctrl.Result{}, client.IgnoreNotFound(err)
	}
	condition, at, sick := r.Ailments.Due(n)
	if !sick || n.DeletionTimestamp != nil {
		return ctrl.Result{}, nil
	}
	claims, err := lookup.ClaimsOf(ctx, r.Client, n.Spec.ProviderID)
	if err != nil || len(claims) != 1 || claims[0].DeletionTimestamp != nil {
		return ctrl.Result{}, err
	}
	claim := claims[0]
	if read, _ := claim.Effective(nil, false); !lookup.Managed(r.Classes, read.Spec.NodeClassRef) {
		return ctrl.Result{}, nil
	}
	if left := at.Sub(r.Now()); left > 0 {
		return loop.RequeueAfter(left), nil
	}
	why, err := r.stopped(ctx, n)
	if err != nil {
		return ctrl.Result{}, err
	}
	if why != "" {
		r.Events.Emit(n, event.Event{Reason: event.NodeRepairBlocked, Text: "Node " + n.Name + " is not repaired: " + why})
		return loop.RequeueAfter(repairRetry), nil
	}
	err = r.remove(ctx, claim, condition)
	switch {
	case apierrors.IsConflict(err):
		return loop.RequeueAfter(loop.Soon), nil
	case err != nil:
		return ctrl.Result{}, client.IgnoreNotFound(err)
	}
	log.FromContext(ctx).Info("deleting unhealthy node", "condition", condition)
	return ctrl.Result{}, nil
}

// stopped says why nothing is repaired now: too many nodes are unhealthy, of the pool, or of the cluster if
// the node has none.
func (r *NodeHealth) stopped(ctx context.Context, n *corev1.Node) (string, error) {
	list, pool := &corev1.NodeList{}, n.Labels[karpv1.LabelNodePool]
	if err := r.Client.List(ctx, list, client.UnsafeDisableDeepCopy); err != nil {
		return "", fmt.Errorf("list nodes: %w", err)
	}
	var same []*corev1.Node
	all := make([]disrupt.NodeHealth, 0, len(list.Items))
	for i := range list.Items {
		if pool == "" || list.Items[i].Labels[karpv1.LabelNodePool] == pool {
			same = append(same, &list.Items[i])
		}
		all = append(all, disrupt.NodeHealth{Created: list.Items[i].CreationTimestamp.Time, Health: list.Items[i].Status.Conditions})
	}
	if silent, of := disrupt.CountUnreachable(all); silent > 0 {
		return disrupt.UnreachableText(silent, of), nil
	}
	if sick, stop := r.Ailments.TooMany(same); stop {
		return fmt.Sprintf("%d of %d nodes are unhealthy, more than a fifth: a fault of so many is rarely cured by new nodes", sick, len(same)), nil
	}
	return "", nil
}

// remove deletes a claim whose drain is over before it begins (LC-43).
func (r *NodeHealth) remove(ctx context.Context, claim *karpv1.NodeClaim, condition string) error {
	err := write.RemoveClaim(ctx, r.Client, r.Remover, execute.Removal{
		Claim: claim, Reason: lifecycle.RemovedUnhealthy, Deadline: r.Now(),
		Event: execute.Terminating("Unhealthy: condition " + condition + " has lasted longer than is tolerated"),
	})
	if err != nil {
		return err
	}
	write.CountUnhealthy(r.Metrics, claim, condition, "forceful")
	return nil
}
