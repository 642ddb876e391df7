package uninstall

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/retry"
	"k8s.io/klog/v2"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"
	"sigs.k8s.io/controller-runtime/pkg/log"

	karpv1 "github.com/dovetail-sh/dovetail/api/v1"
	"github.com/dovetail-sh/dovetail/internal/cloud/driver"
	"github.com/dovetail-sh/dovetail/internal/condition"
)

// lookAgain is how often what is awaited is checked; sayAgain, how often it is logged.
const (
	lookAgain = 2 * time.Second
	sayAgain  = 30 * time.Second
)

// Options are what an uninstallation needs. All are required but Lease.
type Options struct {
	Client client.Client // without a cache
	Class  driver.Class  // the kind of node classes to clean up
	Clean  driver.Cleaner
	// Lease is that of the controller. Without a name the controller takes none, and may undo what is done here.
	Lease    types.NamespacedName
	Identity string // of this process, as the holder of the lease
	Nodes    Nodes
	Now      func() time.Time
}

// Run cleans up. It fails when something could not be cleaned that should have been, and can be run again.
func Run(ctx context.Context, o Options) error {
	u := &uninstaller{Options: o}
	facts, err := u.readFacts(ctx)
	if meta.IsNoMatchError(err) {
		log.FromContext(ctx).Info("the CustomResourceDefinitions are not there any more: nothing is to be cleaned up")
		return nil
	}
	if err != nil {
		return err
	}
	if o.Nodes == Delete {
		if err := u.deletePools(ctx); err != nil {
			return err
		}
		if facts, err = u.readFacts(ctx); err != nil {
			return err
		}
	}
	plan := Decide(facts)
	if !plan.Empty() {
		held, stop, err := u.takeLease(ctx)
		if err != nil {
			return err
		}
		defer stop()
		if facts, err = u.readFacts(held); err != nil { // a controller may have worked until now
			return err
		}
		plan = Decide(facts)
		if err := u.perform(held, plan); err != nil {
			return err
		}
	}
	for _, text := range plan.Remains {
		log.FromContext(ctx).Error(nil, text)
	}
	log.FromContext(ctx).Info("cleaned up", u.Class.Kind+"es", len(plan.Clean)+len(plan.Strip), "NodeClaims", len(plan.Claims), "Nodes", len(plan.Nodes))
	return nil
}

type uninstaller struct{ Options }

// readFacts reads all that is decided about.
func (u *uninstaller) readFacts(ctx context.Context) (Facts, error) {
	classes, claims, nodes := u.Class.NewList(), &karpv1.NodeClaimList{}, &corev1.NodeList{}
	lists := []client.ObjectList{classes, claims}
	if u.Nodes == Release {
		lists = append(lists, nodes)
	}
	for _, list := range lists {
		if err := u.Client.List(ctx, list); err != nil {
			return Facts{}, fmt.Errorf("list %T: %w", list, err)
		}
	}
	items, err := meta.ExtractList(classes)
	if err != nil {
		return Facts{}, err
	}
	objects := make([]client.Object, 0, len(items))
	for _, item := range items {
		if class, is := item.(client.Object); is {
			objects = append(objects, class)
		}
	}
	return Facts{Nodes: u.Nodes, Kind: u.Class, Classes: objects, Claims: claims.Items, Objects: nodes.Items}, nil
}

// perform does what was decided. An object that fails keeps its finalizer, and the others are still processed.
func (u *uninstaller) perform(ctx context.Context, p Plan) error {
	var failed []error
	for _, name := range p.Nodes {
		failed = append(failed, u.removeFinalizer(ctx, &corev1.Node{}, name, karpv1.FinalizerTermination))
	}
	for _, name := range p.Claims {
		failed = append(failed, u.removeFinalizer(ctx, &karpv1.NodeClaim{}, name, karpv1.FinalizerTermination))
	}
	for _, name := range p.Clean {
		failed = append(failed, u.cleanClass(ctx, name))
	}
	for _, name := range p.Strip {
		failed = append(failed, u.removeFinalizer(ctx, u.Class.New(), name, u.Class.Finalizer))
	}
	return errors.Join(failed...)
}

