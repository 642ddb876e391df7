package pools

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/klog/v2"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	karpv1 "github.com/dovetail-sh/dovetail/api/v1"
	"github.com/dovetail-sh/dovetail/internal/condition"
	"github.com/dovetail-sh/dovetail/internal/controller/lookup"
	"github.com/dovetail-sh/dovetail/internal/controller/loop"
	"github.com/dovetail-sh/dovetail/internal/controller/write"
	"github.com/dovetail-sh/dovetail/internal/drift"
	"github.com/dovetail-sh/dovetail/internal/event"
	"github.com/dovetail-sh/dovetail/internal/pool"
	"github.com/dovetail-sh/dovetail/internal/reqs"
)

// Pools keeps the conditions and the hashes of NodePools: validation, readiness of the node class and
// health of registration (LC-50 to LC-53).
type Pools struct {
	Client  client.Client
	Events  write.Announcer
	Health  *Health
	Words   reqs.Vocabulary
	Classes []lookup.ClassKind // kinds of node classes this controller manages
	Strict  bool
	Workers int // pools at a time
	Now     func() time.Time

	LaunchBackoff healthBackoff // nil: none
}

// healthBackoff backs off pools whose nodes do not register.
type healthBackoff interface {
	RecordUnhealthy(pool string, now time.Time)
	RecordHealthy(pool string)
}

// Register adds the reconciler to a manager. It does the work of several controllers that users know
// and has the name of the first.
func (r *Pools) Register(mgr ctrl.Manager) error {
	b := ctrl.NewControllerManagedBy(mgr).Named("nodepool.hash").For(&karpv1.NodePool{}).WatchesRawSource(r.Health).
		WithOptions(loop.Options(r.Workers, time.Second, time.Minute))
	for _, kind := range r.Classes {
		b = b.Watches(kind.New(), handler.EnqueueRequestsFromMapFunc(r.users(kind)))
	}
	return b.Complete(r)
}

// users lists the pools that refer to a node class.
func (r *Pools) users(kind lookup.ClassKind) handler.MapFunc {
	return func(ctx context.Context, class client.Object) []reconcile.Request {
		list := &karpv1.NodePoolList{}
		if err := r.Client.List(ctx, list); err != nil {
			log.FromContext(ctx).Error(err, "listing the NodePools of a node class", "NodeClass", klog.KObj(class))
			return nil
		}
		var requests []reconcile.Request
		for i := range list.Items {
			ref := lookup.ClassOf(&list.Items[i])
			if ref.Group == kind.Group && ref.Kind == kind.Kind && ref.Name == class.GetName() {
				requests = append(requests, reconcile.Request{NamespacedName: client.ObjectKey{Name: list.Items[i].Name}})
			}
		}
		return requests
	}
}

// Reconcile brings one pool up to date.
func (r *Pools) Reconcile(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	facts, err := r.observe(ctx, req.Name)
	if apierrors.IsNotFound(err) || err == nil && facts == nil {
		r.Health.dropPool(req.Name)
		return ctrl.Result{}, nil
	}
	if err != nil {
		return ctrl.Result{}, err
	}
	step, err := pool.Next(*facts)
	if err != nil {
		return ctrl.Result{}, fmt.Errorf("nodepool %s: %w", req.Name, err)
	}
	err = r.perform(ctx, facts.Pool, step)
	if apierrors.IsConflict(err) {
		return ctrl.Result{RequeueAfter: time.Second}, nil // another client wrote; retry
	}
	if err == nil {
		r.Health.recordDecision(facts.Pool, step.Launches, len(facts.Launches.Results))
		r.backOff(facts.Pool, step.Conditions, facts.Launches.Results)
	}
	return ctrl.Result{RequeueAfter: step.After}, client.IgnoreNotFound(err)
}

// backOff informs the launch back-off how the nodes of a pool register.
func (r *Pools) backOff(p *karpv1.NodePool, conditions []metav1.Condition, results []pool.Result) {
	if r.LaunchBackoff == nil {
		return
	}
	switch pool.RegistrationOf(conditions, results) {
	case pool.RegistrationHealthy:
		r.LaunchBackoff.RecordHealthy(p.Name)
	case pool.RegistrationFailing:
		r.LaunchBackoff.RecordUnhealthy(p.Name, r.Now())
	case pool.RegistrationOpen:
	}
}

