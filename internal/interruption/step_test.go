package interruption

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	karpv1 "github.com/dovetail-sh/dovetail/api/v1"
	"github.com/dovetail-sh/dovetail/internal/event"
)

const reservationLabel = "example.com/reservation"

var start = time.Date(2030, 1, 1, 12, 0, 0, 0, time.UTC)

// What each kind of notice leads to, for a claim that runs and for one that is terminating.
func TestAdvance(t *testing.T) {
	t.Parallel()
	running := &karpv1.NodeClaim{ObjectMeta: metav1.ObjectMeta{
		Name: "default-1", UID: "uid-1",
		Labels: map[string]string{corev1.LabelInstanceTypeStable: "m5.large", corev1.LabelTopologyZone: "eu-west-1a", reservationLabel: "cr-1"},
	}}
	terminating := running.DeepCopy()
	terminating.DeletionTimestamp = new(metav1.NewTime(start.Add(-time.Minute)))
	plain := running.DeepCopy()
	plain.Labels = nil
	emit := func(reason event.Reason, key string) Effect {
		return EmitEvent{event.Event{Reason: reason, Text: "told", Key: key}}
	}
	deletion := func(kind string, deadline time.Time) Effect {
		return DeleteClaim{Deadline: deadline, Event: event.Event{
			Reason: event.TerminatingOnInterruption, Text: "The NodeClaim is deleted because of an interruption (" + kind + ") of instance i-1",
		}}
	}
	for name, tc := range map[string]struct {
		kind  Kind
		claim *karpv1.NodeClaim
		want  []Effect
	}{
		"a spot interruption deletes the claim and leaves the offering out of plans": {
			SpotInterrupted, running, []Effect{emit(event.SpotInterrupted, ""), MarkSpotUnavailable{"m5.large", "eu-west-1a"}, deletion("spot_interrupted", time.Time{})},
		},
		"a claim that is not labelled yet says nothing about its offering": {
			SpotInterrupted, plain, []Effect{emit(event.SpotInterrupted, ""), deletion("spot_interrupted", time.Time{})},
		},
		"an interrupted reservation is left out of plans": {
			ReservationInterrupted, running,
			[]Effect{emit(event.CapacityReservationInstanceInterrupted, ""), MarkReservationUnavailable{"cr-1"}, deletion("capacity_reservation_interrupted", time.Time{})},
		},
		"IR-03: a rebalance recommendation counts against its offering, and the node stays": {
			RebalanceRecommended, running, []Effect{emit(event.SpotRebalanceRecommendation, ""), CountRisk{"m5.large", "eu-west-1a"}},
		},
		"no_op is nothing": {NoOp, running, nil},
		"a failed status check does not wait for pods": {
			SystemStatus, running, []Effect{emit(event.InstanceUnhealthy, "system_status"), deletion("system_status", start)},
		},
		"a failed status check ends a drain that runs": {
			InstanceStatus, terminating, []Effect{emit(event.InstanceUnhealthy, "instance_status"), AdvanceDeadline{start}},
		},
		"a spot interruption leaves a drain that runs as it is": {
			SpotInterrupted, terminating, []Effect{emit(event.SpotInterrupted, ""), MarkSpotUnavailable{"m5.large", "eu-west-1a"}},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got := new(State).Advance(Notice{Kind: tc.kind, Instance: "i-1", Text: "told"}, tc.claim, reservationLabel, start)
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// A claim is deleted once, although a cache shows it for a while (FM H02); again if that failed, or much later.
func TestFM_H02_AdvanceDeletesOnce(t *testing.T) {
	t.Parallel()
	var s State
	claim := &karpv1.NodeClaim{ObjectMeta: metav1.ObjectMeta{Name: "default-1", UID: "uid-1"}}
	deletes := func(at time.Time) bool {
		for _, e := range s.Advance(Notice{Kind: InstanceTerminated, Instance: "i-1"}, claim, reservationLabel, at) {
			if _, is := e.(DeleteClaim); is {
				return true
			}
		}
		return false
	}
	if !deletes(start) {
		t.Error("the first notice does not delete the claim")
	}
	if deletes(start.Add(time.Minute)) {
		t.Error("the second notice deletes the claim again")
	}
	s.DeletionFailed(claim.UID)
	if !deletes(start.Add(2 * time.Minute)) {
		t.Error("a deletion that failed is not repeated")
	}
	if !deletes(start.Add(2*time.Minute + deletionTTL + time.Second)) {
		t.Error("a deletion is kept for longer than its TTL")
	}
}
