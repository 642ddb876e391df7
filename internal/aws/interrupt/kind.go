package interrupt

import "github.com/dovetail-sh/dovetail/internal/event"

// Kind is what was announced. Kinds are API: they are labels of metrics.
type Kind string

// Kinds. The last three come from status checks, all others from the queue.
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

// malformed is the kind under which messages are counted that cannot be read.
const malformed = "malformed"

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

// event is what the user is told; its reason is empty if there is nothing to tell.
func (k Kind) event() event.Event {
	switch k {
	case SpotInterrupted:
		return event.Event{Reason: event.SpotInterrupted, Text: "EC2 takes this spot instance back in about two minutes; its pods are moved"}
	case RebalanceRecommended:
		return event.Event{Reason: event.SpotRebalanceRecommendation, Text: "EC2 sees a higher risk that this spot instance is interrupted; nothing is done about it"}
	case InstanceStopped:
		return event.Event{Reason: event.InstanceStopping, Text: "The instance is stopping or stopped, and not because of this controller"}
	case InstanceTerminated:
		return event.Event{Reason: event.InstanceTerminating, Text: "The instance is ending or has ended"}
	case ScheduledChange:
		return event.Event{Reason: event.InstanceUnhealthy, Text: "AWS announced maintenance of this instance (AWS Health, scheduled change)"}
	case ReservationInterrupted:
		return event.Event{Reason: event.CapacityReservationInstanceInterrupted, Text: "EC2 takes this instance of an interruptible capacity reservation back"}
	case InstanceStatus:
		return event.Event{Reason: event.InstanceUnhealthy, Text: "The instance fails its instance status check for more than two minutes", Key: string(k)}
	case SystemStatus:
		return event.Event{Reason: event.InstanceUnhealthy, Text: "The host of the instance fails its system status check for more than two minutes", Key: string(k)}
	case EventStatus:
		return event.Event{Reason: event.InstanceUnhealthy, Text: "EC2 has scheduled a reboot, stop, retirement or maintenance of the instance", Key: string(k)}
	case NoOp:
		return event.Event{}
	default:
		return event.Event{}
	}
}
