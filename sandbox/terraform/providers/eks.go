package main

import (
	"context"
	"strings"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/eks"
	"github.com/aws/aws-sdk-go-v2/service/eks/types"
)

func eksKinds() []kind[*cloud] {
	return []kind[*cloud]{clusterKind(), nodeGroupKind(), addonKind(), associationKind(), accessEntryKind()}
}

// tagEKS sets tags by the ARN in an attribute.
func tagEKS(arn string) func(ctx context.Context, c *cloud, o object, set map[string]string) error {
	return func(ctx context.Context, c *cloud, o object, set map[string]string) error {
		return errorOf(c.eks.TagResource(ctx, &eks.TagResourceInput{ResourceArn: o.stringPointer(arn), Tags: set}))
	}
}

func untagEKS(arn string) func(ctx context.Context, c *cloud, o object, keys []string) error {
	return func(ctx context.Context, c *cloud, o object, keys []string) error {
		return errorOf(c.eks.UntagResource(ctx, &eks.UntagResourceInput{ResourceArn: o.stringPointer(arn), TagKeys: keys}))
	}
}

// clusterFields are what resource and data source can read.
func clusterFields() map[string]field {
	oidc := structsOf(map[string]field{"issuer": computedField(text)})
	return map[string]field{
		"arn": computedField(text), "endpoint": computedField(text), "status": computedField(text), "platform_version": computedField(text), "created_at": computedField(text),
		"certificate_authority": structsOf(map[string]field{"data": computedField(text)}), "identity": structsOf(map[string]field{"oidc": oidc}),
	}
}

func vpcFields() map[string]field {
	return map[string]field{"cluster_security_group_id": computedField(text), "vpc_id": computedField(text)}
}

func clusterKind() kind[*cloud] {
	return kind[*cloud]{
		name: "aws_eks_cluster",
		fields: mergeTables(clusterFields(), map[string]field{
			"name": forcingReplacement(requiredField(text)), "role_arn": forcingReplacement(requiredField(text)), "version": optionalComputed(text),
			"enabled_cluster_log_types": optionalField(textSet), "bootstrap_self_managed_addons": forcingReplacement(withDefault(true)), "deletion_protection": optionalComputed(flag),
		}),
		blocks: map[string]block{
			"vpc_config": {single: true, required: true, fields: mergeTables(vpcFields(), map[string]field{
				"subnet_ids": requiredField(textSet), "security_group_ids": optionalField(textSet), "public_access_cidrs": optionalComputed(textSet),
				"endpoint_private_access": withDefault(false), "endpoint_public_access": withDefault(true),
			})},
			"access_config": {single: true, fields: map[string]field{
				"authentication_mode": optionalComputed(text), "bootstrap_cluster_creator_admin_permissions": forcingReplacement(optionalField(flag)),
			}},
			"kubernetes_network_config": {single: true, fields: map[string]field{"ip_family": forcingReplacement(optionalComputed(text)), "service_ipv4_cidr": forcingReplacement(optionalComputed(text))}},
			"upgrade_policy":            {single: true, fields: map[string]field{"support_type": optionalComputed(text)}},
		},
		create: createCluster,
		read: func(ctx context.Context, c *cloud, o object) error {
			return readCluster(ctx, c, o, o.stringValue("id"))
		},
		remove: func(ctx context.Context, c *cloud, o object) error {
			if _, err := c.eks.DeleteCluster(ctx, &eks.DeleteClusterInput{Name: o.stringPointer("id")}); err != nil {
				return toErrGone(err)
			}
			return untilGone(ctx, func() error {
				return errorOf(c.eks.DescribeCluster(ctx, &eks.DescribeClusterInput{Name: o.stringPointer("id")}))
			})
		},
		tag: tagEKS("arn"), untag: untagEKS("arn"),
	}
}

