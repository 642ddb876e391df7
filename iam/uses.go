package iam

// Use says what the controller needs an action for, and what users see who do not grant it.
type Use struct {
	Action  string
	For     string
	Without string
}

// Uses explains every action of the controller's policies, in their order.
func Uses() []Use {
	const validation = "EC2NodeClass `ValidationSucceeded=False` with reason "
	const unready = "EC2NodeClass not ready: "
	return []Use{
		{"ec2:RunInstances", "EC2 asks for it when a fleet starts instances; a dry run checks it ahead", validation + "`RunInstancesAuthCheckFailed` or `CreateFleetAuthCheckFailed`; no instance is started"},
		{"ec2:CreateFleet", "every launch", validation + "`CreateFleetAuthCheckFailed`; a claim that is launched anyway has `Launched=Unknown` with reason `Unauthorized`"},
		{"ec2:CreateLaunchTemplate", "image, user data, disks and network of the instances", validation + "`CreateLaunchTemplateAuthCheckFailed`"},
		{"ec2:CreateTags", "tags of what is created, by which it is found again; later the name of an instance", validation + "`CreateLaunchTemplateAuthCheckFailed` or `CreateFleetAuthCheckFailed`; if only names are denied, an error in the log and instances without `Name`"},
		{"ec2:TerminateInstances", "the end of every node", "NodeClaim `InstanceTerminating=Unknown`, event `TerminationFailed`: the instance stays, and costs"},
		{"ec2:DeleteLaunchTemplate", "launch templates that are no longer used", "an error in the log; launch templates pile up until the account's limit"},
		{"ec2:RebootInstances", "node repair, where a reboot may help (feature gate `NodeRepair`)", "an error in the log; the node is replaced instead"},
		{"iam:PassRole", "instances get the role of the nodes", validation + "`RunInstancesAuthCheckFailed` or `CreateFleetAuthCheckFailed`"},
		{"iam:CreateInstanceProfile", "classes with `spec.role`: the instance profile around the role", unready + "`InstanceProfileReady=False` with reason `InstanceProfileUnauthorized`"},
		{"iam:TagInstanceProfile", "IAM asks for it when a profile is created with tags", unready + "`InstanceProfileReady=False` with reason `InstanceProfileUnauthorized`"},
		{"iam:AddRoleToInstanceProfile", "the role in the profile", unready + "`InstanceProfileReady=False` with reason `InstanceProfileUnauthorized`"},
		{"iam:RemoveRoleFromInstanceProfile", "`spec.role` changed, or the class is deleted", "`InstanceProfileReady` not true with reason `InstanceProfileUnauthorized`; a class that is deleted keeps its finalizer"},
		{"iam:DeleteInstanceProfile", "profiles of classes that are gone", "a class that is deleted keeps its finalizer, and its event says why"},
		{"eks:DescribeCluster", "endpoint, version, service network and certificate of the cluster, unless they are settings", "the controller ends at start, and its last line says so; with `--cluster-endpoint`, only what depends on the cluster fails"},
		{"sqs:DeleteMessage", "messages that were handled", "an error in the log; every message comes again"},
		{"sqs:GetQueueUrl", "the queue of `--interruption-queue`", "an error in the log; no interruption is handled"},
		{"sqs:ReceiveMessage", "interruption warnings", "an error in the log; no interruption is handled"},
		{"arc-zonal-shift:GetManagedResource", "zones that are shifted away from (`--enable-zonal-shift`)", "the controller ends at start, and its last line says so"},
		{"ec2:DescribeCapacityReservations", "`spec.capacityReservationSelectorTerms`", unready + "`CapacityReservationsReady=Unknown`"},
		{"ec2:DescribeImages", "`spec.amiSelectorTerms`", unready + "`AMIsReady=Unknown`"},
		{"ec2:DescribeInstances", "which instances there are and how they fare", "an error in the log; instances that vanished are not noticed, and launches and terminations are not confirmed"},
		{"ec2:DescribeInstanceStatus", "instances that fail their status checks or have scheduled events", "an error in the log; those instances are not replaced ahead"},
		{"ec2:DescribeInstanceTypeOfferings", "which types a zone has", "the controller ends at start, and its last line says so"},
		{"ec2:DescribeInstanceTypes", "the catalogue of instance types", "the controller ends at start, and its last line says so"},
		{"ec2:DescribeLaunchTemplates", "launch templates that exist already", "an error in the log; templates are created anew and not collected"},
		{"ec2:DescribePlacementGroups", "`spec.placementGroupSelector`", unready + "`PlacementGroupReady=False`"},
		{"ec2:DescribeSecurityGroups", "`spec.securityGroupSelectorTerms`", unready + "`SecurityGroupsReady=Unknown`"},
		{"ec2:DescribeSpotPriceHistory", "spot prices", "an error in the log; spot is bought by the prices that Dovetail was built with"},
		{"ec2:DescribeSubnets", "`spec.subnetSelectorTerms`", unready + "`SubnetsReady=Unknown`"},
		{"ssm:GetParameter", "image aliases such as `al2023@latest`", unready + "`AMIsReady=Unknown`"},
		{"pricing:GetProducts", "on-demand prices, unless `--isolated-vpc`", "an error in the log; decisions use the prices that Dovetail was built with"},
		{"iam:ListInstanceProfiles", "profiles of classes that are gone", "an error in the log; such profiles stay"},
		{"iam:GetInstanceProfile", "whether a profile exists and holds the role", unready + "`InstanceProfileReady=False` with reason `InstanceProfileUnauthorized`"},
	}
}
