package disruption

import (
	"context"
	"errors"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	karpv1 "github.com/dovetail-sh/dovetail/api/v1"
	"github.com/dovetail-sh/dovetail/internal/cluster"
	"github.com/dovetail-sh/dovetail/internal/condition"
	"github.com/dovetail-sh/dovetail/internal/controller/write"
	"github.com/dovetail-sh/dovetail/internal/disrupt"
	"github.com/dovetail-sh/dovetail/internal/drain"
	"github.com/dovetail-sh/dovetail/internal/execute"
	"github.com/dovetail-sh/dovetail/internal/lifecycle"
	"github.com/dovetail-sh/dovetail/internal/metric"
)

// errNotHeld means that a node is no longer held for this command.
var errNotHeld = errors.New("its node is not held for this command any more")

// delete deletes exactly this claim, after it has written the deadline of its drain. If another client writes
// the claim meanwhile, it is read again: a process that was paused for long must not delete a node that its
// successor released (FM C03).
func (d *Disruption) delete(ctx context.Context, r *disrupt.Running, n disrupt.Candidate, known *karpv1.NodeClaim) error {
	remover := write.NewRemover(d.Client, d.Events, d.Metrics, nil) // commands have a record of their own
	var claim *karpv1.NodeClaim
	var err error
	for range maxWriteTries {
		if claim, err = d.rereadHeldClaim(ctx, r, n, known); err != nil {
			err = fmt.Errorf("delete nodeclaim %s: %w", n.Claim, err)
		} else if claim != nil {
			err = remover.Remove(ctx, d.removalOf(ctx, r, n, claim))
		}
		if !apierrors.IsConflict(err) {
			break
		}
	}
	switch {
	case apierrors.IsNotFound(err), err == nil && claim == nil:
		return nil
	case err != nil:
		return err
	}
	if r.Reason == karpv1.ReasonUnhealthy {
		write.CountUnhealthy(d.Metrics, claim, r.UnhealthyCondition(), lifecycle.BoundedMode(claim, drainBound(r, claim)))
	}
	return nil
}

// removalOf is the removal of a claim by a command. A command that bounds the drain writes its token next to the
// deadline: a claim that stays loses the deadline again (V15-29).
func (d *Disruption) removalOf(ctx context.Context, r *disrupt.Running, n disrupt.Candidate, claim *karpv1.NodeClaim) execute.Removal {
	x := execute.Removal{Claim: claim, Reason: reasonLabel(r.Reason), Event: execute.Terminating(string(r.Reason) + ": " + r.Why(&n)), Command: r.Token()}
	if bound := drainBound(r, claim); bound != nil {
		x.Deadline = d.Now().Add(*bound)
	}
	if pool := d.poolNamed(n.Pool); pool != nil && r.Type != "" {
		x.Policy = metric.SnakeCase(string(pool.Spec.Disruption.ConsolidationPolicy))
	}
	node := &corev1.Node{}
	if d.Client.Get(ctx, client.ObjectKey{Name: n.Node}, node) == nil {
		x.Nodes = []*corev1.Node{node}
	}
	return x
}

// drainBound is how long the drain of a claim may take because of the command; nil: the command says nothing.
func drainBound(r *disrupt.Running, claim *karpv1.NodeClaim) *time.Duration {
	if r.Bound == nil {
		return nil
	}
	return new(drain.BoundedPeriod(claim, *r.Bound))
}

// rereadHeldClaim reads a claim from the API server and confirms that it is still held for the command. It
// returns nil if the claim is gone or terminating.
func (d *Disruption) rereadHeldClaim(ctx context.Context, r *disrupt.Running, n disrupt.Candidate, known *karpv1.NodeClaim) (*karpv1.NodeClaim, error) {
	claim, node := &karpv1.NodeClaim{}, &corev1.Node{}
	if err := d.Reader.Get(ctx, client.ObjectKey{Name: n.Claim}, claim); err != nil {
		return nil, client.IgnoreNotFound(err)
	}
	err := d.Reader.Get(ctx, client.ObjectKey{Name: n.Node}, node)
	switch {
	case claim.UID != known.UID || claim.DeletionTimestamp != nil:
		return nil, nil
	case client.IgnoreNotFound(err) != nil:
		return nil, err
	case condition.Find(claim.Status.Conditions, karpv1.ConditionDisruptionReason) == nil || err == nil && node.Annotations[karpv1.AnnotationHeldBy] != r.Token():
		return nil, errNotHeld
	case r.Reason != karpv1.ReasonUnhealthy && d.disruptionForbiddenBy(node, n.Pool) != "":
		return nil, errors.New(d.disruptionForbiddenBy(node, n.Pool) + " now")
	}
	return claim, nil
}

// disruptionForbiddenBy returns which annotation of a node, or of its pool, forbids disruption (L-15, LC-62);
// empty if none does.
func (d *Disruption) disruptionForbiddenBy(node *corev1.Node, pool string) string {
	return cluster.NodeForbiddenBy(node, d.poolNamed(pool))
}

// removeDrainDeadline removes the deadline that a command wrote on a claim that stays.
func (d *Disruption) removeDrainDeadline(ctx context.Context, name string) error {
	claim := &karpv1.NodeClaim{ObjectMeta: metav1.ObjectMeta{Name: name}}
	return client.IgnoreNotFound(d.patchWithRetry(ctx, claim, false, func() bool {
		_, ours := claim.Annotations[karpv1.AnnotationHeldBy]
		if !ours || claim.DeletionTimestamp != nil {
			return true
		}
		delete(claim.Annotations, karpv1.AnnotationHeldBy)
		delete(claim.Annotations, karpv1.AnnotationTerminationTimestamp)
		return false
	}))
}
