package controller

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
	"github.com/dovetail-sh/dovetail/internal/cluster"
	"github.com/dovetail-sh/dovetail/internal/condition"
	disruption "github.com/dovetail-sh/dovetail/internal/disrupt"
	"github.com/dovetail-sh/dovetail/internal/event"
)

// errNotHeld means that a node is no longer held for this command.
var errNotHeld = errors.New("its node is not held for this command any more")

// delete deletes exactly this claim, after it has written the deadline of its drain. If another client writes
// the claim meanwhile, it is read again: a process that was paused for long must not delete a node that its
// successor released (FM C03).
func (d *Disruption) delete(ctx context.Context, r *disruption.Running, n disruption.Candidate, known *karpv1.NodeClaim) error {
	pods := d.podsToMove(ctx, n.Node)
	var claim *karpv1.NodeClaim
	var bound *time.Duration
	var err error
	for range maxWriteTries {
		if claim, err = d.rereadHeldClaim(ctx, r, n, known); err == nil && claim != nil {
			if bound, err = d.writeDrainDeadline(ctx, r, claim); err == nil {
				err = d.Client.Delete(ctx, claim, client.Preconditions{UID: &claim.UID, ResourceVersion: &claim.ResourceVersion})
			}
		}
		if !apierrors.IsConflict(err) {
			break
		}
	}
	switch {
	case apierrors.IsNotFound(err), err == nil && claim == nil:
		return nil
	case err != nil:
		return fmt.Errorf("delete nodeclaim %s: %w", n.Claim, err)
	}
	text := event.Event{Reason: event.DisruptionTerminating, Text: "Disrupting the node, reason " + string(r.Reason) + ": " + r.Why(&n)}
	d.Events.Emit(claim, text)
	node := &corev1.Node{}
	if d.Client.Get(ctx, client.ObjectKey{Name: n.Node}, node) == nil {
		d.Events.Emit(node, text)
	}
	d.countDeleted(r, n, claim, bound, pods)
	return nil
}

// rereadHeldClaim reads a claim from the API server and confirms that it is still held for the command. It
// returns nil if the claim is gone or terminating.
func (d *Disruption) rereadHeldClaim(ctx context.Context, r *disruption.Running, n disruption.Candidate, known *karpv1.NodeClaim) (*karpv1.NodeClaim, error) {
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

// writeDrainDeadline writes the deadline of the drain on a claim, if the command has one, together with the
// token of the command: a claim that stays loses the deadline again. An existing deadline is only ever made
// earlier (V15-26, V15-29). It returns the drain time in force.
func (d *Disruption) writeDrainDeadline(ctx context.Context, r *disruption.Running, claim *karpv1.NodeClaim) (*time.Duration, error) {
	if r.Bound == nil {
		return nil, nil
	}
	lasts := *r.Bound
	if own, err := claim.Spec.TerminationGracePeriod.Parse(); err == nil && claim.Spec.TerminationGracePeriod != "" {
		lasts = min(lasts, own)
	}
	at := d.Now().Add(lasts).UTC()
	if have, err := time.Parse(time.RFC3339, claim.Annotations[karpv1.AnnotationTerminationTimestamp]); err == nil && !have.After(at) {
		return &lasts, nil
	}
	before := claim.DeepCopy()
	metav1.SetMetaDataAnnotation(&claim.ObjectMeta, karpv1.AnnotationTerminationTimestamp, at.Format(time.RFC3339))
	metav1.SetMetaDataAnnotation(&claim.ObjectMeta, karpv1.AnnotationHeldBy, r.Token())
	if err := d.Client.Patch(ctx, claim, client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{})); err != nil {
		return nil, fmt.Errorf("bound the drain: %w", err)
	}
	log.FromContext(ctx).Info("annotated nodeclaim", "NodeClaim", klog.KRef("", claim.Name),
		karpv1.AnnotationTerminationTimestamp, claim.Annotations[karpv1.AnnotationTerminationTimestamp])
	return &lasts, nil
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
