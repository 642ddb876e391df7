package interrupt

import (
	"cmp"
	"slices"
	"time"

	ec2types "github.com/aws/aws-sdk-go-v2/service/ec2/types"

	"github.com/dovetail-sh/dovetail/internal/interruption"
)

// impairedAfter is how long a status check may fail before it counts: a reboot fails it too.
const impairedAfter = 120 * time.Second

// Finding is an instance that AWS holds for unhealthy.
type Finding struct {
	Instance string
	Kind     interruption.Kind // InstanceStatus, SystemStatus or EventStatus
}

// Category is the name of the finding in the metric.
func (f Finding) Category() string {
	switch f.Kind {
	case interruption.InstanceStatus:
		return "InstanceStatus"
	case interruption.SystemStatus:
		return "SystemStatus"
	default:
		return "EventStatus"
	}
}

// Unhealthy says which instances are unhealthy, in order of their ids and without repeats. A check that
// fails counts after two minutes, a scheduled event at once; checks of volumes do not count.
func Unhealthy(statuses []ec2types.InstanceStatus, now time.Time) []Finding {
	var found []Finding
	for _, s := range statuses {
		id := text(s.InstanceId)
		if id == "" {
			continue
		}
		if impaired(s.InstanceStatus, now) {
			found = append(found, Finding{id, interruption.InstanceStatus})
		}
		if impaired(s.SystemStatus, now) {
			found = append(found, Finding{id, interruption.SystemStatus})
		}
		if slices.ContainsFunc(s.Events, scheduled) {
			found = append(found, Finding{id, interruption.EventStatus})
		}
	}
	slices.SortFunc(found, func(a, b Finding) int {
		return cmp.Or(cmp.Compare(a.Instance, b.Instance), cmp.Compare(a.Kind, b.Kind))
	})
	return slices.Compact(found)
}

func impaired(summary *ec2types.InstanceStatusSummary, now time.Time) bool {
	if summary == nil || summary.Status != ec2types.SummaryStatusImpaired {
		return false
	}
	return slices.ContainsFunc(summary.Details, func(d ec2types.InstanceStatusDetails) bool {
		return d.Status == ec2types.StatusTypeFailed && d.ImpairedSince != nil && now.Sub(*d.ImpairedSince) >= impairedAfter
	})
}

// eventCodes are the scheduled events that count.
func eventCodes() []string {
	return []string{
		string(ec2types.EventCodeInstanceReboot), string(ec2types.EventCodeSystemReboot), string(ec2types.EventCodeSystemMaintenance),
		string(ec2types.EventCodeInstanceRetirement), string(ec2types.EventCodeInstanceStop),
	}
}

// scheduled reports whether an event is still ahead: EC2 shows those that were dealt with for a while,
// with a mark at the start of their text.
func scheduled(e ec2types.InstanceStatusEvent) bool {
	description := text(e.Description)
	for _, mark := range []string{"[Completed]", "[Canceled]"} {
		if len(description) >= len(mark) && description[:len(mark)] == mark {
			return false
		}
	}
	return slices.Contains(eventCodes(), string(e.Code))
}
