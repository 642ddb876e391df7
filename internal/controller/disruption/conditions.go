package disruption

import (
	"context"
	"slices"
	"strings"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	karpv1 "github.com/dovetail-sh/dovetail/api/v1"
	"github.com/dovetail-sh/dovetail/internal/catalog"
	"github.com/dovetail-sh/dovetail/internal/condition"
	"github.com/dovetail-sh/dovetail/internal/controller/lookup"
	"github.com/dovetail-sh/dovetail/internal/controller/loop"
	"github.com/dovetail-sh/dovetail/internal/controller/write"
	"github.com/dovetail-sh/dovetail/internal/disrupt"
	"github.com/dovetail-sh/dovetail/internal/drift"
	"github.com/dovetail-sh/dovetail/internal/reason"
	"github.com/dovetail-sh/dovetail/internal/reqs"
)

// driftSource says whether an instance is what its node class requires.
type driftSource interface {
	Types(ctx context.Context, pool *karpv1.NodePool) ([]catalog.InstanceType, error)
	Drift(ctx context.Context, claim *karpv1.NodeClaim) (reason.Reason, error)
}

// Conditions keeps the conditions that say whether a claim may be disrupted: Consolidatable and
// Drifted.
type Conditions struct {
	Client  client.Client
	Cloud   driftSource
	Events  write.Announcer
	Words   reqs.Vocabulary
	Classes []lookup.ClassKind
	Strict  bool
	Workers int
	Now     func() time.Time

	mu               sync.Mutex
	catalogueLookups map[types.UID]drift.CatalogueLookup
	written          write.Versions
}

// Register adds the reconciler to a manager.
func (r *Conditions) Register(mgr ctrl.Manager) error {
	b := ctrl.NewControllerManagedBy(mgr).Named("nodeclaim.disruption").
		For(&karpv1.NodeClaim{}).
		Watches(&karpv1.NodePool{}, handler.EnqueueRequestsFromMapFunc(func(ctx context.Context, obj client.Object) []reconcile.Request {
			return r.claims(ctx, client.MatchingLabels{karpv1.LabelNodePool: obj.GetName()})
		})).
		WithOptions(loop.DefaultOptions(r.Workers))
	for _, kind := range r.Classes {
		b = b.Watches(kind.New(), handler.EnqueueRequestsFromMapFunc(func(ctx context.Context, obj client.Object) []reconcile.Request {
			ref := karpv1.NodeClassReference{Group: kind.Group, Kind: kind.Kind}
			return r.claims(ctx, client.MatchingLabels{ref.LabelKey(): obj.GetName()})
		}))
	}
	return b.Complete(r)
}

func (r *Conditions) claims(ctx context.Context, which client.MatchingLabels) []reconcile.Request {
	list := &karpv1.NodeClaimList{}
	if err := r.Client.List(ctx, list, which); err != nil {
		return nil // the cache is not there yet; each claim comes by itself
	}
	out := make([]reconcile.Request, 0, len(list.Items))
	for i := range list.Items {
		out = append(out, reconcile.Request{NamespacedName: types.NamespacedName{Name: list.Items[i].Name}})
	}
	return out
}

// Reconcile brings the conditions of one claim up to date. Claims without a pool are left alone (LC-58).
func (r *Conditions) Reconcile(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	claim, result, err := r.written.Read(ctx, r.Client, req.Name, loop.Soon)
	if claim == nil {
		return result, err
	}
	pool := &karpv1.NodePool{}
	name := claim.Labels[karpv1.LabelNodePool]
	if claim.DeletionTimestamp != nil || name == "" {
		r.dropCatalogueLookup(claim.UID)
		return ctrl.Result{}, nil
	}
	if err := r.Client.Get(ctx, client.ObjectKey{Name: name}, pool); err != nil {
		return ctrl.Result{}, client.IgnoreNotFound(err)
	}
	effective, _ := pool.Effective(r.Strict)
	read, _ := claim.Effective(pool, r.Strict)
	if !lookup.Managed(r.kinds(), read.Spec.NodeClassRef) {
		return ctrl.Result{}, nil
	}
	facts := disrupt.MarkFacts{Claim: read, Pool: effective, Now: r.Now()}
	facts.Drift, facts.DriftUnknown = r.drift(ctx, effective, read)
	conditions, after := disrupt.Marks(facts)
	if err := r.writeConditions(ctx, claim, conditions); err != nil {
		if apierrors.IsConflict(err) {
			return loop.RequeueAfter(loop.Soon), nil // another client wrote; retry
		}
		return ctrl.Result{}, err
	}
	return ctrl.Result{RequeueAfter: drift.NextCheck(after)}, nil
}

