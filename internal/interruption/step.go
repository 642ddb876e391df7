package interruption

import (
	"fmt"
	"maps"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	karpv1 "github.com/dovetail-sh/dovetail/api/v1"
	"github.com/dovetail-sh/dovetail/internal/event"
)

// deletionTTL is how long a deletion is kept in the state. A cache that lags longer has other problems.
const deletionTTL = 10 * time.Minute

// State is what a process keeps between notices. The zero value is ready. It is lost with the process: a claim that is
// deleted once more is a no-op.
type State struct {
	deleted map[types.UID]time.Time // claims that were deleted, which the cache may not show yet (FM H02)
}

// Effect is one thing to do about the claim of an interrupted instance. The types below are all there are.
type Effect interface{ effect() }

// EmitEvent reports the notice on the claim and its Nodes.
type EmitEvent struct{ Event event.Event }

// MarkSpotUnavailable takes a spot offering out of plans for a while, so that the replacement is launched elsewhere.
type MarkSpotUnavailable struct{ InstanceType, Zone string }

// CountRisk counts against a spot offering when plans are compared: its instances may be interrupted soon.
type CountRisk struct{ InstanceType, Zone string }

// MarkReservationUnavailable takes a capacity reservation out of plans for a while.
type MarkReservationUnavailable struct{ ID string }

// DeleteClaim deletes the claim. A Deadline that is not zero ends its drain then.
type DeleteClaim struct {
	Event    event.Event
	Deadline time.Time
}

// AdvanceDeadline ends the running drain of the claim no later than the deadline.
type AdvanceDeadline struct{ Deadline time.Time }

func (EmitEvent) effect()                  {}
func (MarkSpotUnavailable) effect()        {}
func (CountRisk) effect()                  {}
func (MarkReservationUnavailable) effect() {}
func (DeleteClaim) effect()                {}
func (AdvanceDeadline) effect()            {}

// Advance decides what a notice means for one claim of its instance. The effects are performed in their order.
func (s *State) Advance(n Notice, claim *karpv1.NodeClaim, reservationLabel string, now time.Time) (effects []Effect) {
	if e := n.event(); e.Reason != "" {
		effects = append(effects, EmitEvent{e})
	}
	effects = append(effects, markUnavailable(n.Kind, claim.Labels, reservationLabel)...)
	forceful := n.Kind.Action() == ForcefulTermination
	switch {
	case n.Kind.Action() == NoAction:
	case !claim.DeletionTimestamp.IsZero():
		// The pods of an instance that fails its status checks are not protected, whatever began the drain (disruption 1).
		if forceful {
			effects = append(effects, AdvanceDeadline{now})
		}
	case s.recordDeletion(claim.UID, now):
		deletion := DeleteClaim{Event: event.Event{
			Reason: event.TerminatingOnInterruption, Text: fmt.Sprintf("The NodeClaim is deleted because of an interruption (%s) of instance %s", n.Kind, n.Instance),
		}}
		if forceful { // its pods cannot be drained (7.2)
			deletion.Deadline = now
		}
		effects = append(effects, deletion)
	}
	return effects
}

// DeletionFailed has the next notice about a claim delete it again.
func (s *State) DeletionFailed(claim types.UID) { delete(s.deleted, claim) }

// recordDeletion reports whether a claim was not deleted yet, and records that it is now.
func (s *State) recordDeletion(claim types.UID, now time.Time) bool {
	maps.DeleteFunc(s.deleted, func(_ types.UID, at time.Time) bool { return now.Sub(at) > deletionTTL })
	if _, done := s.deleted[claim]; done {
		return false
	}
	if s.deleted == nil {
		s.deleted = map[types.UID]time.Time{}
	}
	s.deleted[claim] = now
	return true
}

// markUnavailable returns the capacity that a notice shows to be gone, or soon to be.
func markUnavailable(kind Kind, labels map[string]string, reservationLabel string) []Effect {
	instanceType, zone, reservation := labels[corev1.LabelInstanceTypeStable], labels[corev1.LabelTopologyZone], labels[reservationLabel]
	switch {
	case kind == SpotInterrupted && instanceType != "" && zone != "":
		return []Effect{MarkSpotUnavailable{instanceType, zone}}
	case kind == RebalanceRecommended && instanceType != "" && zone != "":
		return []Effect{CountRisk{instanceType, zone}}
	case kind == ReservationInterrupted && reservation != "":
		return []Effect{MarkReservationUnavailable{reservation}}
	}
	return nil
}
