package disruption

import (
	"context"
	"errors"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	clientcache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	karpv1 "github.com/dovetail-sh/dovetail/api/v1"
	"github.com/dovetail-sh/dovetail/internal/controller/loop"
	"github.com/dovetail-sh/dovetail/internal/disrupt"
	"github.com/dovetail-sh/dovetail/internal/disrupt/command"
)

// leftovers reads what commands wrote on objects. Mostly there is nothing, which is found out without a copy of
// each object.
func (w *worker) leftovers(ctx context.Context) (command.Leftovers, error) {
	l := command.NewLeftovers()
	nodes, claims := &corev1.NodeList{}, &karpv1.NodeClaimList{}
	if err := errors.Join(w.client.List(ctx, nodes, client.UnsafeDisableDeepCopy), w.client.List(ctx, claims, client.UnsafeDisableDeepCopy)); err != nil {
		return l, fmt.Errorf("list nodes and claims: %w", err)
	}
	for i := range nodes.Items {
		l.AddNode(&nodes.Items[i])
	}
	for i := range claims.Items {
		l.AddClaim(&claims.Items[i])
	}
	return l, nil
}

// resume takes over the commands of an earlier process that can go on. It reports whether there are any.
func (w *worker) resume(ctx context.Context, view disrupt.View, l command.Leftovers) bool {
	w.queue.mu.Lock() // their nodes are marked before the other loop can advance them
	defer w.queue.mu.Unlock()
	found := w.queue.state.Resume(view.Nodes, l)
	for _, effect := range found {
		if e, is := effect.(command.Resumed); is {
			w.markResumed(ctx, e.Command)
		}
	}
	if len(found) > 0 {
		loop.Wake(w.queue.wake)
	}
	return len(found) > 0
}

// markResumed marks the nodes of a command of an earlier process as being removed.
func (w *worker) markResumed(ctx context.Context, r disrupt.Running) {
	for _, n := range r.Remove {
		w.store.SetCommanded(n.Node, true)
	}
	w.store.Replace(nodesIn(r.Command), nil) // the replacements are there: their pods find them again
	log.FromContext(ctx).Info("resuming a command of an earlier process", "command", r.ID, "reason", r.Reason, "nodes", names(r.Remove), "replacements", r.ReplacementClaims)
}

// cleanUp removes what commands of the past wrote on objects.
func (w *worker) cleanUp(ctx context.Context, view disrupt.View, l command.Leftovers) error {
	return w.perform(ctx, w.queue.step(func(q *command.Queue) []command.Effect { return q.CleanUp(view.Nodes, l) }), nil)
}

// watch checks commands as soon as a replacement that they wait for is terminating.
func (w *worker) watch(ctx context.Context, informers cache.Informers) error {
	informer, err := informers.GetInformer(ctx, &karpv1.NodeClaim{})
	if err != nil {
		return fmt.Errorf("watch nodeclaims: %w", err)
	}
	_, err = informer.AddEventHandler(clientcache.ResourceEventHandlerFuncs{
		UpdateFunc: func(_, now any) {
			if claim, is := now.(*karpv1.NodeClaim); is && claim.DeletionTimestamp != nil {
				w.queue.recordLostReplacement(claim.Name)
			}
		},
		DeleteFunc: func(last any) {
			if unknown, is := last.(clientcache.DeletedFinalStateUnknown); is {
				last = unknown.Obj
			}
			if claim, is := last.(*karpv1.NodeClaim); is {
				w.queue.recordLostReplacement(claim.Name)
			}
		},
	})
	if err != nil {
		return fmt.Errorf("watch nodeclaims: %w", err)
	}
	return nil
}
