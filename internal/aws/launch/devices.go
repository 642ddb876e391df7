package launch

import (
	"strings"

	ec2types "github.com/aws/aws-sdk-go-v2/service/ec2/types"

	awsv1 "github.com/dovetail-sh/dovetail/api/aws/v1"
	"github.com/dovetail-sh/dovetail/internal/aws/ami"
)

const gibi = 1 << 30

// devices are the disks of a launch template: those of the class, or those of its family.
func devices(class *awsv1.EC2NodeClass) []ec2types.LaunchTemplateBlockDeviceMappingRequest {
	var list []ec2types.LaunchTemplateBlockDeviceMappingRequest
	mappings := class.Spec.BlockDeviceMappings
	if len(mappings) == 0 {
		mappings = awsv1.FamilyDevices(ami.Of(class.Family()))
	}
	for _, m := range mappings {
		list = append(list, ec2types.LaunchTemplateBlockDeviceMappingRequest{DeviceName: m.DeviceName, Ebs: volume(m.EBS)})
	}
	return list
}

// volume leaves out what is not set: then the image and EC2 decide.
func volume(b *awsv1.BlockDevice) *ec2types.LaunchTemplateEbsBlockDeviceRequest {
	if b == nil {
		return nil
	}
	out := &ec2types.LaunchTemplateEbsBlockDeviceRequest{
		DeleteOnTermination: b.DeleteOnTermination, Encrypted: b.Encrypted, KmsKeyId: b.KMSKeyID, SnapshotId: b.SnapshotID,
		VolumeInitializationRate: b.VolumeInitializationRate, VolumeType: ec2types.VolumeType(value(b.VolumeType)),
	}
	if n := value(b.IOPS); n != 0 {
		out.Iops = new(int32(n))
	}
	if n := value(b.Throughput); n != 0 {
		out.Throughput = new(int32(n))
	}
	if b.VolumeSize != nil {
		out.VolumeSize = new(int32((b.VolumeSize.Value() + gibi - 1) / gibi))
	}
	return out
}

// metadata is the instance metadata service. Tags are never shown there: keys such as ours are not
// legal in it, and instances would not start.
func metadata(class *awsv1.EC2NodeClass, region string) *ec2types.LaunchTemplateInstanceMetadataOptionsRequest {
	out := &ec2types.LaunchTemplateInstanceMetadataOptionsRequest{InstanceMetadataTags: ec2types.LaunchTemplateInstanceMetadataTagsStateDisabled}
	m := class.Spec.MetadataOptions
	if m == nil {
		return out
	}
	out.HttpEndpoint = ec2types.LaunchTemplateInstanceMetadataEndpointState(value(m.HTTPEndpoint))
	out.HttpTokens = ec2types.LaunchTemplateHttpTokensState(value(m.HTTPTokens))
	if m.HTTPPutResponseHopLimit != nil {
		out.HttpPutResponseHopLimit = new(int32(*m.HTTPPutResponseHopLimit))
	}
	if !lacksIPv6Metadata(region) {
		out.HttpProtocolIpv6 = ec2types.LaunchTemplateInstanceMetadataProtocolIpv6(value(m.HTTPProtocolIPv6))
	}
	return out
}

// lacksIPv6Metadata reports whether a region does not know the IPv6 setting of the metadata service.
func lacksIPv6Metadata(region string) bool {
	partition, _, _ := strings.Cut(strings.TrimPrefix(region, "us-"), "-")
	return strings.HasPrefix(region, "us-") && (partition == "iso" || partition == "isob" || partition == "isof")
}
