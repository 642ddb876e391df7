package claims

import (
	"context"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	karpv1 "github.com/dovetail-sh/dovetail/api/v1"
	"github.com/dovetail-sh/dovetail/internal/controller/lookup"
	"github.com/dovetail-sh/dovetail/internal/controller/loop"
	"github.com/dovetail-sh/dovetail/internal/controller/write"
	"github.com/dovetail-sh/dovetail/internal/execute"
	"github.com/dovetail-sh/dovetail/internal/lifecycle"
)

// Expiration deletes claims that have lived as long as they may (LC-16). The clock is on the claim, so
// a restart changes nothing, and what expired meanwhile is deleted at start.
type Expiration struct {
	Client   client.Client
	Remover  execute.Remover
	Classes  []schema.GroupKind // kinds of node classes this controller manages
	Strict   bool
	Workers  int
	Now      func() time.Time
	ClockOff func() bool // whether the clock of this machine is too far off to go by ages (FM N06): nothing expires then; nil: never
}

// Register adds the reconciler to a manager.
func (r *Expiration) Register(mgr ctrl.Manager) error {
	return ctrl.NewControllerManagedBy(mgr).Named("nodeclaim.expiration").
		For(&karpv1.NodeClaim{}).
		WithOptions(loop.DefaultOptions(r.Workers)).
		Complete(r)
}

// Reconcile deletes one claim if it is time, or comes back when it is.
func (r *Expiration) Reconcile(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	stored := &karpv1.NodeClaim{}
	if err := r.Client.Get(ctx, req.NamespacedName, stored); err != nil {
		return ctrl.Result{}, client.IgnoreNotFound(err)
	}
	claim, err := effective(ctx, r.Client, stored, r.Strict)
	if err != nil {
		return ctrl.Result{}, err
	}
	if !lookup.Managed(r.Classes, claim.Spec.NodeClassRef) {
		return ctrl.Result{}, nil
	}
	step := lifecycle.NextExpiry(claim, r.ClockOff != nil && r.ClockOff(), r.Now())
	if !step.Delete {
		return loop.RequeueAfter(step.After), nil
	}
	log.FromContext(ctx).V(1).Info("deleting expired nodeclaim", "expireAfter", string(claim.Spec.ExpireAfter))
	err = write.RemoveClaim(ctx, r.Client, r.Remover, execute.Removal{Claim: stored, Reason: lifecycle.RemovedExpired, Event: execute.Terminating("Expired: " + step.Why)})
	if apierrors.IsConflict(err) {
		return loop.RequeueAfter(loop.Soon), nil
	}
	return ctrl.Result{}, client.IgnoreNotFound(err)
}
