package awsemu

import (
	"cmp"
	"strconv"
	"strings"
	"time"

	"github.com/dovetail-sh/dovetail/sandbox/awsemu/wire"
)

// States of an instance.
const (
	statePending      = "pending"
	stateRunning      = "running"
	stateShuttingDown = "shutting-down"
	stateTerminated   = "terminated"
	stateStopping     = "stopping"
	stateStopped      = "stopped"
)

// stateCode is the number of a state.
func stateCode(state string) int {
	switch state {
	case stateRunning:
		return 16
	case stateShuttingDown:
		return 32
	case stateTerminated:
		return 48
	case stateStopping:
		return 64
	case stateStopped:
		return 80
	default:
		return 0
	}
}

// Instance is an instance with its whole life.
type Instance struct {
	ID            string             `json:"id"`
	Type          string             `json:"type"`
	VCPU          int                `json:"vcpu"`
	ImageID       string             `json:"imageID"`
	Architecture  string             `json:"architecture"`
	Platform      string             `json:"platform,omitempty"`
	Subnet        string             `json:"subnet"`
	VPC           string             `json:"vpc"`
	Zone          string             `json:"zone"`
	ZoneID        string             `json:"zoneID"`
	PrivateIP     string             `json:"privateIP"`
	PrivateDNS    string             `json:"privateDNS"`
	Addresses     int                `json:"addresses"` // taken from the subnet
	Profile       string             `json:"profile,omitempty"`
	CapacityType  string             `json:"capacityType"` // spot, on-demand or reserved
	Lifecycle     string             `json:"lifecycle,omitempty"`
	SpotRequest   string             `json:"spotRequest,omitempty"`
	SpotMarked    bool               `json:"spotMarked,omitempty"` // for interruption
	SpotTags      map[string]string  `json:"spotTags,omitempty"`   // of the request
	Metadata      map[string]string  `json:"metadata,omitempty"`   // options of the launch, as they were sent
	Tenancy       string             `json:"tenancy"`
	Placement     string             `json:"placementGroup,omitempty"`
	Partition     int                `json:"partition,omitempty"`
	Reservation   string             `json:"capacityReservation,omitempty"`
	Preference    string             `json:"reservationPreference,omitempty"`
	Target        string             `json:"reservationTarget,omitempty"` // that the launch requested
	Groups        []string           `json:"groups,omitempty"`
	Interfaces    []NetworkInterface `json:"interfaces,omitempty"`
	RootDevice    string             `json:"rootDevice,omitempty"`
	Volumes       []string           `json:"volumes,omitempty"`  // ids
	Template      string             `json:"template,omitempty"` // name
	Fleet         string             `json:"fleet,omitempty"`
	ReservationID string             `json:"reservationID"` // of the launch, not of capacity
	UserData      string             `json:"userData,omitempty"`
	Protected     bool               `json:"protected,omitempty"` // from termination
	Tags          map[string]string  `json:"tags,omitempty"`
	TagChanges    []TagChange        `json:"tagChanges,omitempty"` // not visible yet, by time

	State         string    `json:"state"`
	ReasonCode    string    `json:"reasonCode,omitempty"`
	ReasonMessage string    `json:"reasonMessage,omitempty"`
	Transition    string    `json:"transition,omitempty"` // why it came to this state
	Launched      time.Time `json:"launched"`
	Visible       time.Time `json:"visible"` // in describes
	Running       time.Time `json:"running,omitzero"`
	Rebooted      time.Time `json:"rebooted,omitzero"` // for the last time
	Terminated    time.Time `json:"terminated,omitzero"`
	Due           time.Time `json:"due,omitzero"`       // of the next state
	Interrupt     time.Time `json:"interrupt,omitzero"` // when a notice ends
	Warning       time.Time `json:"warning,omitzero"`   // when a notice comes
}

// TagChange is a tag that will be seen later.
type TagChange struct {
	At     time.Time `json:"at"`
	Key    string    `json:"key"`
	Value  string    `json:"value"`
	Delete bool      `json:"delete,omitempty"`
}

// holdsResources reports whether the instance still holds what it took.
func (i *Instance) holdsResources() bool { return i.State != stateTerminated }

type stateItem struct {
	Code int    `xml:"code"`
	Name string `xml:"name"`
}

func stateItemOf(state string) stateItem { return stateItem{Code: stateCode(state), Name: state} }

type launchItem struct {
	ID        string         `xml:"reservationId"`
	Owner     string         `xml:"ownerId"`
	Instances []instanceItem `xml:"instancesSet>item"`
}

