package nodeclass

import (
	"errors"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	awsv1 "github.com/dovetail-sh/dovetail/api/aws/v1"
	"github.com/dovetail-sh/dovetail/internal/aws/discover"
	"github.com/dovetail-sh/dovetail/internal/aws/profile"
	"github.com/dovetail-sh/dovetail/internal/cloud"
)

// Reasons of the conditions about what selectors resolve to. Those that end in ResolutionFailed say why
// there is no result yet; but for placement groups they are Dovetail's own.
const (
	SubnetsNotFound        = "SubnetsNotFound"
	SecurityGroupsNotFound = "SecurityGroupsNotFound"
	AMINotFound            = "AMINotFound"
	UnsupportedAlias       = "UnsupportedAlias"
	PlacementGroupNotFound = "PlacementGroupNotFound"

	SubnetsResolutionFailed              = "SubnetsResolutionFailed"
	SecurityGroupsResolutionFailed       = "SecurityGroupsResolutionFailed"
	AMIsResolutionFailed                 = "AMIsResolutionFailed"
	PlacementGroupResolutionFailed       = "PlacementGroupResolutionFailed"
	CapacityReservationsResolutionFailed = "CapacityReservationsResolutionFailed"
)

var errVersionUnknown = errors.New("the Kubernetes version is not known yet, on which images depend")

func (d *decision) images() {
	const name = awsv1.ConditionAMIsReady
	if why := discover.UnsupportedAlias(d.class, d.facts.Kubernetes); why != "" {
		d.step.Status.AMIs = nil
		d.setFalse(name, UnsupportedAlias, why)
		return
	}
	result := d.facts.Images
	switch {
	case d.facts.Kubernetes == "":
		d.recordError(name, AMIsResolutionFailed, errVersionUnknown)
		d.requeueAfter(notFoundAgain)
	case result.Err != nil:
		d.recordError(name, AMIsResolutionFailed, result.Err)
		d.requeueAfter(notFoundAgain)
	case len(result.Value) == 0:
		d.step.Status.AMIs = nil
		d.setFalse(name, AMINotFound, noImage(d.class, d.facts.Kubernetes))
		d.requeueAfter(notFoundAgain)
	default:
		d.step.Status.AMIs = result.Value
		d.setTrue(name)
		d.requeueAfter(imagesAgain)
	}
}

func (d *decision) reservations() {
	const name = awsv1.ConditionCapacityReservationsReady
	if !d.facts.Settings.ReservedCapacity {
		return
	}
	d.requeueAfter(reservationsAgain)
	if err := d.facts.Reservations.Err; err != nil {
		d.recordError(name, CapacityReservationsResolutionFailed, err)
		return
	}
	d.step.Status.CapacityReservations = nil
	for _, r := range d.facts.Reservations.Value {
		d.step.Status.CapacityReservations = append(d.step.Status.CapacityReservations, r.CapacityReservation)
		if r.EndTime != nil {
			d.requeueAfter(max(r.EndTime.Sub(d.facts.Now.Time), time.Second))
		}
	}
	d.setTrue(name)
}

func (d *decision) placementGroup() {
	const name = awsv1.ConditionPlacementGroupReady
	result := d.facts.PlacementGroup
	switch {
	case d.class.Spec.PlacementGroupSelector == nil:
		d.setTrue(name)
	case result.Err != nil:
		d.step.Err = errors.Join(d.step.Err, result.Err)
		d.setFalse(name, PlacementGroupResolutionFailed, stableError(result.Err))
	case result.Value == nil:
		d.setFalse(name, PlacementGroupNotFound, "no placement group in state available is "+placementText(d.class.Spec.PlacementGroupSelector)+"; create it, or correct spec.placementGroupSelector")
		d.requeueAfter(notFoundAgain)
	default:
		d.setTrue(name)
	}
}

func (d *decision) subnets() {
	const name = awsv1.ConditionSubnetsReady
	d.requeueAfter(subnetsAgain)
	result := d.facts.Subnets
	switch {
	case result.Err != nil:
		d.recordError(name, SubnetsResolutionFailed, result.Err)
		return
	case len(result.Value) == 0:
		d.step.Status.Subnets = nil
		d.setFalse(name, SubnetsNotFound, noSubnet(d.class))
		return
	}
	d.step.Status.Subnets = make([]awsv1.Subnet, 0, len(result.Value))
	for _, s := range result.Value {
		d.step.Status.Subnets = append(d.step.Status.Subnets, awsv1.Subnet{ID: s.ID, Zone: s.Zone, ZoneID: s.ZoneID})
	}
	d.setTrue(name)
}

func (d *decision) securityGroups() {
	const name = awsv1.ConditionSecurityGroupsReady
	result := d.facts.SecurityGroups
	switch {
	case result.Err != nil:
		d.recordError(name, SecurityGroupsResolutionFailed, result.Err)
		d.requeueAfter(notFoundAgain)
	case len(result.Value) == 0:
		d.step.Status.SecurityGroups = nil
		d.setFalse(name, SecurityGroupsNotFound, noSecurityGroup(d.class))
		d.requeueAfter(notFoundAgain)
	default:
		d.step.Status.SecurityGroups = result.Value
		d.setTrue(name)
		d.requeueAfter(groupsAgain)
	}
}

// instanceProfile shows errors that only a person can fix; others are retried and shown only where
// there is no result yet. Here Dovetail shows more than Karpenter, which only logs.
func (d *decision) instanceProfile() {
	const name = awsv1.ConditionInstanceProfileReady
	result := d.facts.Profile
	if result.Err == nil {
		d.step.Status.InstanceProfile = result.Value
		d.setTrue(name)
		return
	}
	reason, message := profile.InstanceProfileResolutionFailed, stableError(result.Err)
	var kind cloud.Kind
	if e, ok := errors.AsType[*cloud.Error](result.Err); ok {
		kind = e.Kind
		if e.Reason != "" {
			reason = e.Reason
		}
		if e.Message != "" {
			message = e.Message
		}
	}
	final := kind == cloud.Invalid || kind == cloud.Denied && d.conditionStatus(name) != metav1.ConditionTrue
	if !final {
		d.recordError(name, reason, result.Err)
		return
	}
	d.step.Err = errors.Join(d.step.Err, result.Err)
	d.setFalse(name, reason, message)
}
