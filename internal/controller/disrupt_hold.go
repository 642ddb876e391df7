package controller

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/klog/v2"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	karpv1 "github.com/dovetail-sh/dovetail/api/v1"
	"github.com/dovetail-sh/dovetail/internal/condition"
	disruption "github.com/dovetail-sh/dovetail/internal/disrupt"
	"github.com/dovetail-sh/dovetail/internal/lifecycle"
)

const (
	taintTimeout  = 5 * time.Second // how long to wait until the watch delivers our own taint
	maxWriteTries = 5               // attempts to write an object that other clients write too
)

// patchWithRetry changes an object that other clients write too. It tries the cached object first. After a
// conflict it reads from the API server. An object that is not found is an error; callers decide whether to
// ignore it.
func (d *Disruption) patchWithRetry(ctx context.Context, obj client.Object, status bool, change func() (done bool)) error {
	var err error
	for i := range maxWriteTries {
		reader := client.Reader(d.Client)
		if i > 0 {
			reader = d.Reader
		}
		if err = reader.Get(ctx, client.ObjectKeyFromObject(obj), obj); err != nil {
			return err
		}
		before := obj.DeepCopyObject().(client.Object)
		if change() {
			return nil
		}
		patch := client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{})
		if status {
			err = d.Client.Status().Patch(ctx, obj, patch)
		} else {
			err = d.Client.Patch(ctx, obj, patch)
		}
		if !apierrors.IsConflict(err) {
			return err
		}
	}
	return err
}

// holdNode taints a node against new pods, and records the command and the reason.
func (d *Disruption) holdNode(ctx context.Context, n disruption.Candidate, token string, why karpv1.DisruptionReason) error {
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: n.Node}}
	d.Store.SetCommanded(n.Node, true)
	fresh := false
	err := d.patchWithRetry(ctx, node, false, func() bool {
		if fresh = !karpv1.Disrupted(node); fresh {
			node.Spec.Taints = append(slices.Clone(node.Spec.Taints), karpv1.DisruptedTaint())
		} else if node.Annotations[karpv1.AnnotationHeldBy] == token {
			return true
		}
		metav1.SetMetaDataAnnotation(&node.ObjectMeta, karpv1.AnnotationHeldBy, token)
		return false
	})
	if err != nil {
		return fmt.Errorf("taint node %s: %w", n.Node, err)
	}
	if fresh {
		log.FromContext(ctx).Info("tainted node", "Node", klog.KRef("", n.Node), "taint.Key", karpv1.TaintKeyDisrupted, "taint.Value", "", "taint.Effect", corev1.TaintEffectNoSchedule)
	}
	if err := d.setReason(ctx, n.Claim, string(why)); err != nil {
		return fmt.Errorf("nodeclaim %s: %w", n.Claim, err)
	}
	return nil
}

// releaseHold undoes holdNode. A node that is being deleted keeps its taint.
func (d *Disruption) releaseHold(ctx context.Context, n disruption.Candidate) error {
	claim := &karpv1.NodeClaim{}
	if err := d.Client.Get(ctx, client.ObjectKey{Name: n.Claim}, claim); err == nil && claim.DeletionTimestamp != nil {
		return nil
	}
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: n.Node}}
	freed := false
	err := d.patchWithRetry(ctx, node, false, func() bool {
		_, named := node.Annotations[karpv1.AnnotationHeldBy]
		freed = karpv1.Disrupted(node)
		if node.DeletionTimestamp != nil || !freed && !named {
			freed = false
			return true
		}
		node.Spec.Taints = slices.DeleteFunc(slices.Clone(node.Spec.Taints), karpv1.IsDisrupted)
		delete(node.Annotations, karpv1.AnnotationHeldBy)
		return false
	})
	if err != nil {
		if apierrors.IsNotFound(err) {
			return nil
		}
		return fmt.Errorf("untaint node %s: %w", n.Node, err)
	}
	if freed {
		log.FromContext(ctx).Info("untainted node", "Node", klog.KRef("", n.Node), "taint.Key", karpv1.TaintKeyDisrupted)
	}
	return errors.Join(d.removeDrainDeadline(ctx, n.Claim), d.setReason(ctx, n.Claim, ""))
}

// setReason sets condition DisruptionReason of a claim, or removes it. A rebooting claim keeps the condition:
// its reboot may have been requested a moment ago.
func (d *Disruption) setReason(ctx context.Context, name, why string) error {
	claim := &karpv1.NodeClaim{ObjectMeta: metav1.ObjectMeta{Name: name}}
	return client.IgnoreNotFound(d.patchWithRetry(ctx, claim, true, func() bool {
		if why == "" && condition.True(claim.Status.Conditions, karpv1.ConditionRebooting) {
			return true
		}
		if why == "" {
			had := len(claim.Status.Conditions)
			claim.Status.Conditions = condition.Remove(slices.Clone(claim.Status.Conditions), karpv1.ConditionDisruptionReason)
			return len(claim.Status.Conditions) == had
		}
		object := condition.Object{Generation: claim.Generation, Created: claim.CreationTimestamp, Deleting: claim.DeletionTimestamp != nil}
		claim.Status.Conditions = lifecycle.Conditions().Apply(claim.Status.Conditions, object, metav1.NewTime(d.Now()),
			condition.Change{Type: karpv1.ConditionDisruptionReason, Status: metav1.ConditionTrue, Reason: why, Message: why})
		return false
	}))
}

// releaseHolds releases nodes, so that they take pods again. A node that cannot be written now is cleaned up by
// the next pass, and does not keep others held (G9).
func (d *Disruption) releaseHolds(ctx context.Context, nodes []disruption.Candidate) error {
	return errors.Join(d.forEach(len(nodes), func(i int) error {
		defer func() {
			d.Store.SetRemoving(nodes[i].Node, false)
			d.Store.SetCommanded(nodes[i].Node, false)
		}()
		return d.releaseHold(ctx, nodes[i])
	})...)
}

// awaitTaints waits until the watch has delivered the taints. The scheduler watches too and most likely has
// them then.
func (d *Disruption) awaitTaints(ctx context.Context, nodes []disruption.Candidate) {
	const poll = 50 * time.Millisecond
	limit := time.NewTimer(taintTimeout)
	defer limit.Stop()
	for _, n := range nodes {
		for {
			node := &corev1.Node{}
			if err := d.Client.Get(ctx, client.ObjectKey{Name: n.Node}, node); err != nil || karpv1.Disrupted(node) {
				break
			}
			tick := time.NewTimer(poll)
			select {
			case <-tick.C:
				continue
			case <-limit.C:
			case <-ctx.Done():
			}
			tick.Stop()
			return
		}
	}
}
