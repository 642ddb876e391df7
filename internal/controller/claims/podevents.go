package claims

import (
	"context"
	"fmt"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/workqueue"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	karpv1 "github.com/dovetail-sh/dovetail/api/v1"
	"github.com/dovetail-sh/dovetail/internal/controller/lookup"
	"github.com/dovetail-sh/dovetail/internal/controller/loop"
	"github.com/dovetail-sh/dovetail/internal/lifecycle"
)

// PodEvents writes on each claim when a pod last came or went (LC-56). It works on nodes, so that many
// pods of one node are one piece of work.
type PodEvents struct {
	Client  client.Client
	Workers int
	Now     func() time.Time

	mu    sync.Mutex
	state lifecycle.PodEvents
}

type podQueue = workqueue.TypedRateLimitingInterface[reconcile.Request]

// Register adds the reconciler to a manager.
func (r *PodEvents) Register(mgr ctrl.Manager) error {
	return ctrl.NewControllerManagedBy(mgr).Named("nodeclaim.podevents").
		Watches(&corev1.Pod{}, handler.Funcs{
			CreateFunc: func(_ context.Context, e event.CreateEvent, q podQueue) { r.recordPodEvent(e.Object, q) },
			UpdateFunc: func(_ context.Context, e event.UpdateEvent, q podQueue) { r.recordPodEvent(e.ObjectNew, q) },
			DeleteFunc: func(_ context.Context, e event.DeleteEvent, q podQueue) { r.recordPodGone(e.Object, q) },
		}).
		Watches(&corev1.Node{}, handler.Funcs{
			DeleteFunc: func(_ context.Context, e event.DeleteEvent, _ podQueue) { r.dropNode(e.Object.GetName()) },
		}).
		WithOptions(loop.DefaultOptions(r.Workers)).
		Complete(r)
}

// recordPodEvent records the last event of a pod for its node.
func (r *PodEvents) recordPodEvent(obj client.Object, queue podQueue) {
	if pod, ok := obj.(*corev1.Pod); ok {
		r.enqueueIfLater(pod.Spec.NodeName, lifecycle.PodEvent(pod), queue)
	}
}

// recordPodGone notes a pod that is gone.
func (r *PodEvents) recordPodGone(obj client.Object, queue podQueue) {
	if pod, ok := obj.(*corev1.Pod); ok {
		r.enqueueIfLater(pod.Spec.NodeName, lifecycle.PodRemoved(pod, r.Now()), queue)
	}
}

// enqueueIfLater requests a write only if the event is later than all that were recorded before.
func (r *PodEvents) enqueueIfLater(node string, at time.Time, queue podQueue) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.state.Record(node, at) {
		queue.Add(reconcile.Request{NamespacedName: types.NamespacedName{Name: node}})
	}
}

// Reconcile writes the latest event of one node on its claim, if it is due.
func (r *PodEvents) Reconcile(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	node := &corev1.Node{}
	if err := r.Client.Get(ctx, req.NamespacedName, node); err != nil {
		if client.IgnoreNotFound(err) == nil {
			r.dropNode(req.Name)
		}
		return ctrl.Result{}, client.IgnoreNotFound(err)
	}
	claims, err := lookup.ClaimsOf(ctx, r.Client, node.Spec.ProviderID)
	if err != nil || len(claims) != 1 {
		return ctrl.Result{}, err
	}
	claim := claims[0]
	at, due := r.due(req.Name, claim)
	if !due {
		return ctrl.Result{}, nil
	}
	want := &karpv1.NodeClaim{ObjectMeta: metav1.ObjectMeta{Name: claim.Name}}
	before := want.DeepCopy()
	want.Status.LastPodEventTime = metav1.NewTime(at)
	if err := r.Client.Status().Patch(ctx, want, client.MergeFrom(before)); client.IgnoreNotFound(err) != nil {
		return ctrl.Result{}, fmt.Errorf("write pod event on nodeclaim %s: %w", claim.Name, err)
	}
	r.recordWrittenAt(req.Name, at)
	return ctrl.Result{}, nil
}

func (r *PodEvents) due(node string, claim *karpv1.NodeClaim) (time.Time, bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.state.Due(node, claim, r.Now())
}

func (r *PodEvents) recordWrittenAt(node string, at time.Time) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.state.Written(node, at)
}

func (r *PodEvents) dropNode(node string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.state.Drop(node)
}
