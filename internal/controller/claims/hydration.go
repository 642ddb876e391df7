package claims

import (
	"context"
	"fmt"
	"maps"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	karpv1 "github.com/dovetail-sh/dovetail/api/v1"
	"github.com/dovetail-sh/dovetail/internal/controller/lookup"
	"github.com/dovetail-sh/dovetail/internal/controller/loop"
	"github.com/dovetail-sh/dovetail/internal/lifecycle"
)

const (
	firstHydrationRetry = 100 * time.Millisecond
	lastHydrationRetry  = time.Minute
)

// ClaimHydration adds labels to claims that older versions did not write (LC-44).
type ClaimHydration struct {
	Client  client.Client
	Classes []schema.GroupKind // kinds of node classes this controller manages
	Strict  bool
	Workers int
}

// Register adds the reconciler to a manager.
func (r *ClaimHydration) Register(mgr ctrl.Manager) error {
	return ctrl.NewControllerManagedBy(mgr).Named("nodeclaim.hydration").
		For(&karpv1.NodeClaim{}).
		WithOptions(loop.Options(r.Workers, firstHydrationRetry, lastHydrationRetry)).
		Complete(r)
}

// Reconcile labels one claim.
func (r *ClaimHydration) Reconcile(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	stored := &karpv1.NodeClaim{}
	if err := r.Client.Get(ctx, req.NamespacedName, stored); err != nil {
		return ctrl.Result{}, client.IgnoreNotFound(err)
	}
	claim, _ := stored.Effective(nil, r.Strict)
	missing := lifecycle.HydrateClaim(claim)
	if len(missing) == 0 || !lookup.Managed(r.Classes, claim.Spec.NodeClassRef) {
		return ctrl.Result{}, nil
	}
	want := stored.DeepCopy()
	if want.Labels == nil {
		want.Labels = map[string]string{}
	}
	maps.Copy(want.Labels, missing)
	if err := r.Client.Patch(ctx, want, client.MergeFrom(stored)); client.IgnoreNotFound(err) != nil {
		return ctrl.Result{}, fmt.Errorf("label nodeclaim %s: %w", stored.Name, err)
	}
	return ctrl.Result{}, nil
}

// NodeHydration adds labels to managed nodes that older versions did not write, and removes what those versions
// left behind (LC-44, LC-62).
type NodeHydration struct {
	Client  client.Client
	Classes []schema.GroupKind // kinds of node classes this controller manages
	Strict  bool
	Workers int
}

// Register adds the reconciler to a manager.
func (r *NodeHydration) Register(mgr ctrl.Manager) error {
	return ctrl.NewControllerManagedBy(mgr).Named("node.hydration").
		For(&corev1.Node{}).
		Watches(&karpv1.NodeClaim{}, handler.EnqueueRequestsFromMapFunc(nodeOfClaim)).
		WithOptions(loop.Options(r.Workers, firstHydrationRetry, lastHydrationRetry)).
		Complete(r)
}

func nodeOfClaim(_ context.Context, obj client.Object) []reconcile.Request {
	name := obj.(*karpv1.NodeClaim).Status.NodeName
	if name == "" {
		return nil
	}
	return []reconcile.Request{{NamespacedName: types.NamespacedName{Name: name}}}
}

// Reconcile brings one node up to date.
func (r *NodeHydration) Reconcile(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	node := &corev1.Node{}
	if err := r.Client.Get(ctx, req.NamespacedName, node); err != nil {
		return ctrl.Result{}, client.IgnoreNotFound(err)
	}
	claims, err := lookup.ClaimsOf(ctx, r.Client, node.Spec.ProviderID)
	if err != nil || len(claims) != 1 {
		return ctrl.Result{}, err
	}
	claim, _ := claims[0].Effective(nil, r.Strict)
	if !lookup.Managed(r.Classes, claim.Spec.NodeClassRef) {
		return ctrl.Result{}, nil
	}
	want := lifecycle.HydrateNode(node, claim)
	if want == nil {
		return ctrl.Result{}, nil
	}
	err = patchNode(ctx, r.Client, []*corev1.Node{node}, want)
	if apierrors.IsConflict(err) {
		return loop.RequeueAfter(loop.Soon), nil
	}
	return ctrl.Result{}, client.IgnoreNotFound(err)
}