func (r *Conditions) kinds() []schema.GroupKind {
	out := make([]schema.GroupKind, 0, len(r.Classes))
	for _, k := range r.Classes {
		out = append(out, k.GroupKind)
	}
	return out
}

// drift says why a claim is not what is wanted now, or that it is not known.
func (r *Conditions) drift(ctx context.Context, pool *karpv1.NodePool, claim *karpv1.NodeClaim) (why reason.Reason, unknown bool) {
	why, err := drift.Evaluate(pool, claim, drift.Sources{
		Words:     r.Words,
		Catalogue: func() reason.Reason { return r.catalogue(ctx, pool, claim) },
		Class:     func() (reason.Reason, error) { return r.Cloud.Drift(ctx, claim) },
	})
	if err != nil {
		log.FromContext(ctx).V(1).Info("drift of the node class is not known", "error", err.Error())
	}
	return why, err != nil
}

// catalogue looks up at most twice an hour whether the instance type of a claim is still offered.
func (r *Conditions) catalogue(ctx context.Context, pool *karpv1.NodePool, claim *karpv1.NodeClaim) reason.Reason {
	now := r.Now()
	r.mu.Lock()
	last := r.catalogueLookups[claim.UID]
	r.mu.Unlock()
	if !last.Due(claim, now) {
		return last.Found
	}
	list, err := r.Cloud.Types(ctx, pool)
	if err != nil {
		return last.Found
	}
	last = drift.CatalogueLookup{At: now, Found: drift.Catalogue(list, claim)}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.catalogueLookups == nil {
		r.catalogueLookups = map[types.UID]drift.CatalogueLookup{}
	}
	r.catalogueLookups[claim.UID] = last
	return last.Found
}

func (r *Conditions) dropCatalogueLookup(uid types.UID) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.catalogueLookups, uid)
}

func (r *Conditions) writeConditions(ctx context.Context, claim *karpv1.NodeClaim, conditions []metav1.Condition) error {
	if slices.Equal(claim.Status.Conditions, conditions) {
		return nil
	}
	flips := condition.Flips(claim.Status.Conditions, conditions)
	next := write.WithoutSpec(claim)
	next.Status.Conditions = conditions
	if err := r.Client.Status().Patch(ctx, next, write.LeanMergePatch(claim)); err != nil {
		if apierrors.IsConflict(err) {
			r.written.RecordConflict(claim)
		}
		return client.IgnoreNotFound(err)
	}
	r.written.RecordWrite(next)
	r.Events.Flips(next, flips)
	logConditionChanges(ctx, claim.Status.Conditions, conditions)
	return nil
}

// logConditionChanges logs which of the conditions became true or false (disruption 23).
func logConditionChanges(ctx context.Context, before, after []metav1.Condition) {
	logger := log.FromContext(ctx).V(1)
	for _, kind := range []string{karpv1.ConditionConsolidatable, karpv1.ConditionDrifted} {
		what := strings.ToLower(kind)
		switch had, has := condition.True(before, kind), condition.True(after, kind); {
		case has && !had:
			mark := condition.Find(after, kind)
			said := []any{"reason", mark.Reason}
			if mark.Message != "" {
				said = append(said, "because", mark.Message)
			}
			logger.Info("marking "+what, said...)
		case had && !has:
			logger.Info("removing mark "+what, "reason", condition.Find(before, kind).Reason)
		}
	}
}
