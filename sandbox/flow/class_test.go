package flow_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/aws/aws-sdk-go-v2/service/ec2"
	ec2types "github.com/aws/aws-sdk-go-v2/service/ec2/types"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	awsv1 "github.com/dovetail-sh/dovetail/api/aws/v1"
	karpv1 "github.com/dovetail-sh/dovetail/api/v1"
	"github.com/dovetail-sh/dovetail/sandbox/world"
)

func keyOf(obj client.Object) client.ObjectKey { return client.ObjectKeyFromObject(obj) }

// S-175 to S-179, LC-52, install 17: a node class that lacks something says what, the pool says that its class is
// not ready, no instance is launched, and mending it is enough.
func TestS_175_ClassesSayWhatIsMissing(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		spoil     func(*awsv1.EC2NodeClass)
		condition string
		reason    string // empty: not specified
		text      string // in the message
	}{
		"S-176 no subnet carries the tag": {func(c *awsv1.EC2NodeClass) {
			c.Spec.SubnetSelectorTerms[0].Tags = map[string]string{"karpenter.sh/discovery": "nowhere"}
		}, awsv1.ConditionSubnetsReady, "SubnetsNotFound", ""},
		"S-177 no security group carries the tag": {func(c *awsv1.EC2NodeClass) {
			c.Spec.SecurityGroupSelectorTerms[0].Tags = map[string]string{"karpenter.sh/discovery": "nowhere"}
		}, awsv1.ConditionSecurityGroupsReady, "SecurityGroupsNotFound", ""},
		"S-178 an alias of a version that never was": {func(c *awsv1.EC2NodeClass) {
			c.Spec.AMISelectorTerms[0].Alias = "al2023@v19990101"
		}, awsv1.ConditionAMIsReady, "AMINotFound", "al2023"},
		"S-178 an alias that this version has no image for": {func(c *awsv1.EC2NodeClass) {
			c.Spec.AMISelectorTerms[0].Alias = "al2@v20240807" // al2@latest would be read as al2023@latest (L-17)
		}, awsv1.ConditionAMIsReady, "UnsupportedAlias", ""},
		"S-179 the role does not exist": {func(c *awsv1.EC2NodeClass) {
			c.Spec.Role = "KarpenterNodeRole-nowhere"
		}, awsv1.ConditionInstanceProfileReady, "", "KarpenterNodeRole-nowhere"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := newFlow(t, disturbsNone)
			class := &awsv1.EC2NodeClass{ObjectMeta: metav1.ObjectMeta{Name: f.name}}
			if err := f.kube.Get(t.Context(), keyOf(class), class); err != nil {
				t.Fatal(err)
			}
			sound := class.DeepCopy()
			patch(f, class, tc.spoil)
			pool := f.pool("")
			f.waitUntil(soon, tc.condition+" is not True and says why", func() (bool, string) {
				if err := f.kube.Get(t.Context(), keyOf(class), class); err != nil {
					return false, err.Error()
				}
				for _, c := range class.Status.Conditions {
					if c.Type == tc.condition {
						ok := c.Status != metav1.ConditionTrue && c.ObservedGeneration == class.Generation && (tc.reason == "" || c.Reason == tc.reason) && strings.Contains(c.Message, tc.text)
						return ok, string(c.Status) + " " + c.Reason + ": " + c.Message
					}
				}
				return false, "no such condition"
			})
			f.waitUntil(soon, "the pool is not ready because of its class", func() (bool, string) {
				if err := f.kube.Get(t.Context(), keyOf(pool), pool); err != nil {
					return false, err.Error()
				}
				for _, c := range pool.Status.Conditions {
					if c.Type == karpv1.ConditionNodeClassReady {
						return c.Status != metav1.ConditionTrue, c.Reason
					}
				}
				return false, "no such condition"
			})
			f.deploy("inflate", 1)
			f.waitUntil(soon, "a pod waits", func() (bool, string) { return len(f.pods("inflate")) == 1, "" })
			if n := len(f.allInstances()); n > 0 {
				t.Errorf("%d instances of a class that is not ready", n)
			}
			patch(f, class, func(c *awsv1.EC2NodeClass) { c.Spec = *sound.Spec.DeepCopy() })
			f.waitForCondition(pool, karpv1.ConditionReady, metav1.ConditionTrue, "")
			f.waitForRunningPods("inflate", 1)
		})
	}
}

