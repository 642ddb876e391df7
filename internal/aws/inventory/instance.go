package inventory

import (
	"strconv"
	"strings"
	"time"

	ec2types "github.com/aws/aws-sdk-go-v2/service/ec2/types"

	awsv1 "github.com/dovetail-sh/dovetail/api/aws/v1"
	karpv1 "github.com/dovetail-sh/dovetail/api/v1"
	"github.com/dovetail-sh/dovetail/internal/cloud"
)

// States of an instance, as EC2 names them.
const (
	StatePending      = string(ec2types.InstanceStateNamePending)
	StateRunning      = string(ec2types.InstanceStateNameRunning)
	StateStopping     = string(ec2types.InstanceStateNameStopping)
	StateStopped      = string(ec2types.InstanceStateNameStopped)
	StateShuttingDown = string(ec2types.InstanceStateNameShuttingDown)
	StateTerminated   = string(ec2types.InstanceStateNameTerminated)
)

// Tags by which an instance of a cluster is known.
const (
	TagCluster   = "eks:eks-cluster-name"
	TagNodeClaim = karpv1.Group + "/nodeclaim"
	TagNodePool  = karpv1.LabelNodePool
	TagNodeClass = awsv1.LabelNodeClass
	TagName      = "Name"
)

// Instance is one EC2 instance. Slices and maps are shared: they must not be changed.
type Instance struct {
	ID             string
	Type           string
	Zone           string
	ZoneID         string
	Subnet         string
	Image          string
	CapacityType   string
	State          string
	Profile        string   // name of its instance profile
	Groups         []string // ids of its security groups
	Tags           map[string]string
	Reservation    string // id of the capacity reservation it runs in, whatever its capacity type
	PlacementGroup string // id
	Partition      string // number, from 1; empty if there is none, or if it is not known yet
	Tenancy        string
	Launched       time.Time
}

// Terminating reports whether the instance is ending or has ended.
func (i *Instance) Terminating() bool {
	return i.State == StateShuttingDown || i.State == StateTerminated
}

// ProviderID is the id by which a Node knows its instance.
func (i *Instance) ProviderID() cloud.ID { return ProviderID(i.Zone, i.ID) }

// Owned reports whether the tags say that the instance is a node of this cluster that we launched.
func (i *Instance) Owned(cluster string) bool {
	_, pool := i.Tags[TagNodePool]
	_, class := i.Tags[TagNodeClass]
	return pool && class && i.Tags[TagCluster] == cluster
}

// ProviderID is the id by which a Node knows its instance.
func ProviderID(zone, id string) cloud.ID { return cloud.ID("aws:///" + zone + "/" + id) }

// InstanceID reads the id of an instance out of a provider id; any provider may stand in front of it.
// It is empty for what is not one.
func InstanceID(provider string) string {
	_, path, found := strings.Cut(provider, ":///")
	if !found {
		return ""
	}
	_, id, found := strings.Cut(path, "/")
	if !found || !strings.HasPrefix(id, "i-") || strings.Contains(id, "/") {
		return ""
	}
	return id
}

// read turns a response of EC2 into an Instance. With reserved, an instance that may only run in its reservation is
// of that capacity type.
func read(in ec2types.Instance, reserved bool) Instance {
	out := Instance{
		ID:           text(in.InstanceId),
		Type:         string(in.InstanceType),
		Subnet:       text(in.SubnetId),
		Image:        text(in.ImageId),
		CapacityType: capacityType(in, reserved),
		Reservation:  text(in.CapacityReservationId),
		Tags:         make(map[string]string, len(in.Tags)),
	}
	for _, tag := range in.Tags {
		out.Tags[text(tag.Key)] = text(tag.Value)
	}
	for _, group := range in.SecurityGroups {
		out.Groups = append(out.Groups, text(group.GroupId))
	}
	if in.State != nil {
		out.State = string(in.State.Name)
	}
	if in.LaunchTime != nil {
		out.Launched = *in.LaunchTime
	}
	if in.IamInstanceProfile != nil {
		arn := text(in.IamInstanceProfile.Arn)
		out.Profile = arn[strings.LastIndex(arn, "/")+1:]
	}
	if p := in.Placement; p != nil {
		out.Zone, out.ZoneID = text(p.AvailabilityZone), text(p.AvailabilityZoneId)
		out.PlacementGroup, out.Tenancy = text(p.GroupId), string(p.Tenancy)
		if p.PartitionNumber != nil && *p.PartitionNumber > 0 {
			out.Partition = strconv.Itoa(int(*p.PartitionNumber))
		}
	}
	return out
}

func capacityType(in ec2types.Instance, reserved bool) string {
	preference := ec2types.CapacityReservationPreference("")
	if in.CapacityReservationSpecification != nil {
		preference = in.CapacityReservationSpecification.CapacityReservationPreference
	}
	switch {
	case text(in.SpotInstanceRequestId) != "":
		return karpv1.CapacityTypeSpot
	case reserved && text(in.CapacityReservationId) != "" && preference == ec2types.CapacityReservationPreferenceCapacityReservationsOnly:
		return karpv1.CapacityTypeReserved
	default:
		return karpv1.CapacityTypeOnDemand
	}
}

func text(s *string) string {
	if s == nil {
		return ""
	}
	return *s
}
