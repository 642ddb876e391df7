package interruption

import "github.com/dovetail-sh/dovetail/internal/event"

// Notice is what a cloud announces about one instance.
type Notice struct {
	Kind     Kind
	Instance string // by its name, as directory.Key reads it
	Text     string // for users: what the cloud says
}

// Kind is what was announced. Kinds are API: they are labels of metrics.
type Kind string

// Kinds. The last three come from status checks, all others are messages.
const (
	NoOp                   Kind = "no_op"
	SpotInterrupted        Kind = "spot_interrupted"
	RebalanceRecommended   Kind = "rebalance_recommendation"
	InstanceStopped        Kind = "instance_stopped"
	InstanceTerminated     Kind = "instance_terminated"
	ScheduledChange        Kind = "scheduled_change"
	ReservationInterrupted Kind = "capacity_reservation_interrupted"
	InstanceStatus         Kind = "instance_status"
	SystemStatus           Kind = "system_status"
	EventStatus            Kind = "event_status"
)

// Action is what a kind leads to, as the log names it.
type Action string

// Actions.
const (
	NoAction            Action = "NoAction"
	CordonAndDrain      Action = "CordonAndDrain"
	ForcefulTermination Action = "ForcefulTermination"
)

// Action says what is done about a kind.
func (k Kind) Action() Action {
	switch k {
	case SpotInterrupted, InstanceStopped, InstanceTerminated, ScheduledChange, ReservationInterrupted, EventStatus:
		return CordonAndDrain
	case InstanceStatus, SystemStatus:
		return ForcefulTermination
	case NoOp, RebalanceRecommended:
		return NoAction
	default:
		return NoAction
	}
}

// event is the event about a notice; its reason is empty if there is none.
func (n Notice) event() event.Event {
	switch n.Kind {
	case SpotInterrupted:
		return event.Event{Reason: event.SpotInterrupted, Text: n.Text}
	case RebalanceRecommended:
		return event.Event{Reason: event.SpotRebalanceRecommendation, Text: n.Text}
	case InstanceStopped:
		return event.Event{Reason: event.InstanceStopping, Text: n.Text}
	case InstanceTerminated:
		return event.Event{Reason: event.InstanceTerminating, Text: n.Text}
	case ScheduledChange:
		return event.Event{Reason: event.InstanceUnhealthy, Text: n.Text}
	case ReservationInterrupted:
		return event.Event{Reason: event.CapacityReservationInstanceInterrupted, Text: n.Text}
	case InstanceStatus, SystemStatus, EventStatus:
		return event.Event{Reason: event.InstanceUnhealthy, Text: n.Text, Key: string(n.Kind)}
	case NoOp:
		return event.Event{}
	default:
		return event.Event{}
	}
}
