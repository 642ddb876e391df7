package interruption

import (
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestEveryKindHasItsActionAndEvent(t *testing.T) {
	t.Parallel()
	type row struct {
		Action Action
		Reason string
	}
	got := map[Kind]row{}
	for _, k := range []Kind{NoOp, SpotInterrupted, RebalanceRecommended, InstanceStopped, InstanceTerminated, ScheduledChange, ReservationInterrupted, InstanceStatus, SystemStatus, EventStatus, "odd"} {
		got[k] = row{k.Action(), string(Notice{Kind: k, Text: "told"}.event().Reason)}
	}
	want := map[Kind]row{
		"no_op":                            {NoAction, ""},
		"odd":                              {NoAction, ""},
		"spot_interrupted":                 {CordonAndDrain, "SpotInterrupted"},
		"rebalance_recommendation":         {NoAction, "SpotRebalanceRecommendation"},
		"instance_stopped":                 {CordonAndDrain, "InstanceStopping"},
		"instance_terminated":              {CordonAndDrain, "InstanceTerminating"},
		"scheduled_change":                 {CordonAndDrain, "InstanceUnhealthy"},
		"capacity_reservation_interrupted": {CordonAndDrain, "CapacityReservationInstanceInterrupted"},
		"instance_status":                  {ForcefulTermination, "InstanceUnhealthy"},
		"system_status":                    {ForcefulTermination, "InstanceUnhealthy"},
		"event_status":                     {CordonAndDrain, "InstanceUnhealthy"},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}
