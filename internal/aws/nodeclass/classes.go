package nodeclass

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"golang.org/x/time/rate"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/workqueue"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"
	ctrlevent "sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	awsv1 "github.com/dovetail-sh/dovetail/api/aws/v1"
	karpv1 "github.com/dovetail-sh/dovetail/api/v1"
	"github.com/dovetail-sh/dovetail/internal/aws/ami"
	"github.com/dovetail-sh/dovetail/internal/aws/discover"
	"github.com/dovetail-sh/dovetail/internal/aws/kubelet"
	"github.com/dovetail-sh/dovetail/internal/condition"
	"github.com/dovetail-sh/dovetail/internal/event"
)

// resolver looks selector terms up; *discover.Discoverer is one.
type resolver interface {
	Subnets(ctx context.Context, class *awsv1.EC2NodeClass) ([]discover.Subnet, error)
	SecurityGroups(ctx context.Context, class *awsv1.EC2NodeClass, fallback bool) ([]awsv1.SecurityGroup, error)
	Images(ctx context.Context, class *awsv1.EC2NodeClass, kubernetes string) ([]awsv1.AMI, error)
	Reservations(ctx context.Context, class *awsv1.EC2NodeClass) ([]discover.Reservation, error)
	PlacementGroup(ctx context.Context, class *awsv1.EC2NodeClass) (*discover.PlacementGroup, error)
}

// profiles keeps instance profiles; *profile.Profiles does.
type profiles interface {
	Ensure(ctx context.Context, class *awsv1.EC2NodeClass) (string, error)
	Remove(ctx context.Context, class *awsv1.EC2NodeClass) error
}

// launcher tries launches without doing them and deletes the launch templates of a class.
type launcher interface {
	Validate(ctx context.Context, class *awsv1.EC2NodeClass) (reason, message string, retry bool, err error)
	DeleteTemplates(ctx context.Context, class *awsv1.EC2NodeClass) error
}

// cluster has the properties of the EKS cluster; *eks.Cluster implements it.
type cluster interface {
	Facts() awsv1.Facts
	Version() (minor int, text string)
	ServiceCIDR(ctx context.Context) (string, error)
	CABundle() string
}

// reporter emits events.
type reporter interface {
	Emit(obj client.Object, events ...event.Event)
	Flips(obj client.Object, flips []condition.Flip)
}

// Classes keeps the status and the finalizer of EC2NodeClasses.
type Classes struct {
	Client   client.Client
	Resolve  resolver
	Profiles profiles
	Launch   launcher
	Cluster  cluster
	Events   reporter
	Settings Settings
	Now      func() time.Time
	// Machines are the instance types that expressions in a kubelet document are tried on; an error
	// while they are not loaded.
	Machines func(class *awsv1.EC2NodeClass) ([]kubelet.Machine, error)
	// DropClass drops what is cached about a class that is gone; *discover.Discoverer has it.
	DropClass func(uid types.UID)

	verdicts verdicts
}

// Register adds the reconciler to a manager. What it writes into the status does not wake it up again.
func (r *Classes) Register(mgr ctrl.Manager) error {
	deleted := predicate.Funcs{
		CreateFunc:  func(ctrlevent.CreateEvent) bool { return false },
		UpdateFunc:  func(ctrlevent.UpdateEvent) bool { return false },
		GenericFunc: func(ctrlevent.GenericEvent) bool { return false },
	}
	return ctrl.NewControllerManagedBy(mgr).Named("nodeclass").
		For(&awsv1.EC2NodeClass{}, builder.WithPredicates(predicate.Or[client.Object](predicate.GenerationChangedPredicate{}, predicate.AnnotationChangedPredicate{}))).
		Watches(&karpv1.NodeClaim{}, handler.EnqueueRequestsFromMapFunc(classOf), builder.WithPredicates(deleted)).
		WithOptions(controller.Options{
			MaxConcurrentReconciles: 10,
			RateLimiter: workqueue.NewTypedMaxOfRateLimiter[reconcile.Request](
				workqueue.NewTypedItemExponentialFailureRateLimiter[reconcile.Request](100*time.Millisecond, time.Minute),
				&workqueue.TypedBucketRateLimiter[reconcile.Request]{Limiter: rate.NewLimiter(10, 100)},
			),
		}).
		Complete(r)
}