func createCluster(ctx context.Context, c *cloud, o object) error {
	vpc, access := o.singleBlock("vpc_config"), o.singleBlock("access_config")
	in := &eks.CreateClusterInput{
		Name: o.stringPointer("name"), RoleArn: o.stringPointer("role_arn"), Version: o.stringPointer("version"), Tags: o.textMap("tags_all"), BootstrapSelfManagedAddons: o.flagPointer("bootstrap_self_managed_addons"),
		ResourcesVpcConfig: &types.VpcConfigRequest{
			SubnetIds: vpc.stringValues("subnet_ids"), SecurityGroupIds: vpc.stringValues("security_group_ids"), PublicAccessCidrs: vpc.stringValues("public_access_cidrs"),
			EndpointPrivateAccess: vpc.flagPointer("endpoint_private_access"), EndpointPublicAccess: vpc.flagPointer("endpoint_public_access"),
		},
	}
	if len(access) > 0 {
		in.AccessConfig = &types.CreateAccessConfigRequest{
			AuthenticationMode: types.AuthenticationMode(access.stringValue("authentication_mode")), BootstrapClusterCreatorAdminPermissions: access.flagPointer("bootstrap_cluster_creator_admin_permissions"),
		}
	}
	if _, err := c.eks.CreateCluster(ctx, in); err != nil {
		return err
	}
	o["id"] = o.stringValue("name")
	return waitUntil(ctx, func() (bool, error) {
		out, err := c.eks.DescribeCluster(ctx, &eks.DescribeClusterInput{Name: o.stringPointer("name")})
		return err == nil && out.Cluster.Status == types.ClusterStatusActive, err
	})
}

func readCluster(ctx context.Context, c *cloud, o object, name string) error {
	out, err := c.eks.DescribeCluster(ctx, &eks.DescribeClusterInput{Name: &name})
	if err != nil {
		return toErrGone(err)
	}
	cluster := out.Cluster
	vpc := cluster.ResourcesVpcConfig
	o["name"], o["arn"], o["role_arn"], o["version"], o["endpoint"] = cluster.Name, cluster.Arn, cluster.RoleArn, cluster.Version, cluster.Endpoint
	o["status"], o["platform_version"], o["deletion_protection"] = string(cluster.Status), cluster.PlatformVersion, false
	o["created_at"] = aws.ToTime(cluster.CreatedAt).UTC().Format("2006-01-02T15:04:05Z")
	o["certificate_authority"] = []any{object{"data": cluster.CertificateAuthority.Data}}
	o["identity"] = []any{object{"oidc": []any{object{"issuer": cluster.Identity.Oidc.Issuer}}}}
	o["vpc_config"] = []any{object{
		"vpc_id": vpc.VpcId, "cluster_security_group_id": vpc.ClusterSecurityGroupId, "subnet_ids": vpc.SubnetIds, "security_group_ids": vpc.SecurityGroupIds,
		"public_access_cidrs": vpc.PublicAccessCidrs, "endpoint_private_access": vpc.EndpointPrivateAccess, "endpoint_public_access": vpc.EndpointPublicAccess,
	}}
	o["access_config"] = []any{object{"authentication_mode": string(cluster.AccessConfig.AuthenticationMode), "bootstrap_cluster_creator_admin_permissions": o.singleBlock("access_config")["bootstrap_cluster_creator_admin_permissions"]}}
	o["kubernetes_network_config"] = []any{object{"ip_family": string(cluster.KubernetesNetworkConfig.IpFamily), "service_ipv4_cidr": cluster.KubernetesNetworkConfig.ServiceIpv4Cidr}}
	o["tags_all"] = cluster.Tags
	return nil
}

