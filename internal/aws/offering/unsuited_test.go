package offering

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"

	awsv1 "github.com/dovetail-sh/dovetail/api/aws/v1"
)

// What can never be launched is distinguished from what has no capacity at present.
func TestTrust_B03_UnsuitedIsNotOutOfCapacity(t *testing.T) {
	t.Parallel()
	l := newFixture(t, nil, allTypes(t)...)
	arm := class(awsv1.FamilyAL2023, func(c *awsv1.EC2NodeClass) {
		c.Status.AMIs = []awsv1.AMI{{ID: "ami-arm", Requirements: []corev1.NodeSelectorRequirement{{Key: corev1.LabelArchStable, Operator: corev1.NodeSelectorOpIn, Values: []string{"arm64"}}}}}
	})
	one := l.one(t, arm, "m5.large")
	if !strings.Contains(one.Unsuited, "no image of spec.amiSelectorTerms runs on architecture amd64") {
		t.Errorf("m5.large with images for arm64: %q", one.Unsuited)
	}
	for _, o := range one.Offerings {
		if o.Available || o.Out {
			t.Errorf("%s %s is available: %v, out of capacity: %v; want neither", o.Zone, o.CapacityType, o.Available, o.Out)
		}
	}
	nested := class(awsv1.FamilyAL2023, func(c *awsv1.EC2NodeClass) {
		c.Spec.CPUOptions = &awsv1.CPUOptions{NestedVirtualization: new("enabled")}
	})
	if got := l.one(t, nested, "m5.large").Unsuited; !strings.Contains(got, "spec.cpuOptions.nestedVirtualization") {
		t.Errorf("m5.large with nested virtualization: %q", got)
	}
	plain := class(awsv1.FamilyAL2023)
	zone := l.one(t, plain, "m5.large").Offerings[0].Zone
	l.unavailable.Mark("on-demand", "m5.large", zone, Group{}, "InsufficientInstanceCapacity")
	out := 0
	one = l.one(t, plain, "m5.large")
	for _, o := range one.Offerings {
		if o.Out {
			out++
		}
		if o.Out != (o.Zone == zone && o.CapacityType == "on-demand") || o.Out && o.Available {
			t.Errorf("%s %s is out of capacity: %v, available: %v", o.Zone, o.CapacityType, o.Out, o.Available)
		}
	}
	if out != 1 || one.Unsuited != "" {
		t.Errorf("%d offerings are out of capacity, unsuited %q; want one, and suited", out, one.Unsuited)
	}
}
