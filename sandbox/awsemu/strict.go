package awsemu

import (
	"maps"
	"slices"
)

// statement is a part of a policy: what its actions may be done with.
type statement struct {
	name       string
	actions    []string
	resources  []string
	conditions Conditions
}

// strictPermissions allows a controller what the six reference policies of the cluster allow, with
// their scopes, and denies it everything else. No policy is needed to ask who one is, and who may
// assume a role is in the trust of the role.
func (e *Emulator) strictPermissions(o permissionProfile) []Permission {
	if o.NodeRole == "" {
		o.NodeRole = e.nodeRole()
	}
	list := []Permission{{Key: o.Key, Role: o.Role, Action: "*", Deny: true}}
	for _, s := range slices.Concat(
		e.lifecyclePolicy(), e.profilePolicy(o.NodeRole), e.clusterPolicies(), e.discoveryPolicy(),
		[]statement{{name: "no policy", actions: []string{"sts:GetCallerIdentity", "sts:AssumeRoleWithWebIdentity"}}},
	) {
		for _, action := range s.actions {
			list = append(list, Permission{
				Name: s.name, Key: o.Key, Role: o.Role, Action: action, Resources: s.resources, Conditions: s.conditions,
			})
		}
	}
	return list
}

// ec2ARN is a pattern of resources of EC2; some, such as images, belong to no account.
func (e *Emulator) ec2ARN(resource string) string {
	return "arn:aws:ec2:" + e.fixture.Region + ":*:" + resource
}

func (e *Emulator) ec2ARNs(kinds ...string) []string {
	list := make([]string, 0, len(kinds))
	for _, kind := range kinds {
		list = append(list, e.ec2ARN(kind+"/*"))
	}
	return list
}

// ownedTags are the conditions that a cluster puts on the tags of what is its own.
func (e *Emulator) ownedTags(prefix, class string) Conditions {
	return Conditions{
		"StringEquals": {prefix + "kubernetes.io/cluster/" + e.fixture.Cluster: {"owned"}},
		"StringLike":   {prefix + class: {"*"}},
	}
}

const (
	nodePoolTag  = "karpenter.sh/nodepool"
	nodeClassTag = "karpenter.k8s.aws/ec2nodeclass"
	nodeClaimTag = "karpenter.sh/nodeclaim"
	clusterTag   = "eks:eks-cluster-name"
	regionTag    = "topology.kubernetes.io/region"
)

// lifecyclePolicy is KarpenterControllerNodeLifecyclePolicy.
func (e *Emulator) lifecyclePolicy() []statement {
	launch := []string{"ec2:RunInstances", "ec2:CreateFleet"}
	created := e.ec2ARNs("fleet", "instance", "volume", "network-interface", "launch-template", "spot-instances-request")
	tagged := e.ownedTags(keyRequestTag, nodePoolTag)
	tagged["StringEquals"][keyRequestTag+clusterTag] = Texts{e.fixture.Cluster}
	tagging := e.ownedTags(keyRequestTag, nodePoolTag)
	tagging["StringEquals"][keyRequestTag+clusterTag] = Texts{e.fixture.Cluster}
	tagging["StringEquals"][keyCreateAction] = Texts{"RunInstances", "CreateFleet", "CreateLaunchTemplate"}
	retagging := e.ownedTags(keyResourceTag, nodePoolTag)
	retagging["StringEqualsIfExists"] = map[string]Texts{keyRequestTag + clusterTag: {e.fixture.Cluster}}
	retagging[forAllValues+"StringEquals"] = map[string]Texts{keyTagKeys: {clusterTag, nodeClaimTag, "Name"}}
	return []statement{
		{
			name: "AllowScopedEC2InstanceAccessActions", actions: launch,
			resources: e.ec2ARNs("image", "snapshot", "security-group", "subnet", "capacity-reservation", "placement-group"),
		},
		{
			name: "AllowScopedEC2LaunchTemplateAccessActions", actions: launch, resources: e.ec2ARNs("launch-template"),
			conditions: e.ownedTags(keyResourceTag, nodePoolTag),
		},
		{
			name: "AllowScopedEC2InstanceActionsWithTags", actions: append(slices.Clone(launch), "ec2:CreateLaunchTemplate"),
			resources: created, conditions: tagged,
		},
		{name: "AllowScopedResourceCreationTagging", actions: []string{"ec2:CreateTags"}, resources: created, conditions: tagging},
		{name: "AllowScopedResourceTagging", actions: []string{"ec2:CreateTags"}, resources: e.ec2ARNs("instance"), conditions: retagging},
		{
			name: "AllowScopedDeletion", actions: []string{"ec2:TerminateInstances", "ec2:DeleteLaunchTemplate"},
			resources: e.ec2ARNs("instance", "launch-template"), conditions: e.ownedTags(keyResourceTag, nodePoolTag),
		},
	}
}