func nodeGroupKind() kind[*cloud] {
	return kind[*cloud]{
		name: "aws_eks_node_group",
		fields: map[string]field{
			"cluster_name": forcingReplacement(requiredField(text)), "node_group_name": forcingReplacement(optionalComputed(text)), "node_group_name_prefix": forcingReplacement(optionalComputed(text)), "node_role_arn": forcingReplacement(requiredField(text)),
			"subnet_ids": forcingReplacement(requiredField(textSet)), "instance_types": forcingReplacement(optionalComputed(texts)), "capacity_type": forcingReplacement(optionalComputed(text)), "ami_type": forcingReplacement(optionalComputed(text)), "disk_size": forcingReplacement(optionalComputed(number)),
			"labels": optionalField(textMap), "version": optionalComputed(text), "release_version": optionalComputed(text), "force_update_version": optionalField(flag), "arn": computedField(text), "status": computedField(text),
		},
		blocks: map[string]block{
			"scaling_config": {single: true, required: true, fields: map[string]field{"desired_size": requiredField(number), "max_size": requiredField(number), "min_size": requiredField(number)}},
			"update_config":  {single: true, fields: map[string]field{"max_unavailable": optionalField(number), "max_unavailable_percentage": optionalField(number)}},
			"taint":          {set: true, fields: map[string]field{"key": requiredField(text), "value": optionalField(text), "effect": requiredField(text)}},
			"launch_template": {single: true, fields: map[string]field{
				"id": forcingReplacement(optionalComputed(text)), "name": forcingReplacement(optionalComputed(text)), "version": requiredField(text),
			}},
		},
		create: createNodeGroup,
		read:   readNodeGroup,
		update: func(ctx context.Context, c *cloud, was, o object) error {
			if !anyChanged(was, o, "labels", "scaling_config", "update_config", "taint") {
				return nil
			}
			return errorOf(c.eks.UpdateNodegroupConfig(ctx, &eks.UpdateNodegroupConfigInput{
				ClusterName: o.stringPointer("cluster_name"), NodegroupName: o.stringPointer("node_group_name"), ScalingConfig: scalingOf(o), UpdateConfig: updateOf(o), Labels: labelChange(was, o), Taints: taintChange(was, o),
			}))
		},
		remove: func(ctx context.Context, c *cloud, o object) error {
			cluster, group := o.stringPointer("cluster_name"), o.stringPointer("node_group_name")
			if _, err := c.eks.DeleteNodegroup(ctx, &eks.DeleteNodegroupInput{ClusterName: cluster, NodegroupName: group}); err != nil {
				return toErrGone(err)
			}
			return untilGone(ctx, func() error {
				return errorOf(c.eks.DescribeNodegroup(ctx, &eks.DescribeNodegroupInput{ClusterName: cluster, NodegroupName: group}))
			})
		},
		tag: tagEKS("arn"), untag: untagEKS("arn"),
	}
}

func scalingOf(o object) *types.NodegroupScalingConfig {
	s := o.singleBlock("scaling_config")
	return &types.NodegroupScalingConfig{DesiredSize: s.number32("desired_size"), MaxSize: s.number32("max_size"), MinSize: s.number32("min_size")}
}

func updateOf(o object) *types.NodegroupUpdateConfig {
	u := o.singleBlock("update_config")
	if len(u) == 0 {
		return nil
	}
	return &types.NodegroupUpdateConfig{MaxUnavailable: u.number32("max_unavailable"), MaxUnavailablePercentage: u.number32("max_unavailable_percentage")}
}

func taintsOf(o object) []types.Taint {
	var out []types.Taint
	for _, t := range o.blockValues("taint") {
		out = append(out, types.Taint{Key: t.stringPointer("key"), Value: t.stringPointer("value"), Effect: types.TaintEffect(t.stringValue("effect"))})
	}
	return out
}

func taintChange(was, o object) *types.UpdateTaintsPayload {
	if !anyChanged(was, o, "taint") {
		return nil
	}
	return &types.UpdateTaintsPayload{AddOrUpdateTaints: taintsOf(o), RemoveTaints: taintsOf(was)}
}

func labelChange(was, o object) *types.UpdateLabelsPayload {
	if !anyChanged(was, o, "labels") {
		return nil
	}
	out := &types.UpdateLabelsPayload{AddOrUpdateLabels: o.textMap("labels")}
	for key := range was.textMap("labels") {
		if _, kept := out.AddOrUpdateLabels[key]; !kept {
			out.RemoveLabels = append(out.RemoveLabels, key)
		}
	}
	return out
}

