package launch

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/ec2"
	ec2types "github.com/aws/aws-sdk-go-v2/service/ec2/types"
	"github.com/go-logr/logr"

	karpv1 "github.com/dovetail-sh/dovetail/api/v1"
	"github.com/dovetail-sh/dovetail/internal/aws/awserr"
	"github.com/dovetail-sh/dovetail/internal/aws/offering"
	"github.com/dovetail-sh/dovetail/internal/cloud"
)

// fleetResults lists every instance of a response. Its properties are those that EC2 returned, even if they differ
// from the request (A18).
func (t *ticket) fleetResults(response *ec2.CreateFleetOutput, now time.Time) []Result {
	var list []Result
	for _, i := range response.Instances {
		at := overrides(i.LaunchTemplateAndOverrides)
		subnet := cmp.Or(value(at.SubnetId), value(i.SubnetId))
		zone := cmp.Or(value(at.AvailabilityZone), value(i.AvailabilityZone), t.zoneOf(subnet))
		kind := cmp.Or(string(at.InstanceType), string(i.InstanceType))
		p := t.findPick(kind, zone)
		one := Result{
			Type: kind, Zone: zone, ZoneID: cmp.Or(value(i.AvailabilityZoneId), p.zoneID), Subnet: cmp.Or(subnet, p.subnet),
			Image: cmp.Or(value(at.ImageId), t.imageOf(kind)), CapacityType: t.order.choice.capacityType, Tenancy: t.order.choice.tenancy,
			Partition: t.order.choice.partition, Launched: now,
		}
		if t.order.group != nil {
			one.PlacementGroup = t.order.group.ID
		}
		if one.CapacityType == karpv1.CapacityTypeReserved {
			one.Reservation, one.ReservationType = p.reservation, "default"
			if t.order.choice.kind == block {
				one.ReservationType = typeBlock
			}
			one.Interruptible = t.order.choice.kind == interruptible
		}
		for _, id := range i.InstanceIds {
			one.ID = id
			list = append(list, one)
		}
	}
	return list
}

// overrides is what an item of a response was launched with; EC2 may leave it out.
func overrides(at *ec2types.LaunchTemplateAndOverridesResponse) ec2types.FleetLaunchTemplateOverrides {
	if at == nil || at.Overrides == nil {
		return ec2types.FleetLaunchTemplateOverrides{}
	}
	return *at.Overrides
}

// findPick finds what was requested by type and zone; the zero pick if it was not.
func (t *ticket) findPick(instanceType, zone string) pick {
	for _, r := range t.recipes {
		for _, p := range r.picks {
			if p.it.Name == instanceType && p.zone == zone {
				return p
			}
		}
	}
	return pick{}
}

func (t *ticket) zoneOf(subnet string) string {
	for _, r := range t.recipes {
		for _, p := range r.picks {
			if p.subnet == subnet {
				return p.zone
			}
		}
	}
	return ""
}

func (t *ticket) imageOf(instanceType string) string {
	for _, r := range t.recipes {
		for _, p := range r.picks {
			if p.it.Name == instanceType {
				return r.image
			}
		}
	}
	return ""
}

// fleetErrors is what the errors of a response mean for the next request.
type fleetErrors struct {
	retryNow        bool // something was marked, and all errors were about capacity
	spotRoleMissing bool
	news            []string // descriptions of what is unavailable and was not known to be before
	codes           []string // codes of the errors that say so
}

// recordFleetErrors marks what is unavailable and counts it (AWS provider 5.6). It runs once for a response, however
// many claims wait for it.
func (l *Launcher) recordFleetErrors(t *ticket, list []ec2types.CreateFleetError) fleetErrors {
	out := fleetErrors{retryNow: len(list) > 0}
	marked := false
	for _, e := range list {
		code, text := value(e.ErrorCode), value(e.ErrorMessage)
		at := overrides(e.LaunchTemplateAndOverrides)
		subnet := value(at.SubnetId)
		p := t.findPick(string(at.InstanceType), cmp.Or(value(at.AvailabilityZone), t.zoneOf(subnet)))
		p.zone = cmp.Or(p.zone, value(at.AvailabilityZone), t.zoneOf(subnet))
		reason, _ := awserr.LaunchReason(code, text)
		l.o.Metrics.LaunchFailures.WithLabelValues(p.zone, p.zoneID, t.order.choice.capacityType, reason).Inc()
		if code == awserr.CodeSpotRoleMissing {
			out.spotRoleMissing = true
		}
		if !awserr.Unfulfillable(code) && code != awserr.CodeSpotRoleMissing || code == awserr.CodeFleetQuota {
			out.retryNow = false // nothing else would do either
		}
		found, news := l.markUnavailable(t, code, text, string(at.InstanceType), p, cmp.Or(subnet, p.subnet))
		marked = found || marked
		if news != "" {
			out.news, out.codes = append(out.news, news), append(out.codes, code)
		}
	}
	out.retryNow = out.retryNow && marked
	return out
}

