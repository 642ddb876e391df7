package iam

// Use says what the controller needs an action for, and what users see who do not grant it. A test takes each action away:
// what is written in backquotes is shown then, and so is the name of the action.
type Use struct {
	Action  string
	For     string
	Without string
}

// Uses explains every action of the controller's policies, in their order.
func Uses() []Use {
	const validation = "EC2NodeClass `ValidationSucceeded=False` with reason "
	const unready = "EC2NodeClass not ready: "
	const profile = unready + "`InstanceProfileReady=False` with reason `InstanceProfileUnauthorized`"
	const stuck = "a class that is deleted stays, with an event `CleanupFailed`"
	const ends = "the controller ends at start, and its last line says so"
	return []Use{
		{"ec2:RunInstances", "EC2 requires it when a fleet starts instances; a dry run checks it ahead", validation + "`CreateFleetAuthCheckFailed`"},
		{"ec2:CreateFleet", "every launch", validation + "`CreateFleetAuthCheckFailed`; a claim that is already being launched waits with reason `Unauthorized`"},
		{"ec2:CreateLaunchTemplate", "image, user data, disks and network of the instances", validation + "`CreateLaunchTemplateAuthCheckFailed`"},
		{"ec2:CreateTags", "tags of what is created, by which it is found again; later the name of an instance", validation + "`CreateLaunchTemplateAuthCheckFailed`; if only names are denied, an error in the log and instances without a name"},
		{"ec2:TerminateInstances", "the end of every node", "NodeClaim `InstanceTerminating=Unknown` with reason `Unauthorized`: the instance stays, and costs"},
		{"ec2:DeleteLaunchTemplate", "launch templates that are no longer used", "an error in the log, and launch templates pile up until the account's limit; " + stuck},
		{"ec2:RebootInstances", "node repair, where a reboot may help (feature gate NodeRepair)", "an error in the log; the node is replaced instead"},
		{"iam:PassRole", "instances get the role of the nodes", profile + "; of a class with an instance profile `ValidationSucceeded=False` with reason `CreateFleetAuthCheckFailed`"},
		{"iam:CreateInstanceProfile", "classes with `spec.role`: the instance profile around the role", profile},
		{"iam:TagInstanceProfile", "IAM requires it when a profile is created with tags", profile},
		{"iam:AddRoleToInstanceProfile", "the role in the profile", profile},
		{"iam:RemoveRoleFromInstanceProfile", "the class is deleted, or its role changed", stuck},
		{"iam:DeleteInstanceProfile", "the class is deleted, or its role changed", stuck},
		{"eks:DescribeCluster", "endpoint, version, service network and certificate of the cluster, unless they are settings", ends + "; with the setting cluster-endpoint, classes of AL2023 have `ValidationSucceeded=False` with reason `ClusterCIDRResolutionFailed`"},
		{"sqs:DeleteMessage", "messages that were handled", "an error in the log; SQS delivers every message again"},
		{"sqs:GetQueueUrl", "the queue of `--interruption-queue`", "an error in the log; no interruption is handled"},
		{"sqs:ReceiveMessage", "interruption warnings", "an error in the log; no interruption is handled"},
		{"arc-zonal-shift:GetManagedResource", "zones that are shifted away from (`--enable-zonal-shift`)", ends},
		{"ec2:DescribeCapacityReservations", "`spec.capacityReservationSelectorTerms`", unready + "`CapacityReservationsReady=Unknown`"},
		{"ec2:DescribeImages", "`spec.amiSelectorTerms`", unready + "`AMIsReady=Unknown`"},
		{"ec2:DescribeInstances", "which instances there are and how they fare", "an error in the log; instances that vanished are not noticed, and launches and terminations are not confirmed"},
		{"ec2:DescribeInstanceStatus", "instances that fail their status checks or have scheduled events", "an error in the log; those instances are not replaced ahead"},
		{"ec2:DescribeInstanceTypeOfferings", "which types a zone has", ends},
		{"ec2:DescribeInstanceTypes", "the catalogue of instance types", ends},
		{"ec2:DescribeLaunchTemplates", "launch templates that exist already", validation + "`CreateLaunchTemplateAuthCheckFailed`, and an error in the log"},
		{"ec2:DescribePlacementGroups", "`spec.placementGroupSelector`", unready + "`PlacementGroupReady=False`"},
		{"ec2:DescribeSecurityGroups", "`spec.securityGroupSelectorTerms`", unready + "`SecurityGroupsReady=Unknown`"},
		{"ec2:DescribeSpotPriceHistory", "spot prices", "an error in the log; spot offerings are chosen by built-in prices"},
		{"ec2:DescribeSubnets", "`spec.subnetSelectorTerms`", unready + "`SubnetsReady=Unknown`"},
		{"ssm:GetParameter", "image aliases such as `al2023@latest`", unready + "`AMIsReady=Unknown`"},
		{"pricing:GetProducts", "on-demand prices, unless `--isolated-vpc`", "an error in the log; decisions use the prices that Dovetail was built with"},
		{"iam:ListInstanceProfiles", "profiles of classes that are gone", "an error in the log, and such profiles stay; " + stuck},
		{"iam:GetInstanceProfile", "whether a profile exists and holds the role", "an error in the log: a profile that was deleted is not made again; " + stuck},
	}
}
