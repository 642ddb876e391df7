package main

import (
	"context"
	"errors"
	"strings"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	"github.com/aws/aws-sdk-go-v2/service/ec2/types"
)

func ec2Kinds() []kind[*cloud] {
	return []kind[*cloud]{
		tagKind(), groupKind(), launchTemplateKind(), groupRuleKind("aws_vpc_security_group_ingress_rule", false), groupRuleKind("aws_vpc_security_group_egress_rule", true),
	}
}

func ec2Tag(key, value *string) types.Tag { return types.Tag{Key: key, Value: value} }

func ec2TagParts(t types.Tag) (key, value *string) { return t.Key, t.Value }

func ec2Tags(tags map[string]string, of types.ResourceType) []types.TagSpecification {
	if len(tags) == 0 {
		return nil
	}
	return []types.TagSpecification{{ResourceType: of, Tags: tagList(tags, ec2Tag)}}
}

// tagEC2 sets tags by id.
func tagEC2(ctx context.Context, c *cloud, o object, set map[string]string) error {
	return errorOf(c.ec2.CreateTags(ctx, &ec2.CreateTagsInput{Resources: []string{o.stringValue("id")}, Tags: tagList(set, ec2Tag)}))
}

func untagEC2(ctx context.Context, c *cloud, o object, keys []string) error {
	var tags []types.Tag
	for _, key := range keys {
		tags = append(tags, types.Tag{Key: aws.String(key)})
	}
	return errorOf(c.ec2.DeleteTags(ctx, &ec2.DeleteTagsInput{Resources: []string{o.stringValue("id")}, Tags: tags}))
}

func filter(name string, values ...string) types.Filter {
	return types.Filter{Name: aws.String(name), Values: values}
}

func tagKind() kind[*cloud] {
	put := func(ctx context.Context, c *cloud, o object) error {
		_, err := c.ec2.CreateTags(ctx, &ec2.CreateTagsInput{Resources: []string{o.stringValue("resource_id")}, Tags: []types.Tag{{Key: o.stringPointer("key"), Value: o.stringPointer("value")}}})
		if err == nil {
			o["id"] = o.stringValue("resource_id") + "," + o.stringValue("key")
		}
		return err
	}
	return kind[*cloud]{
		name:   "aws_ec2_tag",
		fields: map[string]field{"resource_id": forcingReplacement(requiredField(text)), "key": forcingReplacement(requiredField(text)), "value": requiredField(text)},
		create: put,
		read: func(ctx context.Context, c *cloud, o object) error {
			out, err := c.ec2.DescribeTags(ctx, &ec2.DescribeTagsInput{Filters: []types.Filter{filter("resource-id", o.stringValue("resource_id")), filter("key", o.stringValue("key"))}})
			if err != nil {
				return toErrGone(err)
			}
			if len(out.Tags) == 0 {
				return errGone
			}
			o["value"] = out.Tags[0].Value
			return nil
		},
		update: func(ctx context.Context, c *cloud, _, o object) error { return put(ctx, c, o) },
		remove: func(ctx context.Context, c *cloud, o object) error {
			return errorOf(c.ec2.DeleteTags(ctx, &ec2.DeleteTagsInput{Resources: []string{o.stringValue("resource_id")}, Tags: []types.Tag{{Key: o.stringPointer("key"), Value: o.stringPointer("value")}}}))
		},
	}
}

func groupKind() kind[*cloud] {
	return kind[*cloud]{
		name: "aws_security_group",
		fields: map[string]field{
			"name": forcingReplacement(optionalComputed(text)), "name_prefix": forcingReplacement(optionalComputed(text)), "description": forcingReplacement(withDefault("Managed by Terraform")), "vpc_id": forcingReplacement(optionalComputed(text)),
			"revoke_rules_on_delete": withDefault(false), "arn": computedField(text), "owner_id": computedField(text),
		},
		create: func(ctx context.Context, c *cloud, o object) error {
			out, err := c.ec2.CreateSecurityGroup(ctx, &ec2.CreateSecurityGroupInput{
				GroupName: aws.String(nameOf(o)), Description: o.stringPointer("description"), VpcId: o.stringPointer("vpc_id"), TagSpecifications: ec2Tags(o.textMap("tags_all"), types.ResourceTypeSecurityGroup),
			})
			if err == nil {
				o["id"] = aws.ToString(out.GroupId)
			}
			return err
		},
		read: func(ctx context.Context, c *cloud, o object) error {
			out, err := c.ec2.DescribeSecurityGroups(ctx, &ec2.DescribeSecurityGroupsInput{GroupIds: []string{o.stringValue("id")}})
			if err != nil {
				return toErrGone(err)
			}
			g := out.SecurityGroups[0]
			o["name"], o["description"], o["vpc_id"], o["owner_id"], o["tags_all"] = g.GroupName, g.Description, g.VpcId, g.OwnerId, userTags(g.Tags, ec2TagParts)
			o["arn"] = "arn:aws:ec2:" + c.region + ":" + aws.ToString(g.OwnerId) + ":security-group/" + o.stringValue("id")
			return nil
		},
		remove: func(ctx context.Context, c *cloud, o object) error {
			return errorOf(c.ec2.DeleteSecurityGroup(ctx, &ec2.DeleteSecurityGroupInput{GroupId: o.stringPointer("id")}))
		},
		tag: tagEC2, untag: untagEC2,
	}
}

