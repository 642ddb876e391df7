package awsemu

import (
	"slices"
	"strconv"

	"github.com/dovetail-sh/dovetail/sandbox/awsemu/wire"
)

type versionItem struct {
	ID      string       `xml:"launchTemplateId"`
	Name    string       `xml:"launchTemplateName"`
	Version int          `xml:"versionNumber"`
	Default bool         `xml:"defaultVersion"`
	Created string       `xml:"createTime"`
	By      string       `xml:"createdBy"`
	Data    templateData `xml:"launchTemplateData"`
}

type versionsResponse struct {
	Items []versionItem `xml:"launchTemplateVersionSet>item"`
	Next  string        `xml:"nextToken,omitempty"`
}

// templateData is the content of a template as describes show it: other names than it was sent with.
type templateData struct {
	ImageID      string           `xml:"imageId,omitempty"`
	InstanceType string           `xml:"instanceType,omitempty"`
	UserData     string           `xml:"userData,omitempty"`
	KeyName      string           `xml:"keyName,omitempty"`
	EBSOptimized string           `xml:"ebsOptimized,omitempty"`
	Protected    string           `xml:"disableApiTermination,omitempty"`
	Profile      *dataProfile     `xml:"iamInstanceProfile"`
	Monitoring   *dataEnabled     `xml:"monitoring"`
	Enclave      *dataEnabled     `xml:"enclaveOptions"`
	CPU          *dataCPU         `xml:"cpuOptions"`
	Metadata     *dataMetadata    `xml:"metadataOptions"`
	Placement    *dataPlacement   `xml:"placement"`
	Reservation  *dataReservation `xml:"capacityReservationSpecification"`
	Market       *dataMarket      `xml:"instanceMarketOptions"`
	Groups       []string         `xml:"securityGroupIdSet>item"`
	Devices      []dataDevice     `xml:"blockDeviceMappingSet>item"`
	Interfaces   []dataInterface  `xml:"networkInterfaceSet>item"`
	Tags         []dataTags       `xml:"tagSpecificationSet>item"`
}

type dataProfile struct {
	Name string `xml:"name,omitempty"`
	ARN  string `xml:"arn,omitempty"`
}

type dataEnabled struct {
	Enabled string `xml:"enabled"`
}

type dataCPU struct {
	Cores   string `xml:"coreCount,omitempty"`
	Threads string `xml:"threadsPerCore,omitempty"`
	SEV     string `xml:"amdSevSnp,omitempty"`
	Nested  string `xml:"nestedVirtualization,omitempty"`
}

type dataMetadata struct {
	Endpoint string `xml:"httpEndpoint,omitempty"`
	IPv6     string `xml:"httpProtocolIpv6,omitempty"`
	Hops     string `xml:"httpPutResponseHopLimit,omitempty"`
	Tokens   string `xml:"httpTokens,omitempty"`
	Tags     string `xml:"instanceMetadataTags,omitempty"`
	State    string `xml:"state"`
}

type dataPlacement struct {
	Zone      string `xml:"availabilityZone,omitempty"`
	GroupID   string `xml:"groupId,omitempty"`
	GroupName string `xml:"groupName,omitempty"`
	Partition string `xml:"partitionNumber,omitempty"`
	Tenancy   string `xml:"tenancy,omitempty"`
}

type dataReservation struct {
	Preference string         `xml:"capacityReservationPreference,omitempty"`
	Target     *reservationID `xml:"capacityReservationTarget"`
}

type dataMarket struct {
	Type string `xml:"marketType"`
}

type dataDevice struct {
	Name string   `xml:"deviceName"`
	EBS  *dataEBS `xml:"ebs"`
}

type dataEBS struct {
	Delete     string `xml:"deleteOnTermination,omitempty"`
	Encrypted  string `xml:"encrypted,omitempty"`
	IOPS       string `xml:"iops,omitempty"`
	Throughput string `xml:"throughput,omitempty"`
	Key        string `xml:"kmsKeyId,omitempty"`
	Snapshot   string `xml:"snapshotId,omitempty"`
	InitRate   string `xml:"volumeInitializationRate,omitempty"`
	Size       string `xml:"volumeSize,omitempty"`
	Type       string `xml:"volumeType,omitempty"`
}

