package awsemu

// StrictPermissions allows a controller what the six reference policies of a cluster allow and denies
// everything else. A Permission knows actions only: the scopes of those policies (tags, resources,
// region) are not expressed.
func StrictPermissions(cluster string) []Permission {
	list := []Permission{{
		Action: "*", Deny: true,
		Message: "because no identity-based policy allows the action; the six policies of cluster " + cluster + " do not name it",
	}}
	for _, action := range []string{
		// KarpenterControllerNodeLifecyclePolicy
		"ec2:RunInstances", "ec2:CreateFleet", "ec2:CreateLaunchTemplate", "ec2:CreateTags", "ec2:TerminateInstances", "ec2:DeleteLaunchTemplate",
		// KarpenterControllerIAMIntegrationPolicy
		"iam:PassRole", "iam:CreateInstanceProfile", "iam:TagInstanceProfile", "iam:AddRoleToInstanceProfile",
		"iam:RemoveRoleFromInstanceProfile", "iam:DeleteInstanceProfile",
		// KarpenterControllerEKSIntegrationPolicy
		"eks:DescribeCluster",
		// KarpenterControllerInterruptionPolicy
		"sqs:DeleteMessage", "sqs:GetQueueUrl", "sqs:ReceiveMessage",
		// KarpenterControllerZonalShiftPolicy
		"arc-zonal-shift:GetManagedResource",
		// KarpenterControllerResourceDiscoveryPolicy
		"ec2:DescribeCapacityReservations", "ec2:DescribeImages", "ec2:DescribeInstances", "ec2:DescribeInstanceStatus",
		"ec2:DescribeInstanceTypeOfferings", "ec2:DescribeInstanceTypes", "ec2:DescribeLaunchTemplates", "ec2:DescribePlacementGroups",
		"ec2:DescribeSecurityGroups", "ec2:DescribeSpotPriceHistory", "ec2:DescribeSubnets",
		"ssm:GetParameter", "pricing:GetProducts", "iam:ListInstanceProfiles", "iam:GetInstanceProfile",
		// no policy is needed to ask who one is, and who may assume a role is in the trust of the role
		"sts:GetCallerIdentity", "sts:AssumeRoleWithWebIdentity",
	} {
		list = append(list, Permission{Action: action})
	}
	return list
}
