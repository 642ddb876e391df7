package launch

import (
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	ec2types "github.com/aws/aws-sdk-go-v2/service/ec2/types"

	karpv1 "github.com/dovetail-sh/dovetail/api/v1"
)

// fleetRequest is the request for one instance; its token is set when it is sent (AWS provider 5.4).
func fleetRequest(o order, list []recipe) *ec2.CreateFleetInput {
	tags := Tags(o.site.cluster, o.request.Class, o.request.Claim.Labels[karpv1.LabelNodePool])
	input := &ec2.CreateFleetInput{
		Type: ec2types.FleetTypeInstant,
		TargetCapacitySpecification: &ec2types.TargetCapacitySpecificationRequest{
			DefaultTargetCapacityType: o.target(), TotalTargetCapacity: new(int32(1)),
		},
		TagSpecifications: tagged(tags, ec2types.ResourceTypeInstance, ec2types.ResourceTypeVolume, ec2types.ResourceTypeFleet),
	}
	if !o.want.relaxed {
		input.Context = o.request.Class.Spec.Context
	}
	for _, r := range list {
		input.LaunchTemplateConfigs = append(input.LaunchTemplateConfigs, r.config())
	}
	switch o.target() {
	case ec2types.DefaultTargetCapacityTypeSpot:
		input.SpotOptions = &ec2types.SpotOptionsRequest{AllocationStrategy: ec2types.SpotAllocationStrategyPriceCapacityOptimized}
		if o.want.overlaid {
			input.SpotOptions.AllocationStrategy = ec2types.SpotAllocationStrategyCapacityOptimizedPrioritized
		}
	case ec2types.DefaultTargetCapacityTypeOnDemand:
		input.OnDemandOptions = &ec2types.OnDemandOptionsRequest{AllocationStrategy: ec2types.FleetOnDemandAllocationStrategyLowestPrice}
		if o.want.overlaid {
			input.OnDemandOptions.AllocationStrategy = ec2types.FleetOnDemandAllocationStrategyPrioritized
		}
	case ec2types.DefaultTargetCapacityTypeReservedCapacity:
		input.ReservedCapacityOptions = &ec2types.ReservedCapacityOptionsRequest{
			ReservationTypes: []ec2types.FleetReservationType{ec2types.FleetReservationTypeInterruptibleCapacityReservation},
		}
	case ec2types.DefaultTargetCapacityTypeCapacityBlock: // takes no options
	}
	return input
}

func (r recipe) config() ec2types.FleetLaunchTemplateConfigRequest {
	config := ec2types.FleetLaunchTemplateConfigRequest{
		LaunchTemplateSpecification: &ec2types.FleetLaunchTemplateSpecificationRequest{LaunchTemplateName: new(r.name()), Version: new(latestVersion)},
	}
	for _, p := range r.picks {
		config.Overrides = append(config.Overrides, ec2types.FleetLaunchTemplateOverridesRequest{
			InstanceType: ec2types.InstanceType(p.it.Name), SubnetId: new(p.subnet), ImageId: new(r.image), AvailabilityZone: new(p.zone), Priority: new(p.price),
		})
	}
	return config
}

// target is the market of the fleet. Ordinary reservations are launched on demand.
func (o order) target() ec2types.DefaultTargetCapacityType {
	switch {
	case o.choice.capacityType == karpv1.CapacityTypeSpot:
		return ec2types.DefaultTargetCapacityTypeSpot
	case o.choice.capacityType == karpv1.CapacityTypeReserved && o.choice.kind == block:
		return ec2types.DefaultTargetCapacityTypeCapacityBlock
	case o.choice.capacityType == karpv1.CapacityTypeReserved && o.choice.kind == interruptible:
		return ec2types.DefaultTargetCapacityTypeReservedCapacity
	default:
		return ec2types.DefaultTargetCapacityTypeOnDemand
	}
}