func classOf(_ context.Context, obj client.Object) []reconcile.Request {
	claim, ok := obj.(*karpv1.NodeClaim)
	if !ok || claim.Spec.NodeClassRef.Name == "" {
		return nil
	}
	return []reconcile.Request{{NamespacedName: types.NamespacedName{Name: claim.Spec.NodeClassRef.Name}}}
}

// Reconcile brings one class up to date.
func (r *Classes) Reconcile(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	class := &awsv1.EC2NodeClass{}
	if err := r.Client.Get(ctx, req.NamespacedName, class); err != nil {
		return ctrl.Result{}, client.IgnoreNotFound(err)
	}
	step, err := r.decide(ctx, class)
	if err == nil {
		err = r.perform(ctx, class, step)
	}
	switch {
	case apierrors.IsConflict(err):
		return ctrl.Result{RequeueAfter: time.Second}, nil // another client wrote; retry
	case err != nil:
		return ctrl.Result{}, client.IgnoreNotFound(err)
	case step.Err != nil:
		return ctrl.Result{}, fmt.Errorf("EC2NodeClass %s: %w", class.Name, step.Err)
	}
	return ctrl.Result{RequeueAfter: step.After}, nil
}

// decide reads the facts and decides; where it takes a dry run, twice. The finalizer comes first:
// instance profiles are made while facts are read.
func (r *Classes) decide(ctx context.Context, class *awsv1.EC2NodeClass) (Step, error) {
	if !class.DeletionTimestamp.IsZero() {
		claims, err := claimsOf(ctx, r.Client, class.Name)
		if err != nil {
			return Step{}, err
		}
		names := make([]string, 0, len(claims))
		for i := range claims {
			names = append(names, claims[i].Name)
		}
		return Next(Facts{Class: class, Claims: names, Now: metav1.NewTime(r.Now())}), nil
	}
	before := class.DeepCopy()
	if controllerutil.AddFinalizer(class, awsv1.FinalizerTermination) {
		if err := r.Client.Patch(ctx, class, withOptimisticLock(before)); err != nil {
			return Step{}, err
		}
	}
	facts := r.observe(ctx, class)
	step := Next(facts)
	if step.DryRun {
		facts.DryRun = r.dryRun(ctx, step.Effective)
		step = Next(facts)
	}
	return step, nil
}

// observe looks everything up; what fails is a lookup with an error.
func (r *Classes) observe(ctx context.Context, class *awsv1.EC2NodeClass) Facts {
	known := r.Cluster.Facts()
	_, kubernetes := r.Cluster.Version()
	f := Facts{Class: class, Cluster: known, Kubernetes: kubernetes, Settings: r.Settings, Now: metav1.NewTime(r.Now())}
	known.RoleIsProfile = false // decided anew, by what the role turns out to be
	effective, _ := class.Effective(known)
	if kubernetes != "" && discover.UnsupportedAlias(effective, kubernetes) == "" {
		f.Images.Value, f.Images.Err = r.Resolve.Images(ctx, effective, kubernetes)
	}
	if r.Settings.ReservedCapacity {
		f.Reservations.Value, f.Reservations.Err = r.Resolve.Reservations(ctx, effective)
	}
	f.PlacementGroup.Value, f.PlacementGroup.Err = r.Resolve.PlacementGroup(ctx, effective)
	f.Subnets.Value, f.Subnets.Err = r.Resolve.Subnets(ctx, effective)
	derived := len(class.Spec.SecurityGroupSelectorTerms) == 0 && !known.Strict // L-08
	f.SecurityGroups.Value, f.SecurityGroups.Err = r.Resolve.SecurityGroups(ctx, effective, derived)
	f.Profile.Value, f.Profile.Err = r.Profiles.Ensure(ctx, effective)
	if ami.Of(effective.Family()).NeedsServiceCIDR {
		f.ServiceCIDR.Value, f.ServiceCIDR.Err = r.Cluster.ServiceCIDR(ctx)
	}
	if config, _ := kubelet.Parse(effective.Spec.Kubelet); config.Expressions() && r.Settings.NodeClassCEL {
		f.Machines.Value, f.Machines.Err = r.Machines(effective)
	}
	return f
}

