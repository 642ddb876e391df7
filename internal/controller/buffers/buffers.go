package buffers

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	toolscache "k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	autoscalingv1beta1 "github.com/dovetail-sh/dovetail/api/autoscaling/v1beta1"
	"github.com/dovetail-sh/dovetail/internal/buffer"
	"github.com/dovetail-sh/dovetail/internal/cluster"
	"github.com/dovetail-sh/dovetail/internal/condition"
	"github.com/dovetail-sh/dovetail/internal/controller/loop"
	"github.com/dovetail-sh/dovetail/internal/controller/write"
	"github.com/dovetail-sh/dovetail/internal/metric"
	"github.com/dovetail-sh/dovetail/internal/solve"
)

const (
	name       = "capacitybuffer"
	collectFor = 200 * time.Millisecond // how long further changes are awaited, to take them in one pass
	firstSync  = 10 * time.Second       // of a watch at most, before other buffers have their turn
)

// AddToScheme registers CapacityBuffers.
func AddToScheme(s *runtime.Scheme) error { return autoscalingv1beta1.AddToScheme(s) }

// podStore takes the virtual pods.
type podStore interface {
	AddFeed(kind string, synced func() bool)
	SetVirtualPods(pods []*corev1.Pod) (changed bool)
	DefaultRequests(namespace string) corev1.ResourceList
	// RuntimeOverhead is what pods of a RuntimeClass request beyond their containers; nil if no pod of it is known.
	RuntimeOverhead(class string) corev1.ResourceList
}

// Buffers resolves CapacityBuffers.
type Buffers struct {
	Client  client.Client // reads from the cache; for status only
	Live    client.Reader // the API server itself
	Cache   cache.Cache
	Store   podStore
	Metrics *metric.Set
	Events  write.Announcer
	Trigger func() // requests a plan
	Now     func() time.Time

	elected  <-chan struct{}
	wake     chan struct{}
	readable chan struct{} // closed once buffers can be watched
	resolved atomic.Bool   // all buffers were, at least once, or cannot be read

	watched    map[reflect.Type]bool       // kinds with an informer
	unreadable map[reflect.Type]unreadable // kinds that cannot be watched
	failed     map[string]string           // buffers whose failure was logged, by key

	mu     sync.Mutex
	placed map[cluster.PodKey]buffer.Placement // by the last plan; nil before the first
}

// unreadable is why a kind cannot be watched, and when that was last checked.
type unreadable struct {
	text string
	at   time.Time
}

// unreadableError says that a kind cannot be read until the user acts. It was logged once, and to try again at once
// changes nothing.
type unreadableError struct{ text string }

func (e unreadableError) Error() string { return e.text }

// Register adds the loop to a manager.
func (b *Buffers) Register(mgr ctrl.Manager) error {
	b.elected, b.wake, b.readable = mgr.Elected(), make(chan struct{}, 1), make(chan struct{})
	b.watched, b.unreadable, b.failed = map[reflect.Type]bool{}, map[reflect.Type]unreadable{}, map[string]string{}
	b.Store.AddFeed("CapacityBuffer", b.resolved.Load)
	return mgr.Add(b)
}

// Readable is closed once buffers can be watched.
func (b *Buffers) Readable() <-chan struct{} { return b.readable }

// NeedLeaderElection says that a standby knows the buffers too.
func (*Buffers) NeedLeaderElection() bool { return false }

// Planned records what a plan means for the pods of buffers.
func (b *Buffers) Planned(view *cluster.Snapshot, plan solve.Plan, invalid []cluster.Pod) {
	placed := buffer.Placements(view, plan, invalid)
	b.mu.Lock()
	b.placed = placed
	b.mu.Unlock()
	loop.Wake(b.wake)
}

// Start resolves until the context ends.
func (b *Buffers) Start(ctx context.Context) error {
	b.run(log.IntoContext(ctx, log.FromContext(ctx).WithValues("controller", name)))
	return nil
}

// run makes passes: at once when something changed, and when the last one says so.
func (b *Buffers) run(ctx context.Context) {
	elected := b.elected
	var passes buffer.Passes
	for ctx.Err() == nil {
		failed := b.passFails(ctx, passes.Begin(b.Now()))
		if ctx.Err() != nil {
			break
		}
		next, goOn := passes.End(failed, b.Now())
		if goOn {
			b.resolved.Store(true)
		}
		due := time.NewTimer(next)
		select {
		case <-ctx.Done():
		case <-elected: // status is due
			elected = nil
		case <-due.C:
		case <-b.wake:
			pause(ctx, collectFor)
		}
		due.Stop()
	}
}

// passFails reports whether a pass failed, and logs why.
func (b *Buffers) passFails(ctx context.Context, poll bool) bool {
	err := b.passRecovering(ctx, poll)
	if err != nil && ctx.Err() == nil {
		log.FromContext(ctx).Error(err, "Reconciler error")
	}
	return err != nil
}

func pause(ctx context.Context, d time.Duration) {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-ctx.Done():
	case <-t.C:
	}
}

