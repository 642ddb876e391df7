package trouble_test

import (
	"strings"
	"testing"

	"github.com/aws/aws-sdk-go-v2/service/ec2"
	ec2types "github.com/aws/aws-sdk-go-v2/service/ec2/types"
)

// Rows "NodePool READY False" and "no subnets / groups tagged" (S-175, S-176, S-177): the class and the
// pool both say what is missing. Tagging is noticed within a minute or so, without anybody's doing.
func TestNothingIsTagged(t *testing.T) {
	t.Parallel()
	s := beginCase(t)
	s.applyClass("karpenter.sh/discovery: sandbox", "team: "+s.name)
	s.pool("m5.large")
	wrong := "(tag team=" + s.name + "); tag the "
	s.waitForOutput("describe ec2nodeclass "+s.name, "Reason: SubnetsNotFound Status: False Type: SubnetsReady", "Reason: SecurityGroupsNotFound Status: False Type: SecurityGroupsReady",
		"no subnet matches spec.subnetSelectorTerms "+wrong, "no security group matches spec.securityGroupSelectorTerms "+wrong,
		"Reason: UnhealthyDependents Status: False Type: Ready")
	s.waitForOutput("get nodepool "+s.name, " False ")
	s.waitForOutput("describe nodepool "+s.name, "Reason: UnhealthyDependents Status: False Type: NodeClassReady", "EC2NodeClass "+s.name+" is not ready", "no subnet matches", "no security group matches")
	s.pod("web")
	s.waitForOutput("describe pod -n "+s.namespace+" web", "nodepool/"+s.name, "it is not ready", "kubectl describe nodepool")

	aws := ec2.NewFromConfig(adminConfig())
	subnets, err := aws.DescribeSubnets(t.Context(), &ec2.DescribeSubnetsInput{})
	if err != nil {
		t.Fatal(err)
	}
	groups, err := aws.DescribeSecurityGroups(t.Context(), &ec2.DescribeSecurityGroupsInput{})
	if err != nil {
		t.Fatal(err)
	}
	_, err = aws.CreateTags(t.Context(), &ec2.CreateTagsInput{
		Resources: []string{*subnets.Subnets[0].SubnetId, *groups.SecurityGroups[0].GroupId}, Tags: []ec2types.Tag{{Key: new("team"), Value: &s.name}},
	})
	if err != nil {
		t.Fatal(err)
	}
	s.ready()
	s.waitForRunningPod("web")
}

// Row "wrong alias or AMI" (S-178): what is malformed is refused at once, what does not exist is said on
// the class, and both spellings that are right work.
func TestWrongImage(t *testing.T) {
	t.Parallel()
	s := beginCase(t)
	for alias, want := range map[string]string{
		"al2023:latest": "alias has the form family@version, such as al2023@latest",
		"al2203@latest": "the family of an alias is one of al2, al2023, bottlerocket",
	} {
		if out, err := s.tryApply(s.classText("al2023@latest", alias)); err == nil || !strings.Contains(out, want) || !strings.Contains(out, "spec.amiSelectorTerms[0].alias") {
			t.Errorf("alias %s: %v: %s", alias, err, out)
		}
	}
	for alias, want := range map[string][]string{
		"al2023@v20990101": {"Reason: AMINotFound Status: False Type: AMIsReady", "no image is published for alias al2023@v20990101", "use al2023@latest"},
		"al2@v20240101":    {"Reason: UnsupportedAlias Status: False Type: AMIsReady", "EKS publishes no AL2 image", "use the alias al2023@latest"},
	} {
		s.applyClass("al2023@latest", alias)
		s.waitForOutput("describe ec2nodeclass "+s.name, want...)
	}
	s.applyClass("{alias: al2023@latest}]", "{id: ami-0123456789abcdef0}]\n  amiFamily: AL2023")
	s.waitForOutput("describe ec2nodeclass "+s.name, "Reason: AMINotFound Status: False Type: AMIsReady", "ami-0123456789abcdef0")
	s.applyClass("al2023@latest", "al2023")
	s.ready()
}