type instanceItem struct {
	ID           string          `xml:"instanceId"`
	ImageID      string          `xml:"imageId"`
	State        stateItem       `xml:"instanceState"`
	PrivateDNS   string          `xml:"privateDnsName,omitempty"`
	PrivateIP    string          `xml:"privateIpAddress,omitempty"`
	Type         string          `xml:"instanceType"`
	Launched     string          `xml:"launchTime"`
	Placement    placementOf     `xml:"placement"`
	Subnet       string          `xml:"subnetId,omitempty"`
	VPC          string          `xml:"vpcId,omitempty"`
	Architecture string          `xml:"architecture"`
	Platform     string          `xml:"platform,omitempty"`
	Groups       []groupRef      `xml:"groupSet>item"`
	Interfaces   []interfaceItem `xml:"networkInterfaceSet>item"`
	RootDevice   string          `xml:"rootDeviceName,omitempty"`
	RootType     string          `xml:"rootDeviceType"`
	Devices      []deviceItem    `xml:"blockDeviceMapping>item"`
	Profile      *profileRef     `xml:"iamInstanceProfile"`
	SpotRequest  string          `xml:"spotInstanceRequestId,omitempty"`
	Lifecycle    string          `xml:"instanceLifecycle,omitempty"`
	Reservation  string          `xml:"capacityReservationId,omitempty"`
	Preference   *preferenceItem `xml:"capacityReservationSpecification"`
	Reason       *reasonItem     `xml:"stateReason"`
	Transition   string          `xml:"reason"`
	Metadata     dataMetadata    `xml:"metadataOptions"`
	Tags         []tagItem       `xml:"tagSet>item"`
}

type placementOf struct {
	Zone      string `xml:"availabilityZone"`
	ZoneID    string `xml:"availabilityZoneId"`
	Tenancy   string `xml:"tenancy"`
	Group     string `xml:"groupId,omitempty"`
	GroupName string `xml:"groupName,omitempty"`
	Partition string `xml:"partitionNumber,omitempty"`
}

type groupRef struct {
	ID   string `xml:"groupId"`
	Name string `xml:"groupName"`
}

type deviceItem struct {
	Name string     `xml:"deviceName"`
	EBS  deviceDisk `xml:"ebs"`
}

type deviceDisk struct {
	Volume string `xml:"volumeId"`
	Status string `xml:"status"`
	Time   string `xml:"attachTime"`
	Delete bool   `xml:"deleteOnTermination"`
}

type profileRef struct {
	ARN string `xml:"arn"`
	ID  string `xml:"id"`
}

type preferenceItem struct {
	Preference string         `xml:"capacityReservationPreference,omitempty"`
	Target     *reservationID `xml:"capacityReservationTarget"`
}

type reservationID struct {
	ID string `xml:"capacityReservationId"`
}

type reasonItem struct {
	Code    string `xml:"code"`
	Message string `xml:"message"`
}

// metadataItem is the options of the metadata service: what the launch said, else what images of AWS request.
func (i *Instance) metadataItem() dataMetadata {
	option := func(name, otherwise string) string { return cmp.Or(i.Metadata[name], otherwise) }
	return dataMetadata{
		Endpoint: option("HttpEndpoint", "enabled"), IPv6: option("HttpProtocolIpv6", "disabled"), Hops: option("HttpPutResponseHopLimit", "2"),
		Tokens: option("HttpTokens", "required"), Tags: option("InstanceMetadataTags", "disabled"), State: "applied",
	}
}

// instanceItem renders an instance.
func (e *Emulator) instanceItem(i *Instance) instanceItem {
	item := instanceItem{
		ID: i.ID, ImageID: i.ImageID, State: stateItemOf(i.State), Type: i.Type, Launched: wire.Time(i.Launched),
		Placement: placementOf{Zone: i.Zone, ZoneID: i.ZoneID, Tenancy: i.Tenancy, Group: i.Placement}, Architecture: i.Architecture,
		Platform: i.Platform, SpotRequest: i.SpotRequest, Lifecycle: i.Lifecycle, Tags: tagItems(i.Tags), RootDevice: i.RootDevice, RootType: "ebs",
		Transition: i.Transition, Metadata: i.metadataItem(),
	}
	if g := e.ec2().Placements[i.Placement]; g != nil {
		item.Placement.GroupName = g.Name
	}
	if i.Partition > 0 {
		item.Placement.Partition = strconv.Itoa(i.Partition)
	}
	if i.ReasonCode != "" {
		item.Reason = &reasonItem{Code: i.ReasonCode, Message: i.ReasonMessage}
	}
	item.Reservation = i.Reservation
	switch {
	case i.Target != "":
		item.Preference = &preferenceItem{Preference: i.Preference, Target: &reservationID{ID: i.Target}}
	case i.Preference != "" || i.Reservation != "":
		item.Preference = &preferenceItem{Preference: cmp.Or(i.Preference, "open")}
	}
	if i.Profile != "" {
		profile, found := e.iamState().Profiles[i.Profile]
		if !found { // deleted under the instance, which keeps its name
			profile = InstanceProfile{Path: "/", ID: "AIPA" + strings.ToUpper(stableID("", i.Profile)[:16])}
		}
		item.Profile = &profileRef{ARN: e.accountARN("iam", "instance-profile"+profile.Path+i.Profile), ID: profile.ID}
	}
	if !i.holdsResources() { // what it had is gone
		return item
	}
	item.PrivateDNS, item.PrivateIP, item.Subnet, item.VPC = i.PrivateDNS, i.PrivateIP, i.Subnet, i.VPC
	item.Groups = e.groupRefs(i.Groups)
	for _, n := range i.Interfaces {
		item.Interfaces = append(item.Interfaces, e.interfaceItem(i, n))
	}
	for _, v := range e.attachedTo(i) {
		item.Devices = append(item.Devices, deviceItem{
			Name: v.Device, EBS: deviceDisk{Volume: v.ID, Status: "attached", Time: wire.Time(v.Attached), Delete: v.Delete},
		})
	}
	return item
}
