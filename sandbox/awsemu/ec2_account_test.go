package awsemu

import (
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	"github.com/aws/aws-sdk-go-v2/service/ec2/types"
)

func TestTrust_D03_PlacementGroupsAreMadeAndRemoved(t *testing.T) {
	t.Parallel()
	env := newEC2Env(t)
	out, err := env.ec2.CreatePlacementGroup(t.Context(), &ec2.CreatePlacementGroupInput{
		GroupName: aws.String("close"), Strategy: types.PlacementStrategyPartition, PartitionCount: aws.Int32(2),
		TagSpecifications: []types.TagSpecification{{ResourceType: types.ResourceTypePlacementGroup, Tags: []types.Tag{{Key: aws.String("team"), Value: aws.String("blue")}}}},
	})
	if err != nil || *out.PlacementGroup.PartitionCount != 2 || out.PlacementGroup.State != "available" || len(out.PlacementGroup.Tags) != 1 {
		t.Fatalf("create: %+v, %v", out, err)
	}
	if _, err := env.ec2.CreatePlacementGroup(t.Context(), &ec2.CreatePlacementGroupInput{GroupName: aws.String("close"), Strategy: types.PlacementStrategyCluster}); apiCode(err) != "InvalidPlacementGroup.Duplicate" {
		t.Errorf("again: %v", err)
	}
	env.createTemplate("t", func(d *types.RequestLaunchTemplateData) {
		d.Placement = &types.LaunchTemplatePlacementRequest{GroupName: aws.String("close")}
	})
	id := env.launch(spot, "m5.large/a")
	remove := func() string {
		_, err := env.ec2.DeletePlacementGroup(t.Context(), &ec2.DeletePlacementGroupInput{GroupName: aws.String("close")})
		return apiCode(err)
	}
	if code := remove(); code != "InvalidPlacementGroup.InUse" {
		t.Errorf("delete in use: %s", code)
	}
	if _, err := env.ec2.TerminateInstances(t.Context(), &ec2.TerminateInstancesInput{InstanceIds: []string{id}}); err != nil {
		t.Fatal(err)
	}
	env.advanceClock(time.Minute)
	if first, second := remove(), remove(); first != "" || second != "InvalidPlacementGroup.Unknown" {
		t.Errorf("delete: %q, again: %q", first, second)
	}
}

func TestTrust_D03_SecurityGroupsAreMadeAndRemoved(t *testing.T) {
	t.Parallel()
	env := newEC2Env(t)
	in := &ec2.CreateSecurityGroupInput{
		GroupName: aws.String("own"), Description: aws.String("of mine"), VpcId: aws.String(env.emu.model.EC2.VPC),
		TagSpecifications: []types.TagSpecification{{ResourceType: types.ResourceTypeSecurityGroup, Tags: []types.Tag{{Key: aws.String("team"), Value: aws.String("blue")}}}},
	}
	out, err := env.ec2.CreateSecurityGroup(t.Context(), in)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := env.ec2.CreateSecurityGroup(t.Context(), in); apiCode(err) != "InvalidGroup.Duplicate" {
		t.Errorf("again: %v", err)
	}
	if _, err := env.ec2.AuthorizeSecurityGroupIngress(t.Context(), &ec2.AuthorizeSecurityGroupIngressInput{
		GroupId: out.GroupId, IpPermissions: []types.IpPermission{{IpProtocol: aws.String("-1")}},
	}); err != nil {
		t.Error(err)
	}
	found, err := env.ec2.DescribeSecurityGroups(t.Context(), &ec2.DescribeSecurityGroupsInput{Filters: ec2FilterOf("tag:team", "blue")})
	if err != nil || len(found.SecurityGroups) != 1 || *found.SecurityGroups[0].Description != "of mine" {
		t.Errorf("found %+v, %v", found, err)
	}
	env.createTemplate("t", func(d *types.RequestLaunchTemplateData) { d.NetworkInterfaces[0].Groups = []string{*out.GroupId} })
	id := env.launch(spot, "m5.large/a")
	remove := func() string {
		_, err := env.ec2.DeleteSecurityGroup(t.Context(), &ec2.DeleteSecurityGroupInput{GroupId: out.GroupId})
		return apiCode(err)
	}
	if code := remove(); code != "DependencyViolation" {
		t.Errorf("delete in use: %s", code)
	}
	if _, err := env.ec2.TerminateInstances(t.Context(), &ec2.TerminateInstancesInput{InstanceIds: []string{id}}); err != nil {
		t.Fatal(err)
	}
	env.advanceClock(time.Minute)
	if first, second := remove(), remove(); first != "" || second != "InvalidGroup.NotFound" {
		t.Errorf("delete: %q, again: %q", first, second)
	}
}

