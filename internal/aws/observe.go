package aws

import (
	"context"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/predicate"

	awsv1 "github.com/dovetail-sh/dovetail/api/aws/v1"
	karpv1 "github.com/dovetail-sh/dovetail/api/v1"
	"github.com/dovetail-sh/dovetail/internal/aws/classhash"
	"github.com/dovetail-sh/dovetail/internal/aws/discover"
	"github.com/dovetail-sh/dovetail/internal/aws/inventory"
	"github.com/dovetail-sh/dovetail/internal/catalog"
	"github.com/dovetail-sh/dovetail/internal/cloud"
	"github.com/dovetail-sh/dovetail/internal/cloud/directory"
)

// observer learns how much memory and storage nodes of an instance type really have, as soon as they
// register: EC2 reports what the machine has, not what the kernel and the file system leave (3.2).
type observer struct {
	client    client.Reader
	directory directory.Cache
	class     func(ctx context.Context, ref karpv1.NodeClassReference) (*awsv1.EC2NodeClass, error)
	types     typeCatalog
	strict    bool
	learn     func(instanceType string, class *awsv1.EC2NodeClass, memory resource.Quantity)
	// learnStorage is the same for ephemeral storage, which also depends on the devices of the class.
	learnStorage func(instanceType string, class *awsv1.EC2NodeClass, storage resource.Quantity)
}

func (o *observer) register(mgr ctrl.Manager) error {
	registered := func(obj client.Object) bool { return obj.GetLabels()[karpv1.LabelRegistered] == "true" }
	return ctrl.NewControllerManagedBy(mgr).Named("providers.instancetype.capacity").
		For(&corev1.Node{}, builder.WithPredicates(predicate.Funcs{
			CreateFunc:  func(e event.CreateEvent) bool { return registered(e.Object) },
			UpdateFunc:  func(e event.UpdateEvent) bool { return registered(e.ObjectNew) && !registered(e.ObjectOld) },
			DeleteFunc:  func(event.DeleteEvent) bool { return false },
			GenericFunc: func(event.GenericEvent) bool { return false },
		})).
		WithOptions(controller.Options{MaxConcurrentReconciles: 1}).Complete(o)
}

// Reconcile learns from one node.
func (o *observer) Reconcile(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	node := &corev1.Node{}
	if err := o.client.Get(ctx, req.NamespacedName, node); err != nil {
		return ctrl.Result{}, client.IgnoreNotFound(err)
	}
	memory, reported := node.Status.Capacity[corev1.ResourceMemory]
	id := inventory.InstanceID(node.Spec.ProviderID)
	if !reported || memory.IsZero() || id == "" {
		return ctrl.Result{}, nil
	}
	claims, err := o.directory.Claims(ctx, id)
	if err != nil || len(claims) != 1 {
		return ctrl.Result{}, err
	}
	claim, _ := claims[0].Effective(nil, o.strict)
	class, err := o.class(ctx, claim.Spec.NodeClassRef)
	if err != nil {
		if cloud.Is(err, cloud.NoCapacity) {
			return ctrl.Result{}, nil // there is no such class any more
		}
		return ctrl.Result{}, err
	}
	all, err := o.types.Types(class, claim.Spec.Kubelet)
	if err != nil {
		return ctrl.Result{}, err
	}
	name := node.Labels[corev1.LabelInstanceTypeStable]
	n := slices.IndexFunc(all, func(t catalog.InstanceType) bool { return t.Name == name })
	if n < 0 {
		return ctrl.Result{}, nil
	}
	// Another image, such as the last release, may leave another amount.
	if image, found := discover.Image(class, &all[n]); found && image.ID == claim.Status.ImageID {
		o.learn(name, class, memory)
		if _, changed := classhash.Drift(class, claim); !changed {
			o.learnStorage(name, class, *node.Status.Capacity.StorageEphemeral())
		}
	}
	return ctrl.Result{}, nil
}
