package aws

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	awsv1 "github.com/dovetail-sh/dovetail/api/aws/v1"
	"github.com/dovetail-sh/dovetail/internal/condition"
)

const yes, no, open = metav1.ConditionTrue, metav1.ConditionFalse, metav1.ConditionUnknown

// classDocs are the states of the conditions of an EC2NodeClass.
func classDocs() []condition.Doc {
	const retried = "it is retried; the message has the response of AWS"
	return condition.ClassDocs(awsv1.Kind, "the EC2NodeClass can be used", "NodePools that use it get no nodes", []condition.Doc{
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
	})
}

// denialDocs are the states of Launched while EC2 denies a launch. It is tried again, or given up after five minutes.
func denialDocs() []condition.Doc {
	failed := func(reason, meaning, fix string) condition.Doc {
		return condition.Doc{Type: "Launched", Status: open, Reason: reason, Meaning: meaning, Fix: fix}
	}
	const again = "nothing: it is tried again"
	return []condition.Doc{
		failed("LaunchFailed", "EC2 denied the launch for a reason that is not in this list", "see the message"),
		failed("NodeClassReadinessUnknown", "the EC2NodeClass was not checked yet", "see its conditions, if it lasts"),
		failed("InstanceTypeResolutionFailed", "instance types could not be listed, or that of the instance is unknown", "see the message"),
		failed("ClusterCIDRResolutionFailed", "the service CIDR of the cluster cannot be found", "allow eks:DescribeCluster"),
		failed("Unauthorized", "the controller may not launch", "allow the action that the message names; see iam.md"),
		failed("AMIAuthorizationFailure", "the account may not use the image", "have it shared with the account, or change amiSelectorTerms"),
		failed("AMINotFound", "the image does not exist any more", "change amiSelectorTerms"),
		failed("InvalidAMIID", "the ID of the image is malformed", "change amiSelectorTerms"),
		failed("SecurityGroupSubnetVPCMismatch", "security groups and subnets are in different VPCs", "change the selector terms of the EC2NodeClass"),
		failed("InstanceProfileNameInvalid", "EC2 does not know the instance profile", "one that was just made needs some seconds; else correct the EC2NodeClass"),
		failed("LaunchTemplateNotFound", "the launch template was deleted", again),
		failed("UserDataSizeLimitExceeded", "user data is longer than the 16384 bytes that EC2 takes", "shorten userData or kubelet"),
		failed("SpotSLRCreationFailed", "the account has no service-linked role for spot, and the controller may not create it", "run aws iam create-service-linked-role --aws-service-name spot.amazonaws.com"),
		failed("SpotQuotaExceeded", "the spot quota of the account is used up", "request a higher one, or allow on-demand"),
		failed("VCPULimitExceeded", "the vCPU quota of the account is used up", "request a higher one, or allow other instance families"),
		failed("FleetQuotaExceeded", "the account has too many fleets", "request a higher quota"),
		failed("InsufficientFreeAddressesInSubnet", "the subnet has no free addresses", "add subnets"),
		failed("FreeTierIneligible", "the account may only launch types of the free tier", "upgrade the account"),
		failed("AccountPendingVerification", "AWS is still verifying the account for this region", "wait up to four hours"),
		failed("RequestLimitExceeded", "EC2 throttles the account", again),
		failed("InternalError", "EC2 had an internal error", again),
	}
}