// groupRuleKind is a rule of a security group. The real provider changes rules in place; here a change makes a new one.
func groupRuleKind(name string, egress bool) kind[*cloud] {
	return kind[*cloud]{
		name: name,
		fields: map[string]field{
			"security_group_id": forcingReplacement(requiredField(text)), "ip_protocol": forcingReplacement(requiredField(text)), "from_port": forcingReplacement(optionalField(number)), "to_port": forcingReplacement(optionalField(number)), "description": forcingReplacement(optionalField(text)),
			"cidr_ipv4": forcingReplacement(optionalField(text)), "cidr_ipv6": forcingReplacement(optionalField(text)), "referenced_security_group_id": forcingReplacement(optionalField(text)), "arn": computedField(text), "security_group_rule_id": computedField(text),
		},
		create: func(ctx context.Context, c *cloud, o object) error { return createGroupRule(ctx, c, o, egress) },
		read: func(ctx context.Context, c *cloud, o object) error {
			out, err := c.ec2.DescribeSecurityGroupRules(ctx, &ec2.DescribeSecurityGroupRulesInput{SecurityGroupRuleIds: []string{o.stringValue("id")}})
			if err != nil {
				return toErrGone(err)
			}
			r := out.SecurityGroupRules[0]
			o["security_group_id"], o["ip_protocol"], o["from_port"], o["to_port"], o["description"] = r.GroupId, r.IpProtocol, r.FromPort, r.ToPort, r.Description
			o["cidr_ipv4"], o["cidr_ipv6"], o["referenced_security_group_id"], o["tags_all"] = r.CidrIpv4, r.CidrIpv6, nil, userTags(r.Tags, ec2TagParts)
			if r.ReferencedGroupInfo != nil {
				o["referenced_security_group_id"] = r.ReferencedGroupInfo.GroupId
			}
			o["arn"], o["security_group_rule_id"] = "arn:aws:ec2:"+c.region+":"+aws.ToString(r.GroupOwnerId)+":security-group-rule/"+o.stringValue("id"), o.stringValue("id")
			return nil
		},
		remove: func(ctx context.Context, c *cloud, o object) error {
			ids := []string{o.stringValue("id")}
			if egress {
				return errorOf(c.ec2.RevokeSecurityGroupEgress(ctx, &ec2.RevokeSecurityGroupEgressInput{GroupId: o.stringPointer("security_group_id"), SecurityGroupRuleIds: ids}))
			}
			return errorOf(c.ec2.RevokeSecurityGroupIngress(ctx, &ec2.RevokeSecurityGroupIngressInput{GroupId: o.stringPointer("security_group_id"), SecurityGroupRuleIds: ids}))
		},
		tag: tagEC2, untag: untagEC2,
	}
}

