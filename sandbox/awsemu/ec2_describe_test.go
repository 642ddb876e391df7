package awsemu

import (
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	"github.com/aws/aws-sdk-go-v2/service/ec2/types"
	"github.com/google/go-cmp/cmp"
)

func TestDescribeInstanceTypesDecodes(t *testing.T) {
	t.Parallel()
	env := newEC2Env(t)
	byName := map[types.InstanceType]types.InstanceTypeInfo{}
	pages := ec2.NewDescribeInstanceTypesPaginator(env.ec2, &ec2.DescribeInstanceTypesInput{MaxResults: aws.Int32(100)})
	for pages.HasMorePages() {
		page, err := pages.NextPage(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		for _, i := range page.InstanceTypes {
			byName[i.InstanceType] = i
			if i.ProcessorInfo == nil || len(i.ProcessorInfo.SupportedArchitectures) == 0 || i.VCpuInfo == nil || i.MemoryInfo == nil || i.NetworkInfo == nil ||
				len(i.NetworkInfo.NetworkCards) == 0 || i.NetworkInfo.DefaultNetworkCardIndex == nil || i.PlacementGroupInfo == nil || i.EbsInfo == nil {
				t.Errorf("%s is incomplete: %+v", i.InstanceType, i)
			}
			if aws.ToBool(i.BareMetal) != (i.Hypervisor == "") {
				t.Errorf("%s: bare metal %v with hypervisor %q", i.InstanceType, *i.BareMetal, i.Hypervisor)
			}
		}
	}
	if want := len(env.emu.Catalogue().Names()); len(byName) != want {
		t.Errorf("%d types, want %d", len(byName), want)
	}
	m5 := byName["m5.large"]
	if *m5.VCpuInfo.DefaultVCpus != 2 || *m5.MemoryInfo.SizeInMiB != 8192 || *m5.NetworkInfo.MaximumNetworkInterfaces != 3 || *m5.NetworkInfo.Ipv4AddressesPerInterface != 10 ||
		!slices.Contains(m5.SupportedUsageClasses, types.UsageClassTypeSpot) {
		t.Errorf("m5.large: %+v", m5)
	}
	if g := byName["g4dn.xlarge"]; g.GpuInfo == nil || len(g.GpuInfo.Gpus) == 0 || g.InstanceStorageInfo == nil || *g.InstanceStorageInfo.TotalSizeInGB == 0 {
		t.Errorf("g4dn.xlarge: %+v", g)
	}
	if n := byName["inf2.xlarge"]; n.NeuronInfo == nil && n.InferenceAcceleratorInfo == nil {
		t.Errorf("inf2.xlarge: %+v", n)
	}
	if efa := byName["m6idn.32xlarge"]; efa.NetworkInfo.EfaInfo == nil || len(efa.NetworkInfo.NetworkCards) < 2 {
		t.Errorf("m6idn.32xlarge: %+v", efa.NetworkInfo)
	}
	out, err := env.ec2.DescribeInstanceTypes(t.Context(), &ec2.DescribeInstanceTypesInput{Filters: []types.Filter{
		{Name: aws.String("processor-info.supported-architecture"), Values: []string{"arm64"}},
		{Name: aws.String("supported-virtualization-type"), Values: []string{"hvm"}},
		{Name: aws.String("instance-type"), Values: []string{"m?g.large", "c5.*"}},
	}})
	if err != nil || len(out.InstanceTypes) == 0 {
		t.Fatalf("filtered: %v, %v", out, err)
	}
	for _, i := range out.InstanceTypes {
		if ok := ec2Wildcard("m?g.large", string(i.InstanceType)); !ok {
			t.Errorf("%s passed the filter", i.InstanceType)
		}
	}
	_, err = env.ec2.DescribeInstanceTypes(t.Context(), &ec2.DescribeInstanceTypesInput{InstanceTypes: []types.InstanceType{"x9.large"}})
	if apiCode(err) != "InvalidInstanceType" {
		t.Errorf("unknown type: %v", err)
	}
	_, err = env.ec2.DescribeInstanceTypes(t.Context(), &ec2.DescribeInstanceTypesInput{MaxResults: aws.Int32(101)})
	if apiCode(err) != "InvalidParameterValue" {
		t.Errorf("too large a page: %v", err)
	}
}

func TestDescribeOfferingsAndSpotPrices(t *testing.T) {
	t.Parallel()
	env := newEC2Env(t)
	offered := map[string]bool{}
	offerings := ec2.NewDescribeInstanceTypeOfferingsPaginator(env.ec2, &ec2.DescribeInstanceTypeOfferingsInput{LocationType: types.LocationTypeAvailabilityZone, MaxResults: aws.Int32(1000)})
	for offerings.HasMorePages() {
		page, err := offerings.NextPage(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		for _, o := range page.InstanceTypeOfferings {
			offered[string(o.InstanceType)+"/"+*o.Location] = true
		}
	}
	want := 0
	for _, name := range env.emu.Catalogue().Names() {
		for i, zone := range env.emu.fixture.Zones {
			if env.emu.Catalogue().Offered(name, i) {
				want++
				if !offered[name+"/"+zone.Name] {
					t.Errorf("%s in %s is missing", name, zone.Name)
				}
			}
		}
	}
	if len(offered) != want {
		t.Errorf("%d offerings, want %d", len(offered), want)
	}
	priced := map[string]string{}
	prices := ec2.NewDescribeSpotPriceHistoryPaginator(env.ec2, &ec2.DescribeSpotPriceHistoryInput{
		ProductDescriptions: []string{"Linux/UNIX", "Linux/UNIX (Amazon VPC)"}, StartTime: aws.Time(ec2Start), MaxResults: aws.Int32(500),
	})
	for prices.HasMorePages() {
		page, err := prices.NextPage(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		for _, p := range page.SpotPriceHistory {
			if p.Timestamp == nil || p.ProductDescription != "Linux/UNIX" {
				t.Fatalf("incomplete price %+v", p)
			}
			priced[string(p.InstanceType)+"/"+*p.AvailabilityZone] = *p.SpotPrice
		}
	}
	if !strings.HasPrefix(priced["m5.large/eu-west-1a"], "0.0") {
		t.Errorf("m5.large in a costs %q", priced["m5.large/eu-west-1a"])
	}
	env.callControlAPI(http.MethodPut, "prices", `[{"capacityType":"spot","instanceType":"m5.large","price":0.5}]`)
	out, err := env.ec2.DescribeSpotPriceHistory(t.Context(), &ec2.DescribeSpotPriceHistoryInput{InstanceTypes: []types.InstanceType{"m5.large"}, AvailabilityZone: aws.String("eu-west-1a")})
	if err != nil || len(out.SpotPriceHistory) != 1 || *out.SpotPriceHistory[0].SpotPrice != "0.500000" {
		t.Errorf("override: %+v, %v", out, err)
	}
}

func TestDescribeNetwork(t *testing.T) {
	t.Parallel()
	env := newEC2Env(t)
	find := func(filters []types.Filter) []string {
		t.Helper()
		var zones []string
		pages := ec2.NewDescribeSubnetsPaginator(env.ec2, &ec2.DescribeSubnetsInput{Filters: filters, MaxResults: aws.Int32(2)})
		for pages.HasMorePages() {
			page, err := pages.NextPage(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			for _, s := range page.Subnets {
				if *s.AvailableIpAddressCount != 250 || s.AvailabilityZoneId == nil || s.VpcId == nil || s.MapPublicIpOnLaunch == nil {
					t.Errorf("subnet %+v", s)
				}
				zones = append(zones, strings.TrimPrefix(*s.AvailabilityZone, "eu-west-1"))
			}
		}
		return sorted(zones)
	}
	for name, tc := range map[string]struct {
		filters []types.Filter
		want    []string
	}{
		"all":                {want: []string{"a", "b", "c"}},
		"tag value":          {filters: ec2FilterOf("tag:karpenter.sh/discovery", "sandbox"), want: []string{"a", "b", "c"}},
		"tag key":            {filters: ec2FilterOf("tag-key", "karpenter.sh/*"), want: []string{"a", "b", "c"}},
		"other value":        {filters: ec2FilterOf("tag:karpenter.sh/discovery", "Sandbox"), want: nil},
		"wildcards and or":   {filters: ec2FilterOf("tag:Name", "*-eu-west-1?", "none"), want: []string{"a", "b", "c"}},
		"filters are anded":  {filters: slices.Concat(ec2FilterOf("tag-key", "Name"), ec2FilterOf("availability-zone", "*b")), want: []string{"b"}},
		"by id":              {filters: ec2FilterOf("subnet-id", subnet("c")), want: []string{"c"}},
		"backslash is plain": {filters: ec2FilterOf("availability-zone", `eu-west-1\*`), want: nil},
	} {
		if diff := cmp.Diff(tc.want, find(tc.filters)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
	_, err := env.ec2.DescribeSubnets(t.Context(), &ec2.DescribeSubnetsInput{Filters: ec2FilterOf("colour", "blue")})
	if apiCode(err) != "InvalidParameterValue" {
		t.Errorf("unknown filter: %v", err)
	}
	groups, err := env.ec2.DescribeSecurityGroups(t.Context(), &ec2.DescribeSecurityGroupsInput{Filters: ec2FilterOf("group-name", "*-nodes"), MaxResults: aws.Int32(500)})
	if err != nil || len(groups.SecurityGroups) != 1 || *groups.SecurityGroups[0].GroupId != stableID("sg-", "nodes") || len(groups.SecurityGroups[0].Tags) != 1 {
		t.Errorf("groups %+v, %v", groups, err)
	}
	vpcs, err := env.ec2.DescribeVpcs(t.Context(), &ec2.DescribeVpcsInput{})
	if err != nil || len(vpcs.Vpcs) != 1 {
		t.Errorf("vpcs %+v, %v", vpcs, err)
	}
	zones, err := env.ec2.DescribeAvailabilityZones(t.Context(), &ec2.DescribeAvailabilityZonesInput{})
	if err != nil || len(zones.AvailabilityZones) != 3 || *zones.AvailabilityZones[1].ZoneId != "euw1-az2" {
		t.Errorf("zones %+v, %v", zones, err)
	}
}

func TestDescribeImages(t *testing.T) {
	t.Parallel()
	env := newEC2Env(t)
	for _, version := range []string{"1.32", "1.33", "1.34", "1.35"} {
		for _, a := range aliasPaths(version) {
			out, err := env.ec2.DescribeImages(t.Context(), &ec2.DescribeImagesInput{Filters: ec2FilterOf("image-id", a.imageID()), IncludeDeprecated: aws.Bool(true), MaxResults: aws.Int32(1000)})
			if err != nil || len(out.Images) != 1 || string(out.Images[0].Architecture) != a.Architecture || *out.Images[0].Name != a.Name || out.Images[0].CreationDate == nil {
				t.Errorf("%s: %+v, %v", a.Path, out, err)
			}
		}
	}
	count := func(in *ec2.DescribeImagesInput) int {
		t.Helper()
		out, err := env.ec2.DescribeImages(t.Context(), in)
		if err != nil {
			t.Fatal(err)
		}
		return len(out.Images)
	}
	env.callControlAPI(http.MethodPut, "images", `[{"id":"ami-0a","name":"mine","tags":{"team":"x"}},{"id":"ami-0b","name":"old","owner":"999","deprecated":"2029-01-01T00:00:00Z"}]`)
	for name, tc := range map[string]struct {
		in   *ec2.DescribeImagesInput
		want int
	}{
		"own":                               {in: &ec2.DescribeImagesInput{Owners: []string{"self"}}, want: 1},
		"owner id":                          {in: &ec2.DescribeImagesInput{Owners: []string{"999"}, IncludeDeprecated: aws.Bool(true)}, want: 1},
		"deprecated hidden":                 {in: &ec2.DescribeImagesInput{Owners: []string{"999"}}, want: 0},
		"by tag":                            {in: &ec2.DescribeImagesInput{Filters: ec2FilterOf("tag:team", "*")}, want: 1},
		"amazon, wild":                      {in: &ec2.DescribeImagesInput{Owners: []string{"amazon"}, Filters: ec2FilterOf("name", "amazon-eks-node-al2023-*-standard-1.34-v????????")}, want: 8},
		"ids of two images":                 {in: &ec2.DescribeImagesInput{ImageIds: []string{"ami-0a", imageOfArch("arm64")}}, want: 2},
		"bottlerocket, 1.35":                {in: &ec2.DescribeImagesInput{Filters: ec2FilterOf("name", "bottlerocket-aws-k8s-1.35-*")}, want: 12},
		"windows 2025 on 1.34 is not there": {in: &ec2.DescribeImagesInput{Filters: ec2FilterOf("name", "Windows_Server-2025-*-1.34-*")}, want: 0},
		"al2 on 1.33 is not there":          {in: &ec2.DescribeImagesInput{Filters: ec2FilterOf("name", "amazon-eks-gpu-node-1.33-*")}, want: 0},
	} {
		if got := count(tc.in); got != tc.want {
			t.Errorf("%s: %d images, want %d", name, got, tc.want)
		}
	}
	_, err := env.ec2.DescribeImages(t.Context(), &ec2.DescribeImagesInput{ImageIds: []string{"ami-0c"}})
	if apiCode(err) != "InvalidAMIID.NotFound" {
		t.Errorf("unknown image: %v", err)
	}
	all, paged := count(&ec2.DescribeImagesInput{IncludeDeprecated: aws.Bool(true)}), 0
	pages := ec2.NewDescribeImagesPaginator(env.ec2, &ec2.DescribeImagesInput{IncludeDeprecated: aws.Bool(true), MaxResults: aws.Int32(7)})
	for pages.HasMorePages() {
		page, err := pages.NextPage(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		paged += len(page.Images)
	}
	if paged != all {
		t.Errorf("pages have %d images, all are %d", paged, all)
	}
}

func TestDescribeReservationsAndPlacementGroups(t *testing.T) {
	t.Parallel()
	env := newEC2Env(t)
	out, err := env.ec2.DescribeCapacityReservations(t.Context(), &ec2.DescribeCapacityReservationsInput{Filters: ec2FilterOf("state", "active"), MaxResults: aws.Int32(1000)})
	if err != nil || len(out.CapacityReservations) != 1 {
		t.Fatalf("active reservations %+v, %v", out, err)
	}
	r := out.CapacityReservations[0]
	if *r.AvailableInstanceCount != 3 || r.InstanceMatchCriteria != types.InstanceMatchCriteriaTargeted || r.ReservationType != types.CapacityReservationTypeDefault || *r.OwnerId != "111122223333" {
		t.Errorf("reservation %+v", r)
	}
	env.callControlAPI(http.MethodPut, "reservations", `[{"id":"`+*r.CapacityReservationId+`","end":"2030-01-01T01:00:00Z"}]`)
	env.advanceClock(2 * 60 * 60 * 1e9)
	out, err = env.ec2.DescribeCapacityReservations(t.Context(), &ec2.DescribeCapacityReservationsInput{CapacityReservationIds: []string{*r.CapacityReservationId}})
	if err != nil || out.CapacityReservations[0].State != types.CapacityReservationStateExpired || out.CapacityReservations[0].EndDate == nil {
		t.Errorf("reservation after its end %+v, %v", out, err)
	}
	_, err = env.ec2.DescribeCapacityReservations(t.Context(), &ec2.DescribeCapacityReservationsInput{CapacityReservationIds: []string{"cr-1"}})
	if apiCode(err) != "InvalidCapacityReservationId.NotFound" {
		t.Errorf("unknown reservation: %v", err)
	}
	groups, err := env.ec2.DescribePlacementGroups(t.Context(), &ec2.DescribePlacementGroupsInput{Filters: ec2FilterOf("strategy", "partition")})
	if err != nil || len(groups.PlacementGroups) != 1 || *groups.PlacementGroups[0].PartitionCount != 3 || groups.PlacementGroups[0].State != "available" {
		t.Errorf("placement groups %+v, %v", groups, err)
	}
	_, err = env.ec2.DescribePlacementGroups(t.Context(), &ec2.DescribePlacementGroupsInput{GroupNames: []string{"none"}})
	if apiCode(err) != "InvalidPlacementGroup.Unknown" {
		t.Errorf("unknown group: %v", err)
	}
}

func TestPagesSurviveChanges(t *testing.T) {
	t.Parallel()
	env := newEC2Env(t)
	env.createTemplate("t", nil)
	ids := sorted(fleetIDs(env.createFleet(fleetInput(onDemand, 7, "m5.large/a"))))
	var seen []string
	pages := ec2.NewDescribeInstancesPaginator(env.ec2, &ec2.DescribeInstancesInput{MaxResults: aws.Int32(3), Filters: ec2FilterOf("instance-state-name", "pending")})
	for pages.HasMorePages() {
		page, err := pages.NextPage(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		for _, r := range page.Reservations {
			for _, i := range r.Instances {
				seen = append(seen, *i.InstanceId)
			}
		}
		if len(seen) == 3 { // what was sent goes away; the rest must not move
			if _, err := env.ec2.TerminateInstances(t.Context(), &ec2.TerminateInstancesInput{InstanceIds: seen}); err != nil {
				t.Fatal(err)
			}
		}
	}
	if diff := cmp.Diff(ids, seen); diff != "" {
		t.Errorf("pages (-want +got):\n%s", diff)
	}
	_, err := env.ec2.DescribeInstances(t.Context(), &ec2.DescribeInstancesInput{NextToken: aws.String("%%%")})
	if apiCode(err) != "InvalidNextToken" {
		t.Errorf("bad token: %v", err)
	}
}

func TestDryRunsOfEverything(t *testing.T) {
	t.Parallel()
	env := newEC2Env(t)
	yes := aws.Bool(true)
	env.createTemplate("t", nil)
	i := env.launch(onDemand, "m5.large/a")
	for action, run := range map[string]func() error{
		"DescribeInstanceTypes": func() error {
			_, err := env.ec2.DescribeInstanceTypes(t.Context(), &ec2.DescribeInstanceTypesInput{DryRun: yes})
			return err
		},
		"DescribeInstanceTypeOfferings": func() error {
			_, err := env.ec2.DescribeInstanceTypeOfferings(t.Context(), &ec2.DescribeInstanceTypeOfferingsInput{DryRun: yes})
			return err
		},
		"DescribeSpotPriceHistory": func() error {
			_, err := env.ec2.DescribeSpotPriceHistory(t.Context(), &ec2.DescribeSpotPriceHistoryInput{DryRun: yes})
			return err
		},
		"DescribeSubnets": func() error {
			_, err := env.ec2.DescribeSubnets(t.Context(), &ec2.DescribeSubnetsInput{DryRun: yes})
			return err
		},
		"DescribeSecurityGroups": func() error {
			_, err := env.ec2.DescribeSecurityGroups(t.Context(), &ec2.DescribeSecurityGroupsInput{DryRun: yes})
			return err
		},
		"DescribeImages": func() error {
			_, err := env.ec2.DescribeImages(t.Context(), &ec2.DescribeImagesInput{DryRun: yes})
			return err
		},
		"DescribeInstances": func() error {
			_, err := env.ec2.DescribeInstances(t.Context(), &ec2.DescribeInstancesInput{DryRun: yes})
			return err
		},
		"DescribeLaunchTemplates": func() error {
			_, err := env.ec2.DescribeLaunchTemplates(t.Context(), &ec2.DescribeLaunchTemplatesInput{DryRun: yes})
			return err
		},
		"CreateLaunchTemplate": func() error {
			_, err := env.ec2.CreateLaunchTemplate(t.Context(), &ec2.CreateLaunchTemplateInput{DryRun: yes, LaunchTemplateName: aws.String("x"), LaunchTemplateData: &types.RequestLaunchTemplateData{}})
			return err
		},
		"DeleteLaunchTemplate": func() error {
			_, err := env.ec2.DeleteLaunchTemplate(t.Context(), &ec2.DeleteLaunchTemplateInput{DryRun: yes, LaunchTemplateName: aws.String("t")})
			return err
		},
		"TerminateInstances": func() error {
			_, err := env.ec2.TerminateInstances(t.Context(), &ec2.TerminateInstancesInput{DryRun: yes, InstanceIds: []string{i}})
			return err
		},
		"CreateTags": func() error {
			_, err := env.ec2.CreateTags(t.Context(), &ec2.CreateTagsInput{DryRun: yes, Resources: []string{i}, Tags: []types.Tag{{Key: aws.String("a"), Value: aws.String("b")}}})
			return err
		},
		"RunInstances": func() error { _, err := env.ec2.RunInstances(t.Context(), runInput(true)); return err },
	} {
		env.callControlAPI(http.MethodPut, "permissions", `[]`)
		if err := run(); apiCode(err) != "DryRunOperation" {
			t.Errorf("%s: %v, want DryRunOperation", action, err)
		}
		env.callControlAPI(http.MethodPut, "permissions", `[{"action":"ec2:`+action+`","deny":true}]`)
		if err := run(); apiCode(err) != "UnauthorizedOperation" {
			t.Errorf("%s: %v, want UnauthorizedOperation", action, err)
		}
	}
	env.callControlAPI(http.MethodPut, "permissions", `[]`)
	env.wantState(i, types.InstanceStateNamePending)
}

func runInput(dryRun bool) *ec2.RunInstancesInput {
	return &ec2.RunInstancesInput{
		DryRun: &dryRun, LaunchTemplate: &types.LaunchTemplateSpecification{LaunchTemplateName: aws.String("t"), Version: aws.String("$Latest")},
		InstanceType: "m5.large", MinCount: aws.Int32(1), MaxCount: aws.Int32(1),
		NetworkInterfaces: []types.InstanceNetworkInterfaceSpecification{{DeviceIndex: aws.Int32(0), SubnetId: aws.String(subnet("b"))}},
	}
}

func TestTrust_D03_TwoSecurityGroupsAreFoundByTheirTag(t *testing.T) {
	t.Parallel()
	env := newEC2Env(t)
	out, err := env.ec2.DescribeSecurityGroups(t.Context(), &ec2.DescribeSecurityGroupsInput{Filters: ec2FilterOf("tag:karpenter.sh/discovery", "sandbox")})
	if err != nil || len(out.SecurityGroups) != 2 {
		t.Errorf("groups %+v, %v", out, err)
	}
}
