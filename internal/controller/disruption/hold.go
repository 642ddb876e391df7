package disruption

import (
	"context"
	"errors"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/klog/v2"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	karpv1 "github.com/dovetail-sh/dovetail/api/v1"
	"github.com/dovetail-sh/dovetail/internal/disrupt"
	"github.com/dovetail-sh/dovetail/internal/disrupt/command"
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
func (d *Disruption) holdNode(ctx context.Context, n disrupt.Candidate, token string, why karpv1.DisruptionReason) error {
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: n.Node}}
	d.Store.SetCommanded(n.Node, true)
	tainted := false
	err := d.patchWithRetry(ctx, node, false, func() bool {
		var write bool
		write, tainted = command.HoldNode(node, token)
		return !write
	})
	if err != nil {
		return fmt.Errorf("taint node %s: %w", n.Node, err)
	}
	if tainted {
		log.FromContext(ctx).Info("tainted node", "Node", klog.KRef("", n.Node), "taint.Key", karpv1.TaintKeyDisrupted, "taint.Value", "", "taint.Effect", corev1.TaintEffectNoSchedule)
	}
	err = d.patchReason(ctx, n.Claim, func(claim *karpv1.NodeClaim) bool {
		command.SetReason(claim, why, d.Now())
		return true
	})
	if err != nil {
		return fmt.Errorf("nodeclaim %s: %w", n.Claim, err)
	}
	return nil
}

// releaseHold undoes holdNode.
func (d *Disruption) releaseHold(ctx context.Context, n disrupt.Candidate) error {
	claim := &karpv1.NodeClaim{}
	if err := d.Client.Get(ctx, client.ObjectKey{Name: n.Claim}, claim); err == nil && !command.CanRelease(claim) {
		return nil
	}
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: n.Node}}
	untainted := false
	err := d.patchWithRetry(ctx, node, false, func() bool {
		var write bool
		write, untainted = command.ReleaseNode(node)
		return !write
	})
	if err != nil {
		if apierrors.IsNotFound(err) {
			return nil
		}
		return fmt.Errorf("untaint node %s: %w", n.Node, err)
	}
	if untainted {
		log.FromContext(ctx).Info("untainted node", "Node", klog.KRef("", n.Node), "taint.Key", karpv1.TaintKeyDisrupted)
	}
	return errors.Join(d.removeDrainDeadline(ctx, n.Claim), d.patchReason(ctx, n.Claim, command.RemoveReason))
}

// patchReason changes condition DisruptionReason of a claim. A claim that is gone has none.
func (d *Disruption) patchReason(ctx context.Context, name string, change func(*karpv1.NodeClaim) (write bool)) error {
	claim := &karpv1.NodeClaim{ObjectMeta: metav1.ObjectMeta{Name: name}}
	return client.IgnoreNotFound(d.patchWithRetry(ctx, claim, true, func() bool { return !change(claim) }))
}

// releaseHolds releases nodes, so that they take pods again. A node that cannot be written now is cleaned up by
// the next pass, and does not keep others held (G9).
func (d *Disruption) releaseHolds(ctx context.Context, nodes []disrupt.Candidate) error {
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
func (d *Disruption) awaitTaints(ctx context.Context, nodes []disrupt.Candidate) {
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
