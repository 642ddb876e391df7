package condition

import metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

// Doc is what there is to know about one state of a condition.
type Doc struct {
	Kind    string
	Type    string
	Status  metav1.ConditionStatus
	Reason  string // in a condition; in Docs alone also words in italics, where many are possible
	Meaning string
	Fix     string // empty: nothing, or time helps
}

const (
	yes, no, open = metav1.ConditionTrue, metav1.ConditionFalse, metav1.ConditionUnknown

	awaited = "it was not looked at yet"
)

// Docs lists every state of every condition that is written, in the order of the documentation. What is not here about a
// true condition has its type as reason.
func Docs() []Doc {
	var all []Doc
	for _, kind := range []struct {
		name string
		docs []Doc
	}{{"NodePool", poolDocs()}, {"EC2NodeClass", classDocs()}, {"NodeClaim", claimDocs()}} {
		for _, d := range kind.docs {
			d.Kind = kind.name
			all = append(all, d)
		}
	}
	return all
}

// rootDocs are the states of a root condition.
func rootDocs(ready, why string) []Doc {
	return []Doc{
		{Type: "Ready", Status: yes, Reason: "Ready", Meaning: ready},
		{Type: "Ready", Status: no, Reason: UnhealthyDependents, Meaning: why, Fix: "see the conditions that the message names"},
		{Type: "Ready", Status: open, Reason: ReconcilingDependents, Meaning: "not all conditions are known yet", Fix: "see the conditions that the message names, if it lasts"},
	}
}

func poolDocs() []Doc {
	return append(rootDocs("the NodePool gets nodes", "the NodePool gets no nodes; those that it has stay"), []Doc{
		{Type: "ValidationSucceeded", Status: yes, Reason: "ValidationSucceeded", Meaning: "the NodePool can be used as it is written"},
		{Type: "ValidationSucceeded", Status: no, Reason: "NodePoolValidationFailed", Meaning: "a field has a value that admission let through and that cannot work", Fix: "change the field that the message names"},
		{Type: "NodeClassReady", Status: yes, Reason: "NodeClassReady", Meaning: "its EC2NodeClass is ready"},
		{Type: "NodeClassReady", Status: no, Reason: "NodeClassNotFound", Meaning: "nodeClassRef names no EC2NodeClass that exists", Fix: "create it, or correct nodeClassRef"},
		{Type: "NodeClassReady", Status: no, Reason: "NodeClassTerminating", Meaning: "its EC2NodeClass is being deleted", Fix: "use another one"},
		{Type: "NodeClassReady", Status: no, Reason: "NodeClassReadinessUnknown", Meaning: "its EC2NodeClass was not checked yet", Fix: "see the conditions of the EC2NodeClass, if it lasts"},
		{Type: "NodeClassReady", Status: no, Reason: UnhealthyDependents, Meaning: "its EC2NodeClass is not ready", Fix: "see the conditions of the EC2NodeClass that the message names"},
		{Type: "NodeClassReady", Status: no, Reason: "NodeClassNotReady", Meaning: "its EC2NodeClass is not ready and does not say why", Fix: "see the conditions of the EC2NodeClass"},
		{Type: "NodeRegistrationHealthy", Status: yes, Reason: "NodeRegistrationHealthy", Meaning: "the last nodes of the NodePool joined the cluster"},
		{Type: "NodeRegistrationHealthy", Status: no, Reason: "RegistrationFailed", Meaning: "several of the last nodes were launched and did not join; a launch that failed has the reason of condition Launched of its NodeClaim", Fix: "see the message, and docs/runbooks/nodes-do-not-join.md"},
		{Type: "NodeRegistrationHealthy", Status: open, Reason: AwaitingReconciliation, Meaning: "no node was launched since the NodePool or its EC2NodeClass changed"},
	}...)
}

