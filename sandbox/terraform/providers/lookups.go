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

func lookups() []lookup[*cloud] {
	return []lookup[*cloud]{
		{name: "aws_caller_identity", fields: map[string]field{"account_id": computed(text), "arn": computed(text), "user_id": computed(text)}, find: findCaller},
		{name: "aws_partition", fields: map[string]field{"partition": computed(text), "dns_suffix": computed(text), "reverse_dns_prefix": computed(text)}, find: findPartition},
		{name: "aws_region", fields: map[string]field{"region": either(text), "name": either(text), "endpoint": either(text), "description": computed(text)}, find: findRegion},
		{name: "aws_iam_roles", fields: map[string]field{"name_regex": optional(text), "path_prefix": optional(text), "arns": computed(textSet), "names": computed(textSet)}, find: findRoles},
		{
			name: "aws_eks_cluster", fields: with(clusterFields(), map[string]field{
				"name": required(text), "role_arn": computed(text), "version": computed(text), "tags": computed(textMap), "vpc_config": structsOf(with(vpcFields(), map[string]field{
					"subnet_ids": computed(textSet), "security_group_ids": computed(textSet), "public_access_cidrs": computed(textSet), "endpoint_private_access": computed(flag), "endpoint_public_access": computed(flag),
				})),
			}), find: findCluster,
		},
		{name: "aws_eks_cluster_auth", fields: map[string]field{"name": required(text), "token": {secret: true}}, find: findToken},
		{
			name: "aws_ssm_parameter", fields: map[string]field{
				"name": required(text), "with_decryption": optional(flag), "value": {secret: true}, "insecure_value": computed(text), "type": computed(text), "version": computed(number), "arn": computed(text),
			}, find: findParameter,
		},
		{name: "aws_subnets", fields: map[string]field{"tags": either(textMap), "ids": computed(texts)}, blocks: filterBlocks(), find: findSubnets},
		{
			name: "aws_subnet", fields: map[string]field{
				"vpc_id": either(text), "availability_zone": either(text), "cidr_block": either(text), "arn": computed(text), "tags": either(textMap), "id": either(text),
			}, blocks: filterBlocks(), find: findSubnet,
		},
		{name: "aws_vpc", fields: map[string]field{"id": either(text), "cidr_block": either(text), "state": either(text), "tags": either(textMap), "arn": computed(text)}, blocks: filterBlocks(), find: findVPC},
		policyDocument(),
	}
}

func filterBlocks() map[string]block {
	return map[string]block{"filter": {set: true, fields: map[string]field{"name": required(text), "values": required(textSet)}}}
}

func filtersOf(o object) []ec2types.Filter {
	var out []ec2types.Filter
	for _, f := range o.blocks("filter") {
		out = append(out, filter(f.text("name"), f.texts("values")...))
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
	wanted, err := regexp.Compile(o.text("name_regex"))
	if err != nil {
		return err
	}
	arns, names := []string{}, []string{}
	pages := iam.NewListRolesPaginator(c.iam, &iam.ListRolesInput{PathPrefix: o.pointer("path_prefix")})
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
	if err := readCluster(ctx, c, o, o.text("name")); err != nil {
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
				smithyhttp.SetHeaderValue("x-k8s-aws-id", o.text("name")), smithyhttp.SetHeaderValue("X-Amz-Expires", tokenLifetime))
		})
	})
	if err != nil {
		return err
	}
	o["id"], o["token"] = o.text("name"), "k8s-aws-v1."+base64.RawURLEncoding.EncodeToString([]byte(signed.URL))
	return nil
}

func findParameter(ctx context.Context, c *cloud, o object) error {
	out, err := c.ssm.GetParameter(ctx, &ssm.GetParameterInput{Name: o.pointer("name"), WithDecryption: aws.Bool(true)})
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
	if id := o.text("id"); id != "" {
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
	if id := o.text("id"); id != "" {
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
