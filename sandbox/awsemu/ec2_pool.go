package awsemu

import (
	"slices"
	"strconv"
	"strings"

	"github.com/dovetail-sh/dovetail/sandbox/awsemu/catalogue"
	"github.com/dovetail-sh/dovetail/sandbox/awsemu/wire"
)

// Markets that a launch can request.
const (
	marketCapacityBlock = "capacity-block"
	marketReserved      = "reserved-capacity"
	marketInterruptible = "interruptible-capacity-reservation"
)

// launchPool is one way to serve a launch: an instance type in a subnet, with a template.
type launchPool struct {
	template *LaunchTemplate
	version  string
	data     wire.Form // of the template, with what the call changes
	market   string    // spot, on-demand, capacity-block or reserved-capacity

	instanceType, subnetID, imageID, zone, priority string // as requested, completed by resolve

	info      catalogue.Type
	subnet    *Subnet
	image     *Image
	groups    []string
	placement *PlacementGroup

	// Found by room, for the next instance.
	reservation *CapacityReservation
	address     string
}

// capacityType is what the pool is called in ICE pools and prices.
func (p *launchPool) capacityType() string {
	switch {
	case p.market == capacitySpot:
		return capacitySpot
	case p.reservation != nil || p.market != capacityOnDemand:
		return capacityReserved
	default:
		return capacityOnDemand
	}
}

// instanceLifecycle is what instances of the pool are marked with.
func (p *launchPool) instanceLifecycle() string {
	switch p.market {
	case capacitySpot, marketCapacityBlock:
		return p.market
	case marketReserved:
		return marketInterruptible
	default:
		return ""
	}
}

// profileName is the name of the instance profile, which may also be given as an ARN.
func (p *launchPool) profileName() string {
	if name := p.data.String("IamInstanceProfile.Name"); name != "" {
		return name
	}
	arn := p.data.String("IamInstanceProfile.Arn")
	return arn[strings.LastIndex(arn, "/")+1:]
}

func invalidValue(format string, args ...any) error {
	return wire.Errorf("InvalidParameterValue", format, args...)
}

// resolve looks up what the pool names and says what is wrong with it. It fills zone, subnet and image
// as far as they are known, also when it fails.
func (e *Emulator) resolve(c *call, p *launchPool) error {
	subnetErr := e.resolveSubnet(p)
	if p.imageID == "" {
		p.imageID = p.data.String("ImageId")
	}
	info, known := e.Catalogue().Type(p.instanceType)
	p.info = info
	if !known {
		return invalidValue("Invalid value '%s' for InstanceType.", p.instanceType)
	}
	if subnetErr != nil {
		return subnetErr
	}
	for _, check := range []func(*launchPool) error{e.resolveImage, e.resolveGroups, checkBlockDevices, e.resolvePlacement} {
		if err := check(p); err != nil {
			return err
		}
	}
	if err := checkUserData(p.data.String("UserData")); err != nil {
		return err
	}
	if profile := p.profileName(); profile != "" && !e.profileUsable(profile, c.now) {
		return invalidValue("Value (%s) for parameter iamInstanceProfile.name is invalid. Invalid IAM Instance Profile name", profile)
	}
	return nil
}

// checkOffered says why the account cannot have instances of a resolved pool at all.
func (e *Emulator) checkOffered(p *launchPool) error {
	if p.market == capacitySpot && !e.spotRolePresent() {
		return wire.Errorf("AuthFailure.ServiceLinkedRoleCreationNotPermitted", "The provided credentials do not have permission to create the service-linked role for EC2 Spot Instances.")
	}
	if index := e.zoneIndex(p.zone); index < 0 || !e.Catalogue().Offered(p.instanceType, index) {
		return wire.Errorf("Unsupported", "Your requested instance type (%s) is not supported in your requested Availability Zone (%s).", p.instanceType, p.zone)
	}
	if p.market == capacitySpot && !p.info.Spot {
		return wire.Errorf("Unsupported", "The instance type %s is not supported as a Spot Instance.", p.instanceType)
	}
	return nil
}