// Row "node role missing" (S-179): Dovetail shows a reason where Karpenter has only the log.
func TestRoleMissing(t *testing.T) {
	t.Parallel()
	s := beginCase(t)
	s.applyClass("KarpenterNodeRole-sandbox", "NoSuchRole")
	s.waitForOutput("describe ec2nodeclass "+s.name, "Reason: RoleNotFound Status: False Type: InstanceProfileReady", "IAM role NoSuchRole does not exist; create it")
	s.waitForLog("Reconciler error", "EC2NodeClass "+s.name, "IAM role NoSuchRole does not exist")
}

// Row "missing controller permission" (S-185): the class names the action that is denied, and after IAM is
// mended any annotation has it checked again at once. Not parallel: no test could launch.
func TestPermissionMissing(t *testing.T) {
	for action, want := range map[string]string{
		"ec2:CreateFleet":            "Reason: CreateFleetAuthCheckFailed Status: False Type: ValidationSucceeded",
		"ec2:RunInstances":           "Reason: CreateFleetAuthCheckFailed Status: False Type: ValidationSucceeded", // a fleet runs instances
		"ec2:CreateLaunchTemplate":   "Reason: CreateLaunchTemplateAuthCheckFailed Status: False Type: ValidationSucceeded",
		"ec2:DescribeSubnets":        "Reason: SubnetsResolutionFailed Status: Unknown Type: SubnetsReady",
		"iam:CreateInstanceProfile":  "Reason: InstanceProfileUnauthorized Status: False Type: InstanceProfileReady",
		"ec2:DescribeSecurityGroups": "Reason: SecurityGroupsResolutionFailed Status: Unknown Type: SecurityGroupsReady",
	} {
		t.Run(strings.ReplaceAll(action, ":", " "), func(t *testing.T) {
			s := beginCase(t)
			end := s.injectFault("permissions", `{"role":"KarpenterControllerRole-sandbox","action":"`+action+`"}`)
			s.applyClass()
			out := s.waitForOutput("describe ec2nodeclass "+s.name, want, "not authorized to perform: "+action)
			if !strings.Contains(out, "the controller may not call "+action) && !strings.Contains(out, "role of the controller") && !strings.Contains(out, "policy of the controller") {
				t.Errorf("no fix is named:\n%s", out)
			}
			end()
			s.runKubectl("annotate", "ec2nodeclass", s.name, "look=again")
			s.ready()
		})
	}
}

// Row "restricted tag": the key is named by the API server, or else by a condition.
func TestRestrictedTag(t *testing.T) {
	t.Parallel()
	s := beginCase(t)
	for _, key := range []string{"karpenter.sh/nodepool", "eks:eks-cluster-name", "kubernetes.io/cluster/sandbox"} {
		named := strings.TrimSuffix(key, "/sandbox")
		if out, err := s.tryApply(s.classText() + "  tags: {\"" + key + "\": x}\n"); err == nil || !strings.Contains(out, named) || !strings.Contains(out, "set by the controller") {
			t.Errorf("tag %s: %v: %s", key, err, out)
		}
	}
	s.apply(s.classText() + "  tags: {\"aws:team\": x}\n")
	s.waitForOutput("describe ec2nodeclass "+s.name, "Reason: TagValidationFailed Status: False Type: ValidationSucceeded", "tag aws:team is reserved by AWS; remove it")
}

// Row "user data too big".
func TestUserDataTooBig(t *testing.T) {
	t.Parallel()
	s := beginCase(t)
	s.apply(s.classText() + "  userData: \"" + strings.Repeat("echo hello; ", 1500) + "\"\n")
	s.waitForOutput("describe ec2nodeclass "+s.name, "Reason: UserDataSizeLimitExceeded Status: False Type: ValidationSucceeded", "EC2 takes 16384; shorten userData or kubelet of EC2NodeClass "+s.name)
	s.waitForMetric(`karpenter_ec2nodeclasses_userdata_bytes{nodeclass="` + s.name + `"} `)
}

// Row "unknown field on apply".
func TestUnknownField(t *testing.T) {
	t.Parallel()
	s := beginCase(t)
	if out, err := s.tryApply(s.classText() + "  instanceStorePolcy: RAID0\n"); err == nil || !strings.Contains(out, `unknown field "spec.instanceStorePolcy"`) {
		t.Errorf("%v: %s", err, out)
	}
}