func createGroupRule(ctx context.Context, c *cloud, o object, egress bool) error {
	p := types.IpPermission{IpProtocol: o.stringPointer("ip_protocol"), FromPort: o.number32("from_port"), ToPort: o.number32("to_port")}
	switch {
	case o.has("cidr_ipv4"):
		p.IpRanges = []types.IpRange{{CidrIp: o.stringPointer("cidr_ipv4"), Description: o.stringPointer("description")}}
	case o.has("cidr_ipv6"):
		p.Ipv6Ranges = []types.Ipv6Range{{CidrIpv6: o.stringPointer("cidr_ipv6"), Description: o.stringPointer("description")}}
	case o.has("referenced_security_group_id"):
		p.UserIdGroupPairs = []types.UserIdGroupPair{{GroupId: o.stringPointer("referenced_security_group_id"), Description: o.stringPointer("description")}}
	default:
		return errors.New("exactly one of cidr_ipv4, cidr_ipv6 and referenced_security_group_id must be set")
	}
	tags := ec2Tags(o.textMap("tags_all"), types.ResourceTypeSecurityGroupRule)
	var made []types.SecurityGroupRule
	if egress {
		out, err := c.ec2.AuthorizeSecurityGroupEgress(ctx, &ec2.AuthorizeSecurityGroupEgressInput{GroupId: o.stringPointer("security_group_id"), IpPermissions: []types.IpPermission{p}, TagSpecifications: tags})
		if err != nil {
			return err
		}
		made = out.SecurityGroupRules
	} else {
		out, err := c.ec2.AuthorizeSecurityGroupIngress(ctx, &ec2.AuthorizeSecurityGroupIngressInput{GroupId: o.stringPointer("security_group_id"), IpPermissions: []types.IpPermission{p}, TagSpecifications: tags})
		if err != nil {
			return err
		}
		made = out.SecurityGroupRules
	}
	for _, r := range made {
		o["id"] = aws.ToString(r.SecurityGroupRuleId)
	}
	return nil
}

func launchTemplateKind() kind[*cloud] {
	latest := field{shape: number, changes: true}
	return kind[*cloud]{
		name: "aws_launch_template",
		fields: map[string]field{
			"name": forcingReplacement(optionalComputed(text)), "name_prefix": forcingReplacement(optionalComputed(text)), "description": optionalField(text), "image_id": optionalField(text), "instance_type": optionalField(text), "user_data": optionalField(text),
			"update_default_version": optionalField(flag), "vpc_security_group_ids": optionalField(textSet), "arn": computedField(text), "latest_version": latest, "default_version": {shape: number, optional: true, computed: true, changes: true},
		},
		blocks: map[string]block{
			"metadata_options": {single: true, fields: map[string]field{
				"http_endpoint": optionalComputed(text), "http_tokens": optionalComputed(text), "http_put_response_hop_limit": optionalComputed(number), "http_protocol_ipv6": optionalComputed(text), "instance_metadata_tags": optionalComputed(text),
			}},
			"tag_specifications": {fields: map[string]field{"resource_type": optionalField(text), "tags": optionalField(textMap)}},
			"block_device_mappings": {fields: map[string]field{"device_name": optionalField(text)}, blocks: map[string]block{
				"ebs": {single: true, fields: map[string]field{"volume_size": optionalComputed(number), "volume_type": optionalComputed(text), "encrypted": optionalField(text), "delete_on_termination": optionalField(text)}},
			}},
		},
		create: func(ctx context.Context, c *cloud, o object) error {
			out, err := c.ec2.CreateLaunchTemplate(ctx, &ec2.CreateLaunchTemplateInput{
				LaunchTemplateName: aws.String(nameOf(o)), VersionDescription: o.stringPointer("description"), LaunchTemplateData: templateData(o), TagSpecifications: ec2Tags(o.textMap("tags_all"), types.ResourceTypeLaunchTemplate),
			})
			if err == nil {
				o["id"] = aws.ToString(out.LaunchTemplate.LaunchTemplateId)
			}
			return err
		},
		read: readTemplate,
		update: func(ctx context.Context, c *cloud, was, o object) error {
			if !anyChanged(was, o, "description", "image_id", "instance_type", "user_data", "vpc_security_group_ids", "metadata_options", "tag_specifications", "block_device_mappings") {
				return nil
			}
			return errorOf(c.ec2.CreateLaunchTemplateVersion(ctx, &ec2.CreateLaunchTemplateVersionInput{LaunchTemplateId: o.stringPointer("id"), VersionDescription: o.stringPointer("description"), LaunchTemplateData: templateData(o)}))
		},
		remove: func(ctx context.Context, c *cloud, o object) error {
			return errorOf(c.ec2.DeleteLaunchTemplate(ctx, &ec2.DeleteLaunchTemplateInput{LaunchTemplateId: o.stringPointer("id")}))
		},
		tag: tagEC2, untag: untagEC2,
	}
}

