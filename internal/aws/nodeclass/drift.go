package nodeclass

import (
	"slices"

	awsv1 "github.com/dovetail-sh/dovetail/api/aws/v1"
	karpv1 "github.com/dovetail-sh/dovetail/api/v1"
)

// Reasons of drift from a class, in the order in which they are looked for.
const (
	NodeClassDrift           = "NodeClassDrift"
	AMIDrift                 = "AMIDrift"
	SecurityGroupDrift       = "SecurityGroupDrift"
	SubnetDrift              = "SubnetDrift"
	CapacityReservationDrift = "CapacityReservationDrift"
	PlacementGroupDrift      = "PlacementGroupDrift"
)

// Instance is what an instance was launched into.
type Instance struct {
	Subnet      string
	Groups      []string // security groups
	Reservation string
}

// Wanted is what an instance of the class would get now, beside what the status of the class says.
type Wanted struct {
	Image               string // for the instance type of the claim; empty: none fits
	PlacementGroup      string // id; empty: none
	PlacementGroupKnown bool   // false where the class selects a group that could not be looked up
}

// Drift says in one word why an instance is not what its class asks for now; empty if it is. What is not
// known is not compared: a selector that suddenly matches nothing must not replace a fleet (E15). Before
// CapacityReservationDrift is acted upon, the caller looks the reservations up once more.
func Drift(class *awsv1.EC2NodeClass, claim *karpv1.NodeClaim, have Instance, want Wanted) string {
	status := class.Status
	if hashDrift(class.Annotations, claim.Annotations) {
		return NodeClassDrift
	}
	if len(status.AMIs) > 0 && want.Image != "" && claim.Status.ImageID != "" && claim.Status.ImageID != want.Image {
		return AMIDrift
	}
	if len(status.SecurityGroups) > 0 && len(have.Groups) > 0 {
		groups := make([]string, 0, len(status.SecurityGroups))
		for _, g := range status.SecurityGroups {
			groups = append(groups, g.ID)
		}
		if !slices.Equal(distinct(groups), distinct(have.Groups)) {
			return SecurityGroupDrift
		}
	}
	if len(status.Subnets) > 0 && have.Subnet != "" && !slices.ContainsFunc(status.Subnets, func(s awsv1.Subnet) bool { return s.ID == have.Subnet }) {
		return SubnetDrift
	}
	if claim.Labels[karpv1.LabelCapacityType] == karpv1.CapacityTypeReserved && have.Reservation != "" &&
		!slices.ContainsFunc(status.CapacityReservations, func(r awsv1.CapacityReservation) bool { return r.ID == have.Reservation }) {
		return CapacityReservationDrift
	}
	if want.PlacementGroupKnown && claim.Labels[awsv1.LabelPlacementGroupID] != want.PlacementGroup {
		return PlacementGroupDrift
	}
	return ""
}

func distinct(list []string) []string {
	return slices.Compact(slices.Sorted(slices.Values(list)))
}

// hashDrift compares the hashes, if both objects have one of the same version.
func hashDrift(class, claim map[string]string) bool {
	for _, key := range []string{awsv1.AnnotationNodeClassHash, awsv1.AnnotationNodeClassHashVersion} {
		if class[key] == "" || claim[key] == "" {
			return false
		}
	}
	return class[awsv1.AnnotationNodeClassHashVersion] == claim[awsv1.AnnotationNodeClassHashVersion] &&
		class[awsv1.AnnotationNodeClassHash] != claim[awsv1.AnnotationNodeClassHash]
}
