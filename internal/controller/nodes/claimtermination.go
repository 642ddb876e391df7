package nodes

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
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

// rounds is how often one pass may decide again after the cloud was asked; two are needed.
const rounds = 4

// instanceTerminator is the part of a cloud that terminates instances.
type instanceTerminator interface {
	Find(ctx context.Context, id cloud.ID) (cloud.Instance, error)
	Terminate(ctx context.Context, id cloud.ID) error
}

// ClaimTermination terminates NodeClaims that are being deleted (LC-20 to LC-23). The reconciler of claims
// calls it. It must not be copied.
type ClaimTermination struct {
	Client   client.Client
	Provider instanceTerminator
	// Launched knows launches whose result is not written yet, so that their instances do not leak
	// (FM A06); nil: there are none.
	Launched func(types.UID) (cloud.Instance, bool)
	Events   write.Announcer
	Metrics  *metric.Set
	Drains   *Drains // may be nil
	Now      func() time.Time

	terminateCalls, conditionWrites lastCalls
}

// Terminate does what can be done now for a claim with a deletionTimestamp.
func (r *ClaimTermination) Terminate(ctx context.Context, claim *karpv1.NodeClaim) (ctrl.Result, error) {
	if claim.DeletionTimestamp == nil || !controllerutil.ContainsFinalizer(claim, karpv1.FinalizerTermination) {
		r.terminateCalls.dropCalls(claim.UID)
		r.conditionWrites.dropCalls(claim.UID)
		return ctrl.Result{}, nil
	}
	after, err := r.terminateClaim(ctx, claim)
	switch {
	case write.IsStale(err):
		return loop.RequeueAfter(loop.Soon), nil
	case err != nil:
		return ctrl.Result{}, fmt.Errorf("ending nodeclaim %s: %w", claim.Name, err)
	}
	return loop.RequeueAfter(after), nil
}

func (r *ClaimTermination) terminateClaim(ctx context.Context, claim *karpv1.NodeClaim) (time.Duration, error) {
	id := r.providerIDOf(claim)
	nodes, err := lookup.NodesOf(ctx, r.Client, string(id))
	if err != nil {
		return 0, err
	}
	facts := drain.ClaimFacts{Claim: claim, Launched: id != "", Nodes: nodes, Told: r.terminateCalls.lastCallAt(claim.UID), Said: r.conditionWrites.lastCallAt(claim.UID), Now: r.Now()}
	var refusal error // of the cloud
	for range rounds {
		step := drain.NextClaim(facts)
		if facts.Claim, err = r.perform(ctx, facts, step); err != nil {
			return 0, err
		}
		switch {
		case step.Ask:
			facts.Instance = instanceState(ctx, r.Provider, id)
		case step.Terminate:
			facts.Instance, facts.Refusal, refusal = terminateInstance(ctx, r.Provider, id)
			if refusal == nil {
				facts.Told = facts.Now
				r.terminateCalls.recordCall(claim.UID, facts.Now)
			}
		case step.Release:
			return 0, r.removeFinalizer(ctx, facts.Claim, id)
		default:
			return step.After, refusal
		}
	}
	return loop.Soon, nil
}

// providerIDOf is the id of what was launched for a claim; empty if nothing was.
func (r *ClaimTermination) providerIDOf(claim *karpv1.NodeClaim) cloud.ID {
	if claim.Status.ProviderID == "" && r.Launched != nil {
		if launched, ok := r.Launched(claim.UID); ok {
			return launched.ID
		}
	}
	return cloud.ID(claim.Status.ProviderID)
}

// perform writes a step and returns the claim as it is then.
func (r *ClaimTermination) perform(ctx context.Context, facts drain.ClaimFacts, step drain.ClaimStep) (*karpv1.NodeClaim, error) {
	if step.Unreadable != "" {
		log.FromContext(ctx).Error(nil, "replacing a termination timestamp that cannot be read", "annotation", karpv1.AnnotationTerminationTimestamp, "value", step.Unreadable)
	}
	claim, err := r.writeTerminationTimestamp(ctx, facts.Claim, step)
	if err != nil {
		return claim, err
	}
	r.Events.Emit(claim, step.Events...)
	for _, n := range step.DeleteNodes {
		if err := deleteExactly(ctx, r.Client, n); err != nil {
			return claim, err
		}
	}
	if len(facts.Nodes) == 0 && !step.Terminate { // else the Node tells, or it is not known yet
		r.Drains.recordWaits(nil, claim, step.Waits, facts.Now)
	}
	after, err := writeClaimConditions(ctx, r.Client, r.Events, claim, r.Now(), step.Marks)
	if after != claim {
		r.conditionWrites.recordCall(claim.UID, facts.Now)
	}
	return after, err
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
	// The lock keeps an earlier deadline that somebody writes at the same moment.
	if err := r.Client.Patch(ctx, after, write.WithOptimisticLock(claim)); err != nil {
		return claim, err
	}
	if step.Stamp != "" {
		log.FromContext(ctx).Info("annotated nodeclaim", karpv1.AnnotationTerminationTimestamp, step.Stamp)
	}
	return after, nil
}