func templateData(o object) *types.RequestLaunchTemplateData {
	data := &types.RequestLaunchTemplateData{ImageId: o.stringPointer("image_id"), InstanceType: types.InstanceType(o.stringValue("instance_type")), UserData: o.stringPointer("user_data"), SecurityGroupIds: o.stringValues("vpc_security_group_ids")}
	if m := o.singleBlock("metadata_options"); len(m) > 0 {
		data.MetadataOptions = &types.LaunchTemplateInstanceMetadataOptionsRequest{
			HttpEndpoint: types.LaunchTemplateInstanceMetadataEndpointState(m.stringValue("http_endpoint")), HttpTokens: types.LaunchTemplateHttpTokensState(m.stringValue("http_tokens")),
			HttpPutResponseHopLimit: m.number32("http_put_response_hop_limit"), HttpProtocolIpv6: types.LaunchTemplateInstanceMetadataProtocolIpv6(m.stringValue("http_protocol_ipv6")),
			InstanceMetadataTags: types.LaunchTemplateInstanceMetadataTagsState(m.stringValue("instance_metadata_tags")),
		}
	}
	for _, s := range o.blockValues("tag_specifications") {
		data.TagSpecifications = append(data.TagSpecifications, types.LaunchTemplateTagSpecificationRequest{ResourceType: types.ResourceType(s.stringValue("resource_type")), Tags: tagList(s.textMap("tags"), ec2Tag)})
	}
	for _, d := range o.blockValues("block_device_mappings") {
		device := types.LaunchTemplateBlockDeviceMappingRequest{DeviceName: d.stringPointer("device_name")}
		if e := d.singleBlock("ebs"); len(e) > 0 {
			device.Ebs = &types.LaunchTemplateEbsBlockDeviceRequest{VolumeSize: e.number32("volume_size"), VolumeType: types.VolumeType(e.stringValue("volume_type"))}
			if e.has("encrypted") {
				device.Ebs.Encrypted = aws.Bool(e.stringValue("encrypted") == "true")
			}
			if e.has("delete_on_termination") {
				device.Ebs.DeleteOnTermination = aws.Bool(e.stringValue("delete_on_termination") == "true")
			}
		}
		data.BlockDeviceMappings = append(data.BlockDeviceMappings, device)
	}
	return data
}

func readTemplate(ctx context.Context, c *cloud, o object) error {
	out, err := c.ec2.DescribeLaunchTemplates(ctx, &ec2.DescribeLaunchTemplatesInput{LaunchTemplateIds: []string{o.stringValue("id")}})
	if err != nil {
		return toErrGone(err)
	}
	t := out.LaunchTemplates[0]
	versions, err := c.ec2.DescribeLaunchTemplateVersions(ctx, &ec2.DescribeLaunchTemplateVersionsInput{LaunchTemplateId: t.LaunchTemplateId, Versions: []string{"$Latest"}})
	if err != nil {
		return toErrGone(err)
	}
	data := versions.LaunchTemplateVersions[0].LaunchTemplateData
	o["name"], o["latest_version"], o["default_version"], o["tags_all"] = t.LaunchTemplateName, t.LatestVersionNumber, t.DefaultVersionNumber, userTags(t.Tags, ec2TagParts)
	o["arn"] = "arn:aws:ec2:" + c.region + ":" + accountOf(t.CreatedBy) + ":launch-template/" + o.stringValue("id")
	o["image_id"], o["instance_type"], o["user_data"], o["vpc_security_group_ids"] = data.ImageId, string(data.InstanceType), data.UserData, data.SecurityGroupIds
	o["metadata_options"] = []any{}
	if m := data.MetadataOptions; m != nil {
		o["metadata_options"] = []any{object{
			"http_endpoint": string(m.HttpEndpoint), "http_tokens": string(m.HttpTokens), "http_put_response_hop_limit": m.HttpPutResponseHopLimit,
			"http_protocol_ipv6": string(m.HttpProtocolIpv6), "instance_metadata_tags": string(m.InstanceMetadataTags),
		}}
	}
	specifications := []any{}
	for _, s := range data.TagSpecifications {
		specifications = append(specifications, object{"resource_type": string(s.ResourceType), "tags": userTags(s.Tags, ec2TagParts)})
	}
	o["tag_specifications"] = specifications
	return nil
}

// accountOf is the account in an ARN.
func accountOf(arn *string) string {
	if parts := strings.Split(aws.ToString(arn), ":"); len(parts) > 4 {
		return parts[4]
	}
	return ""
}