// S-068, S-069, S-074, S-092, S-142, S-143: a class that is all right says so, and shows what it found: all subnets
// and groups that carry the tag of the cluster, which are the private ones.
func TestS_092_AClassShowsWhatItFound(t *testing.T) {
	t.Parallel()
	f := newFlow(t, disturbsNone)
	class := &awsv1.EC2NodeClass{ObjectMeta: metav1.ObjectMeta{Name: f.name}}
	f.waitForCondition(class, awsv1.ConditionSubnetsReady, metav1.ConditionTrue, "")
	f.waitForCondition(class, karpv1.ConditionReady, metav1.ConditionTrue, "")
	if len(class.Status.Subnets) != 3 || len(class.Status.SecurityGroups) != 2 || len(class.Status.AMIs) == 0 || class.Status.InstanceProfile == "" {
		t.Errorf("status %+v", class.Status)
	}
	client, tag := ec2.NewFromConfig(f.awsConfigOfUser()), []ec2types.Filter{{Name: new("tag:karpenter.sh/discovery"), Values: []string{world.Cluster}}}
	subnets, err := client.DescribeSubnets(t.Context(), &ec2.DescribeSubnetsInput{Filters: append(tag, ec2types.Filter{Name: new("tag:kubernetes.io/role/internal-elb"), Values: []string{"1"}})})
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range subnets.Subnets {
		if !slices.ContainsFunc(class.Status.Subnets, func(found awsv1.Subnet) bool { return found.ID == *s.SubnetId }) {
			t.Errorf("%s is tagged, the class has %v", *s.SubnetId, class.Status.Subnets)
		}
	}
	groups, err := client.DescribeSecurityGroups(t.Context(), &ec2.DescribeSecurityGroupsInput{Filters: tag})
	if err != nil {
		t.Fatal(err)
	}
	for _, g := range groups.SecurityGroups {
		if !slices.ContainsFunc(class.Status.SecurityGroups, func(found awsv1.SecurityGroup) bool { return found.ID == *g.GroupId }) {
			t.Errorf("%s is tagged, the class has %v", *g.GroupId, class.Status.SecurityGroups)
		}
	}
	if len(subnets.Subnets) != 3 || len(groups.SecurityGroups) != 2 {
		t.Errorf("%d subnets and %d groups are tagged, the class has %v", len(subnets.Subnets), len(groups.SecurityGroups), class.Status.SecurityGroups)
	}
}

// install 17, FM E17: the controller may not launch; the class names the call that is denied.
func TestFM_E17_MissingPermission(t *testing.T) {
	t.Parallel()
	f := newFlow(t, disturbsNone)
	class := &awsv1.EC2NodeClass{ObjectMeta: metav1.ObjectMeta{Name: f.name}}
	f.waitForCondition(class, karpv1.ConditionReady, metav1.ConditionTrue, "")
	mend := f.awsFault(denialFault("ec2:CreateFleet", f.name))
	patch(f, class, func(c *awsv1.EC2NodeClass) { c.Spec.Tags = map[string]string{"changed": "so that it is judged anew"} })
	f.waitForCondition(class, awsv1.ConditionValidationSucceeded, metav1.ConditionFalse, "CreateFleetAuthCheckFailed")
	mend()
	patch(f, class, func(c *awsv1.EC2NodeClass) { metav1.SetMetaDataAnnotation(&c.ObjectMeta, "check", "again") })
	f.waitForCondition(class, awsv1.ConditionValidationSucceeded, metav1.ConditionTrue, "")
}

// FM A15: user data that EC2 does not take is found before anything is launched.
func TestFM_A15_UserDataTooBig(t *testing.T) {
	t.Parallel()
	f := newFlow(t, disturbsNone)
	class := &awsv1.EC2NodeClass{ObjectMeta: metav1.ObjectMeta{Name: f.name}}
	f.waitForCondition(class, karpv1.ConditionReady, metav1.ConditionTrue, "")
	patch(f, class, func(c *awsv1.EC2NodeClass) {
		c.Spec.UserData = new("#!/bin/sh\n# " + strings.Repeat("0123456789", 1700) + "\n")
	})
	f.waitForCondition(class, awsv1.ConditionValidationSucceeded, metav1.ConditionFalse, "UserDataSizeLimitExceeded")
	f.pool("")
	f.deploy("inflate", 1)
	f.waitUntil(soon, "a pod waits", func() (bool, string) { return len(f.pods("inflate")) == 1, "" })
	if n := len(f.allInstances()); n > 0 {
		t.Errorf("%d instances", n)
	}
}