func createNodeGroup(ctx context.Context, c *cloud, o object) error {
	name := o.stringValue("node_group_name")
	if name == "" {
		name = nameOf(object{"name_prefix": o["node_group_name_prefix"]})
	}
	in := &eks.CreateNodegroupInput{
		ClusterName: o.stringPointer("cluster_name"), NodegroupName: &name, NodeRole: o.stringPointer("node_role_arn"), Subnets: o.stringValues("subnet_ids"), InstanceTypes: o.stringValues("instance_types"),
		CapacityType: types.CapacityTypes(o.stringValue("capacity_type")), AmiType: types.AMITypes(o.stringValue("ami_type")), DiskSize: o.number32("disk_size"), Labels: o.textMap("labels"),
		Version: o.stringPointer("version"), ReleaseVersion: o.stringPointer("release_version"), ScalingConfig: scalingOf(o), UpdateConfig: updateOf(o), Taints: taintsOf(o), Tags: o.textMap("tags_all"),
	}
	if lt := o.singleBlock("launch_template"); len(lt) > 0 {
		in.LaunchTemplate = &types.LaunchTemplateSpecification{Id: lt.stringPointer("id"), Name: lt.stringPointer("name"), Version: lt.stringPointer("version")}
	}
	if _, err := c.eks.CreateNodegroup(ctx, in); err != nil {
		return err
	}
	o["id"], o["node_group_name"] = o.stringValue("cluster_name")+":"+name, name
	return waitUntil(ctx, func() (bool, error) {
		out, err := c.eks.DescribeNodegroup(ctx, &eks.DescribeNodegroupInput{ClusterName: in.ClusterName, NodegroupName: &name})
		return err == nil && out.Nodegroup.Status == types.NodegroupStatusActive, err
	})
}

func readNodeGroup(ctx context.Context, c *cloud, o object) error {
	cluster, name, _ := strings.Cut(o.stringValue("id"), ":")
	out, err := c.eks.DescribeNodegroup(ctx, &eks.DescribeNodegroupInput{ClusterName: &cluster, NodegroupName: &name})
	if err != nil {
		return toErrGone(err)
	}
	g := out.Nodegroup
	o["cluster_name"], o["node_group_name"], o["arn"], o["status"], o["node_role_arn"] = g.ClusterName, g.NodegroupName, g.NodegroupArn, string(g.Status), g.NodeRole
	o["subnet_ids"], o["instance_types"], o["capacity_type"], o["ami_type"], o["disk_size"] = g.Subnets, g.InstanceTypes, string(g.CapacityType), string(g.AmiType), g.DiskSize
	o["labels"], o["version"], o["release_version"], o["tags_all"] = g.Labels, g.Version, g.ReleaseVersion, g.Tags
	o["scaling_config"] = []any{object{"desired_size": g.ScalingConfig.DesiredSize, "max_size": g.ScalingConfig.MaxSize, "min_size": g.ScalingConfig.MinSize}}
	o["update_config"], o["launch_template"] = []any{}, []any{}
	if u := g.UpdateConfig; u != nil {
		o["update_config"] = []any{object{"max_unavailable": u.MaxUnavailable, "max_unavailable_percentage": u.MaxUnavailablePercentage}}
	}
	if lt := g.LaunchTemplate; lt != nil {
		o["launch_template"] = []any{object{"id": lt.Id, "name": lt.Name, "version": lt.Version}}
	}
	taints := []any{}
	for _, t := range g.Taints {
		taints = append(taints, object{"key": t.Key, "value": t.Value, "effect": string(t.Effect)})
	}
	o["taint"] = taints
	return nil
}