func TestTrust_D03_ImagesAreCopiedDeprecatedAndDeregistered(t *testing.T) {
	t.Parallel()
	env := newEC2Env(t)
	out, err := env.ec2.CopyImage(t.Context(), &ec2.CopyImageInput{
		Name: aws.String("own"), SourceImageId: aws.String(imageOfArch("arm64")), SourceRegion: aws.String("eu-west-1"),
		TagSpecifications: []types.TagSpecification{{ResourceType: types.ResourceTypeImage, Tags: []types.Tag{{Key: aws.String("team"), Value: aws.String("blue")}}}},
	})
	if err != nil {
		t.Fatal(err)
	}
	describe := func(deprecated bool) []types.Image {
		found, err := env.ec2.DescribeImages(t.Context(), &ec2.DescribeImagesInput{Owners: []string{"self"}, IncludeDeprecated: &deprecated})
		if err != nil {
			t.Fatal(err)
		}
		return found.Images
	}
	mine := describe(false)
	if len(mine) != 1 || *mine[0].ImageId != *out.ImageId || mine[0].Architecture != "arm64" || *mine[0].Name != "own" || len(mine[0].Tags) != 1 || mine[0].State != "available" {
		t.Fatalf("images %+v", mine)
	}
	at := ec2Start.Add(24 * time.Hour)
	if _, err := env.ec2.EnableImageDeprecation(t.Context(), &ec2.EnableImageDeprecationInput{ImageId: out.ImageId, DeprecateAt: &at}); err != nil {
		t.Fatal(err)
	}
	if got := aws.ToString(describe(false)[0].DeprecationTime); got != "2030-01-02T00:00:00.000Z" {
		t.Errorf("deprecated at %q", got)
	}
	if _, err := env.ec2.DisableImageDeprecation(t.Context(), &ec2.DisableImageDeprecationInput{ImageId: out.ImageId}); err != nil {
		t.Fatal(err)
	}
	if got := describe(false)[0].DeprecationTime; got != nil {
		t.Errorf("deprecated at %q after all", *got)
	}
	if _, err := env.ec2.EnableImageDeprecation(t.Context(), &ec2.EnableImageDeprecationInput{ImageId: aws.String(imageOfArch("arm64")), DeprecateAt: &at}); apiCode(err) != "AuthFailure" {
		t.Errorf("deprecate an image of AWS: %v", err)
	}
	if _, err := env.ec2.DeregisterImage(t.Context(), &ec2.DeregisterImageInput{ImageId: out.ImageId}); err != nil {
		t.Fatal(err)
	}
	if left := describe(true); len(left) != 0 {
		t.Errorf("left %+v", left)
	}
}

func TestTrust_D03_SubnetsAreNamedAndCanMapPublicAddresses(t *testing.T) {
	t.Parallel()
	env := newEC2Env(t)
	found := func() []types.Subnet {
		out, err := env.ec2.DescribeSubnets(t.Context(), &ec2.DescribeSubnetsInput{Filters: ec2FilterOf("tag:Name", "*private*")})
		if err != nil || len(out.Subnets) != 3 {
			t.Fatalf("private subnets: %+v, %v", out, err)
		}
		return out.Subnets
	}
	id := found()[0].SubnetId
	if _, err := env.ec2.ModifySubnetAttribute(t.Context(), &ec2.ModifySubnetAttributeInput{SubnetId: id, MapPublicIpOnLaunch: &types.AttributeBooleanValue{Value: aws.Bool(true)}}); err != nil {
		t.Fatal(err)
	}
	if list := found(); !*list[0].MapPublicIpOnLaunch || *list[1].MapPublicIpOnLaunch {
		t.Errorf("subnets %+v", list)
	}
	if _, err := env.ec2.ModifySubnetAttribute(t.Context(), &ec2.ModifySubnetAttributeInput{SubnetId: aws.String("subnet-1"), MapPublicIpOnLaunch: &types.AttributeBooleanValue{Value: aws.Bool(true)}}); apiCode(err) != "InvalidSubnetID.NotFound" {
		t.Errorf("unknown subnet: %v", err)
	}
}