// resolveSubnet finds the subnet: as requested, of the template, or the first of the zone.
func (e *Emulator) resolveSubnet(p *launchPool) error {
	if p.subnetID == "" {
		p.subnetID = p.data.String("SubnetId")
	}
	for _, n := range p.data.List("NetworkInterface") {
		if p.subnetID == "" {
			p.subnetID = n.String("SubnetId")
		}
	}
	if p.subnetID == "" {
		for id, s := range e.ec2().Subnets {
			if (p.zone == "" || s.Zone == p.zone) && (p.subnetID == "" || id < p.subnetID) {
				p.subnetID = id
			}
		}
	}
	p.subnet = e.ec2().Subnets[p.subnetID]
	if p.subnet == nil {
		return subnetNotFound(p.subnetID)
	}
	if p.zone != "" && p.zone != p.subnet.Zone {
		return invalidValue("The subnet '%s' is in Availability Zone %s, not in %s", p.subnetID, p.subnet.Zone, p.zone)
	}
	p.zone = p.subnet.Zone
	return nil
}

func (e *Emulator) resolveImage(p *launchPool) error {
	if p.imageID == "" {
		return wire.Errorf("MissingParameter", "The request must contain the parameter ImageId")
	}
	p.image = e.ec2().Images[p.imageID]
	if p.image == nil {
		return imageNotFound(p.imageID)
	}
	if p.image.State != "available" {
		return wire.Errorf("InvalidAMIID.Unavailable", "The image ID '%s' is %s", p.imageID, p.image.State)
	}
	if !slices.Contains(p.info.Arch, p.image.Architecture) {
		return invalidValue("The architecture '%s' of the specified AMI does not match the architecture '%v' of the specified instance type %s.", p.image.Architecture, p.info.Arch, p.instanceType)
	}
	return nil
}

func (e *Emulator) resolveGroups(p *launchPool) error {
	p.groups = p.data.Strings("SecurityGroupId")
	for _, n := range p.data.List("NetworkInterface") {
		for _, id := range n.Strings("SecurityGroupId") {
			if !slices.Contains(p.groups, id) {
				p.groups = append(p.groups, id)
			}
		}
	}
	for _, id := range p.groups {
		group := e.ec2().Groups[id]
		if group == nil {
			return groupNotFound(id)
		}
		if group.VPC != p.subnet.VPC {
			return wire.Errorf("InvalidParameter", "Security group %s and subnet %s belong to different networks.", id, p.subnetID)
		}
	}
	return nil
}

func checkBlockDevices(p *launchPool) error {
	invalid := func(format string, args ...any) error {
		return wire.Errorf("InvalidBlockDeviceMapping", format, args...)
	}
	for _, device := range p.data.List("BlockDeviceMapping") {
		name := device.String("DeviceName")
		if name == "" {
			return invalid("A block device mapping has no device name")
		}
		ebs := device.Sub("Ebs")
		size, err := strconv.Atoi(ebs.String("VolumeSize"))
		switch kind := ebs.String("VolumeType"); {
		case ebs.String("VolumeSize") != "" && (err != nil || size < 1 || size > 65536):
			return invalid("Volume of %sGiB is not possible for device %s", ebs.String("VolumeSize"), name)
		case device.Has("Ebs") && !ebs.Has("VolumeSize") && ebs.String("SnapshotId") == "" && name != p.image.RootDevice:
			return invalid("The device %s needs a volume size or a snapshot", name)
		case kind != "" && !slices.Contains(volumeTypes(), kind):
			return invalid("The volume type %s of device %s is not known", kind, name)
		}
	}
	return nil
}

func (e *Emulator) resolvePlacement(p *launchPool) error {
	id, name := p.data.String("Placement.GroupId"), p.data.String("Placement.GroupName")
	if id == "" && name == "" {
		return nil
	}
	for _, group := range e.ec2().Placements {
		if id != "" && group.ID == id || id == "" && group.Name == name {
			p.placement = group
		}
	}
	if p.placement == nil {
		return wire.Errorf("InvalidPlacementGroup.Unknown", "The Placement Group '%s%s' is unknown.", id, name)
	}
	if n := p.data.Int("Placement.PartitionNumber", 0); n < 0 || n > p.placement.Partitions {
		return invalidValue("Partition %d does not exist in placement group %s", n, p.placement.Name)
	}
	return nil
}