func addonKind() kind[*cloud] {
	return kind[*cloud]{
		name: "aws_eks_addon",
		fields: map[string]field{
			"cluster_name": forcingReplacement(requiredField(text)), "addon_name": forcingReplacement(requiredField(text)), "addon_version": optionalComputed(text), "configuration_values": optionalComputed(text),
			"resolve_conflicts_on_create": optionalField(text), "resolve_conflicts_on_update": optionalField(text), "service_account_role_arn": optionalField(text), "preserve": optionalField(flag),
			"arn": computedField(text), "created_at": computedField(text), "modified_at": {shape: text, changes: true},
		},
		create: func(ctx context.Context, c *cloud, o object) error {
			_, err := c.eks.CreateAddon(ctx, &eks.CreateAddonInput{
				ClusterName: o.stringPointer("cluster_name"), AddonName: o.stringPointer("addon_name"), AddonVersion: o.stringPointer("addon_version"), ConfigurationValues: o.stringPointer("configuration_values"),
				ResolveConflicts: types.ResolveConflicts(o.stringValue("resolve_conflicts_on_create")), ServiceAccountRoleArn: o.stringPointer("service_account_role_arn"), Tags: o.textMap("tags_all"),
			})
			if err != nil {
				return err
			}
			o["id"] = o.stringValue("cluster_name") + ":" + o.stringValue("addon_name")
			return waitUntil(ctx, func() (bool, error) {
				out, err := c.eks.DescribeAddon(ctx, &eks.DescribeAddonInput{ClusterName: o.stringPointer("cluster_name"), AddonName: o.stringPointer("addon_name")})
				return err == nil && out.Addon.Status == types.AddonStatusActive, err
			})
		},
		read: func(ctx context.Context, c *cloud, o object) error {
			out, err := c.eks.DescribeAddon(ctx, &eks.DescribeAddonInput{ClusterName: o.stringPointer("cluster_name"), AddonName: o.stringPointer("addon_name")})
			if err != nil {
				return toErrGone(err)
			}
			a := out.Addon
			o["arn"], o["addon_version"], o["configuration_values"], o["service_account_role_arn"], o["tags_all"] = a.AddonArn, a.AddonVersion, aws.ToString(a.ConfigurationValues), a.ServiceAccountRoleArn, a.Tags
			o["created_at"], o["modified_at"] = aws.ToTime(a.CreatedAt).UTC().Format("2006-01-02T15:04:05Z"), aws.ToTime(a.ModifiedAt).UTC().Format("2006-01-02T15:04:05Z")
			return nil
		},
		update: func(ctx context.Context, c *cloud, was, o object) error {
			if !anyChanged(was, o, "addon_version", "configuration_values", "service_account_role_arn") {
				return nil
			}
			return errorOf(c.eks.UpdateAddon(ctx, &eks.UpdateAddonInput{
				ClusterName: o.stringPointer("cluster_name"), AddonName: o.stringPointer("addon_name"), AddonVersion: o.stringPointer("addon_version"), ConfigurationValues: o.stringPointer("configuration_values"),
				ResolveConflicts: types.ResolveConflicts(o.stringValue("resolve_conflicts_on_update")), ServiceAccountRoleArn: o.stringPointer("service_account_role_arn"),
			}))
		},
		remove: func(ctx context.Context, c *cloud, o object) error {
			cluster, addon := o.stringPointer("cluster_name"), o.stringPointer("addon_name")
			if _, err := c.eks.DeleteAddon(ctx, &eks.DeleteAddonInput{ClusterName: cluster, AddonName: addon, Preserve: o.boolValue("preserve")}); err != nil {
				return toErrGone(err)
			}
			return untilGone(ctx, func() error {
				return errorOf(c.eks.DescribeAddon(ctx, &eks.DescribeAddonInput{ClusterName: cluster, AddonName: addon}))
			})
		},
		tag: tagEKS("arn"), untag: untagEKS("arn"),
	}
}

