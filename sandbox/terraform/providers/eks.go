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
		return second(c.eks.TagResource(ctx, &eks.TagResourceInput{ResourceArn: o.pointer(arn), Tags: set}))
	}
}

func untagEKS(arn string) func(ctx context.Context, c *cloud, o object, keys []string) error {
	return func(ctx context.Context, c *cloud, o object, keys []string) error {
		return second(c.eks.UntagResource(ctx, &eks.UntagResourceInput{ResourceArn: o.pointer(arn), TagKeys: keys}))
	}
}

// clusterFields are what resource and data source can read.
func clusterFields() map[string]field {
	oidc := structsOf(map[string]field{"issuer": computed(text)})
	return map[string]field{
		"arn": computed(text), "endpoint": computed(text), "status": computed(text), "platform_version": computed(text), "created_at": computed(text),
		"certificate_authority": structsOf(map[string]field{"data": computed(text)}), "identity": structsOf(map[string]field{"oidc": oidc}),
	}
}

func vpcFields() map[string]field {
	return map[string]field{"cluster_security_group_id": computed(text), "vpc_id": computed(text)}
}

func clusterKind() kind[*cloud] {
	return kind[*cloud]{
		name: "aws_eks_cluster",
		fields: with(clusterFields(), map[string]field{
			"name": fixed(required(text)), "role_arn": fixed(required(text)), "version": either(text),
			"enabled_cluster_log_types": optional(textSet), "bootstrap_self_managed_addons": fixed(usually(true)), "deletion_protection": either(flag),
		}),
		blocks: map[string]block{
			"vpc_config": {single: true, required: true, fields: with(vpcFields(), map[string]field{
				"subnet_ids": required(textSet), "security_group_ids": optional(textSet), "public_access_cidrs": either(textSet),
				"endpoint_private_access": usually(false), "endpoint_public_access": usually(true),
			})},
			"access_config": {single: true, fields: map[string]field{
				"authentication_mode": either(text), "bootstrap_cluster_creator_admin_permissions": fixed(optional(flag)),
			}},
			"kubernetes_network_config": {single: true, fields: map[string]field{"ip_family": fixed(either(text)), "service_ipv4_cidr": fixed(either(text))}},
			"upgrade_policy":            {single: true, fields: map[string]field{"support_type": either(text)}},
		},
		create: createCluster,
		read: func(ctx context.Context, c *cloud, o object) error {
			return readCluster(ctx, c, o, o.text("id"))
		},
		remove: func(ctx context.Context, c *cloud, o object) error {
			if _, err := c.eks.DeleteCluster(ctx, &eks.DeleteClusterInput{Name: o.pointer("id")}); err != nil {
				return gone(err)
			}
			return untilGone(ctx, func() error {
				return second(c.eks.DescribeCluster(ctx, &eks.DescribeClusterInput{Name: o.pointer("id")}))
			})
		},
		tag: tagEKS("arn"), untag: untagEKS("arn"),
	}
}

func createCluster(ctx context.Context, c *cloud, o object) error {
	vpc, access := o.block("vpc_config"), o.block("access_config")
	in := &eks.CreateClusterInput{
		Name: o.pointer("name"), RoleArn: o.pointer("role_arn"), Version: o.pointer("version"), Tags: o.textMap("tags_all"), BootstrapSelfManagedAddons: o.flagPointer("bootstrap_self_managed_addons"),
		ResourcesVpcConfig: &types.VpcConfigRequest{
			SubnetIds: vpc.texts("subnet_ids"), SecurityGroupIds: vpc.texts("security_group_ids"), PublicAccessCidrs: vpc.texts("public_access_cidrs"),
			EndpointPrivateAccess: vpc.flagPointer("endpoint_private_access"), EndpointPublicAccess: vpc.flagPointer("endpoint_public_access"),
		},
	}
	if len(access) > 0 {
		in.AccessConfig = &types.CreateAccessConfigRequest{
			AuthenticationMode: types.AuthenticationMode(access.text("authentication_mode")), BootstrapClusterCreatorAdminPermissions: access.flagPointer("bootstrap_cluster_creator_admin_permissions"),
		}
	}
	if _, err := c.eks.CreateCluster(ctx, in); err != nil {
		return err
	}
	o["id"] = o.text("name")
	return until(ctx, func() (bool, error) {
		out, err := c.eks.DescribeCluster(ctx, &eks.DescribeClusterInput{Name: o.pointer("name")})
		return err == nil && out.Cluster.Status == types.ClusterStatusActive, err
	})
}

