package awsemu

import (
	"encoding/base64"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	"github.com/aws/aws-sdk-go-v2/service/ec2/types"
	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
)

func TestDescribeTags(t *testing.T) {
	t.Parallel()
	env := newEC2Env(t)
	env.createTemplate("t", nil)
	id := env.launch(types.DefaultTargetCapacityTypeOnDemand, "m5.large/a")
	query := func(filters ...types.Filter) (list []string) {
		pages := ec2.NewDescribeTagsPaginator(env.ec2, &ec2.DescribeTagsInput{Filters: filters, MaxResults: aws.Int32(2)})
		for pages.HasMorePages() {
			page, err := pages.NextPage(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			for _, tag := range page.Tags {
				list = append(list, string(tag.ResourceType)+" "+*tag.ResourceId+" "+*tag.Key+"="+*tag.Value)
			}
		}
		return list
	}
	filter := func(name string, values ...string) types.Filter { return ec2FilterOf(name, values...)[0] }
	if diff := cmp.Diff([]string{"instance " + id + " karpenter.sh/nodepool=default"}, query(filter("resource-id", id), filter("key", "karpenter.sh/*"))); diff != "" {
		t.Errorf("of an instance (-want +got):\n%s", diff)
	}
	if got := query(filter("resource-type", "subnet"), filter("tag:karpenter.sh/discovery", "sandbox")); len(got) != 3 {
		t.Errorf("of subnets: %v", got)
	}
	if got := query(filter("resource-type", "launch-template"), filter("value", "sandbox")); len(got) != 1 {
		t.Errorf("of templates: %v", got)
	}
	if got := query(filter("resource-type", "subnet", "security-group", "capacity-reservation", "placement-group"), filter("key", "Name", "karpenter.sh/discovery")); len(got) != 3*2+2+2*2+1 {
		t.Errorf("of the rest: %v", got)
	}
	_, err := env.ec2.DescribeTags(t.Context(), &ec2.DescribeTagsInput{Filters: ec2FilterOf("colour", "x")})
	if apiCode(err) != "InvalidParameterValue" {
		t.Errorf("by colour: %v", err)
	}
}

func TestDescribeLaunchTemplateVersions(t *testing.T) {
	t.Parallel()
	env := newEC2Env(t)
	userData := base64.StdEncoding.EncodeToString([]byte("hello"))
	env.createTemplate("t", func(d *types.RequestLaunchTemplateData) {
		d.UserData = &userData
		d.Monitoring = &types.LaunchTemplatesMonitoringRequest{Enabled: aws.Bool(true)}
		d.EnclaveOptions = &types.LaunchTemplateEnclaveOptionsRequest{Enabled: aws.Bool(false)}
		d.MetadataOptions = &types.LaunchTemplateInstanceMetadataOptionsRequest{HttpTokens: types.LaunchTemplateHttpTokensStateRequired, HttpPutResponseHopLimit: aws.Int32(1)}
		d.Placement = &types.LaunchTemplatePlacementRequest{Tenancy: types.TenancyDedicated, GroupId: aws.String("pg-1"), PartitionNumber: aws.Int32(2)}
		d.CapacityReservationSpecification = &types.LaunchTemplateCapacityReservationSpecificationRequest{
			CapacityReservationPreference: types.CapacityReservationPreferenceCapacityReservationsOnly,
			CapacityReservationTarget:     &types.CapacityReservationTarget{CapacityReservationId: aws.String("cr-1")},
		}
		d.InstanceMarketOptions = &types.LaunchTemplateInstanceMarketOptionsRequest{MarketType: types.MarketTypeCapacityBlock}
		d.NetworkInterfaces[0].AssociatePublicIpAddress = aws.Bool(false)
		d.NetworkInterfaces[0].ConnectionTrackingSpecification = &types.ConnectionTrackingSpecificationRequest{UdpTimeout: aws.Int32(30)}
		d.TagSpecifications = []types.LaunchTemplateTagSpecificationRequest{{ResourceType: types.ResourceTypeNetworkInterface, Tags: []types.Tag{{Key: aws.String("k"), Value: aws.String("v")}}}}
	})
	out, err := env.ec2.DescribeLaunchTemplateVersions(t.Context(), &ec2.DescribeLaunchTemplateVersionsInput{LaunchTemplateName: aws.String("t"), Versions: []string{"$Latest"}})
	if err != nil || len(out.LaunchTemplateVersions) != 1 {
		t.Fatalf("%v, %v", out, err)
	}
	version := out.LaunchTemplateVersions[0]
	if *version.VersionNumber != 1 || !*version.DefaultVersion || *version.LaunchTemplateName != "t" || !version.CreateTime.Equal(ec2Start) {
		t.Errorf("version %+v", version)
	}
	want := &types.ResponseLaunchTemplateData{
		ImageId: aws.String(imageOfArch("x86_64")), UserData: &userData,
		IamInstanceProfile: &types.LaunchTemplateIamInstanceProfileSpecification{Name: aws.String("nodes")},
		Monitoring:         &types.LaunchTemplatesMonitoring{Enabled: aws.Bool(true)},
		EnclaveOptions:     &types.LaunchTemplateEnclaveOptions{Enabled: aws.Bool(false)},
		MetadataOptions: &types.LaunchTemplateInstanceMetadataOptions{
			HttpTokens: types.LaunchTemplateHttpTokensStateRequired, HttpPutResponseHopLimit: aws.Int32(1), State: types.LaunchTemplateInstanceMetadataOptionsState("applied"),
		},
		Placement: &types.LaunchTemplatePlacement{Tenancy: types.TenancyDedicated, GroupId: aws.String("pg-1"), PartitionNumber: aws.Int32(2)},
		CapacityReservationSpecification: &types.LaunchTemplateCapacityReservationSpecificationResponse{
			CapacityReservationPreference: types.CapacityReservationPreferenceCapacityReservationsOnly,
			CapacityReservationTarget:     &types.CapacityReservationTargetResponse{CapacityReservationId: aws.String("cr-1")},
		},
		InstanceMarketOptions: &types.LaunchTemplateInstanceMarketOptions{MarketType: types.MarketTypeCapacityBlock},
		BlockDeviceMappings: []types.LaunchTemplateBlockDeviceMapping{
			{DeviceName: aws.String("/dev/xvda"), Ebs: &types.LaunchTemplateEbsBlockDevice{VolumeSize: aws.Int32(20), VolumeType: types.VolumeTypeGp3}},
		},
		NetworkInterfaces: []types.LaunchTemplateInstanceNetworkInterfaceSpecification{{
			DeviceIndex: aws.Int32(0), Groups: []string{stableID("sg-", "nodes")}, AssociatePublicIpAddress: aws.Bool(false),
			ConnectionTrackingSpecification: &types.ConnectionTrackingSpecification{UdpTimeout: aws.Int32(30)},
		}},
		TagSpecifications: []types.LaunchTemplateTagSpecification{{ResourceType: types.ResourceTypeNetworkInterface, Tags: []types.Tag{{Key: aws.String("k"), Value: aws.String("v")}}}},
	}
	ignore := cmpopts.IgnoreUnexported(types.ResponseLaunchTemplateData{}, types.LaunchTemplateIamInstanceProfileSpecification{}, types.LaunchTemplatesMonitoring{},
		types.LaunchTemplateEnclaveOptions{}, types.LaunchTemplateInstanceMetadataOptions{}, types.LaunchTemplatePlacement{},
		types.LaunchTemplateCapacityReservationSpecificationResponse{}, types.CapacityReservationTargetResponse{}, types.LaunchTemplateInstanceMarketOptions{},
		types.LaunchTemplateBlockDeviceMapping{}, types.LaunchTemplateEbsBlockDevice{}, types.LaunchTemplateInstanceNetworkInterfaceSpecification{},
		types.ConnectionTrackingSpecification{}, types.LaunchTemplateTagSpecification{}, types.Tag{})
	if diff := cmp.Diff(want, version.LaunchTemplateData, ignore, cmpopts.EquateEmpty()); diff != "" {
		t.Errorf("data (-want +got):\n%s", diff)
	}
}

func TestDescribeLaunchTemplateVersionsRefuses(t *testing.T) {
	t.Parallel()
	env := newEC2Env(t)
	env.createTemplate("t", nil)
	for name, tc := range map[string]struct {
		in   ec2.DescribeLaunchTemplateVersionsInput
		code string
		want int
	}{
		"all templates, latest": {in: ec2.DescribeLaunchTemplateVersionsInput{Versions: []string{"$Latest"}}, want: 1},
		"by number":             {in: ec2.DescribeLaunchTemplateVersionsInput{LaunchTemplateName: aws.String("t"), Versions: []string{"1"}}, want: 1},
		"by image":              {in: ec2.DescribeLaunchTemplateVersionsInput{LaunchTemplateName: aws.String("t"), Filters: ec2FilterOf("image-id", imageOfArch("x86_64"))}, want: 1},
		"by another image":      {in: ec2.DescribeLaunchTemplateVersionsInput{LaunchTemplateName: aws.String("t"), Filters: ec2FilterOf("image-id", "ami-1")}},
		"later versions":        {in: ec2.DescribeLaunchTemplateVersionsInput{LaunchTemplateName: aws.String("t"), MinVersion: aws.String("2")}},
		"no template":           {code: "MissingParameter"},
		"unknown name":          {in: ec2.DescribeLaunchTemplateVersionsInput{LaunchTemplateName: aws.String("x")}, code: "InvalidLaunchTemplateName.NotFoundException"},
		"unknown id":            {in: ec2.DescribeLaunchTemplateVersionsInput{LaunchTemplateId: aws.String("lt-0")}, code: "InvalidLaunchTemplateId.NotFound"},
		"second version":        {in: ec2.DescribeLaunchTemplateVersionsInput{LaunchTemplateName: aws.String("t"), Versions: []string{"2"}}, code: "InvalidLaunchTemplateId.VersionNotFound"},
	} {
		t.Run(name, func(t *testing.T) {
			out, err := env.ec2.DescribeLaunchTemplateVersions(t.Context(), &tc.in)
			if apiCode(err) != tc.code {
				t.Fatalf("error %v, want %q", err, tc.code)
			}
			if err == nil && len(out.LaunchTemplateVersions) != tc.want {
				t.Errorf("%d versions, want %d", len(out.LaunchTemplateVersions), tc.want)
			}
		})
	}
}
