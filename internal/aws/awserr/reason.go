package awserr

import (
	"strings"
)

// cause is one row of the table of launch failures: a text that gives it away, and the message that users get.
type cause struct {
	reason string
	fix    string
	all    []string // every one of them is in "code: message"
}

// causes is the table of 5.6. The first row that matches wins, so the narrower rows stand first.
func causes() []cause {
	rows := []cause{
		{"SpotSLRCreationFailed", "the account has no service-linked role AWSServiceRoleForEC2Spot and the controller may not create it; run `aws iam create-service-linked-role --aws-service-name spot.amazonaws.com`, or allow on-demand capacity", []string{CodeSpotRoleMissing}},
	}
	for _, denial := range denials() {
		rows = append(rows, cause{"AMIAuthorizationFailure", "the account may not use the AMI; ask its owner to share it with this account, or change amiSelectorTerms", []string{denial, "Not authorized for images"}})
	}
	for _, denial := range denials() {
		rows = append(rows,
			cause{"Unauthorized", "a permissions boundary on the controller's role does not allow this; extend the boundary, a policy alone does not help", []string{denial, "permissions boundary"}},
			cause{"Unauthorized", "a service control policy of the organization denies this; ask the administrator of the organization to change it; a policy in this account does not help", []string{denial, "service control policy"}},
			cause{"Unauthorized", "no policy of the controller's role allows this; compare the role with the policies of the installation guide (docs/reference/iam.md)", []string{denial}},
		)
	}
	return append(rows,
		cause{"SecurityGroupSubnetVPCMismatch", "the security groups and subnets of the node class are in different VPCs; change securityGroupSelectorTerms or subnetSelectorTerms", []string{"InvalidParameter", "different networks"}},
		cause{"InstanceProfileNameInvalid", "EC2 cannot find the instance profile; a new one is visible after some seconds, otherwise change instanceProfile or role of the node class", []string{"iamInstanceProfile.name is invalid"}},
		cause{"LaunchTemplateNotFound", "the launch template was deleted by someone else; it is made again with the next try", []string{"InvalidLaunchTemplateId.NotFound"}},
		cause{"LaunchTemplateNotFound", "the launch template was deleted by someone else; it is made again with the next try", []string{CodeTemplateNotFound}},
		cause{"UserDataSizeLimitExceeded", "the user data is longer than the 16384 bytes EC2 takes; shorten userData or kubelet of the node class", []string{"User data is limited"}},
		cause{"InvalidAMIID", "the AMI id is not a valid one; change amiSelectorTerms of the node class", []string{"InvalidAMIID.Malformed"}},
		cause{"AMINotFound", "the AMI does not exist any more; change amiSelectorTerms of the node class", []string{"InvalidAMIID.NotFound"}},
		cause{"RequestLimitExceeded", "EC2 throttles the account; the launch is tried again, slower", []string{"RequestLimitExceeded"}},
		cause{"InternalError", "EC2 had an internal error; the launch is tried again", []string{"InternalError"}},
		cause{"FreeTierIneligible", "the account may only launch instance types of the free tier; upgrade it, or allow such a type in the pool", []string{"free tier"}},
		cause{"FreeTierIneligible", "the account may only launch instance types of the free tier; upgrade it, or allow such a type in the pool", []string{"Free Tier"}},
		cause{"FleetQuotaExceeded", "the account has too many fleets; request a higher EC2 Fleet quota", []string{CodeFleetQuota}},
		cause{"AccountPendingVerification", "AWS is still verifying the account for this region; it takes up to four hours", []string{"PendingVerification"}},
		cause{"SpotQuotaExceeded", "the spot quota of the account is used up; request a higher one, or allow on-demand capacity", []string{CodeSpotQuota}},
		cause{"VCPULimitExceeded", "the vCPU quota of the account is used up; request a higher one, or allow other instance families", []string{"VcpuLimitExceeded"}},
		cause{"InsufficientFreeAddressesInSubnet", "the subnet has no free addresses; add subnets to the node class, or make the subnet larger", []string{CodeSubnetFull}},
	)
}

// denials are the codes that say that something is not permitted.
func denials() []string { return []string{"UnauthorizedOperation", "AccessDenied", "AuthFailure"} }

// ReasonLaunchFailed is the reason of a failed launch that no row of the table knows.
const ReasonLaunchFailed = "LaunchFailed"

// LaunchReason says why a launch failed: the word for the condition and the counter, and the sentence
// for people, which names the fix if one is known and always what EC2 said.
func LaunchReason(code, message string) (reason, text string) {
	said := strings.TrimSuffix(plain(message), ".")
	if code != "" {
		said = strings.TrimSuffix(code+": "+said, ": ")
	}
	for _, row := range causes() {
		if row.matches(code + ": " + message) {
			return row.reason, row.fix + " (EC2 error: " + said + ")"
		}
	}
	return ReasonLaunchFailed, said
}

func (c cause) matches(text string) bool {
	for _, part := range c.all {
		if !strings.Contains(text, part) {
			return false
		}
	}
	return true
}

// plain leaves the encoded part of a denial out: it is long and only a call of STS can read it.
func plain(message string) string {
	head, _, _ := strings.Cut(message, " Encoded authorization failure message:")
	return strings.TrimSpace(head)
}

// MaxText is how long the text of a launch error may get (V15-62).
const MaxText = 1024

// Cut shortens a text to MaxText characters, the trailing dots included (V15-62).
func Cut(text string) string {
	letters := []rune(text)
	if len(letters) <= MaxText {
		return text
	}
	return string(letters[:MaxText-len("...")]) + "..."
}
