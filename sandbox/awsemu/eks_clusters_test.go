package awsemu

import (
	"slices"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/eks"
	"github.com/aws/aws-sdk-go-v2/service/eks/types"
	"github.com/aws/aws-sdk-go-v2/service/iam"
)

// A cluster from its creation to its end, with a bootstrap group and an add-on, as Terraform makes them.
func TestClusterLife(t *testing.T) {
	t.Parallel()
	c := startCloud(t)
	client, ctx := eks.NewFromConfig(c.cfg), t.Context()
	name, role := aws.String("backend"), aws.String(nodeRoleARN)
	subnets := c.eksState().Cluster.Subnets
	in := &eks.CreateClusterInput{
		Name: name, RoleArn: role, ResourcesVpcConfig: &types.VpcConfigRequest{SubnetIds: subnets, EndpointPrivateAccess: aws.Bool(true)},
		AccessConfig: &types.CreateAccessConfigRequest{AuthenticationMode: types.AuthenticationModeApi}, Tags: map[string]string{"team": "a"},
	}
	_, err := client.CreateCluster(ctx, in)
	check(t, err)
	wantCode(t, errorOf(client.CreateCluster(ctx, in)), "ResourceInUseException", 409)
	made, err := client.DescribeCluster(ctx, &eks.DescribeClusterInput{Name: name})
	check(t, err)
	if m := made.Cluster; m.Status != types.ClusterStatusActive || *m.Arn != c.accountARN("eks", "cluster/backend") || *m.Endpoint != c.fixture.ClusterEndpoint || m.Tags["team"] != "a" ||
		!m.ResourcesVpcConfig.EndpointPrivateAccess || !slices.Equal(m.ResourcesVpcConfig.SubnetIds, subnets) || *m.ResourcesVpcConfig.ClusterSecurityGroupId == c.eksState().Cluster.SecurityGroup {
		t.Errorf("made %+v", *m)
	}
	group := &eks.CreateNodegroupInput{
		ClusterName: name, NodegroupName: aws.String("bootstrap"), NodeRole: role, Subnets: subnets, InstanceTypes: []string{"t4g.medium"}, CapacityType: types.CapacityTypesOnDemand,
		ScalingConfig: &types.NodegroupScalingConfig{MinSize: aws.Int32(2), MaxSize: aws.Int32(3), DesiredSize: aws.Int32(2)},
		Taints:        []types.Taint{{Key: aws.String("CriticalAddonsOnly"), Value: aws.String("true"), Effect: types.TaintEffectNoSchedule}},
	}
	_, err = client.CreateNodegroup(ctx, group)
	check(t, err)
	shown, err := client.DescribeNodegroup(ctx, &eks.DescribeNodegroupInput{ClusterName: name, NodegroupName: group.NodegroupName})
	check(t, err)
	if g := shown.Nodegroup; g.Status != types.NodegroupStatusActive || *g.ScalingConfig.MaxSize != 3 || g.Taints[0].Effect != types.TaintEffectNoSchedule {
		t.Errorf("node group %+v", *g)
	}
	entries, err := client.ListAccessEntries(ctx, &eks.ListAccessEntriesInput{ClusterName: name})
	check(t, err)
	if !slices.Equal(entries.AccessEntries, []string{nodeRoleARN}) {
		t.Errorf("EKS lets the nodes of its groups in; entries %v", entries.AccessEntries)
	}
	_, err = client.CreateAddon(ctx, &eks.CreateAddonInput{ClusterName: name, AddonName: aws.String("vpc-cni"), AddonVersion: aws.String("v1.12.0-eksbuild.1")})
	check(t, err)
	addon, err := client.DescribeAddon(ctx, &eks.DescribeAddonInput{ClusterName: name, AddonName: aws.String("vpc-cni")})
	check(t, err)
	if *addon.Addon.AddonVersion != "v1.12.0-eksbuild.1" {
		t.Errorf("add-on %+v", *addon.Addon)
	}
	wantCode(t, errorOf(client.DeleteCluster(ctx, &eks.DeleteClusterInput{Name: name})), "ResourceInUseException", 409)
	_, err = client.DeleteNodegroup(ctx, &eks.DeleteNodegroupInput{ClusterName: name, NodegroupName: group.NodegroupName})
	check(t, err)
	_, err = client.DeleteCluster(ctx, &eks.DeleteClusterInput{Name: name})
	check(t, err)
	wantCode(t, errorOf(client.DescribeCluster(ctx, &eks.DescribeClusterInput{Name: name})), "ResourceNotFoundException", 404)
	wantCode(t, errorOf(client.DescribeNodegroup(ctx, &eks.DescribeNodegroupInput{ClusterName: aws.String("sandbox"), NodegroupName: group.NodegroupName})), "ResourceNotFoundException", 404)
}

func TestClusterRefusals(t *testing.T) {
	t.Parallel()
	c := startCloud(t)
	client, ctx := eks.NewFromConfig(c.cfg), t.Context()
	subnets := c.eksState().Cluster.Subnets
	for name, in := range map[string]*eks.CreateClusterInput{
		"no such role":   {Name: aws.String("a"), RoleArn: aws.String("arn:aws:iam::111122223333:role/none"), ResourcesVpcConfig: &types.VpcConfigRequest{SubnetIds: subnets}},
		"no such subnet": {Name: aws.String("a"), RoleArn: aws.String(nodeRoleARN), ResourcesVpcConfig: &types.VpcConfigRequest{SubnetIds: []string{"subnet-0"}}},
		"one zone":       {Name: aws.String("a"), RoleArn: aws.String(nodeRoleARN), ResourcesVpcConfig: &types.VpcConfigRequest{SubnetIds: subnets[:1]}},
		"bad name":       {Name: aws.String("-a"), RoleArn: aws.String(nodeRoleARN), ResourcesVpcConfig: &types.VpcConfigRequest{SubnetIds: subnets}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			wantCode(t, errorOf(client.CreateCluster(ctx, in)), "InvalidParameterException", 400)
		})
	}
}

func TestServiceLinkedRoleIsDeletedByATask(t *testing.T) {
	t.Parallel()
	c := startCloud(t)
	client, ctx := iam.NewFromConfig(c.cfg), t.Context()
	task, err := client.DeleteServiceLinkedRole(ctx, &iam.DeleteServiceLinkedRoleInput{RoleName: aws.String(spotRoleName)})
	check(t, err)
	status, err := client.GetServiceLinkedRoleDeletionStatus(ctx, &iam.GetServiceLinkedRoleDeletionStatusInput{DeletionTaskId: task.DeletionTaskId})
	check(t, err)
	if status.Status != "SUCCEEDED" {
		t.Errorf("status %+v", *status)
	}
	wantCode(t, errorOf(client.GetRole(ctx, &iam.GetRoleInput{RoleName: aws.String(spotRoleName)})), "NoSuchEntity", 404)
	wantCode(t, errorOf(client.DeleteServiceLinkedRole(ctx, &iam.DeleteServiceLinkedRoleInput{RoleName: aws.String("KarpenterNodeRole-sandbox")})), "InvalidInput", 400)
}
