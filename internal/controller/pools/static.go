package pools

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/klog/v2"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	karpv1 "github.com/dovetail-sh/dovetail/api/v1"
	"github.com/dovetail-sh/dovetail/internal/catalog"
	"github.com/dovetail-sh/dovetail/internal/cloud"
	"github.com/dovetail-sh/dovetail/internal/cluster"
	"github.com/dovetail-sh/dovetail/internal/controller/lookup"
	"github.com/dovetail-sh/dovetail/internal/controller/loop"
	"github.com/dovetail-sh/dovetail/internal/controller/write"
	"github.com/dovetail-sh/dovetail/internal/execute"
	"github.com/dovetail-sh/dovetail/internal/lifecycle"
	"github.com/dovetail-sh/dovetail/internal/pool"
	"github.com/dovetail-sh/dovetail/internal/reqs"
	"github.com/dovetail-sh/dovetail/internal/resources"
	"github.com/dovetail-sh/dovetail/internal/solve"
)

// notSynced is how soon a static pool is checked again while the cache is incomplete.
const notSynced = time.Second

// staticStore is the cluster state that the size of pools is decided on.
type staticStore interface {
	Synced() bool
	Loads(pool string) map[string]cluster.ClaimLoad
}

// orderer creates claims.
type orderer interface {
	Create(ctx context.Context, b execute.Batch) []execute.Created
}

// launchBackoff knows which static pools cannot launch at present.
type launchBackoff interface {
	PoolBackedOff(pool string, now time.Time) bool
	RecordDenied(pool string, now time.Time)
}

// Static keeps pools with replicas at their size (LC-46, LC-47).
type Static struct {
	Client        client.Client
	Live          client.Reader                                                                    // of the API server itself
	Types         func(ctx context.Context, pool *karpv1.NodePool) ([]catalog.InstanceType, error) // as NodeOverlays make them; nil: there are none
	Store         staticStore
	Claims        orderer
	LaunchBackoff launchBackoff
	Remover       execute.Remover
	Words         reqs.Vocabulary
	Classes       []lookup.ClassKind
	Strict        bool
	Workers       int
	Now           func() time.Time
}

// Register adds both controllers to a manager.
func (s *Static) Register(mgr ctrl.Manager) error {
	var failed []error
	for _, half := range []struct {
		name string
		pass reconcile.Func
	}{{"static.provisioning", s.Grow}, {"static.deprovisioning", s.Shrink}} {
		failed = append(failed, ctrl.NewControllerManagedBy(mgr).Named(half.name).
			For(&karpv1.NodePool{}, builder.WithPredicates(predicate.NewPredicateFuncs(isStatic))).
			Watches(&karpv1.NodeClaim{}, handler.EnqueueRequestsFromMapFunc(poolOfClaim), builder.WithPredicates(claimCounts())).
			WithOptions(loop.DefaultOptions(s.Workers)).
			Complete(half.pass))
	}
	return errors.Join(failed...)
}

func isStatic(obj client.Object) bool {
	p, ok := obj.(*karpv1.NodePool)
	return ok && p.Spec.Replicas != nil
}

func poolOfClaim(_ context.Context, obj client.Object) []reconcile.Request {
	name := obj.GetLabels()[karpv1.LabelNodePool]
	if name == "" {
		return nil
	}
	return []reconcile.Request{{NamespacedName: client.ObjectKey{Name: name}}}
}

// claimCounts lets through what changes how many claims a pool has.
func claimCounts() predicate.Predicate {
	return predicate.Funcs{
		UpdateFunc: func(e event.UpdateEvent) bool {
			return (e.ObjectOld.GetDeletionTimestamp() == nil) != (e.ObjectNew.GetDeletionTimestamp() == nil)
		},
		GenericFunc: func(event.GenericEvent) bool { return false },
	}
}

// Grow makes the claims that a pool lacks.
func (s *Static) Grow(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	facts, step, err := s.decide(ctx, req.Name, pool.Grow)
	if err != nil || facts == nil {
		return s.requeueUndecided(facts, err)
	}
	if step.AtLimit {
		limit := facts.Pool.Spec.Limits[karpv1.LimitNodes]
		log.FromContext(ctx).Info("nodepool is at its node limit", "NodePool", klog.KRef("", req.Name),
			"replicas", *facts.Pool.Spec.Replicas, "nodeclaims", len(facts.Claims), "limit", limit.String())
	}
	if step.Create > 0 {
		err := s.create(ctx, facts, step)
		switch {
		case errors.Is(err, cloud.ErrUnevaluated):
			return loop.RequeueAfter(notSynced), nil
		case err != nil:
			return ctrl.Result{}, err
		}
	}
	return loop.RequeueAfter(step.After), nil
}