func (u *uninstaller) cleanClass(ctx context.Context, name string) error {
	class := u.Class.New()
	if err := u.Client.Get(ctx, types.NamespacedName{Name: name}, class); err != nil {
		return client.IgnoreNotFound(err)
	}
	if err := u.Clean(ctx, class); err != nil {
		return fmt.Errorf("delete the %s of %s %s: %w", u.Class.Makes, u.Class.Kind, name, err)
	}
	if err := u.removeFinalizer(ctx, class, name, u.Class.Finalizer); err != nil {
		return err
	}
	log.FromContext(ctx).Info("deleted the "+u.Class.Makes+" of a class that no NodeClaim uses", u.Class.Kind, klog.KRef("", name))
	return nil
}

// removeFinalizer removes a finalizer, however often others write to the object meanwhile.
func (u *uninstaller) removeFinalizer(ctx context.Context, obj client.Object, name, finalizer string) error {
	err := retry.RetryOnConflict(retry.DefaultBackoff, func() error {
		if err := u.Client.Get(ctx, types.NamespacedName{Name: name}, obj); err != nil {
			return client.IgnoreNotFound(err)
		}
		before, _ := obj.DeepCopyObject().(client.Object)
		if !controllerutil.RemoveFinalizer(obj, finalizer) {
			return nil
		}
		return client.IgnoreNotFound(u.Client.Patch(ctx, obj, client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{})))
	})
	if err != nil {
		return fmt.Errorf("remove finalizer %s from %T %s: %w", finalizer, obj, name, err)
	}
	return nil
}

// deletePools deletes the NodePools and waits until the controller, which still runs, has ended all their nodes.
func (u *uninstaller) deletePools(ctx context.Context) error {
	pools := &karpv1.NodePoolList{}
	if err := u.Client.List(ctx, pools); err != nil {
		return fmt.Errorf("list NodePools: %w", err)
	}
	for i := range pools.Items {
		p := &pools.Items[i]
		effective, _ := p.Effective(false)
		if ref := effective.Spec.Template.Spec.NodeClassRef; ref.Group != u.Class.Group || ref.Kind != u.Class.Kind {
			continue
		}
		if err := u.Client.Delete(ctx, p); client.IgnoreNotFound(err) != nil {
			return fmt.Errorf("delete NodePool %s: %w", p.Name, err)
		}
		log.FromContext(ctx).Info("deleted NodePool", "NodePool", klog.KObj(p))
	}
	var said time.Time
	for {
		left, err := u.claimsOfPools(ctx)
		if err != nil || len(left) == 0 {
			return err
		}
		if u.Now().Sub(said) >= sayAgain {
			said = u.Now()
			log.FromContext(ctx).Info("waiting for nodes to be drained and terminated", "waiting", left)
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("time is up, and nodes of NodePools are still being drained or terminated: %s; nothing is uninstalled yet: look at what holds them, and uninstall again", left[0])
		case <-time.After(lookAgain):
		}
	}
}

// claimsOfPools are the claims of NodePools that are still there, each with what it waits for.
func (u *uninstaller) claimsOfPools(ctx context.Context) ([]string, error) {
	claims := &karpv1.NodeClaimList{}
	if err := u.Client.List(ctx, claims, client.HasLabels{karpv1.LabelNodePool}); err != nil {
		if ctx.Err() != nil {
			err = errors.New("time is up while nodes of NodePools are drained and terminated; uninstall again")
		}
		return nil, err
	}
	var left []string
	for i := range claims.Items {
		c := &claims.Items[i]
		if _, ours := classOf(c, u.Class); !ours {
			continue
		}
		text := "NodeClaim " + c.Name
		if drained := condition.Find(c.Status.Conditions, karpv1.ConditionDrained); drained != nil && drained.Message != "" {
			text += " (" + drained.Message + ")"
		}
		left = append(left, text)
	}
	slices.Sort(left)
	return left, nil
}
