package awsemu

import (
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	"github.com/aws/aws-sdk-go-v2/service/ec2/types"
)

// Rules of a security group from their creation to their end, as Terraform makes them.
func TestGroupRules(t *testing.T) {
	t.Parallel()
	env := newEC2Env(t)
	ctx := t.Context()
	group, err := env.ec2.CreateSecurityGroup(ctx, &ec2.CreateSecurityGroupInput{GroupName: aws.String("nodes"), Description: aws.String("of nodes")})
	check(t, err)
	in := &ec2.AuthorizeSecurityGroupIngressInput{
		GroupId: group.GroupId, IpPermissions: []types.IpPermission{
			{IpProtocol: aws.String("tcp"), FromPort: aws.Int32(443), ToPort: aws.Int32(443), IpRanges: []types.IpRange{{CidrIp: aws.String("10.0.0.0/8"), Description: aws.String("https")}}},
			{IpProtocol: aws.String("udp"), FromPort: aws.Int32(53), ToPort: aws.Int32(53), UserIdGroupPairs: []types.UserIdGroupPair{{GroupId: group.GroupId}}},
		},
		TagSpecifications: []types.TagSpecification{{ResourceType: types.ResourceTypeSecurityGroupRule, Tags: []types.Tag{{Key: aws.String("team"), Value: aws.String("a")}}}},
	}
	made, err := env.ec2.AuthorizeSecurityGroupIngress(ctx, in)
	check(t, err)
	if len(made.SecurityGroupRules) != 2 {
		t.Fatalf("made %+v, want two rules", made.SecurityGroupRules)
	}
	wantCode(t, errorOf(env.ec2.AuthorizeSecurityGroupIngress(ctx, in)), "InvalidPermission.Duplicate", 400)
	id := *made.SecurityGroupRules[0].SecurityGroupRuleId
	check(t, errorOf(env.ec2.CreateTags(ctx, &ec2.CreateTagsInput{Resources: []string{id}, Tags: []types.Tag{{Key: aws.String("env"), Value: aws.String("dev")}}})))
	shown, err := env.ec2.DescribeSecurityGroupRules(ctx, &ec2.DescribeSecurityGroupRulesInput{SecurityGroupRuleIds: []string{id}})
	check(t, err)
	if r := shown.SecurityGroupRules[0]; *r.IpProtocol != "tcp" || *r.FromPort != 443 || *r.CidrIpv4 != "10.0.0.0/8" || *r.Description != "https" || *r.IsEgress || len(r.Tags) != 2 || *r.GroupId != *group.GroupId {
		t.Errorf("rule %+v", r)
	}
	check(t, errorOf(env.ec2.RevokeSecurityGroupIngress(ctx, &ec2.RevokeSecurityGroupIngressInput{GroupId: group.GroupId, SecurityGroupRuleIds: []string{id}})))
	wantCode(t, errorOf(env.ec2.DescribeSecurityGroupRules(ctx, &ec2.DescribeSecurityGroupRulesInput{SecurityGroupRuleIds: []string{id}})), "InvalidSecurityGroupRuleId.NotFound", 400)
	check(t, errorOf(env.ec2.RevokeSecurityGroupIngress(ctx, &ec2.RevokeSecurityGroupIngressInput{GroupId: group.GroupId, IpPermissions: in.IpPermissions})))
	left, err := env.ec2.DescribeSecurityGroupRules(ctx, &ec2.DescribeSecurityGroupRulesInput{Filters: []types.Filter{{Name: aws.String("group-id"), Values: []string{*group.GroupId}}}})
	check(t, err)
	if len(left.SecurityGroupRules) != 0 {
		t.Errorf("left %+v", left.SecurityGroupRules)
	}
}
