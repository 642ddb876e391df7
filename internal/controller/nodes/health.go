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

// NodeHealth performs disrupt.ForcedRepair. It runs only if the settings enable it (V15-33).
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
	if _, _, unhealthy := r.Ailments.Due(n); !unhealthy {
		return ctrl.Result{}, nil // most nodes: nothing is listed for them
	}
	claims, err := lookup.ClaimsOf(ctx, r.Client, n.Spec.ProviderID)
	if err != nil {
		return ctrl.Result{}, err
	}
	if len(claims) > 0 {
		if read, _ := claims[0].Effective(nil, false); !lookup.Managed(r.Classes, read.Spec.NodeClassRef) {
			return ctrl.Result{}, nil
		}
	}
	all := &corev1.NodeList{}
	if err := r.Client.List(ctx, all, client.UnsafeDisableDeepCopy); err != nil {
		return ctrl.Result{}, fmt.Errorf("list nodes: %w", err)
	}
	repair := disrupt.DecideForcedRepair(r.Ailments, n, claims, lookup.ByName(all.Items), r.Now())
	if repair.Blocked != "" {
		r.Events.Emit(n, event.Event{Reason: event.NodeRepairBlocked, Text: "Node " + n.Name + " is not repaired: " + repair.Blocked})
	}
	if repair.Condition == "" {
		return loop.RequeueAfter(repair.After), nil
	}
	err = r.remove(ctx, claims[0], repair.Condition)
	switch {
	case apierrors.IsConflict(err):
		return loop.RequeueAfter(loop.Soon), nil
	case err != nil:
		return ctrl.Result{}, client.IgnoreNotFound(err)
	}
	log.FromContext(ctx).Info("deleting unhealthy node", "condition", repair.Condition)
	return ctrl.Result{}, nil
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