type dataInterface struct {
	Device       string        `xml:"deviceIndex,omitempty"`
	Card         string        `xml:"networkCardIndex,omitempty"`
	Type         string        `xml:"interfaceType,omitempty"`
	PublicIP     string        `xml:"associatePublicIpAddress,omitempty"`
	Groups       []string      `xml:"groupSet>groupId"`
	Subnet       string        `xml:"subnetId,omitempty"`
	IPv4Prefixes string        `xml:"ipv4PrefixCount,omitempty"`
	IPv6Prefixes string        `xml:"ipv6PrefixCount,omitempty"`
	IPv6         string        `xml:"ipv6AddressCount,omitempty"`
	PrimaryIPv6  string        `xml:"primaryIpv6,omitempty"`
	MoreIPv4     string        `xml:"secondaryPrivateIpAddressCount,omitempty"`
	Tracking     *dataTracking `xml:"connectionTrackingSpecification"`
}

type dataTracking struct {
	TCP       string `xml:"tcpEstablishedTimeout,omitempty"`
	UDPStream string `xml:"udpStreamTimeout,omitempty"`
	UDP       string `xml:"udpTimeout,omitempty"`
}

type dataTags struct {
	Kind string    `xml:"resourceType"`
	Tags []tagItem `xml:"tagSet>item"`
}

// describeTemplateVersions shows the one version that a template has. Without a template it shows the
// latest or default versions of all, if these are requested.
func (e *Emulator) describeTemplateVersions(c *call) (any, error) {
	filters, err := untaggedFilters(c, "create-time", "image-id", "instance-type", "is-default-version")
	if err != nil {
		return nil, err
	}
	requested := c.Form.Strings("LaunchTemplateVersion")
	var list []*LaunchTemplate
	if c.Form.Has("LaunchTemplateId") || c.Form.Has("LaunchTemplateName") {
		t, err := e.templateOf(c, c.Form)
		if err != nil {
			return nil, err
		}
		list = []*LaunchTemplate{t}
	} else {
		if !slices.Contains(requested, "$Latest") && !slices.Contains(requested, "$Default") {
			return nil, wire.Errorf("MissingParameter", "Without a launch template, the versions must be $Latest or $Default")
		}
		for _, t := range e.ec2().Templates {
			if !c.now.Before(t.Visible) {
				list = append(list, t)
			}
		}
	}
	if n := slices.IndexFunc(requested, func(version string) bool { return !oneVersion(version) }); n >= 0 && len(list) > 0 {
		return nil, versionNotFound(requested[n], list[0])
	}
	if c.Form.Int("MinVersion", 1) > 1 || c.Form.Int("MaxVersion", 1) < 1 {
		list = nil
	}
	list = slices.DeleteFunc(list, func(t *LaunchTemplate) bool {
		return !filters.matchTags(nil, map[string]string{
			"create-time": wire.Time(t.Created), "image-id": t.Data["ImageId"], "instance-type": t.Data["InstanceType"], "is-default-version": "true",
		})
	})
	page, next, err := ec2Page(c, list, func(t *LaunchTemplate) string { return t.ID }, 200, 200)
	response := versionsResponse{Next: next}
	for _, t := range page {
		response.Items = append(response.Items, versionItem{
			ID: t.ID, Name: t.Name, Version: 1, Default: true, Created: wire.Time(t.Created), By: e.accountARN("iam", "root"), Data: templateDataOf(t.dataForm()),
		})
	}
	return response, err
}

// oneVersion reports whether a text names the only version that there is.
func oneVersion(version string) bool {
	return version == "" || version == "$Latest" || version == "$Default" || version == "1"
}

func versionNotFound(version string, t *LaunchTemplate) error {
	return wire.Errorf("InvalidLaunchTemplateId.VersionNotFound", "Could not find the specified version %s for the launch template with ID %s.", version, t.ID)
}

// ifSent returns a value that is shown only if a part of a form was sent.
func ifSent[T any](f wire.Form, name string, read func(wire.Form) T) *T {
	if !f.Has(name) {
		return nil
	}
	return new(read(f.Sub(name)))
}

