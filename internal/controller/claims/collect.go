package claims

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/util/workqueue"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"

	karpv1 "github.com/dovetail-sh/dovetail/api/v1"
	"github.com/dovetail-sh/dovetail/internal/cloud"
	"github.com/dovetail-sh/dovetail/internal/controller/lookup"
	"github.com/dovetail-sh/dovetail/internal/controller/loop"
	"github.com/dovetail-sh/dovetail/internal/controller/write"
	"github.com/dovetail-sh/dovetail/internal/execute"
	"github.com/dovetail-sh/dovetail/internal/lifecycle"
)

const collectAtATime = 20

// lister is the part of the cloud that knows what there is.
type lister interface {
	List(ctx context.Context) ([]cloud.Instance, error)
	Find(ctx context.Context, id cloud.ID) (cloud.Instance, error)
}

// Collector deletes claims whose instance is gone (LC-38).
type Collector struct {
	Client   client.Client
	Provider lister
	Remover  execute.Remover
	Classes  []schema.GroupKind // kinds of node classes this controller manages
	Strict   bool
	Now      func() time.Time
}

// Register adds the timer to a manager.
func (r *Collector) Register(mgr ctrl.Manager) error {
	return ctrl.NewControllerManagedBy(mgr).Named("nodeclaim.garbagecollection").WatchesRawSource(atStart()).
		WithOptions(loop.Options(1, time.Second, lifecycle.CollectInterval)).
		Complete(r)
}

// atStart calls a reconciler once, which then keeps its own time.
func atStart() source.Source {
	return source.Func(func(_ context.Context, queue workqueue.TypedRateLimitingInterface[reconcile.Request]) error {
		queue.Add(reconcile.Request{})
		return nil
	})
}

// Reconcile does one round. The claims are listed before the instances, so that the instance of every
// claim that is looked at could have been listed. A list that fails ends the round: not to know an
// instance is not to know that it is gone (G3).
func (r *Collector) Reconcile(ctx context.Context, _ ctrl.Request) (ctrl.Result, error) {
	claims, err := r.claims(ctx)
	if err != nil {
		return ctrl.Result{}, err
	}
	instances, err := r.Provider.List(ctx)
	if err != nil {
		return ctrl.Result{}, fmt.Errorf("list instances: %w", err)
	}
	var unknown error
	missing, later := lifecycle.Missing(claims, instances, func(id string) []*corev1.Node {
		nodes, err := lookup.NodesOf(ctx, r.Client, id)
		unknown = errors.Join(unknown, err)
		return nodes
	}, r.Now())
	if unknown != nil {
		return ctrl.Result{}, unknown
	}
	unsure, err := r.collect(ctx, missing)
	return loop.RequeueAfter(lifecycle.NextCollection(later, unsure)), err
}

func (r *Collector) claims(ctx context.Context) ([]*karpv1.NodeClaim, error) {
	list := &karpv1.NodeClaimList{}
	if err := r.Client.List(ctx, list); err != nil {
		return nil, fmt.Errorf("list nodeclaims: %w", err)
	}
	var ours []*karpv1.NodeClaim
	for _, stored := range lookup.ByName(list.Items) {
		claim, _ := stored.Effective(nil, r.Strict)
		if lookup.Managed(r.Classes, claim.Spec.NodeClassRef) {
			ours = append(ours, stored)
		}
	}
	return ours, nil
}

// collect deletes claims whose instance is confirmed to be gone, some at a time. One that changed meanwhile
// waits for the next round. unsure says that the cloud did not know it for all of them.
func (r *Collector) collect(ctx context.Context, missing []*karpv1.NodeClaim) (unsure bool, err error) {
	failures, unknown := make([]error, len(missing)), make([]bool, len(missing))
	slots := make(chan struct{}, collectAtATime)
	var wait sync.WaitGroup
	for i, claim := range missing {
		slots <- struct{}{}
		wait.Go(func() {
			defer func() { <-slots }()
			var gone bool
			if gone, unknown[i] = r.instanceIsGone(ctx, claim); !gone {
				return
			}
			why := "GarbageCollected: instance " + claim.Status.ProviderID + " does not exist any more"
			err := write.RemoveClaim(ctx, r.Client, r.Remover, execute.Removal{Claim: claim, Reason: lifecycle.RemovedCollected, Event: execute.Terminating(why)})
			switch {
			case apierrors.IsConflict(err) || apierrors.IsNotFound(err):
			case err != nil:
				failures[i] = err
			default:
				log.FromContext(ctx).Info("garbage collected nodeclaim", "NodeClaim", lifecycle.Ref{Name: claim.Name}, "provider-id", claim.Status.ProviderID)
			}
		})
	}
	wait.Wait()
	return slices.Contains(unknown, true), errors.Join(failures...)
}

// instanceIsGone looks up the instance of a claim by its id: the list has those with our tags, and an instance whose
// tag was removed still runs. If the cloud cannot say, the claim stays (G3).
func (r *Collector) instanceIsGone(ctx context.Context, claim *karpv1.NodeClaim) (gone, unsure bool) {
	logger := log.FromContext(ctx).WithValues("NodeClaim", lifecycle.Ref{Name: claim.Name}, "provider-id", claim.Status.ProviderID)
	found, err := r.Provider.Find(ctx, cloud.ID(claim.Status.ProviderID))
	gone, unsure = lifecycle.InstanceGone(found, err)
	switch {
	case unsure:
		logger.Error(err, "cannot find out whether an instance that is not listed exists; its nodeclaim stays")
	case !gone:
		logger.Info("instance exists and is not listed; its nodeclaim stays. Were its tags removed?")
	}
	return gone, unsure
}