func associationKind() kind[*cloud] {
	return kind[*cloud]{
		name: "aws_eks_pod_identity_association",
		fields: map[string]field{
			"cluster_name": forcingReplacement(requiredField(text)), "namespace": forcingReplacement(requiredField(text)), "service_account": forcingReplacement(requiredField(text)), "role_arn": requiredField(text),
			"association_arn": computedField(text), "association_id": computedField(text),
		},
		create: func(ctx context.Context, c *cloud, o object) error {
			out, err := c.eks.CreatePodIdentityAssociation(ctx, &eks.CreatePodIdentityAssociationInput{
				ClusterName: o.stringPointer("cluster_name"), Namespace: o.stringPointer("namespace"), ServiceAccount: o.stringPointer("service_account"), RoleArn: o.stringPointer("role_arn"), Tags: o.textMap("tags_all"),
			})
			if err == nil {
				o["id"] = aws.ToString(out.Association.AssociationId)
			}
			return err
		},
		read: func(ctx context.Context, c *cloud, o object) error {
			out, err := c.eks.DescribePodIdentityAssociation(ctx, &eks.DescribePodIdentityAssociationInput{ClusterName: o.stringPointer("cluster_name"), AssociationId: o.stringPointer("id")})
			if err != nil {
				return toErrGone(err)
			}
			a := out.Association
			o["namespace"], o["service_account"], o["role_arn"], o["association_arn"], o["association_id"], o["tags_all"] = a.Namespace, a.ServiceAccount, a.RoleArn, a.AssociationArn, a.AssociationId, a.Tags
			return nil
		},
		update: func(ctx context.Context, c *cloud, was, o object) error {
			if !anyChanged(was, o, "role_arn") {
				return nil
			}
			return errorOf(c.eks.UpdatePodIdentityAssociation(ctx, &eks.UpdatePodIdentityAssociationInput{ClusterName: o.stringPointer("cluster_name"), AssociationId: o.stringPointer("id"), RoleArn: o.stringPointer("role_arn")}))
		},
		remove: func(ctx context.Context, c *cloud, o object) error {
			return errorOf(c.eks.DeletePodIdentityAssociation(ctx, &eks.DeletePodIdentityAssociationInput{ClusterName: o.stringPointer("cluster_name"), AssociationId: o.stringPointer("id")}))
		},
		tag: tagEKS("association_arn"), untag: untagEKS("association_arn"),
	}
}

func accessEntryKind() kind[*cloud] {
	return kind[*cloud]{
		name: "aws_eks_access_entry",
		fields: map[string]field{
			"cluster_name": forcingReplacement(requiredField(text)), "principal_arn": forcingReplacement(requiredField(text)), "type": forcingReplacement(withDefault("STANDARD")), "kubernetes_groups": optionalComputed(textSet), "user_name": optionalComputed(text),
			"access_entry_arn": computedField(text), "created_at": computedField(text), "modified_at": {shape: text, changes: true},
		},
		create: func(ctx context.Context, c *cloud, o object) error {
			_, err := c.eks.CreateAccessEntry(ctx, &eks.CreateAccessEntryInput{
				ClusterName: o.stringPointer("cluster_name"), PrincipalArn: o.stringPointer("principal_arn"), Type: o.stringPointer("type"), KubernetesGroups: o.stringValues("kubernetes_groups"), Username: o.stringPointer("user_name"), Tags: o.textMap("tags_all"),
			})
			if err == nil {
				o["id"] = o.stringValue("cluster_name") + ":" + o.stringValue("principal_arn")
			}
			return err
		},
		read: func(ctx context.Context, c *cloud, o object) error {
			out, err := c.eks.DescribeAccessEntry(ctx, &eks.DescribeAccessEntryInput{ClusterName: o.stringPointer("cluster_name"), PrincipalArn: o.stringPointer("principal_arn")})
			if err != nil {
				return toErrGone(err)
			}
			e := out.AccessEntry
			o["type"], o["kubernetes_groups"], o["user_name"], o["access_entry_arn"], o["tags_all"] = e.Type, e.KubernetesGroups, e.Username, e.AccessEntryArn, e.Tags
			o["created_at"], o["modified_at"] = aws.ToTime(e.CreatedAt).UTC().Format("2006-01-02T15:04:05Z"), aws.ToTime(e.ModifiedAt).UTC().Format("2006-01-02T15:04:05Z")
			return nil
		},
		update: func(ctx context.Context, c *cloud, was, o object) error {
			if !anyChanged(was, o, "kubernetes_groups", "user_name") {
				return nil
			}
			return errorOf(c.eks.UpdateAccessEntry(ctx, &eks.UpdateAccessEntryInput{ClusterName: o.stringPointer("cluster_name"), PrincipalArn: o.stringPointer("principal_arn"), KubernetesGroups: o.stringValues("kubernetes_groups"), Username: o.stringPointer("user_name")}))
		},
		remove: func(ctx context.Context, c *cloud, o object) error {
			return errorOf(c.eks.DeleteAccessEntry(ctx, &eks.DeleteAccessEntryInput{ClusterName: o.stringPointer("cluster_name"), PrincipalArn: o.stringPointer("principal_arn")}))
		},
		tag: tagEKS("access_entry_arn"), untag: untagEKS("access_entry_arn"),
	}
}
