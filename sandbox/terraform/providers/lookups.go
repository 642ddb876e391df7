package main

import (
	"context"
	"encoding/base64"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	ec2types "github.com/aws/aws-sdk-go-v2/service/ec2/types"
	"github.com/aws/aws-sdk-go-v2/service/iam"
	"github.com/aws/aws-sdk-go-v2/service/ssm"
	"github.com/aws/aws-sdk-go-v2/service/sts"
	smithyhttp "github.com/aws/smithy-go/transport/http"
)

func allLookups() []lookup[*cloud] {
	return []lookup[*cloud]{
		{name: "aws_caller_identity", fields: map[string]field{"account_id": computedField(text), "arn": computedField(text), "user_id": computedField(text)}, find: findCaller},
		{name: "aws_partition", fields: map[string]field{"partition": computedField(text), "dns_suffix": computedField(text), "reverse_dns_prefix": computedField(text)}, find: findPartition},
		{name: "aws_region", fields: map[string]field{"region": optionalComputed(text), "name": optionalComputed(text), "endpoint": optionalComputed(text), "description": computedField(text)}, find: findRegion},
		{name: "aws_iam_roles", fields: map[string]field{"name_regex": optionalField(text), "path_prefix": optionalField(text), "arns": computedField(textSet), "names": computedField(textSet)}, find: findRoles},
		{
			name: "aws_eks_cluster", fields: mergeTables(clusterFields(), map[string]field{
				"name": requiredField(text), "role_arn": computedField(text), "version": computedField(text), "tags": computedField(textMap), "vpc_config": structsOf(mergeTables(vpcFields(), map[string]field{
					"subnet_ids": computedField(textSet), "security_group_ids": computedField(textSet), "public_access_cidrs": computedField(textSet), "endpoint_private_access": computedField(flag), "endpoint_public_access": computedField(flag),
				})),
			}), find: findCluster,
		},
		{name: "aws_eks_cluster_auth", fields: map[string]field{"name": requiredField(text), "token": {secret: true}}, find: findToken},
		{
			name: "aws_ssm_parameter", fields: map[string]field{
				"name": requiredField(text), "with_decryption": optionalField(flag), "value": {secret: true}, "insecure_value": computedField(text), "type": computedField(text), "version": computedField(number), "arn": computedField(text),
			}, find: findParameter,
		},
		{name: "aws_subnets", fields: map[string]field{"tags": optionalComputed(textMap), "ids": computedField(texts)}, blocks: filterBlocks(), find: findSubnets},
		{
			name: "aws_subnet", fields: map[string]field{
				"vpc_id": optionalComputed(text), "availability_zone": optionalComputed(text), "cidr_block": optionalComputed(text), "arn": computedField(text), "tags": optionalComputed(textMap), "id": optionalComputed(text),
			}, blocks: filterBlocks(), find: findSubnet,
		},
		{name: "aws_vpc", fields: map[string]field{"id": optionalComputed(text), "cidr_block": optionalComputed(text), "state": optionalComputed(text), "tags": optionalComputed(textMap), "arn": computedField(text)}, blocks: filterBlocks(), find: findVPC},
		policyDocument(),
	}
}

func filterBlocks() map[string]block {
	return map[string]block{"filter": {set: true, fields: map[string]field{"name": requiredField(text), "values": requiredField(textSet)}}}
}

func filtersOf(o object) []ec2types.Filter {
	var out []ec2types.Filter
	for _, f := range o.blockValues("filter") {
		out = append(out, filter(f.stringValue("name"), f.stringValues("values")...))
	}
	for key, value := range o.textMap("tags") {
		out = append(out, filter("tag:"+key, value))
	}
	return out
}

func findCaller(ctx context.Context, c *cloud, o object) error {
	out, err := c.sts.GetCallerIdentity(ctx, &sts.GetCallerIdentityInput{})
	if err == nil {
		o["id"], o["account_id"], o["arn"], o["user_id"] = out.Account, out.Account, out.Arn, out.UserId
	}
	return err
}

func findPartition(_ context.Context, c *cloud, o object) error {
	partition, suffix, reverse := "aws", "amazonaws.com", "com.amazonaws"
	switch {
	case strings.HasPrefix(c.region, "cn-"):
		partition, suffix, reverse = "aws-cn", "amazonaws.com.cn", "cn.com.amazonaws"
	case strings.HasPrefix(c.region, "us-gov-"):
		partition = "aws-us-gov"
	}
	o["id"], o["partition"], o["dns_suffix"], o["reverse_dns_prefix"] = partition, partition, suffix, reverse
	return nil
}

func findRegion(_ context.Context, c *cloud, o object) error {
	o["id"], o["region"], o["name"], o["endpoint"], o["description"] = c.region, c.region, c.region, "ec2."+c.region+".amazonaws.com", c.region
	return nil
}

