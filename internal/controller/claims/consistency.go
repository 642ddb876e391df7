package claims

import (
	"context"
	"fmt"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/predicate"

	karpv1 "github.com/dovetail-sh/dovetail/api/v1"
	"github.com/dovetail-sh/dovetail/internal/condition"
	"github.com/dovetail-sh/dovetail/internal/controller/lookup"
	"github.com/dovetail-sh/dovetail/internal/controller/loop"
	"github.com/dovetail-sh/dovetail/internal/controller/write"
	"github.com/dovetail-sh/dovetail/internal/lifecycle"
)

const consistencyEvery = 10 * time.Minute

// Consistency emits events about nodes that are smaller than planned (LC-40). It does not remove them.
type Consistency struct {
	Client  client.Client
	Events  write.Announcer
	Classes []schema.GroupKind // kinds of node classes this controller manages
	Strict  bool
	Workers int
	Now     func() time.Time

	written write.Versions
}

// Register adds the reconciler to a manager.
func (r *Consistency) Register(mgr ctrl.Manager) error {
	return ctrl.NewControllerManagedBy(mgr).Named("nodeclaim.consistency").
		For(&karpv1.NodeClaim{}, builder.WithPredicates(becameInitialized())).
		WithOptions(loop.DefaultOptions(r.Workers)).
		Complete(r)
}

// becameInitialized lets a claim in when it is first seen and when its node can run pods; between, time
// alone counts.
func becameInitialized() predicate.Predicate {
	initialized := func(obj client.Object) bool {
		claim, ok := obj.(*karpv1.NodeClaim)
		return ok && condition.True(claim.Status.Conditions, karpv1.ConditionInitialized)
	}
	return predicate.Funcs{
		UpdateFunc: func(e event.UpdateEvent) bool { return initialized(e.ObjectNew) && !initialized(e.ObjectOld) },
		DeleteFunc: func(event.DeleteEvent) bool { return false },
	}
}

// Reconcile scans one claim.
func (r *Consistency) Reconcile(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	stored, result, err := r.written.Read(ctx, r.Client, req.Name, loop.Soon)
	if stored == nil {
		return result, err
	}
	claim, _ := stored.Effective(nil, r.Strict)
	if !lookup.Managed(r.Classes, claim.Spec.NodeClassRef) || !condition.True(claim.Status.Conditions, karpv1.ConditionInitialized) {
		return ctrl.Result{}, nil
	}
	nodes, err := lookup.NodesOf(ctx, r.Client, claim.Status.ProviderID)
	if err != nil {
		return ctrl.Result{}, err
	}
	if len(nodes) != 1 {
		return loop.RequeueAfter(consistencyEvery), nil
	}
	want := write.WithoutSpec(claim)
	conditions, events := lifecycle.Consistent(claim, nodes[0], r.Now())
	want.Status.Conditions = conditions
	if !write.SameStatus(claim.Status, want.Status) {
		err := r.Client.Status().Patch(ctx, want, write.LeanMergePatch(claim))
		if apierrors.IsConflict(err) {
			r.written.RecordConflict(stored)
			return loop.RequeueAfter(loop.Soon), nil
		}
		if err != nil {
			return ctrl.Result{}, client.IgnoreNotFound(fmt.Errorf("patch status of nodeclaim %s: %w", claim.Name, err))
		}
		r.written.RecordWrite(want)
		r.Events.Flips(stored, condition.Flips(claim.Status.Conditions, conditions))
	}
	r.Events.Emit(stored, events...)
	return loop.RequeueAfter(consistencyEvery), nil
}