// Shrink deletes the claims that a pool has too many of.
func (s *Static) Shrink(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	facts, step, err := s.decide(ctx, req.Name, pool.Shrink)
	if err != nil || facts == nil {
		return s.requeueUndecided(facts, err)
	}
	var failed []error
	for _, claim := range step.Delete {
		why := fmt.Sprintf("ScaledDown: NodePool %s has more nodes than the %d it wants", req.Name, *facts.Pool.Spec.Replicas)
		err := write.RemoveClaim(ctx, s.Client, s.Remover, execute.Removal{Claim: claim, Reason: lifecycle.RemovedScaledDown, Event: execute.Terminating(why)})
		switch {
		case apierrors.IsConflict(err), apierrors.IsNotFound(err):
			return loop.RequeueAfter(loop.Soon), nil // it is not what it was: choose again
		case err != nil:
			failed = append(failed, err)
		default:
			log.FromContext(ctx).Info("deleted nodeclaim of a pool with too many", "NodePool", klog.KRef("", req.Name), "NodeClaim", klog.KRef("", claim.Name),
				"replicas", *facts.Pool.Spec.Replicas)
		}
	}
	return loop.RequeueAfter(step.After), errors.Join(failed...)
}

// requeueUndecided is the result for a pool that cannot be decided about: it has another provider, or the cache is incomplete.
func (s *Static) requeueUndecided(facts *pool.StaticFacts, err error) (ctrl.Result, error) {
	if err == nil && facts == nil && !s.Store.Synced() {
		return loop.RequeueAfter(notSynced), nil
	}
	return ctrl.Result{}, err
}

// decide has one half say what a pool lacks or has too much of. Facts are nil if the pool is none of ours.
func (s *Static) decide(ctx context.Context, name string, half func(pool.StaticFacts) pool.StaticStep) (*pool.StaticFacts, pool.StaticStep, error) {
	stored := &karpv1.NodePool{}
	if err := s.Client.Get(ctx, client.ObjectKey{Name: name}, stored); err != nil {
		return nil, pool.StaticStep{}, client.IgnoreNotFound(err)
	}
	effective, _ := stored.Effective(s.Strict)
	if _, ours := lookup.KindOf(s.Classes, effective.Spec.Template.Spec.NodeClassRef); !ours || effective.Spec.Replicas == nil || !s.Store.Synced() {
		return nil, pool.StaticStep{}, nil
	}
	facts := &pool.StaticFacts{Pool: effective, Now: s.Now(), BackedOff: s.LaunchBackoff.PoolBackedOff(name, s.Now())}
	if err := s.count(ctx, s.Client, facts); err != nil {
		return nil, pool.StaticStep{}, err
	}
	step := half(*facts)
	if step.Confirm {
		if err := s.count(ctx, s.Live, facts); err != nil {
			return nil, step, err
		}
		facts.Live = true
		step = half(*facts)
	}
	return facts, step, nil
}

// count reads the claims of a pool.
func (s *Static) count(ctx context.Context, reader client.Reader, facts *pool.StaticFacts) error {
	list := &karpv1.NodeClaimList{}
	if err := reader.List(ctx, list, client.MatchingLabels{karpv1.LabelNodePool: facts.Pool.Name}); err != nil {
		return fmt.Errorf("list nodeclaims of nodepool %s: %w", facts.Pool.Name, err)
	}
	facts.Claims, facts.Loads = nil, s.Store.Loads(facts.Pool.Name)
	for i := range list.Items {
		read, _ := list.Items[i].Effective(facts.Pool, s.Strict)
		facts.Claims = append(facts.Claims, read)
	}
	return nil
}

// create makes claims straight from the template.
func (s *Static) create(ctx context.Context, facts *pool.StaticFacts, step pool.StaticStep) error {
	var types []catalog.InstanceType
	if s.Types != nil { // a claim is to follow the prices and capacity of overlays, so it waits for them (OV-20)
		var err error
		if types, err = s.Types(ctx, facts.Pool); err != nil {
			return fmt.Errorf("list instance types of nodepool %s: %w", facts.Pool.Name, err)
		}
	}
	lanes := resources.NewTable()
	node, err := execute.FromTemplate(facts.Pool, s.Words, lanes, types)
	if err != nil {
		return err
	}
	created := s.Claims.Create(ctx, execute.Batch{
		Nodes: slices.Repeat([]solve.NewNode{node}, step.Create), Pools: map[string]*karpv1.NodePool{facts.Pool.Name: facts.Pool}, Lanes: lanes,
		Reason: execute.Provisioned, Command: step.Order,
	})
	for _, name := range execute.DeniedPools(created) {
		s.LaunchBackoff.RecordDenied(name, s.Now())
	}
	var failed []error
	for i := range created {
		if err := created[i].Err; err != nil && !errors.Is(err, execute.ErrAtLimit) {
			failed = append(failed, err)
		}
	}
	return errors.Join(failed...)
}