// logUnavailable writes one line about what a response showed to be unavailable, at the default level and with the
// words that operators search for (S-101).
func (s fleetErrors) logUnavailable(logger logr.Logger) {
	if len(s.news) == 0 {
		return
	}
	const most = 10 // a fleet is refused for hundreds of offerings at once
	detail := slices.Compact(slices.Sorted(slices.Values(s.news)))
	shown := detail[:min(most, len(detail))]
	logger.Error(nil, "EC2 has insufficient capacity for some of the requested instance types; they are not requested again for a while",
		"reasons", slices.Compact(slices.Sorted(slices.Values(s.codes))), "detail", shown, "more", len(detail)-len(shown))
}

// markUnavailable records one failure. It reports whether it marked anything, and describes what was not known
// before.
func (l *Launcher) markUnavailable(t *ticket, code, text, instanceType string, p pick, subnet string) (marked bool, news string) {
	out, capacityType, group := l.o.Unavailable, t.order.choice.capacityType, offering.Group{}
	if t.order.group != nil {
		group = offering.Group{ID: t.order.group.ID, Partition: t.order.choice.partition}
	}
	switch {
	case code == awserr.CodeSpotRoleMissing || code == awserr.CodeSpotQuota: // F03, F05
		return true, out.MarkCapacityType(karpv1.CapacityTypeSpot, code)
	case !awserr.Unfulfillable(code):
		return false, ""
	case code == awserr.CodeSubnetFull: // F06
		if subnet == "" {
			return false, ""
		}
		return true, out.MarkSubnet(subnet, code)
	case p.reservation != "": // F08
		l.o.Reservations.Exhausted(p.reservation)
		return true, "instance type " + p.it.Name + " has no free instance in capacity reservation " + p.reservation
	case group.ID != "" && spreadLimit(text) && p.zone != "": // F14
		return true, out.MarkZone(p.zone, offering.Group{ID: group.ID}, code)
	case instanceType == "" || p.zone == "":
		return false, ""
	default: // F01
		return true, out.Mark(capacityType, instanceType, p.zone, group, code)
	}
}

// spreadLimit reports whether a spread placement group has as many instances in a zone as it may.
func spreadLimit(text string) bool {
	text = strings.ToLower(text)
	return strings.Contains(text, "spread placement group") && (strings.Contains(text, "limit") || strings.Contains(text, "maximum") || strings.Contains(text, "exceed"))
}

// fleetFailure is the error of a claim that got no instance. It is NoCapacity only if every code says so.
func fleetFailure(list []ec2types.CreateFleetError, delivered, requested int) error {
	if len(list) == 0 {
		return &cloud.Error{Kind: cloud.Unknown, Op: "create fleet", Message: fmt.Sprintf("EC2 delivered %d of %d instances and did not say why", delivered, requested)}
	}
	out := &cloud.Error{Kind: cloud.NoCapacity, Op: "create fleet"}
	var texts []string
	for _, e := range list {
		code := value(e.ErrorCode)
		reason, text := awserr.LaunchReason(code, value(e.ErrorMessage))
		if !slices.Contains(texts, text) {
			texts = append(texts, text)
		}
		capacity := awserr.Unfulfillable(code) || code == awserr.CodeSpotRoleMissing
		switch {
		case !capacity && out.Kind == cloud.NoCapacity:
			out.Kind, out.Reason = kindOfReason(reason), reason
		case out.Reason == "" && reason != awserr.ReasonLaunchFailed:
			out.Reason = reason
		}
	}
	out.Message = awserr.Cut(strings.Join(texts, "; "))
	return out
}

func kindOfReason(reason string) cloud.Kind {
	switch reason {
	case "Unauthorized", "AMIAuthorizationFailure":
		return cloud.Denied
	case "RequestLimitExceeded":
		return cloud.Throttled
	default:
		return cloud.Unknown
	}
}