func readCluster(ctx context.Context, c *cloud, o object, name string) error {
	out, err := c.eks.DescribeCluster(ctx, &eks.DescribeClusterInput{Name: &name})
	if err != nil {
		return gone(err)
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
	o["access_config"] = []any{object{"authentication_mode": string(cluster.AccessConfig.AuthenticationMode), "bootstrap_cluster_creator_admin_permissions": o.block("access_config")["bootstrap_cluster_creator_admin_permissions"]}}
	o["kubernetes_network_config"] = []any{object{"ip_family": string(cluster.KubernetesNetworkConfig.IpFamily), "service_ipv4_cidr": cluster.KubernetesNetworkConfig.ServiceIpv4Cidr}}
	o["tags_all"] = cluster.Tags
	return nil
}

func nodeGroupKind() kind[*cloud] {
	return kind[*cloud]{
		name: "aws_eks_node_group",
		fields: map[string]field{
			"cluster_name": fixed(required(text)), "node_group_name": fixed(either(text)), "node_group_name_prefix": fixed(either(text)), "node_role_arn": fixed(required(text)),
			"subnet_ids": fixed(required(textSet)), "instance_types": fixed(either(texts)), "capacity_type": fixed(either(text)), "ami_type": fixed(either(text)), "disk_size": fixed(either(number)),
			"labels": optional(textMap), "version": either(text), "release_version": either(text), "force_update_version": optional(flag), "arn": computed(text), "status": computed(text),
		},
		blocks: map[string]block{
			"scaling_config": {single: true, required: true, fields: map[string]field{"desired_size": required(number), "max_size": required(number), "min_size": required(number)}},
			"update_config":  {single: true, fields: map[string]field{"max_unavailable": optional(number), "max_unavailable_percentage": optional(number)}},
			"taint":          {set: true, fields: map[string]field{"key": required(text), "value": optional(text), "effect": required(text)}},
			"launch_template": {single: true, fields: map[string]field{
				"id": fixed(either(text)), "name": fixed(either(text)), "version": required(text),
			}},
		},
		create: createNodeGroup,
		read:   readNodeGroup,
		update: func(ctx context.Context, c *cloud, was, o object) error {
			if !changed(was, o, "labels", "scaling_config", "update_config", "taint") {
				return nil
			}
			return second(c.eks.UpdateNodegroupConfig(ctx, &eks.UpdateNodegroupConfigInput{
				ClusterName: o.pointer("cluster_name"), NodegroupName: o.pointer("node_group_name"), ScalingConfig: scalingOf(o), UpdateConfig: updateOf(o), Labels: labelChange(was, o), Taints: taintChange(was, o),
			}))
		},
		remove: func(ctx context.Context, c *cloud, o object) error {
			cluster, group := o.pointer("cluster_name"), o.pointer("node_group_name")
			if _, err := c.eks.DeleteNodegroup(ctx, &eks.DeleteNodegroupInput{ClusterName: cluster, NodegroupName: group}); err != nil {
				return gone(err)
			}
			return untilGone(ctx, func() error {
				return second(c.eks.DescribeNodegroup(ctx, &eks.DescribeNodegroupInput{ClusterName: cluster, NodegroupName: group}))
			})
		},
		tag: tagEKS("arn"), untag: untagEKS("arn"),
	}
}

func scalingOf(o object) *types.NodegroupScalingConfig {
	s := o.block("scaling_config")
	return &types.NodegroupScalingConfig{DesiredSize: s.number32("desired_size"), MaxSize: s.number32("max_size"), MinSize: s.number32("min_size")}
}

func updateOf(o object) *types.NodegroupUpdateConfig {
	u := o.block("update_config")
	if len(u) == 0 {
		return nil
	}
	return &types.NodegroupUpdateConfig{MaxUnavailable: u.number32("max_unavailable"), MaxUnavailablePercentage: u.number32("max_unavailable_percentage")}
}

func taintsOf(o object) []types.Taint {
	var out []types.Taint
	for _, t := range o.blocks("taint") {
		out = append(out, types.Taint{Key: t.pointer("key"), Value: t.pointer("value"), Effect: types.TaintEffect(t.text("effect"))})
	}
	return out
}

func taintChange(was, o object) *types.UpdateTaintsPayload {
	if !changed(was, o, "taint") {
		return nil
	}
	return &types.UpdateTaintsPayload{AddOrUpdateTaints: taintsOf(o), RemoveTaints: taintsOf(was)}
}

func labelChange(was, o object) *types.UpdateLabelsPayload {
	if !changed(was, o, "labels") {
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
	name := o.text("node_group_name")
	if name == "" {
		name = nameOf(object{"name_prefix": o["node_group_name_prefix"]})
	}
	in := &eks.CreateNodegroupInput{
		ClusterName: o.pointer("cluster_name"), NodegroupName: &name, NodeRole: o.pointer("node_role_arn"), Subnets: o.texts("subnet_ids"), InstanceTypes: o.texts("instance_types"),
		CapacityType: types.CapacityTypes(o.text("capacity_type")), AmiType: types.AMITypes(o.text("ami_type")), DiskSize: o.number32("disk_size"), Labels: o.textMap("labels"),
		Version: o.pointer("version"), ReleaseVersion: o.pointer("release_version"), ScalingConfig: scalingOf(o), UpdateConfig: updateOf(o), Taints: taintsOf(o), Tags: o.textMap("tags_all"),
	}
	if lt := o.block("launch_template"); len(lt) > 0 {
		in.LaunchTemplate = &types.LaunchTemplateSpecification{Id: lt.pointer("id"), Name: lt.pointer("name"), Version: lt.pointer("version")}
	}
	if _, err := c.eks.CreateNodegroup(ctx, in); err != nil {
		return err
	}
	o["id"], o["node_group_name"] = o.text("cluster_name")+":"+name, name
	return until(ctx, func() (bool, error) {
		out, err := c.eks.DescribeNodegroup(ctx, &eks.DescribeNodegroupInput{ClusterName: in.ClusterName, NodegroupName: &name})
		return err == nil && out.Nodegroup.Status == types.NodegroupStatusActive, err
	})
}

func readNodeGroup(ctx context.Context, c *cloud, o object) error {
	cluster, name, _ := strings.Cut(o.text("id"), ":")
	out, err := c.eks.DescribeNodegroup(ctx, &eks.DescribeNodegroupInput{ClusterName: &cluster, NodegroupName: &name})
	if err != nil {
		return gone(err)
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
			"cluster_name": fixed(required(text)), "addon_name": fixed(required(text)), "addon_version": either(text), "configuration_values": either(text),
			"resolve_conflicts_on_create": optional(text), "resolve_conflicts_on_update": optional(text), "service_account_role_arn": optional(text), "preserve": optional(flag),
			"arn": computed(text), "created_at": computed(text), "modified_at": {shape: text, changes: true},
		},
		create: func(ctx context.Context, c *cloud, o object) error {
			_, err := c.eks.CreateAddon(ctx, &eks.CreateAddonInput{
				ClusterName: o.pointer("cluster_name"), AddonName: o.pointer("addon_name"), AddonVersion: o.pointer("addon_version"), ConfigurationValues: o.pointer("configuration_values"),
				ResolveConflicts: types.ResolveConflicts(o.text("resolve_conflicts_on_create")), ServiceAccountRoleArn: o.pointer("service_account_role_arn"), Tags: o.textMap("tags_all"),
			})
			if err != nil {
				return err
			}
			o["id"] = o.text("cluster_name") + ":" + o.text("addon_name")
			return until(ctx, func() (bool, error) {
				out, err := c.eks.DescribeAddon(ctx, &eks.DescribeAddonInput{ClusterName: o.pointer("cluster_name"), AddonName: o.pointer("addon_name")})
				return err == nil && out.Addon.Status == types.AddonStatusActive, err
			})
		},
		read: func(ctx context.Context, c *cloud, o object) error {
			out, err := c.eks.DescribeAddon(ctx, &eks.DescribeAddonInput{ClusterName: o.pointer("cluster_name"), AddonName: o.pointer("addon_name")})
			if err != nil {
				return gone(err)
			}
			a := out.Addon
			o["arn"], o["addon_version"], o["configuration_values"], o["service_account_role_arn"], o["tags_all"] = a.AddonArn, a.AddonVersion, aws.ToString(a.ConfigurationValues), a.ServiceAccountRoleArn, a.Tags
			o["created_at"], o["modified_at"] = aws.ToTime(a.CreatedAt).UTC().Format("2006-01-02T15:04:05Z"), aws.ToTime(a.ModifiedAt).UTC().Format("2006-01-02T15:04:05Z")
			return nil
		},
		update: func(ctx context.Context, c *cloud, was, o object) error {
			if !changed(was, o, "addon_version", "configuration_values", "service_account_role_arn") {
				return nil
			}
			return second(c.eks.UpdateAddon(ctx, &eks.UpdateAddonInput{
				ClusterName: o.pointer("cluster_name"), AddonName: o.pointer("addon_name"), AddonVersion: o.pointer("addon_version"), ConfigurationValues: o.pointer("configuration_values"),
				ResolveConflicts: types.ResolveConflicts(o.text("resolve_conflicts_on_update")), ServiceAccountRoleArn: o.pointer("service_account_role_arn"),
			}))
		},
		remove: func(ctx context.Context, c *cloud, o object) error {
			cluster, addon := o.pointer("cluster_name"), o.pointer("addon_name")
			if _, err := c.eks.DeleteAddon(ctx, &eks.DeleteAddonInput{ClusterName: cluster, AddonName: addon, Preserve: o.flag("preserve")}); err != nil {
				return gone(err)
			}
			return untilGone(ctx, func() error {
				return second(c.eks.DescribeAddon(ctx, &eks.DescribeAddonInput{ClusterName: cluster, AddonName: addon}))
			})
		},
		tag: tagEKS("arn"), untag: untagEKS("arn"),
	}
}

func associationKind() kind[*cloud] {
	return kind[*cloud]{
		name: "aws_eks_pod_identity_association",
		fields: map[string]field{
			"cluster_name": fixed(required(text)), "namespace": fixed(required(text)), "service_account": fixed(required(text)), "role_arn": required(text),
			"association_arn": computed(text), "association_id": computed(text),
		},
		create: func(ctx context.Context, c *cloud, o object) error {
			out, err := c.eks.CreatePodIdentityAssociation(ctx, &eks.CreatePodIdentityAssociationInput{
				ClusterName: o.pointer("cluster_name"), Namespace: o.pointer("namespace"), ServiceAccount: o.pointer("service_account"), RoleArn: o.pointer("role_arn"), Tags: o.textMap("tags_all"),
			})
			if err == nil {
				o["id"] = aws.ToString(out.Association.AssociationId)
			}
			return err
		},
		read: func(ctx context.Context, c *cloud, o object) error {
			out, err := c.eks.DescribePodIdentityAssociation(ctx, &eks.DescribePodIdentityAssociationInput{ClusterName: o.pointer("cluster_name"), AssociationId: o.pointer("id")})
			if err != nil {
				return gone(err)
			}
			a := out.Association
			o["namespace"], o["service_account"], o["role_arn"], o["association_arn"], o["association_id"], o["tags_all"] = a.Namespace, a.ServiceAccount, a.RoleArn, a.AssociationArn, a.AssociationId, a.Tags
			return nil
		},
		update: func(ctx context.Context, c *cloud, was, o object) error {
			if !changed(was, o, "role_arn") {
				return nil
			}
			return second(c.eks.UpdatePodIdentityAssociation(ctx, &eks.UpdatePodIdentityAssociationInput{ClusterName: o.pointer("cluster_name"), AssociationId: o.pointer("id"), RoleArn: o.pointer("role_arn")}))
		},
		remove: func(ctx context.Context, c *cloud, o object) error {
			return second(c.eks.DeletePodIdentityAssociation(ctx, &eks.DeletePodIdentityAssociationInput{ClusterName: o.pointer("cluster_name"), AssociationId: o.pointer("id")}))
		},
		tag: tagEKS("association_arn"), untag: untagEKS("association_arn"),
	}
}

func accessEntryKind() kind[*cloud] {
	return kind[*cloud]{
		name: "aws_eks_access_entry",
		fields: map[string]field{
			"cluster_name": fixed(required(text)), "principal_arn": fixed(required(text)), "type": fixed(usually("STANDARD")), "kubernetes_groups": either(textSet), "user_name": either(text),
			"access_entry_arn": computed(text), "created_at": computed(text), "modified_at": {shape: text, changes: true},
		},
		create: func(ctx context.Context, c *cloud, o object) error {
			_, err := c.eks.CreateAccessEntry(ctx, &eks.CreateAccessEntryInput{
				ClusterName: o.pointer("cluster_name"), PrincipalArn: o.pointer("principal_arn"), Type: o.pointer("type"), KubernetesGroups: o.texts("kubernetes_groups"), Username: o.pointer("user_name"), Tags: o.textMap("tags_all"),
			})
			if err == nil {
				o["id"] = o.text("cluster_name") + ":" + o.text("principal_arn")
			}
			return err
		},
		read: func(ctx context.Context, c *cloud, o object) error {
			out, err := c.eks.DescribeAccessEntry(ctx, &eks.DescribeAccessEntryInput{ClusterName: o.pointer("cluster_name"), PrincipalArn: o.pointer("principal_arn")})
			if err != nil {
				return gone(err)
			}
			e := out.AccessEntry
			o["type"], o["kubernetes_groups"], o["user_name"], o["access_entry_arn"], o["tags_all"] = e.Type, e.KubernetesGroups, e.Username, e.AccessEntryArn, e.Tags
			o["created_at"], o["modified_at"] = aws.ToTime(e.CreatedAt).UTC().Format("2006-01-02T15:04:05Z"), aws.ToTime(e.ModifiedAt).UTC().Format("2006-01-02T15:04:05Z")
			return nil
		},
		update: func(ctx context.Context, c *cloud, was, o object) error {
			if !changed(was, o, "kubernetes_groups", "user_name") {
				return nil
			}
			return second(c.eks.UpdateAccessEntry(ctx, &eks.UpdateAccessEntryInput{ClusterName: o.pointer("cluster_name"), PrincipalArn: o.pointer("principal_arn"), KubernetesGroups: o.texts("kubernetes_groups"), Username: o.pointer("user_name")}))
		},
		remove: func(ctx context.Context, c *cloud, o object) error {
			return second(c.eks.DeleteAccessEntry(ctx, &eks.DeleteAccessEntryInput{ClusterName: o.pointer("cluster_name"), PrincipalArn: o.pointer("principal_arn")}))
		},
		tag: tagEKS("access_entry_arn"), untag: untagEKS("access_entry_arn"),
	}
}