// profilePolicy is KarpenterControllerIAMIntegrationPolicy.
func (e *Emulator) profilePolicy(nodeRole string) []statement {
	profiles := []string{e.arn("iam", "instance-profile/*")}
	scoped := func(prefix string, withCluster bool) Conditions {
		c := e.ownedTags(prefix, nodeClassTag)
		c["StringEquals"][prefix+regionTag] = Texts{e.fixture.Region}
		if withCluster {
			c["StringEquals"][prefix+clusterTag] = Texts{e.fixture.Cluster}
		}
		return c
	}
	retagging := scoped(keyRequestTag, true)
	for operator, keys := range scoped(keyResourceTag, true) {
		maps.Copy(retagging[operator], keys)
	}
	return []statement{
		{
			name: "AllowPassingInstanceRole", actions: []string{"iam:PassRole"}, resources: []string{e.arn("iam", "role/"+nodeRole), e.arn("iam", "role/*/"+nodeRole)},
			conditions: Conditions{"StringEquals": {keyPassedTo: {"ec2.amazonaws.com", "ec2.amazonaws.com.cn"}}},
		},
		{
			name: "AllowScopedInstanceProfileCreationActions", actions: []string{"iam:CreateInstanceProfile"}, resources: profiles,
			conditions: scoped(keyRequestTag, true),
		},
		{name: "AllowScopedInstanceProfileTagActions", actions: []string{"iam:TagInstanceProfile"}, resources: profiles, conditions: retagging},
		{
			name:    "AllowScopedInstanceProfileActions",
			actions: []string{"iam:AddRoleToInstanceProfile", "iam:RemoveRoleFromInstanceProfile", "iam:DeleteInstanceProfile"}, resources: profiles,
			conditions: scoped(keyResourceTag, false),
		},
	}
}

// clusterPolicies are the three small policies: EKSIntegration, Interruption and ZonalShift.
func (e *Emulator) clusterPolicies() []statement {
	cluster := e.arn("eks", "cluster/"+e.fixture.Cluster)
	return []statement{
		{name: "AllowAPIServerEndpointDiscovery", actions: []string{"eks:DescribeCluster"}, resources: []string{cluster}},
		{
			name: "AllowInterruptionQueueActions", actions: []string{"sqs:DeleteMessage", "sqs:GetQueueUrl", "sqs:ReceiveMessage"},
			resources: []string{e.arn("sqs", e.fixture.Queue)},
		},
		{
			name: "AllowZonalShiftReadActions", actions: []string{"arc-zonal-shift:GetManagedResource"},
			conditions: Conditions{"StringEquals": {keyShifted: {cluster}}},
		},
	}
}

// discoveryPolicy is KarpenterControllerResourceDiscoveryPolicy.
func (e *Emulator) discoveryPolicy() []statement {
	var describes []string
	for _, what := range []string{
		"CapacityReservations", "Images", "Instances", "InstanceStatus", "InstanceTypeOfferings", "InstanceTypes", "LaunchTemplates",
		"PlacementGroups", "SecurityGroups", "SpotPriceHistory", "Subnets",
	} {
		describes = append(describes, "ec2:Describe"+what)
	}
	return []statement{
		{
			name: "AllowRegionalReadActions", actions: describes,
			conditions: Conditions{"StringEquals": {keyRegion: {e.fixture.Region}}},
		},
		{name: "AllowSSMReadActions", actions: []string{"ssm:GetParameter"}, resources: []string{"arn:aws:ssm:" + e.fixture.Region + "::parameter/aws/service/*"}},
		{name: "AllowPricingReadActions", actions: []string{"pricing:GetProducts"}},
		{name: "AllowUnscopedInstanceProfileListAction", actions: []string{"iam:ListInstanceProfiles"}},
		{name: "AllowInstanceProfileReadActions", actions: []string{"iam:GetInstanceProfile"}, resources: []string{e.arn("iam", "instance-profile/*")}},
	}
}
