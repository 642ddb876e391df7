package nodes

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"
	"sigs.k8s.io/controller-runtime/pkg/log"

	karpv1 "github.com/dovetail-sh/dovetail/api/v1"
	"github.com/dovetail-sh/dovetail/internal/cloud"
	"github.com/dovetail-sh/dovetail/internal/condition"
	"github.com/dovetail-sh/dovetail/internal/controller/lookup"
	"github.com/dovetail-sh/dovetail/internal/controller/loop"
	"github.com/dovetail-sh/dovetail/internal/controller/write"
	"github.com/dovetail-sh/dovetail/internal/drain"
	"github.com/dovetail-sh/dovetail/internal/event"
	"github.com/dovetail-sh/dovetail/internal/lifecycle"
	"github.com/dovetail-sh/dovetail/internal/metric"
)

// ClaimTermination terminates NodeClaims that are being deleted (LC-20 to LC-23). The reconciler of claims
// calls it. It must not be copied.
type ClaimTermination struct {
	Client   client.Client
	Provider instanceTerminator
	// Launching and Launched know launches under way and launches whose result is not written yet (FM A06); nil: there are
	// none.
	Launching func(types.UID) bool
	Launched  func(types.UID) (cloud.Instance, bool)
	Events    write.Announcer
	Metrics   *metric.Set
	Drains    *Drains // may be nil
	Now       func() time.Time

	calls callLog
}

// Terminate does what can be done now for a claim with a deletionTimestamp.
func (r *ClaimTermination) Terminate(ctx context.Context, claim *karpv1.NodeClaim) (ctrl.Result, error) {
	if claim.DeletionTimestamp == nil || !controllerutil.ContainsFinalizer(claim, karpv1.FinalizerTermination) {
		r.calls.drop(claim.UID)
		return ctrl.Result{}, nil
	}
	after, err := r.terminateClaim(ctx, claim)
	switch {
	case write.IsStale(err):
		return loop.RequeueAfter(loop.Soon), nil
	case err != nil:
		return ctrl.Result{}, fmt.Errorf("terminate nodeclaim %s: %w", claim.Name, err)
	}
	return loop.RequeueAfter(after), nil
}

func (r *ClaimTermination) terminateClaim(ctx context.Context, claim *karpv1.NodeClaim) (time.Duration, error) {
	// A launch records its result before it ends: read the other way round, one that ends in between would seem never to have been.
	launching := r.Launching != nil && r.Launching(claim.UID)
	var launched cloud.Instance
	if r.Launched != nil {
		launched, _ = r.Launched(claim.UID)
	}
	id := drain.InstanceOf(claim, launched.ID)
	nodes, err := lookup.NodesOf(ctx, r.Client, string(id))
	if err != nil {
		return 0, err
	}
	facts := drain.ClaimFacts{Claim: claim, Launching: launching, Launched: id != "", Nodes: nodes, Now: r.Now()}
	return r.calls.update(claim.UID, facts.Now, func(calls *drain.Calls) (time.Duration, error) {
		return drain.AdvanceClaim(ctx, facts, calls, claimShell{instance{r.Provider, id}, r})
	})
}

// claimShell performs the steps of one pass.
type claimShell struct {
	instance

	r *ClaimTermination
}

// Perform writes a step.
func (s claimShell) Perform(ctx context.Context, facts *drain.ClaimFacts, step drain.ClaimStep) (said bool, err error) {
	r := s.r
	if step.Unreadable != "" {
		log.FromContext(ctx).Error(nil, "replacing a termination timestamp that cannot be read", "annotation", karpv1.AnnotationTerminationTimestamp, "value", step.Unreadable)
	}
	if facts.Claim, err = r.writeTerminationTimestamp(ctx, facts.Claim, step); err != nil {
		return false, err
	}
	r.Events.Emit(facts.Claim, step.Events...)
	for _, n := range step.DeleteNodes {
		if err := deleteExactly(ctx, r.Client, n); err != nil {
			return false, err
		}
	}
	if len(facts.Nodes) == 0 && !step.Terminate { // else the events of the Node say it, or it is not known yet
		r.Drains.recordWaits(nil, facts.Claim, step.Waits, facts.Now)
	}
	claim, err := writeClaimConditions(ctx, r.Client, r.Events, facts.Claim, r.Now(), step.Marks)
	said, facts.Claim = claim != facts.Claim, claim
	return said, err
}