func templateDataOf(f wire.Form) templateData {
	enabled := func(f wire.Form) dataEnabled {
		return dataEnabled{Enabled: strconv.FormatBool(f.Bool("Enabled"))}
	}
	data := templateData{
		ImageID: f.String("ImageId"), InstanceType: f.String("InstanceType"), UserData: f.String("UserData"), KeyName: f.String("KeyName"),
		EBSOptimized: f.String("EbsOptimized"), Protected: f.String("DisableApiTermination"), Groups: f.Strings("SecurityGroupId"),
		Monitoring: ifSent(f, "Monitoring", enabled), Enclave: ifSent(f, "EnclaveOptions", enabled),
		Profile: ifSent(f, "IamInstanceProfile", func(f wire.Form) dataProfile {
			return dataProfile{Name: f.String("Name"), ARN: f.String("Arn")}
		}),
		CPU: ifSent(f, "CpuOptions", func(f wire.Form) dataCPU {
			return dataCPU{Cores: f.String("CoreCount"), Threads: f.String("ThreadsPerCore"), SEV: f.String("AmdSevSnp"), Nested: f.String("NestedVirtualization")}
		}),
		Metadata: ifSent(f, "MetadataOptions", func(f wire.Form) dataMetadata {
			return dataMetadata{
				Endpoint: f.String("HttpEndpoint"), IPv6: f.String("HttpProtocolIpv6"), Hops: f.String("HttpPutResponseHopLimit"),
				Tokens: f.String("HttpTokens"), Tags: f.String("InstanceMetadataTags"), State: "applied",
			}
		}),
		Placement: ifSent(f, "Placement", func(f wire.Form) dataPlacement {
			return dataPlacement{
				Zone: f.String("AvailabilityZone"), GroupID: f.String("GroupId"), GroupName: f.String("GroupName"),
				Partition: f.String("PartitionNumber"), Tenancy: f.String("Tenancy"),
			}
		}),
		Reservation: ifSent(f, "CapacityReservationSpecification", func(f wire.Form) dataReservation {
			return dataReservation{
				Preference: f.String("CapacityReservationPreference"),
				Target: ifSent(f, "CapacityReservationTarget", func(f wire.Form) reservationID {
					return reservationID{ID: f.String("CapacityReservationId")}
				}),
			}
		}),
		Market: ifSent(f, "InstanceMarketOptions", func(f wire.Form) dataMarket { return dataMarket{Type: f.String("MarketType")} }),
	}
	addTemplateLists(&data, f)
	return data
}

func addTemplateLists(data *templateData, f wire.Form) {
	for _, d := range f.List("BlockDeviceMapping") {
		data.Devices = append(data.Devices, dataDevice{Name: d.String("DeviceName"), EBS: ifSent(d, "Ebs", func(f wire.Form) dataEBS {
			return dataEBS{
				Delete: f.String("DeleteOnTermination"), Encrypted: f.String("Encrypted"), IOPS: f.String("Iops"), Throughput: f.String("Throughput"),
				Key: f.String("KmsKeyId"), Snapshot: f.String("SnapshotId"), InitRate: f.String("VolumeInitializationRate"),
				Size: f.String("VolumeSize"), Type: f.String("VolumeType"),
			}
		})})
	}
	for _, n := range f.List("NetworkInterface") {
		data.Interfaces = append(data.Interfaces, dataInterface{
			Device: n.String("DeviceIndex"), Card: n.String("NetworkCardIndex"), Type: n.String("InterfaceType"), Groups: n.Strings("SecurityGroupId"),
			PublicIP: n.String("AssociatePublicIpAddress"), Subnet: n.String("SubnetId"), IPv4Prefixes: n.String("Ipv4PrefixCount"),
			IPv6Prefixes: n.String("Ipv6PrefixCount"), IPv6: n.String("Ipv6AddressCount"), PrimaryIPv6: n.String("PrimaryIpv6"),
			MoreIPv4: n.String("SecondaryPrivateIpAddressCount"),
			Tracking: ifSent(n, "ConnectionTrackingSpecification", func(f wire.Form) dataTracking {
				return dataTracking{TCP: f.String("TcpEstablishedTimeout"), UDPStream: f.String("UdpStreamTimeout"), UDP: f.String("UdpTimeout")}
			}),
		})
	}
	for _, spec := range f.List("TagSpecification") {
		item := dataTags{Kind: spec.String("ResourceType")}
		for _, tag := range spec.List("Tag") {
			item.Tags = append(item.Tags, tagItem{Key: tag.String("Key"), Value: tag.String("Value")})
		}
		data.Tags = append(data.Tags, item)
	}
}
