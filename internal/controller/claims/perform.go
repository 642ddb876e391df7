package claims

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	karpv1 "github.com/dovetail-sh/dovetail/api/v1"
	"github.com/dovetail-sh/dovetail/internal/cluster"
	"github.com/dovetail-sh/dovetail/internal/condition"
	"github.com/dovetail-sh/dovetail/internal/controller/write"
	"github.com/dovetail-sh/dovetail/internal/event"
	"github.com/dovetail-sh/dovetail/internal/execute"
	"github.com/dovetail-sh/dovetail/internal/lifecycle"
)

// perform writes the node, then the claim, then emits events: a crash in between repeats the step. It returns
// the claim as stored now.
func (r *Claims) perform(ctx context.Context, stored *karpv1.NodeClaim, facts lifecycle.Facts, step lifecycle.Step) (*karpv1.NodeClaim, error) {
	if step.Remove != nil {
		return stored, r.remove(ctx, stored, facts, step)
	}
	if step.Nominate != "" && r.Nominate != nil {
		r.Nominate(ctx, stored.Name, step.Nominate)
	}
	if step.Node != nil {
		if err := patchNode(ctx, r.Client, facts.Nodes, step.Node); err != nil {
			return stored, err
		}
	}
	after, err := r.write(ctx, stored, facts.Claim, step.Claim)
	if err != nil {
		return stored, err
	}
	r.emitStepEvents(ctx, after, step)
	r.emitPodEvents(ctx, after.Name, step.PodEvents)
	if step.Registered {
		r.Metrics.NodesCreated.WithLabelValues(after.Labels[karpv1.LabelNodePool], after.Labels[corev1.LabelTopologyZone]).Inc()
		if r.Health != nil {
			r.Health.Registered(after)
		}
	}
	return after, nil
}

// patchNode writes a node that is wanted differently from how it was seen.
func patchNode(ctx context.Context, c client.Client, seen []*corev1.Node, want *corev1.Node) error {
	for _, have := range seen {
		if have.Name != want.Name {
			continue
		}
		if err := c.Patch(ctx, want.DeepCopy(), client.MergeFromWithOptions(have, client.MergeFromWithOptimisticLock{})); err != nil {
			return fmt.Errorf("patch node %s: %w", want.Name, err)
		}
	}
	return nil
}

// write brings metadata and status of a claim to what is wanted. Both writes require the version that the
// decision was made on.
func (r *Claims) write(ctx context.Context, stored, seen, want *karpv1.NodeClaim) (*karpv1.NodeClaim, error) {
	out := stored
	meta := *stored.ObjectMeta.DeepCopy()
	meta.Labels, meta.Annotations, meta.Finalizers = want.Labels, want.Annotations, want.Finalizers
	if !equality.Semantic.DeepEqual(stored.ObjectMeta, meta) {
		next := write.WithoutSpec(out)
		next.ObjectMeta = *meta.DeepCopy()
		if err := r.Client.Patch(ctx, next, write.LeanMergePatch(out)); err != nil {
			return nil, r.noteConflict(out, fmt.Errorf("patch nodeclaim %s: %w", stored.Name, err))
		}
		r.written.RecordWrite(next)
		out = next
	}
	if write.SameStatus(seen.Status, want.Status) {
		return out, nil
	}
	next := write.WithoutSpec(out)
	next.Status = *want.Status.DeepCopy()
	if err := r.Client.Status().Patch(ctx, next, write.LeanMergePatch(out)); err != nil {
		return nil, r.noteConflict(out, fmt.Errorf("patch status of nodeclaim %s: %w", stored.Name, err))
	}
	r.written.RecordWrite(next)
	if condition.True(next.Status.Conditions, karpv1.ConditionLaunched) && !condition.True(next.Status.Conditions, karpv1.ConditionRegistered) {
		r.Remover.InitSeries(next, lifecycle.RemovedRegistrationTimeout)
	}
	r.Events.Flips(next, condition.Flips(seen.Status.Conditions, want.Status.Conditions))
	return next, nil
}

// noteConflict records a write conflict and returns the error.
func (r *Claims) noteConflict(claim *karpv1.NodeClaim, err error) error {
	if apierrors.IsConflict(err) {
		r.written.RecordConflict(claim)
	}
	return err
}

// remove deletes a claim that cannot become a node.
func (r *Claims) remove(ctx context.Context, stored *karpv1.NodeClaim, facts lifecycle.Facts, step lifecycle.Step) error {
	if err := r.Remover.Remove(ctx, execute.Removal{Claim: stored, Nodes: facts.Nodes, Reason: step.Remove.Reason}); err != nil {
		return err
	}
	r.written.RecordDeletion(stored)
	r.emitStepEvents(ctx, stored, step)
	r.emitPodEvents(ctx, stored.Name, step.PodEvents)
	if f := step.Remove.Failure; f != nil && r.Health != nil {
		r.Health.Failed(facts.Claim, f.Reason, f.Message)
	}
	return nil
}

// emitStepEvents sends the events and log lines of a step that was performed.
func (r *Claims) emitStepEvents(ctx context.Context, claim *karpv1.NodeClaim, step lifecycle.Step) {
	r.Events.Emit(claim, step.Events...)
	logger := log.FromContext(ctx)
	for _, n := range step.News {
		if n.Err != nil {
			logger.Error(n.Err, n.Message, n.Fields...)
			continue
		}
		logger.Info(n.Message, n.Fields...)
	}
}

// emitPodEvents emits events on the planned pods that are still pending (V15-61).
func (r *Claims) emitPodEvents(ctx context.Context, claim string, events []event.Event) {
	if r.PlannedPods == nil || len(events) == 0 {
		return
	}
	for _, key := range r.PlannedPods(claim) {
		pod := &corev1.Pod{}
		if err := r.Client.Get(ctx, key, pod); err != nil {
			continue // the pod is gone
		}
		ended := cluster.PodEnded(pod)
		if pod.Spec.NodeName == "" && !ended && pod.DeletionTimestamp == nil {
			r.Events.Emit(pod, events...)
		}
	}
}

// effective reads a claim with the pool that owns it.
func effective(ctx context.Context, c client.Client, stored *karpv1.NodeClaim, strict bool) (*karpv1.NodeClaim, error) {
	var owner *karpv1.NodePool
	if name := stored.Labels[karpv1.LabelNodePool]; name != "" && stored.Spec.ExpireAfter == "" {
		pool := &karpv1.NodePool{}
		err := c.Get(ctx, client.ObjectKey{Name: name}, pool)
		switch {
		case client.IgnoreNotFound(err) != nil:
			return nil, fmt.Errorf("read nodepool %s: %w", name, err)
		case err == nil:
			owner, _ = pool.Effective(strict)
		}
	}
	claim, _ := stored.Effective(owner, strict)
	return claim, nil
}