func findRoles(ctx context.Context, c *cloud, o object) error {
	wanted, err := regexp.Compile(o.stringValue("name_regex"))
	if err != nil {
		return err
	}
	arns, names := []string{}, []string{}
	pages := iam.NewListRolesPaginator(c.iam, &iam.ListRolesInput{PathPrefix: o.stringPointer("path_prefix")})
	for pages.HasMorePages() {
		page, err := pages.NextPage(ctx)
		if err != nil {
			return err
		}
		for _, r := range page.Roles {
			if wanted.MatchString(aws.ToString(r.RoleName)) {
				arns, names = append(arns, aws.ToString(r.Arn)), append(names, aws.ToString(r.RoleName))
			}
		}
	}
	o["id"], o["arns"], o["names"] = c.region, arns, names
	return nil
}

func findCluster(ctx context.Context, c *cloud, o object) error {
	if err := readCluster(ctx, c, o, o.stringValue("name")); err != nil {
		return err
	}
	o["id"], o["tags"] = o["name"], o["tags_all"]
	return nil
}

// tokenLifetime is how many seconds a token of a cluster may be shown for.
const tokenLifetime = "60"

// findToken signs a question to STS, which the cluster asks to find out who shows the token.
func findToken(ctx context.Context, c *cloud, o object) error {
	signed, err := sts.NewPresignClient(c.sts).PresignGetCallerIdentity(ctx, &sts.GetCallerIdentityInput{}, func(p *sts.PresignOptions) {
		p.ClientOptions = append(p.ClientOptions, func(options *sts.Options) {
			options.APIOptions = append(options.APIOptions,
				smithyhttp.SetHeaderValue("x-k8s-aws-id", o.stringValue("name")), smithyhttp.SetHeaderValue("X-Amz-Expires", tokenLifetime))
		})
	})
	if err != nil {
		return err
	}
	o["id"], o["token"] = o.stringValue("name"), "k8s-aws-v1."+base64.RawURLEncoding.EncodeToString([]byte(signed.URL))
	return nil
}

func findParameter(ctx context.Context, c *cloud, o object) error {
	out, err := c.ssm.GetParameter(ctx, &ssm.GetParameterInput{Name: o.stringPointer("name"), WithDecryption: aws.Bool(true)})
	if err != nil {
		return err
	}
	p := out.Parameter
	o["id"], o["value"], o["type"], o["version"], o["arn"] = p.Name, p.Value, string(p.Type), p.Version, p.ARN
	if p.Type != "SecureString" {
		o["insecure_value"] = p.Value
	}
	return nil
}

func describeSubnets(ctx context.Context, c *cloud, o object) ([]ec2types.Subnet, error) {
	in := &ec2.DescribeSubnetsInput{Filters: filtersOf(o)}
	if id := o.stringValue("id"); id != "" {
		in.SubnetIds = []string{id}
	}
	out, err := c.ec2.DescribeSubnets(ctx, in)
	if err != nil {
		return nil, err
	}
	return out.Subnets, nil
}

func findSubnets(ctx context.Context, c *cloud, o object) error {
	subnets, err := describeSubnets(ctx, c, o)
	if err != nil {
		return err
	}
	ids := []string{}
	for _, s := range subnets {
		ids = append(ids, aws.ToString(s.SubnetId))
	}
	slices.Sort(ids)
	o["id"], o["ids"] = c.region, ids
	return nil
}

func findSubnet(ctx context.Context, c *cloud, o object) error {
	subnets, err := describeSubnets(ctx, c, o)
	if err != nil {
		return err
	}
	if len(subnets) != 1 {
		return fmt.Errorf("%d subnets match, want one", len(subnets))
	}
	s := subnets[0]
	o["id"], o["vpc_id"], o["availability_zone"], o["cidr_block"], o["arn"] = s.SubnetId, s.VpcId, s.AvailabilityZone, s.CidrBlock, s.SubnetArn
	o["tags"] = userTags(s.Tags, ec2TagParts)
	return nil
}

func findVPC(ctx context.Context, c *cloud, o object) error {
	in := &ec2.DescribeVpcsInput{Filters: filtersOf(o)}
	if id := o.stringValue("id"); id != "" {
		in.VpcIds = []string{id}
	}
	out, err := c.ec2.DescribeVpcs(ctx, in)
	if err != nil {
		return err
	}
	if len(out.Vpcs) != 1 {
		return fmt.Errorf("%d VPCs match, want one", len(out.Vpcs))
	}
	v := out.Vpcs[0]
	o["id"], o["cidr_block"], o["state"], o["tags"] = v.VpcId, v.CidrBlock, string(v.State), userTags(v.Tags, ec2TagParts)
	o["arn"] = "arn:aws:ec2:" + c.region + ":" + aws.ToString(v.OwnerId) + ":vpc/" + aws.ToString(v.VpcId)
	return nil
}
