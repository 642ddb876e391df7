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
	"github.com/dovetail-sh/dovetail/internal/drain"
	"github.com/dovetail-sh/dovetail/internal/metric"
)

// holder holds nodes for commands and releases them.
type holder struct {
	objects

	store   holdStore
	metrics *metric.Set
	now     func() time.Time
}

// holdStore is where the cache learns which nodes are part of a command.
type holdStore interface {
	SetCommanded(node string, held bool)
	SetRemoving(node string, removing bool)
}

// holdNode taints a node against new pods, and records the command and the reason.
func (h holder) holdNode(ctx context.Context, n disrupt.Candidate, token string, why karpv1.DisruptionReason) error {
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: n.Node}}
	h.store.SetCommanded(n.Node, true)
	tainted := false
	err := h.patchWithRetry(ctx, node, false, func() bool {
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
	err = h.patchReason(ctx, n.Claim, func(claim *karpv1.NodeClaim) bool {
		command.SetReason(claim, why, h.now())
		return true
	})
	if err != nil {
		return fmt.Errorf("nodeclaim %s: %w", n.Claim, err)
	}
	return nil
}

// releaseHold undoes holdNode.
func (h holder) releaseHold(ctx context.Context, n disrupt.Candidate) error {
	claim := &karpv1.NodeClaim{}
	if err := h.client.Get(ctx, client.ObjectKey{Name: n.Claim}, claim); err == nil && !command.CanRelease(claim) {
		return nil
	}
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: n.Node}}
	untainted := false
	err := h.patchWithRetry(ctx, node, false, func() bool {
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
	claim = &karpv1.NodeClaim{ObjectMeta: metav1.ObjectMeta{Name: n.Claim}}
	kept := h.patchWithRetry(ctx, claim, false, func() bool { return !drain.RemoveCommandDeadline(claim) })
	return errors.Join(client.IgnoreNotFound(kept), h.patchReason(ctx, n.Claim, command.RemoveReason))
}

// patchReason changes condition DisruptionReason of a claim. A claim that is gone has none.
func (h holder) patchReason(ctx context.Context, name string, change func(*karpv1.NodeClaim) (write bool)) error {
	claim := &karpv1.NodeClaim{ObjectMeta: metav1.ObjectMeta{Name: name}}
	return client.IgnoreNotFound(h.patchWithRetry(ctx, claim, true, func() bool { return !change(claim) }))
}

// releaseHolds releases nodes, so that they take pods again. A node that cannot be written now is cleaned up by
// the next pass, and does not keep others held (G9).
func (h holder) releaseHolds(ctx context.Context, nodes []disrupt.Candidate) error {
	return errors.Join(forEach(h.metrics, len(nodes), func(i int) error {
		defer func() {
			h.store.SetRemoving(nodes[i].Node, false)
			h.store.SetCommanded(nodes[i].Node, false)
		}()
		return h.releaseHold(ctx, nodes[i])
	})...)
}

// removeMarks removes the annotations of their command from replacements. One that cannot be written now does
// not block the others (G9).
func (h holder) removeMarks(ctx context.Context, names []string) error {
	return errors.Join(forEach(h.metrics, len(names), func(i int) error {
		claim := &karpv1.NodeClaim{ObjectMeta: metav1.ObjectMeta{Name: names[i]}}
		err := client.IgnoreNotFound(h.patchWithRetry(ctx, claim, false, func() bool { return !command.RemoveMarks(claim) }))
		if err != nil {
			return fmt.Errorf("nodeclaim %s: %w", names[i], err)
		}
		return nil
	})...)
}

// awaitTaints waits until the watch has delivered the taints. The scheduler watches too and most likely has
// them then.
func (h holder) awaitTaints(ctx context.Context, nodes []disrupt.Candidate) {
	const poll = 50 * time.Millisecond
	limit := time.NewTimer(command.TaintTimeout)
	defer limit.Stop()
	for _, n := range nodes {
		for {
			node := &corev1.Node{}
			if err := h.client.Get(ctx, client.ObjectKey{Name: n.Node}, node); err != nil || karpv1.Disrupted(node) {
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
