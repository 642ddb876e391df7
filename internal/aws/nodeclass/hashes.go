package nodeclass

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/predicate"

	awsv1 "github.com/dovetail-sh/dovetail/api/aws/v1"
	karpv1 "github.com/dovetail-sh/dovetail/api/v1"
	"github.com/dovetail-sh/dovetail/internal/aws/classhash"
	"github.com/dovetail-sh/dovetail/internal/drift"
)

// hashAgain is how often the hash is checked without a change of the class: the version of the
// cluster and its certificate are part of it.
const hashAgain = 5 * time.Minute

// Hashes keeps the hash annotations of EC2NodeClasses, and of claims that another version stamped.
type Hashes struct {
	Client  client.Client
	Cluster cluster
}

// Register adds the reconciler to a manager.
func (r *Hashes) Register(mgr ctrl.Manager) error {
	return ctrl.NewControllerManagedBy(mgr).Named("nodeclass.hash").
		For(&awsv1.EC2NodeClass{}, builder.WithPredicates(predicate.Or[client.Object](predicate.GenerationChangedPredicate{}, predicate.AnnotationChangedPredicate{}))).
		WithOptions(controller.Options{MaxConcurrentReconciles: 10}).
		Complete(r)
}

// Reconcile stamps one class.
func (r *Hashes) Reconcile(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	class := &awsv1.EC2NodeClass{}
	if err := r.Client.Get(ctx, req.NamespacedName, class); err != nil || !class.DeletionTimestamp.IsZero() {
		return ctrl.Result{}, client.IgnoreNotFound(err)
	}
	hash, err := classhash.Of(class, r.Cluster.Facts(), r.Cluster.CABundle())
	if errors.Is(err, classhash.ErrVersionUnknown) {
		return ctrl.Result{RequeueAfter: soon}, nil
	}
	if err != nil {
		return ctrl.Result{}, fmt.Errorf("hash of EC2NodeClass %s: %w", class.Name, err)
	}
	err = r.stamp(ctx, class, hash)
	if apierrors.IsConflict(err) {
		return ctrl.Result{RequeueAfter: time.Second}, nil
	}
	return ctrl.Result{RequeueAfter: hashAgain}, client.IgnoreNotFound(err)
}

func (r *Hashes) stamp(ctx context.Context, class *awsv1.EC2NodeClass, hash drift.Hash) error {
	var claims []karpv1.NodeClaim
	if class.Annotations[awsv1.AnnotationNodeClassHashVersion] != classhash.Version {
		var err error
		if claims, err = claimsOf(ctx, r.Client, class.Name); err != nil {
			return err
		}
	}
	onClass, onClaims := Stamps(class, claims, hash)
	for _, stamp := range onClaims {
		claim := &karpv1.NodeClaim{ObjectMeta: metav1.ObjectMeta{Name: stamp.Claim}}
		if err := client.IgnoreNotFound(r.annotate(ctx, claim, stamp.Annotations)); err != nil {
			return err
		}
	}
	if len(onClass) == 0 {
		return nil
	}
	return r.annotate(ctx, class, onClass)
}

// annotate merges annotations into an object, of which only the name has to be known.
func (r *Hashes) annotate(ctx context.Context, obj client.Object, annotations map[string]string) error {
	before, ok := obj.DeepCopyObject().(client.Object)
	if !ok {
		return fmt.Errorf("%T is no object", obj)
	}
	merged := maps.Clone(obj.GetAnnotations())
	if merged == nil {
		merged = map[string]string{}
	}
	maps.Copy(merged, annotations)
	obj.SetAnnotations(merged)
	return r.Client.Patch(ctx, obj, client.MergeFrom(before))
}