// observe returns nil for a pool of a node class that is not ours.
func (r *Pools) observe(ctx context.Context, name string) (*pool.Facts, error) {
	p := &karpv1.NodePool{}
	if err := r.Client.Get(ctx, client.ObjectKey{Name: name}, p); err != nil {
		return nil, err
	}
	ref := lookup.ClassOf(p)
	kind, ours := lookup.KindOf(r.Classes, ref)
	if !ours {
		return nil, nil
	}
	facts := &pool.Facts{Pool: p, Words: r.Words, Strict: r.Strict, Now: metav1.NewTime(r.Now()), Launches: r.Health.launches(p)}
	class := kind.New()
	switch err := r.Client.Get(ctx, client.ObjectKey{Name: ref.Name}, class); {
	case err == nil:
		facts.Class = &pool.Class{Generation: class.GetGeneration(), Deleting: !class.GetDeletionTimestamp().IsZero(), Conditions: kind.Conditions(class)}
		if kind.Refusals != nil {
			effective, _ := p.Effective(r.Strict)
			facts.Class.Refusals = kind.Refusals(class, effective)
		}
	case !apierrors.IsNotFound(err):
		return nil, fmt.Errorf("nodepool %s: node class %s: %w", name, ref.Name, err)
	}
	if p.Annotations[karpv1.AnnotationNodePoolHashVersion] != drift.PoolHashVersion {
		claims := &karpv1.NodeClaimList{}
		if err := r.Client.List(ctx, claims, client.MatchingLabels{karpv1.LabelNodePool: name}); err != nil {
			return nil, fmt.Errorf("nodepool %s: list its claims: %w", name, err)
		}
		for _, claim := range lookup.ByName(claims.Items) {
			facts.Claims = append(facts.Claims, *claim)
		}
	}
	return facts, nil
}

// perform writes claims before the pool and the status last: a crash in between repeats the step.
func (r *Pools) perform(ctx context.Context, p *karpv1.NodePool, step pool.Step) error {
	for _, ignored := range step.Ignored {
		log.FromContext(ctx).Error(errors.New(ignored.Text()), "ignoring a part of the NodePool")
		r.Events.Emit(p, event.Event{Reason: event.DefaultAssumed, Text: ignored.Text(), Key: ignored.Subject})
	}
	for _, stamp := range step.Restamp {
		claim := &karpv1.NodeClaim{ObjectMeta: metav1.ObjectMeta{Name: stamp.Claim}}
		if err := client.IgnoreNotFound(r.annotate(ctx, claim, stamp.Annotations)); err != nil {
			return err
		}
	}
	if len(step.Annotations) > 0 {
		if err := r.annotate(ctx, p, step.Annotations); err != nil {
			return err
		}
	}
	flips := condition.Flips(p.Status.Conditions, step.Conditions)
	before := p.DeepCopy()
	p.Status.Conditions, p.Status.NodeClassObservedGeneration = step.Conditions, step.ClassSeen
	if !slices.Equal(before.Status.Conditions, step.Conditions) || before.Status.NodeClassObservedGeneration != step.ClassSeen {
		patch := client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{})
		if err := r.Client.Status().Patch(ctx, p, patch); err != nil {
			return err
		}
	}
	r.Events.Flips(p, flips)
	r.Events.Emit(p, step.Events...)
	for _, a := range step.Assumed {
		r.Events.Emit(p, event.Event{Reason: event.DefaultAssumed, Text: a.Text(), Key: a.Subject})
	}
	return nil
}

// annotate merges annotations into an object, of which only the name has to be known.
func (r *Pools) annotate(ctx context.Context, obj client.Object, annotations map[string]string) error {
	before := obj.DeepCopyObject().(client.Object)
	merged := maps.Clone(obj.GetAnnotations())
	if merged == nil {
		merged = map[string]string{}
	}
	maps.Copy(merged, annotations)
	obj.SetAnnotations(merged)
	return r.Client.Patch(ctx, obj, client.MergeFrom(before))
}