// passRecovering makes a pass and recovers from a panic (G9).
func (b *Buffers) passRecovering(ctx context.Context, poll bool) error {
	return (&loop.Ticker{Name: name, Metrics: b.Metrics, Pass: func(ctx context.Context) error { return b.pass(ctx, poll) }}).RunOnce(ctx)
}

// pass resolves all buffers and writes their status. At intervals it has a plan made even if nothing changed.
func (b *Buffers) pass(ctx context.Context, poll bool) error {
	readable, err := b.follow(ctx, &autoscalingv1beta1.CapacityBuffer{}, &autoscalingv1beta1.CapacityBufferList{})
	if err != nil {
		return err
	}
	if !readable {
		b.Store.SetVirtualPods(nil)
		b.resolved.Store(true)
		return nil
	}
	list := &autoscalingv1beta1.CapacityBufferList{}
	if err := b.Cache.List(ctx, list); err != nil {
		return fmt.Errorf("list CapacityBuffers: %w", err)
	}
	slices.SortFunc(list.Items, func(x, y autoscalingv1beta1.CapacityBuffer) int {
		return strings.Compare(x.Namespace+"/"+x.Name, y.Namespace+"/"+y.Name)
	})
	var pods []*corev1.Pod
	var failures []error
	resolutions := make([]buffer.Resolution, len(list.Items))
	for i := range list.Items {
		one := &list.Items[i]
		if one.DeletionTimestamp != nil {
			continue
		}
		if !buffer.Ours(&one.Spec) {
			continue
		}
		target, err := b.target(ctx, one)
		if lasting := (unreadableError{}); err != nil && !errors.As(err, &lasting) {
			failures = append(failures, fmt.Errorf("resolve CapacityBuffer %s/%s: %w", one.Namespace, one.Name, err))
		}
		if target != nil {
			buffer.AddOverhead(&target.Template.Spec, b.Store.RuntimeOverhead)
		}
		resolutions[i] = buffer.Resolve(one, target, err, b.Store.DefaultRequests(one.Namespace), buffer.MaxTotal-len(pods))
		pods = append(pods, resolutions[i].Pods...)
	}
	changed := b.Store.SetVirtualPods(pods)
	b.resolved.Store(true)
	if changed || poll && len(list.Items) > 0 {
		b.Trigger()
	}
	if b.leads() {
		failures = append(failures, b.writeStatuses(ctx, list.Items, resolutions)...)
	}
	return errors.Join(failures...)
}

func (b *Buffers) leads() bool {
	select {
	case <-b.elected:
		return true
	default:
		return false
	}
}

func (b *Buffers) writeStatuses(ctx context.Context, list []autoscalingv1beta1.CapacityBuffer, resolutions []buffer.Resolution) (failures []error) {
	b.mu.Lock()
	placed := b.placed
	b.mu.Unlock()
	for i := range list {
		one := &list[i]
		if one.DeletionTimestamp != nil {
			continue
		}
		var next autoscalingv1beta1.CapacityBufferStatus
		if buffer.Ours(&one.Spec) {
			b.logFailure(ctx, one, &resolutions[i])
			next = buffer.Status(one, &resolutions[i], placed, b.Now())
		} else {
			next = buffer.Released(one)
		}
		if equality.Semantic.DeepEqual(one.Status, next) {
			continue
		}
		before := one.DeepCopy()
		one.Status = next
		switch err := b.Client.Status().Patch(ctx, one, client.MergeFrom(before)); {
		case apierrors.IsNotFound(err): // it is deleted
		case err != nil:
			failures = append(failures, fmt.Errorf("write status of CapacityBuffer %s/%s: %w", one.Namespace, one.Name, err))
		default:
			b.Events.Flips(one, condition.Flips(before.Status.Conditions, next.Conditions))
		}
	}
	return failures
}

// logFailure logs once why a buffer has no effect.
func (b *Buffers) logFailure(ctx context.Context, one *autoscalingv1beta1.CapacityBuffer, r *buffer.Resolution) {
	key := one.Namespace + "/" + one.Name
	if r.Ready {
		delete(b.failed, key)
		return
	}
	if b.failed[key] != r.Message {
		b.failed[key] = r.Message
		log.FromContext(ctx).Info("no room is kept for a CapacityBuffer", "CapacityBuffer", klog.KRef(one.Namespace, one.Name), "reason", r.Reason, "message", r.Message)
	}
}

