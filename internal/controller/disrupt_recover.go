package controller

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
	clientcache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	karpv1 "github.com/dovetail-sh/dovetail/api/v1"
	"github.com/dovetail-sh/dovetail/internal/condition"
	disruption "github.com/dovetail-sh/dovetail/internal/disrupt"
)

// leftovers is what commands, running or not, have written on objects.
type leftovers struct {
	nodes  map[string]string           // held: the command that holds it, which may not be known
	claims map[string]bool             // with condition DisruptionReason
	bounds map[string]bool             // claims with the end of a drain that a command wrote
	orders map[string]disruption.Order // of replacements that are not being deleted
	marked map[string]string           // replacements with annotations of ours: the command that ordered them, if that can be read
}

// leftovers reads the objects. Mostly there is nothing, which is found out without a copy of each.
func (d *Disruption) leftovers(ctx context.Context) (leftovers, error) {
	l := leftovers{nodes: map[string]string{}, claims: map[string]bool{}, bounds: map[string]bool{}, orders: map[string]disruption.Order{}, marked: map[string]string{}}
	nodes, claims := &corev1.NodeList{}, &karpv1.NodeClaimList{}
	if err := errors.Join(d.Client.List(ctx, nodes, client.UnsafeDisableDeepCopy), d.Client.List(ctx, claims, client.UnsafeDisableDeepCopy)); err != nil {
		return l, fmt.Errorf("list nodes and claims: %w", err)
	}
	for i := range nodes.Items {
		n := &nodes.Items[i]
		if by, named := n.Annotations[karpv1.AnnotationHeldBy]; named || karpv1.Disrupted(n) {
			l.nodes[n.Name] = by
		}
	}
	for i := range claims.Items {
		c := &claims.Items[i]
		if condition.Find(c.Status.Conditions, karpv1.ConditionDisruptionReason) != nil {
			l.claims[c.Name] = true
		}
		if _, held := c.Annotations[karpv1.AnnotationHeldBy]; held && c.DeletionTimestamp == nil {
			l.bounds[c.Name] = true
		}
		if _, ours := c.Annotations[karpv1.AnnotationCommand]; !ours || c.DeletionTimestamp != nil {
			continue
		}
		l.marked[c.Name] = ""
		if o, read := disruption.ReadOrder(c.Annotations); read {
			l.orders[c.Name], l.marked[c.Name] = o, o.Token
		}
	}
	return l, nil
}

// resume takes over the commands of an earlier process that can go on. It reports whether there are any.
func (d *Disruption) resume(ctx context.Context, view disruption.View, l leftovers) bool {
	if len(l.orders) == 0 {
		return false
	}
	held := map[string]string{}
	for i := range view.Nodes {
		if n := &view.Nodes[i]; l.claims[n.Claim] && l.nodes[n.Name] != "" {
			held[n.Claim] = l.nodes[n.Name]
		}
	}
	found := disruption.Recover(disruption.RecoveryInput{Nodes: view.Nodes, Held: held, Orders: l.orders, Known: d.queue.ranHere})
	for _, r := range found {
		nodes := make([]string, 0, len(r.Remove))
		for _, n := range r.Remove {
			d.Store.SetCommanded(n.Node, true)
			nodes = append(nodes, n.Node)
		}
		d.Store.Replace(nodes, nil) // the replacements are there: their pods find them again
		d.queue.addCommand(r)
		log.FromContext(ctx).Info("resuming a command of an earlier process", "command", r.ID, "reason", r.Reason, "nodes", names(r.Remove), "replacements", r.ReplacementClaims)
	}
	if len(found) > 0 {
		wakeLoop(d.queue.wake)
	}
	return len(found) > 0
}

// cleanUp removes the taint and the condition from nodes that no command removes (G7), and the annotations of
// finished commands from replacements. One that cannot be written now does not block the others (G9).
func (d *Disruption) cleanUp(ctx context.Context, view disruption.View, l leftovers) error {
	var failed []error
	for _, n := range view.Nodes {
		if n.Deleting || n.Commanded || n.Rebooting {
			continue
		}
		if _, held := l.nodes[n.Name]; held || l.claims[n.Claim] || l.bounds[n.Claim] {
			failed = append(failed, d.releaseHold(ctx, disruption.Candidate{Node: n.Name, Claim: n.Claim}))
		}
	}
	for _, claim := range slices.Sorted(maps.Keys(l.marked)) {
		if !d.queue.isRunning(l.marked[claim]) {
			failed = append(failed, d.dropCommandAnnotations(ctx, claim))
		}
	}
	return errors.Join(failed...)
}

// dropCommandAnnotations removes the annotations of its command from a replacement, which is an ordinary node
// then.
func (d *Disruption) dropCommandAnnotations(ctx context.Context, name string) error {
	claim := &karpv1.NodeClaim{}
	claim.Name = name
	err := client.IgnoreNotFound(d.patchWithRetry(ctx, claim, false, func() bool {
		_, ours := claim.Annotations[karpv1.AnnotationCommand]
		delete(claim.Annotations, karpv1.AnnotationCommand)
		delete(claim.Annotations, karpv1.AnnotationReplaces)
		return !ours
	}))
	if err != nil {
		return fmt.Errorf("nodeclaim %s: %w", name, err)
	}
	return nil
}

// rollBack gives up a command. First it removes the annotations of the replacements, so that no later process
// resumes the command. Then it releases the nodes.
func (d *Disruption) rollBack(ctx context.Context, r disruption.Running) {
	failed := d.forEach(len(r.ReplacementClaims), func(i int) error { return d.dropCommandAnnotations(ctx, r.ReplacementClaims[i]) })
	if err := errors.Join(errors.Join(failed...), d.releaseHolds(ctx, r.Remove)); err != nil {
		log.FromContext(ctx).Error(err, "undoing a command failed; the next pass tries again", "command", r.ID, "nodes", names(r.Remove))
	}
}

// Watch checks commands as soon as a replacement that they wait for is terminating.
func (d *Disruption) Watch(ctx context.Context, informers cache.Informers) error {
	d.prepare()
	informer, err := informers.GetInformer(ctx, &karpv1.NodeClaim{})
	if err != nil {
		return fmt.Errorf("watch nodeclaims: %w", err)
	}
	_, err = informer.AddEventHandler(clientcache.ResourceEventHandlerFuncs{
		UpdateFunc: func(_, now any) {
			if claim, is := now.(*karpv1.NodeClaim); is && claim.DeletionTimestamp != nil {
				d.queue.recordLostReplacement(claim.Name)
			}
		},
		DeleteFunc: func(last any) {
			if unknown, is := last.(clientcache.DeletedFinalStateUnknown); is {
				last = unknown.Obj
			}
			if claim, is := last.(*karpv1.NodeClaim); is {
				d.queue.recordLostReplacement(claim.Name)
			}
		},
	})
	if err != nil {
		return fmt.Errorf("watch nodeclaims: %w", err)
	}
	return nil
}