func classDocs() []Doc {
	const retried = "it is retried; the message has the response of AWS"
	return append(rootDocs("the EC2NodeClass can be used", "NodePools that use it get no nodes"), []Doc{
		{Type: "AMIsReady", Status: yes, Reason: "AMIsReady", Meaning: "status.amis lists the images"},
		{Type: "AMIsReady", Status: no, Reason: "AMINotFound", Meaning: "amiSelectorTerms select no image", Fix: "correct the terms that the message shows"},
		{Type: "AMIsReady", Status: no, Reason: "UnsupportedAlias", Meaning: "AWS has no images of this alias for this Kubernetes version", Fix: "use another alias, such as al2023@latest"},
		{Type: "AMIsReady", Status: open, Reason: "AMIsResolutionFailed", Meaning: "images could not be looked up", Fix: retried},
		{Type: "SubnetsReady", Status: yes, Reason: "SubnetsReady", Meaning: "status.subnets lists the subnets"},
		{Type: "SubnetsReady", Status: no, Reason: "SubnetsNotFound", Meaning: "subnetSelectorTerms select no subnet", Fix: "tag subnets, usually with karpenter.sh/discovery, or correct the terms"},
		{Type: "SubnetsReady", Status: open, Reason: "SubnetsResolutionFailed", Meaning: "subnets could not be looked up", Fix: retried},
		{Type: "SecurityGroupsReady", Status: yes, Reason: "SecurityGroupsReady", Meaning: "status.securityGroups lists the security groups"},
		{Type: "SecurityGroupsReady", Status: no, Reason: "SecurityGroupsNotFound", Meaning: "securityGroupSelectorTerms select no security group", Fix: "tag security groups, usually with karpenter.sh/discovery, or correct the terms"},
		{Type: "SecurityGroupsReady", Status: open, Reason: "SecurityGroupsResolutionFailed", Meaning: "security groups could not be looked up", Fix: retried},
		{Type: "InstanceProfileReady", Status: yes, Reason: "InstanceProfileReady", Meaning: "status.instanceProfile is the instance profile"},
		{Type: "InstanceProfileReady", Status: no, Reason: "RoleNotFound", Meaning: "spec.role names no IAM role", Fix: "create the role, or correct spec.role"},
		{Type: "InstanceProfileReady", Status: no, Reason: "InstanceProfileUnauthorized", Meaning: "the controller may not manage instance profiles, or not pass the role", Fix: "allow the action that the message names; see iam.md"},
		{Type: "InstanceProfileReady", Status: open, Reason: "InstanceProfileResolutionFailed", Meaning: "the instance profile could not be made", Fix: retried},
		{Type: "PlacementGroupReady", Status: yes, Reason: "PlacementGroupReady", Meaning: "there is no placementGroupSelector, or its group exists"},
		{Type: "PlacementGroupReady", Status: no, Reason: "PlacementGroupNotFound", Meaning: "no placement group in state available is selected", Fix: "create it, or correct placementGroupSelector"},
		{Type: "PlacementGroupReady", Status: no, Reason: "PlacementGroupResolutionFailed", Meaning: "placement groups could not be looked up", Fix: retried},
		{Type: "CapacityReservationsReady", Status: yes, Reason: "CapacityReservationsReady", Meaning: "status.capacityReservations lists the capacity reservations; there may be none"},
		{Type: "CapacityReservationsReady", Status: open, Reason: "CapacityReservationsResolutionFailed", Meaning: "capacity reservations could not be looked up", Fix: retried},
		{Type: "ValidationSucceeded", Status: yes, Reason: "ValidationSucceeded", Meaning: "a launch would work, as far as dry runs show"},
		{Type: "ValidationSucceeded", Status: no, Reason: "NodeClassValidationFailed", Meaning: "a field has a value that cannot work", Fix: "change the field that the message names"},
		{Type: "ValidationSucceeded", Status: no, Reason: "TagValidationFailed", Meaning: "spec.tags has tags that EC2 does not take, or too many", Fix: "change the tag that the message names"},
		{Type: "ValidationSucceeded", Status: no, Reason: "ClusterCIDRResolutionFailed", Meaning: "nodes of AL2023 need the service CIDR of the cluster, and it cannot be found", Fix: "allow eks:DescribeCluster"},
		{Type: "ValidationSucceeded", Status: no, Reason: "DependenciesNotReady", Meaning: "other conditions have to be True first; Unknown while these are", Fix: "see the conditions that the message names"},
		{Type: "ValidationSucceeded", Status: no, Reason: "CreateLaunchTemplateAuthCheckFailed", Meaning: "the controller may not create launch templates", Fix: "allow ec2:CreateLaunchTemplate; see iam.md"},
		{Type: "ValidationSucceeded", Status: no, Reason: "CreateFleetAuthCheckFailed", Meaning: "the controller may not create fleets", Fix: "allow ec2:CreateFleet; see iam.md"},
		{Type: "ValidationSucceeded", Status: no, Reason: "RunInstancesAuthCheckFailed", Meaning: "the controller may not run instances", Fix: "allow ec2:RunInstances; see iam.md"},
		{Type: "ValidationSucceeded", Status: no, Reason: "UserDataSizeLimitExceeded", Meaning: "user data is longer than the 16384 bytes that EC2 takes", Fix: "shorten userData or kubelet"},
		{Type: "ValidationSucceeded", Status: no, Reason: "InvalidUserData", Meaning: "userData cannot be merged with what nodes need", Fix: "correct what the message names"},
		{Type: "ValidationSucceeded", Status: no, Reason: "InstanceProfileNotFound", Meaning: "EC2 does not know the instance profile", Fix: "correct spec.instanceProfile; one that was just made needs some seconds"},
		{Type: "ValidationSucceeded", Status: no, Reason: "InvalidKubeletConfiguration", Meaning: "spec.kubelet has a value that the kubelet would refuse", Fix: "change the field that the message names"},
		{Type: "ValidationSucceeded", Status: no, Reason: "UnsupportedKubeletConfiguration", Meaning: "spec.kubelet has a field that the AMI family cannot be given", Fix: "remove the field, or change the AMI family"},
		{Type: "ValidationSucceeded", Status: no, Reason: "KubeletExpressionsDisabled", Meaning: "spec.kubelet has an expression and the feature gate NodeClassCEL is off", Fix: "switch the gate on, or write a value"},
		{Type: "ValidationSucceeded", Status: no, Reason: "KubeletExpressionInvalid", Meaning: "an expression in spec.kubelet does not compile", Fix: "correct the expression"},
		{Type: "ValidationSucceeded", Status: no, Reason: "KubeletExpressionEvaluationFailed", Meaning: "an expression in spec.kubelet fails for an instance type", Fix: "correct the expression, or exclude the type in the NodePool"},
		{Type: "*any*", Status: open, Reason: AwaitingReconciliation, Meaning: awaited},
	}...)
}