// target reads what a buffer refers to; nil if that does not exist.
func (b *Buffers) target(ctx context.Context, one *autoscalingv1beta1.CapacityBuffer) (*buffer.Target, error) {
	spec := &one.Spec
	switch {
	case spec.PodTemplateRef != nil:
		o := &corev1.PodTemplate{}
		found, err := b.get(ctx, one.Namespace, spec.PodTemplateRef.Name, o, &corev1.PodTemplateList{})
		if !found {
			return nil, err
		}
		return &buffer.Target{Template: o.Template, Generation: o.Generation}, nil
	case spec.ScalableRef == nil:
		return nil, nil // Resolve says what is wrong
	}
	ref := spec.ScalableRef
	switch ref.Kind {
	case "Deployment":
		o := &appsv1.Deployment{}
		found, err := b.get(ctx, one.Namespace, ref.Name, o, &appsv1.DeploymentList{})
		if !found {
			return nil, err
		}
		return &buffer.Target{Template: o.Spec.Template, Replicas: o.Spec.Replicas}, nil
	case "StatefulSet":
		o := &appsv1.StatefulSet{}
		found, err := b.get(ctx, one.Namespace, ref.Name, o, &appsv1.StatefulSetList{})
		if !found {
			return nil, err
		}
		return &buffer.Target{Template: o.Spec.Template, Replicas: o.Spec.Replicas}, nil
	case "ReplicaSet":
		o := &appsv1.ReplicaSet{}
		found, err := b.get(ctx, one.Namespace, ref.Name, o, &appsv1.ReplicaSetList{})
		if !found {
			return nil, err
		}
		return &buffer.Target{Template: o.Spec.Template, Replicas: o.Spec.Replicas}, nil
	}
	return nil, fmt.Errorf("kind %s is not supported; set Deployment, StatefulSet or ReplicaSet", ref.Kind)
}

// get reads an object from the cache.
func (b *Buffers) get(ctx context.Context, namespace, name string, into client.Object, list client.ObjectList) (found bool, err error) {
	readable, err := b.follow(ctx, into, list)
	switch {
	case err != nil:
		return false, err
	case !readable:
		return false, unreadableError{b.unreadable[reflect.TypeOf(into)].text}
	}
	err = b.Cache.Get(ctx, types.NamespacedName{Namespace: namespace, Name: name}, into)
	if apierrors.IsNotFound(err) {
		return false, nil
	}
	return err == nil, err
}

// follow starts the watch of a kind, unless it runs, and waits until it has delivered. It reports false for a kind that
// the cluster does not serve, or that may not be read: the watch would never sync. Both may change, so it is tried again
// from time to time.
func (b *Buffers) follow(ctx context.Context, obj client.Object, list client.ObjectList) (bool, error) {
	kind := reflect.TypeOf(obj)
	before := b.unreadable[kind]
	switch {
	case b.watched[kind]:
		return true, nil
	case before.text != "" && b.Now().Sub(before.at) < buffer.PollInterval:
		return false, nil
	}
	ctx, cancel := context.WithTimeout(ctx, firstSync)
	defer cancel()
	if err := b.Live.List(ctx, list, client.Limit(1)); err != nil {
		text, lasts := whyUnreadable(kind, err)
		if !lasts {
			return false, fmt.Errorf("list %s: %w", kind, err)
		}
		b.unreadable[kind] = unreadable{text: text, at: b.Now()}
		if before.text != text {
			log.FromContext(ctx).Error(nil, "no room is kept for CapacityBuffers that need this; everything else works. "+text, "reason", err.Error())
		}
		return false, nil
	}
	informer, err := b.Cache.GetInformer(ctx, obj)
	if err != nil {
		return false, fmt.Errorf("watch %s: %w", kind, err)
	}
	notify := func(any) { loop.Wake(b.wake) }
	if _, err := informer.AddEventHandler(toolscache.ResourceEventHandlerFuncs{
		AddFunc: notify, DeleteFunc: notify,
		UpdateFunc: func(before, after any) {
			if specChanged(before, after) {
				loop.Wake(b.wake)
			}
		},
	}); err != nil {
		return false, fmt.Errorf("watch %s: %w", kind, err)
	}
	b.watched[kind] = true
	if _, buffers := obj.(*autoscalingv1beta1.CapacityBuffer); buffers {
		close(b.readable)
	}
	delete(b.unreadable, kind)
	return true, nil
}

// whyUnreadable says what has to be done before a kind can be read, if it cannot be read without a change by the user.
func whyUnreadable(kind reflect.Type, err error) (text string, lasts bool) {
	_, plural, _ := strings.Cut(kind.String(), ".")
	plural += "s"
	switch {
	case meta.IsNoMatchError(err) || apierrors.IsNotFound(err):
		return "the cluster does not serve " + plural + "; install the CustomResourceDefinitions with dovetail crds | kubectl apply --server-side -f -, " +
			"or set --feature-gates=CapacityBuffer=false", true
	case apierrors.IsForbidden(err):
		return "the service account may not read " + plural + "; allow it to get, list and watch them, as the chart does", true
	}
	return "", false
}

// specChanged distinguishes changes of specs from those of status, of which there are many more. Nothing that matters here
// depends on the status of an object.
func specChanged(before, after any) bool {
	x, ok := before.(client.Object)
	y, is := after.(client.Object)
	return !ok || !is || x.GetGeneration() != y.GetGeneration() || x.GetUID() != y.GetUID() || (x.GetDeletionTimestamp() == nil) != (y.GetDeletionTimestamp() == nil) ||
		y.GetGeneration() == 0 && x.GetResourceVersion() != y.GetResourceVersion()
}
