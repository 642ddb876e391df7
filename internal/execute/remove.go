package execute

import (
	"cmp"
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/klog/v2"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	karpv1 "github.com/dovetail-sh/dovetail/api/v1"
	"github.com/dovetail-sh/dovetail/internal/drain"
	"github.com/dovetail-sh/dovetail/internal/event"
	"github.com/dovetail-sh/dovetail/internal/lifecycle"
	"github.com/dovetail-sh/dovetail/internal/metric"
)

// remover is the part of a client that a Remover writes with.
type remover interface {
	Delete(ctx context.Context, obj client.Object, opts ...client.DeleteOption) error
	Patch(ctx context.Context, obj client.Object, patch client.Patch, opts ...client.PatchOption) error
}

// emitter sends events; the recorder of internal/report is one.
type emitter interface {
	Emit(obj client.Object, events ...event.Event)
}

// Remover deletes NodeClaims. Callers decide which claim is deleted, and why. It has no state.
type Remover struct {
	Client  remover
	Events  emitter
	Metrics *metric.Set
	// PodsToMove is how many pods on a node will have to start elsewhere, for a counter; nil: not counted.
	PodsToMove func(ctx context.Context, node string) int
	// Removed is called for claims that were deleted, for the decision record; node is empty if there is none. It may
	// be nil.
	Removed func(claim, node, reason string)
}

// Removal is a NodeClaim to be deleted, and what is reported about it.
type Removal struct {
	Claim  *karpv1.NodeClaim // as it was read
	Nodes  []*corev1.Node    // of the claim: they get the event too, and the pods on them are counted
	Reason string            // in metrics and in the decision record
	Policy string            // of consolidation, in metrics; empty if it is no consolidation
	Event  event.Event       // without a reason: none
	// Deadline is when the drain has to be over. Zero: when the claim itself says so. One that is on the claim
	// already is only ever made earlier.
	Deadline time.Time
	// Command is the token of the command that the deadline is from. It is written with the deadline, so that a
	// claim that stays loses both again. Empty: there is no command.
	Command string
	// AnyVersion deletes the claim even if it was written since it was read. Without it the deletion fails then
	// with a conflict: what was decided rests on an old version, and with a stale cache it would be counted twice.
	AnyVersion bool
}

// Remove deletes a claim and reports it: in events, metrics and the decision record. If the claim is deleted already,
// or not the one that was read, the error is a NotFound or a Conflict of the API server; then nothing is reported or
// counted.
func (r Remover) Remove(ctx context.Context, x Removal) error {
	pods := r.podsOn(ctx, x.Nodes) // before they begin to leave
	claim, err := r.advanceDeadline(ctx, x)
	if err != nil {
		return err
	}
	precondition := client.Preconditions{UID: &claim.UID}
	if !x.AnyVersion {
		precondition.ResourceVersion = &claim.ResourceVersion
	}
	if err := r.Client.Delete(ctx, &karpv1.NodeClaim{ObjectMeta: metav1.ObjectMeta{Name: claim.Name}}, precondition); err != nil {
		return fmt.Errorf("delete nodeclaim %s: %w", claim.Name, err)
	}
	r.emit(x)
	r.count(x, pods)
	if r.Removed != nil {
		r.Removed(claim.Name, nodeName(x), x.Reason)
	}
	return nil
}

// AdvanceDeadline makes the deadline of a claim earlier that is already being deleted, by any user. It reports
// whether the claim was written.
func (r Remover) AdvanceDeadline(ctx context.Context, claim *karpv1.NodeClaim, at time.Time) (bool, error) {
	after, err := r.advanceDeadline(ctx, Removal{Claim: claim, Deadline: at, AnyVersion: true})
	return after != claim, err
}

// advanceDeadline writes the deadline of a removal and returns the claim as it is then.
func (r Remover) advanceDeadline(ctx context.Context, x Removal) (*karpv1.NodeClaim, error) {
	if x.Deadline.IsZero() {
		return x.Claim, nil
	}
	before := &karpv1.NodeClaim{ObjectMeta: x.Claim.ObjectMeta} // to copy and compare the spec would be most of the work
	after := before.DeepCopy()
	if !drain.AdvanceCommandDeadline(after, x.Deadline, x.Command) {
		return x.Claim, nil
	}
	patch := client.MergeFrom(before)
	if !x.AnyVersion { // an earlier deadline that another client writes at the same moment is kept
		patch = client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{})
	}
	deadline := after.Annotations[karpv1.AnnotationTerminationTimestamp]
	if err := r.Client.Patch(ctx, after, patch); err != nil {
		return x.Claim, fmt.Errorf("write the deadline of nodeclaim %s: %w", x.Claim.Name, err)
	}
	log.FromContext(ctx).Info("annotated nodeclaim", "NodeClaim", klog.KRef("", x.Claim.Name), karpv1.AnnotationTerminationTimestamp, deadline)
	return after, nil
}

func (r Remover) emit(x Removal) {
	if x.Event.Reason == "" {
		return
	}
	r.Events.Emit(x.Claim, x.Event)
	for _, n := range x.Nodes {
		r.Events.Emit(n, x.Event)
	}
}

func (r Remover) podsOn(ctx context.Context, nodes []*corev1.Node) int {
	if r.PodsToMove == nil {
		return 0
	}
	pods := 0
	for _, n := range nodes {
		pods += r.PodsToMove(ctx, n.Name)
	}
	return pods
}

// count counts a claim whose removal began, and the pods that have to start elsewhere because of it.
func (r Remover) count(x Removal, pods int) {
	labels := disruptedLabels(x)
	r.Metrics.NodeClaimsDisrupted.WithLabelValues(labels...).Inc()
	r.Metrics.PodsDisruptionInitiated.WithLabelValues(labels...).Add(float64(pods))
}

// InitSeries creates the series of a removal that may follow, with value 0. Prometheus does not see the first
// increase of a counter without a previous sample, so the first node that does not join would raise no alert.
func (r Remover) InitSeries(claim *karpv1.NodeClaim, reason string) {
	r.Metrics.NodeClaimsDisrupted.WithLabelValues(disruptedLabels(Removal{Claim: claim, Reason: reason})...)
}

func disruptedLabels(x Removal) []string {
	return []string{x.Reason, x.Claim.Labels[karpv1.LabelNodePool], x.Claim.Labels[karpv1.LabelCapacityType], x.Policy, lifecycle.TerminationMode(x.Claim)}
}

// nodeName is the node of a claim, which may not have registered yet.
func nodeName(x Removal) string {
	first := ""
	if len(x.Nodes) > 0 {
		first = x.Nodes[0].Name
	}
	return cmp.Or(x.Claim.Status.NodeName, first)
}

// Terminating is the event of a removal that is no interruption. The reason comes first, in one word and a colon.
func Terminating(why string) event.Event {
	return event.Event{Reason: event.DisruptionTerminating, Text: "Disrupting the node, reason " + why}
}
