package awsemu

import (
	"encoding/json"
	"time"
)

// EventKind is the detail-type of an EventBridge event.
type EventKind string

// Events that the emulated account produces.
const (
	EventSpotInterruption        EventKind = "EC2 Spot Instance Interruption Warning"
	EventRebalance               EventKind = "EC2 Instance Rebalance Recommendation"
	EventStateChange             EventKind = "EC2 Instance State-change Notification"
	EventHealth                  EventKind = "AWS Health Event"
	EventReservationInterruption EventKind = "EC2 Capacity Reservation Instance Interruption Warning"
)

// publishEvent writes an event to every queue that a rule sends its kind to. The emulator must be locked.
func (e *Emulator) publishEvent(now time.Time, kind EventKind, resources []string, detail any) {
	source := "aws.ec2"
	if kind == EventHealth {
		source = "aws.health"
	}
	body, err := json.Marshal(map[string]any{
		"version": "0", "id": e.nextID(""), "detail-type": kind, "source": source, "account": e.fixture.Account,
		"time": now.UTC().Format(time.RFC3339), "region": e.fixture.Region, "resources": resources, "detail": detail,
	})
	if err != nil {
		return // only values of ours come here, and they encode
	}
	for _, queue := range e.queuesFor(kind) {
		e.send(now, queue, string(body))
	}
}