// dryRun returns the verdict about a class, an old one if nothing changed since.
func (r *Classes) dryRun(ctx context.Context, class *awsv1.EC2NodeClass) *Verdict {
	if kept := r.verdicts.loadVerdict(class, r.Now()); kept != nil {
		return kept
	}
	var said Verdict
	said.Reason, said.Message, said.Retry, said.Err = r.Launch.Validate(ctx, class)
	r.verdicts.storeVerdict(class, said, r.Now())
	return &said
}

func (r *Classes) perform(ctx context.Context, class *awsv1.EC2NodeClass, step Step) error {
	if step.Clean {
		return r.cleanUpDeleted(ctx, class)
	}
	r.Events.Emit(class, step.Events...)
	if step.Keep {
		return nil
	}
	before := class.DeepCopy()
	class.Status = *step.Status.DeepCopy() // the response of the server is read into it; lists are shared with others
	if !equality.Semantic.DeepEqual(before.Status, class.Status) {
		if err := r.Client.Status().Patch(ctx, class, withOptimisticLock(before)); err != nil {
			return err
		}
	}
	r.Events.Flips(class, condition.Flips(before.Status.Conditions, step.Status.Conditions))
	for _, assumed := range step.Assumed {
		r.Events.Emit(class, event.Event{Reason: event.DefaultAssumed, Text: assumed.Text(), Key: assumed.Subject})
	}
	return nil
}

// cleanUpDeleted deletes what was made for a class and removes its finalizer. Events say what the deletion waits for.
func (r *Classes) cleanUpDeleted(ctx context.Context, class *awsv1.EC2NodeClass) error {
	if err := errors.Join(r.Profiles.Remove(ctx, class), r.Launch.DeleteTemplates(ctx, class)); err != nil {
		r.Events.Emit(class, event.Event{Reason: event.CleanupFailed, Text: "the class is deleted once what was made for it is: " + stableError(err)})
		return fmt.Errorf("clean up after EC2NodeClass %s: %w", class.Name, err)
	}
	before := class.DeepCopy()
	controllerutil.RemoveFinalizer(class, awsv1.FinalizerTermination)
	if err := r.Client.Patch(ctx, class, withOptimisticLock(before)); err != nil {
		return err
	}
	r.verdicts.dropVerdict(class.Name)
	r.DropClass(class.UID)
	log.FromContext(ctx).Info("deleted EC2NodeClass")
	return nil
}

// withOptimisticLock is a patch that fails if another client wrote in between.
func withOptimisticLock(before client.Object) client.Patch {
	return client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{})
}

// claimsOf are the claims that use a class, by name: the cache lists them in any order.
func claimsOf(ctx context.Context, objects client.Reader, class string) ([]karpv1.NodeClaim, error) {
	list := &karpv1.NodeClaimList{}
	if err := objects.List(ctx, list); err != nil {
		return nil, fmt.Errorf("list NodeClaims of EC2NodeClass %s: %w", class, err)
	}
	used := slices.DeleteFunc(list.Items, func(c karpv1.NodeClaim) bool { return !UsedBy(class, &c) })
	slices.SortFunc(used, func(a, b karpv1.NodeClaim) int { return cmp.Compare(a.Name, b.Name) })
	return used, nil
}
