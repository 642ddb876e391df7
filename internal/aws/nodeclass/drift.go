package nodeclass

import (
	"cmp"
	"slices"
	"strings"

	awsv1 "github.com/dovetail-sh/dovetail/api/aws/v1"
	karpv1 "github.com/dovetail-sh/dovetail/api/v1"
	"github.com/dovetail-sh/dovetail/internal/aws/classhash"
	"github.com/dovetail-sh/dovetail/internal/reason"
)

// Instance is what an instance was launched into.
type Instance struct {
	Subnet      string
	Groups      []string // security groups
	Reservation string
}

// Wanted is what an instance of the class would get now, beside what the status of the class says.
type Wanted struct {
	Image               string // for the instance type of the claim; empty: none suits it
	ImageKnown          bool   // false where the instance type is not known
	PlacementGroup      string // id; empty: none
	PlacementGroupKnown bool   // false where the class selects a group that could not be looked up
}

// Drift says why an instance is not what its class requests now; no code if it is. What is not known is
// not compared: a selector that suddenly matches nothing must not replace a fleet (E15). The images in
// the status of a class were looked up without an error: if none suits the claim, its own is not wanted
// (E13). Before CapacityReservationDrift is acted upon, the caller looks the reservations up once more.
func Drift(class *awsv1.EC2NodeClass, claim *karpv1.NodeClaim, have Instance, want Wanted) reason.Reason {
	if why, drifted := classhash.Drift(class, claim); drifted {
		return why
	}
	status := class.Status
	found := func(code reason.Code, field, have, want string) reason.Reason {
		return reason.Reason{Code: code, Subject: awsv1.Kind + " " + class.Name + ": " + field, Have: have, Want: cmp.Or(want, "none")}
	}
	if image := claim.Status.ImageID; len(status.AMIs) > 0 && want.ImageKnown && image != "" && image != want.Image {
		if want.Image == "" {
			return found(reason.AMIDrift, "spec.amiSelectorTerms", image, "none, since none suits its instance type")
		}
		return found(reason.AMIDrift, "spec.amiSelectorTerms", image, want.Image)
	}
	if len(status.SecurityGroups) > 0 && len(have.Groups) > 0 {
		groups := make([]string, 0, len(status.SecurityGroups))
		for _, g := range status.SecurityGroups {
			groups = append(groups, g.ID)
		}
		if is, should := distinct(have.Groups), distinct(groups); !slices.Equal(is, should) {
			return found(reason.SecurityGroupDrift, "spec.securityGroupSelectorTerms", strings.Join(is, ", "), strings.Join(should, ", "))
		}
	}
	if len(status.Subnets) > 0 && have.Subnet != "" && !slices.ContainsFunc(status.Subnets, func(s awsv1.Subnet) bool { return s.ID == have.Subnet }) {
		subnets := make([]string, 0, len(status.Subnets))
		for _, s := range status.Subnets {
			subnets = append(subnets, s.ID)
		}
		return found(reason.SubnetDrift, "spec.subnetSelectorTerms", have.Subnet, strings.Join(distinct(subnets), ", "))
	}
	if claim.Labels[karpv1.LabelCapacityType] == karpv1.CapacityTypeReserved && have.Reservation != "" &&
		!slices.ContainsFunc(status.CapacityReservations, func(r awsv1.CapacityReservation) bool { return r.ID == have.Reservation }) {
		return found(reason.CapacityReservationDrift, "spec.capacityReservationSelectorTerms", have.Reservation, "")
	}
	if group := claim.Labels[awsv1.LabelPlacementGroupID]; want.PlacementGroupKnown && group != want.PlacementGroup {
		return found(reason.PlacementGroupDrift, "spec.placementGroupSelector", cmp.Or(group, "none"), want.PlacementGroup)
	}
	return reason.Reason{}
}

func distinct(list []string) []string {
	return slices.Compact(slices.Sorted(slices.Values(list)))
}