func (r *ClaimTermination) writeTerminationTimestamp(ctx context.Context, claim *karpv1.NodeClaim, step drain.ClaimStep) (*karpv1.NodeClaim, error) {
	if step.Stamp == "" && !step.Unstamp {
		return claim, nil
	}
	after := claim.DeepCopy()
	after.Annotations = maps.Clone(claim.Annotations)
	if step.Unstamp {
		delete(after.Annotations, karpv1.AnnotationTerminationTimestamp)
	} else {
		metav1.SetMetaDataAnnotation(&after.ObjectMeta, karpv1.AnnotationTerminationTimestamp, step.Stamp)
	}
	// The lock keeps an earlier deadline that another client writes at the same moment.
	if err := r.Client.Patch(ctx, after, write.WithOptimisticLock(claim)); err != nil {
		return claim, err
	}
	if step.Stamp != "" {
		log.FromContext(ctx).Info("annotated nodeclaim", karpv1.AnnotationTerminationTimestamp, step.Stamp)
	}
	return after, nil
}

// Release removes the finalizer and measures how long the termination took.
func (s claimShell) Release(ctx context.Context, facts drain.ClaimFacts) error {
	r, claim := s.r, facts.Claim
	after := claim.DeepCopy()
	controllerutil.RemoveFinalizer(after, karpv1.FinalizerTermination)
	if err := r.Client.Patch(ctx, after, write.WithOptimisticLock(claim)); err != nil {
		return err
	}
	now, pool := r.Now(), claim.Labels[karpv1.LabelNodePool]
	log.FromContext(ctx).Info("deleted nodeclaim", "provider-id", s.id)
	r.Events.Emit(claim, finalized())
	r.Metrics.NodeClaimsTerminated.WithLabelValues(pool, claim.Labels[karpv1.LabelCapacityType], claim.Labels[corev1.LabelTopologyZone]).Inc()
	r.Metrics.NodeClaimsTerminationDuration.WithLabelValues(pool).Observe(seconds(now.Sub(claim.DeletionTimestamp.Time)))
	if c := condition.Find(claim.Status.Conditions, karpv1.ConditionInstanceTerminating); c != nil && c.Status == metav1.ConditionTrue {
		r.Metrics.NodeClaimsInstanceTerminationDuration.WithLabelValues(pool).Observe(seconds(now.Sub(c.LastTransitionTime.Time)))
	}
	return nil
}

// writeClaimConditions writes conditions of a claim and returns it as it is then. The claim given is not changed.
func writeClaimConditions(ctx context.Context, c client.Client, events write.Announcer, claim *karpv1.NodeClaim, now time.Time, marks []drain.Mark) (*karpv1.NodeClaim, error) {
	if len(marks) == 0 {
		return claim, nil
	}
	changes := make([]condition.Change, 0, len(marks))
	for _, m := range marks {
		changes = append(changes, condition.Change(m))
	}
	object := condition.Object{Generation: claim.Generation, Created: claim.CreationTimestamp, Deleting: claim.DeletionTimestamp != nil}
	after := claim.DeepCopy()
	after.Status.Conditions = lifecycle.Conditions().Apply(claim.Status.Conditions, object, metav1.NewTime(now), changes...)
	if slices.Equal(claim.Status.Conditions, after.Status.Conditions) {
		return claim, nil
	}
	flips := condition.Flips(claim.Status.Conditions, after.Status.Conditions)
	if err := c.Status().Patch(ctx, after, write.WithOptimisticLock(claim)); err != nil {
		return claim, err
	}
	events.Flips(after, flips)
	return after, nil
}

// deleteExactly deletes this object, and not a newer one of the same name.
func deleteExactly(ctx context.Context, c client.Client, obj client.Object) error {
	err := c.Delete(ctx, obj, client.Preconditions{UID: new(obj.GetUID())})
	if apierrors.IsConflict(err) {
		return nil // another object has the name, ours is gone
	}
	return client.IgnoreNotFound(err)
}

func finalized() event.Event {
	return event.Event{Reason: event.Finalized, Text: "Finalizer " + karpv1.FinalizerTermination + " was removed"}
}

// seconds of a duration for a metric; clocks that disagree must not make it negative.
func seconds(d time.Duration) float64 { return max(0, d.Seconds()) }
