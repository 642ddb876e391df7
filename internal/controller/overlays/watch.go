package overlays

import (
	"context"
	"errors"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	toolscache "k8s.io/client-go/tools/cache"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/manager"

	karpv1 "github.com/dovetail-sh/dovetail/api/v1"
	"github.com/dovetail-sh/dovetail/api/v1alpha1"
	"github.com/dovetail-sh/dovetail/internal/controller/loop"
	"github.com/dovetail-sh/dovetail/internal/overlay"
)

// Controller is the name of the controller, in logs and metrics.
const Controller = "nodeoverlay.controller"

const (
	syncWithin = 5 * time.Second
	unserved   = time.Minute      // how often to check for the kind
	forbidden  = 10 * time.Minute // how often to check for the right
)

// watch is the watch on overlays. The kind is optional: without it, or without the right to read it, there are no
// overlays, and nothing else changes.
type watch struct {
	on     bool
	again  time.Time // when to check for the kind again
	logged error     // the last reason that was logged
}

// Readable is closed once overlays can be watched.
func (o *Overlays) Readable() <-chan struct{} {
	o.makeReadable.Do(func() { o.readable = make(chan struct{}) })
	return o.readable
}

// Register adds the controller to a manager. If overlays are served, they are in the cache before the first plan.
func (o *Overlays) Register(mgr ctrl.Manager) error {
	o.mu.Lock()
	_, err := o.tryWatch(context.Background())
	o.mu.Unlock()
	if err != nil && !errors.Is(err, errNotRead) {
		return err
	}
	return errors.Join(
		mgr.Add(manager.RunnableFunc(o.watchOthers)),
		mgr.Add(&loop.Turns{Name: Controller, Metrics: o.Metrics, Every: time.Minute, Wake: o.woken(), Soon: overlay.CollectFor, Turn: o.Turn}),
	)
}

func (o *Overlays) woken() chan struct{} {
	o.wakeUp.Do(func() { o.wake = make(chan struct{}, 1) })
	return o.wake
}

var errNotRead = errors.New("NodeOverlays cannot be read")

// tryWatch starts the watch on overlays unless it runs. It reports whether it does; without an error, a cluster that
// it does not run in has no overlays. The caller holds the lock.
func (o *Overlays) tryWatch(ctx context.Context) (on bool, err error) {
	w := &o.watched
	if w.on || o.Now().Before(w.again) {
		return w.on, nil
	}
	err = o.Reader.List(ctx, &v1alpha1.NodeOverlayList{}, client.Limit(1))
	switch {
	case err == nil:
	case meta.IsNoMatchError(err) || apierrors.IsNotFound(err):
		w.again = o.Now().Add(unserved)
		if w.logged == nil {
			w.logged = err
			log.FromContext(ctx).Error(nil, "the cluster does not serve NodeOverlays (karpenter.sh/v1alpha1), so prices and capacities are not adjusted; all else works. "+
				"Install the CustomResourceDefinition: dovetail crds | kubectl apply --server-side -f -; or turn the gate off: --feature-gates NodeOverlay=false", "reason", err.Error())
		}
		return false, nil
	case apierrors.IsForbidden(err):
		w.again = o.Now().Add(forbidden)
		if w.logged == nil {
			w.logged = err
			log.FromContext(ctx).Error(nil, "NodeOverlays may not be read, so prices and capacities are not adjusted; all else works. "+
				"Allow the service account to get, list and watch nodeoverlays of karpenter.sh, or turn the gate off: --feature-gates NodeOverlay=false", "reason", err.Error())
		}
		return false, nil
	default:
		return false, errors.Join(errNotRead, err)
	}
	ctx, cancel := context.WithTimeout(ctx, syncWithin)
	defer cancel()
	informer, err := o.Informers.GetInformer(ctx, &v1alpha1.NodeOverlay{})
	if err != nil {
		return false, errors.Join(errNotRead, err)
	}
	if _, err := informer.AddEventHandler(o.handler(func(before, after client.Object) bool {
		return before.GetGeneration() != after.GetGeneration() || (before.GetDeletionTimestamp() == nil) != (after.GetDeletionTimestamp() == nil)
	})); err != nil {
		return false, err
	}
	if w.logged != nil {
		log.FromContext(ctx).Info("NodeOverlays can be read now")
	}
	*w = watch{on: true}
	o.Readable()
	close(o.readable)
	return true, nil
}

// watchOthers wakes the controller when pools and classes change: overlays match other types then.
func (o *Overlays) watchOthers(ctx context.Context) error {
	kinds := []client.Object{&karpv1.NodePool{}}
	for _, k := range o.Classes {
		kinds = append(kinds, k.New())
	}
	for _, kind := range kinds {
		informer, err := o.Informers.GetInformer(ctx, kind)
		if err != nil {
			return err
		}
		_, pool := kind.(*karpv1.NodePool)
		if _, err := informer.AddEventHandler(o.handler(func(before, after client.Object) bool {
			return !pool && before.GetResourceVersion() != after.GetResourceVersion() || before.GetGeneration() != after.GetGeneration()
		})); err != nil {
			return err
		}
	}
	<-ctx.Done()
	return nil
}

// handler wakes the controller. changed says which updates matter: the counters of pools change all the time.
func (o *Overlays) handler(changed func(before, after client.Object) bool) toolscache.ResourceEventHandler {
	wake := o.woken()
	return toolscache.ResourceEventHandlerFuncs{
		AddFunc:    func(any) { loop.Wake(wake) },
		DeleteFunc: func(any) { loop.Wake(wake) },
		UpdateFunc: func(before, after any) {
			b, isObject := before.(client.Object)
			a, also := after.(client.Object)
			if isObject && also && changed(b, a) {
				loop.Wake(wake)
			}
		},
	}
}