// removeFinalizer removes the finalizer and measures how long the termination took.
func (r *ClaimTermination) removeFinalizer(ctx context.Context, claim *karpv1.NodeClaim, id cloud.ID) error {
	after := claim.DeepCopy()
	controllerutil.RemoveFinalizer(after, karpv1.FinalizerTermination)
	if err := r.Client.Patch(ctx, after, write.WithOptimisticLock(claim)); err != nil {
		return err
	}
	r.terminateCalls.dropCalls(claim.UID)
	r.conditionWrites.dropCalls(claim.UID)
	now, pool := r.Now(), claim.Labels[karpv1.LabelNodePool]
	log.FromContext(ctx).Info("deleted nodeclaim", "provider-id", id)
	r.Events.Emit(claim, finalized())
	r.Metrics.NodeClaimsTerminated.WithLabelValues(pool, claim.Labels[karpv1.LabelCapacityType], claim.Labels[corev1.LabelTopologyZone]).Inc()
	r.Metrics.NodeClaimsTerminationDuration.WithLabelValues(pool).Observe(seconds(now.Sub(claim.DeletionTimestamp.Time)))
	if c := condition.Find(claim.Status.Conditions, karpv1.ConditionInstanceTerminating); c != nil && c.Status == metav1.ConditionTrue {
		r.Metrics.NodeClaimsInstanceTerminationDuration.WithLabelValues(pool).Observe(seconds(now.Sub(c.LastTransitionTime.Time)))
	}
	return nil
}

// instanceState looks an instance up. If the cloud call fails the state is unknown, and nothing follows from
// it.
func instanceState(ctx context.Context, provider instanceTerminator, id cloud.ID) drain.State {
	if id == "" {
		return drain.Unsure
	}
	_, err := provider.Find(ctx, id)
	switch {
	case err == nil:
		return drain.Present
	case cloud.Is(err, cloud.NotFound):
		return drain.Gone
	default:
		log.FromContext(ctx).Error(err, "cannot find out whether the instance of a node exists", "provider-id", id)
		return drain.Unsure
	}
}

// terminateInstance requests the termination of an instance. Only a definite "not found" is read as gone (G3).
func terminateInstance(ctx context.Context, provider instanceTerminator, id cloud.ID) (drain.State, drain.Refusal, error) {
	err := provider.Terminate(ctx, id)
	switch {
	case err == nil:
		return drain.Ending, drain.Refusal{}, nil
	case cloud.Is(err, cloud.NotFound):
		return drain.Gone, drain.Refusal{}, nil
	default:
		return drain.Staying, refusalOf(err), err
	}
}

// refusalOf is what the cloud said, in the words of conditions.
func refusalOf(err error) drain.Refusal {
	no := drain.Refusal{Reason: drain.TerminationFailed, Text: err.Error()}
	e, said := errors.AsType[*cloud.Error](err)
	switch {
	case said && e.Reason != "":
		no.Reason = e.Reason
	case cloud.Is(err, cloud.Denied):
		no.Reason = drain.Unauthorized
	case cloud.Is(err, cloud.Throttled):
		no.Reason = drain.Throttled
	}
	return no
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

// lastCalls holds when something was last done for an object, to limit the rate. It is in-memory state: after a
// restart there is one more call. The zero value is ready.
type lastCalls struct {
	mu sync.Mutex
	at map[types.UID]time.Time
}

func (p *lastCalls) lastCallAt(uid types.UID) time.Time {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.at[uid]
}

func (p *lastCalls) recordCall(uid types.UID, now time.Time) {
	const many, old = 10000, time.Hour
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.at == nil {
		p.at = map[types.UID]time.Time{}
	}
	if len(p.at) >= many {
		maps.DeleteFunc(p.at, func(_ types.UID, at time.Time) bool { return now.Sub(at) > old })
	}
	p.at[uid] = now
}

func (p *lastCalls) dropCalls(uid types.UID) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.at, uid)
}
