package interrupt

import "github.com/dovetail-sh/dovetail/internal/interruption"

// malformed is the kind under which messages are counted that cannot be read.
const malformed = "malformed"

// notice is what AWS announces, for the actor of all clouds.
func notice(kind interruption.Kind, instance string) interruption.Notice {
	return interruption.Notice{Kind: kind, Instance: instance, Text: describe(kind)}
}

// describe says to users what AWS announced.
func describe(kind interruption.Kind) string {
	switch kind {
	case interruption.SpotInterrupted:
		return "EC2 takes this spot instance back in about two minutes; its pods are moved"
	case interruption.RebalanceRecommended:
		return "EC2 sees a higher risk that this spot instance is interrupted; nothing is done about it"
	case interruption.InstanceStopped:
		return "The instance is stopping or stopped, and not because of this controller"
	case interruption.InstanceTerminated:
		return "The instance is ending or has ended"
	case interruption.ScheduledChange:
		return "AWS announced maintenance of this instance (AWS Health, scheduled change)"
	case interruption.ReservationInterrupted:
		return "EC2 takes this instance of an interruptible capacity reservation back"
	case interruption.InstanceStatus:
		return "The instance fails its instance status check for more than two minutes"
	case interruption.SystemStatus:
		return "The host of the instance fails its system status check for more than two minutes"
	case interruption.EventStatus:
		return "EC2 has scheduled a reboot, stop, retirement or maintenance of the instance"
	case interruption.NoOp:
		return ""
	default:
		return ""
	}
}
