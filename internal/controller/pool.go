package controller

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	karpv1 "github.com/dovetail-sh/dovetail/api/v1"
	"github.com/dovetail-sh/dovetail/internal/condition"
	"github.com/dovetail-sh/dovetail/internal/pool"
	"github.com/dovetail-sh/dovetail/internal/reason"
	"github.com/dovetail-sh/dovetail/internal/reqs"
)

// maxAction is the longest action the API server takes in an event.
const maxAction = 128

// recorder is the part of the event recorder that reconcilers use.
type recorder interface {
	Eventf(regarding, related runtime.Object, eventtype, reason, action, note string, args ...any)
}

// Pools keeps the validation condition and the hashes of NodePools.
type Pools struct {
	Client  client.Client
	Events  recorder
	Words   reqs.Vocabulary
	Classes []schema.GroupKind // kinds of node classes this controller manages
	Strict  bool
	Now     func() time.Time
}

// Register adds the reconciler to a manager.
func (r *Pools) Register(mgr ctrl.Manager) error {
	return ctrl.NewControllerManagedBy(mgr).Named("nodepool").For(&karpv1.NodePool{}).Complete(r)
}

// Reconcile brings one pool up to date.
func (r *Pools) Reconcile(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	facts, err := r.observe(ctx, req.Name)
	if err != nil || facts == nil {
		return ctrl.Result{}, client.IgnoreNotFound(err)
	}
	step, err := pool.Next(*facts)
	if err != nil {
		return ctrl.Result{}, fmt.Errorf("nodepool %s: %w", req.Name, err)
	}
	err = r.perform(ctx, facts.Pool, step)
	if apierrors.IsConflict(err) {
		return ctrl.Result{RequeueAfter: time.Second}, nil // somebody else wrote; look again
	}
	return ctrl.Result{}, client.IgnoreNotFound(err)
}

// observe returns nil for a pool of a node class that is not ours.
func (r *Pools) observe(ctx context.Context, name string) (*pool.Facts, error) {
	p := &karpv1.NodePool{}
	if err := r.Client.Get(ctx, client.ObjectKey{Name: name}, p); err != nil {
		return nil, err
	}
	effective, _ := p.Effective(false)
	if !managed(r.Classes, effective.Spec.Template.Spec.NodeClassRef) {
		return nil, nil
	}
	claims := &karpv1.NodeClaimList{}
	if err := r.Client.List(ctx, claims, client.MatchingLabels{karpv1.LabelNodePool: name}); err != nil {
		return nil, err
	}
	return &pool.Facts{Pool: p, Claims: claims.Items, Words: r.Words, Strict: r.Strict, Now: metav1.NewTime(r.Now())}, nil
}

func managed(classes []schema.GroupKind, ref karpv1.NodeClassReference) bool {
	for _, gk := range classes {
		if gk.Group == ref.Group && gk.Kind == ref.Kind {
			return true
		}
	}
	return false
}

// perform writes claims before the pool and the status last: a crash in between repeats the step.
func (r *Pools) perform(ctx context.Context, p *karpv1.NodePool, step pool.Step) error {
	for _, ignored := range step.Ignored {
		log.FromContext(ctx).Error(nil, "ignoring a part of the NodePool", "NodePool", p.Name, "reason", ignored.Text())
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
	p.Status.Conditions = step.Conditions
	patch := client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{})
	if !slices.Equal(before.Status.Conditions, p.Status.Conditions) {
		if err := r.Client.Status().Patch(ctx, p, patch); err != nil {
			return err
		}
	}
	r.announce(p, flips, step.Assumed)
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

// announce tells the user what changed and what was read into the pool.
func (r *Pools) announce(p *karpv1.NodePool, flips []condition.Flip, assumed []reason.Reason) {
	for _, f := range flips {
		if f.From == "" && f.To == metav1.ConditionUnknown {
			continue // being created as Unknown is not news
		}
		from := string(f.From)
		if from == "" {
			from = string(metav1.ConditionUnknown)
		}
		r.Events.Eventf(p, nil, corev1.EventTypeNormal, f.Type, "Reconcile", "Status condition %s changed from %s to %s, reason %s. %s", f.Type, from, f.To, f.Reason, f.Message)
	}
	for _, a := range assumed {
		// Events of one reason and action are merged and keep only the first text: the field tells them apart.
		action := a.Subject[:min(len(a.Subject), maxAction)]
		r.Events.Eventf(p, nil, corev1.EventTypeNormal, string(reason.DefaultAssumed), action, "%s", a.Text())
	}
}
