package offering

import (
	"testing"

	ec2types "github.com/aws/aws-sdk-go-v2/service/ec2/types"
	corev1 "k8s.io/api/core/v1"

	awsv1 "github.com/dovetail-sh/dovetail/api/aws/v1"
)

// What of a class makes a type unusable (EC2NodeClass 8, 9 and 13). The type stays in the list.
func TestClassFilters(t *testing.T) {
	t.Parallel()
	tracking := func(c *awsv1.EC2NodeClass) {
		c.Spec.ConnectionTracking = &awsv1.ConnectionTracking{UDPTimeout: new(int32(30))}
	}
	nested := func(value string) func(*awsv1.EC2NodeClass) {
		return func(c *awsv1.EC2NodeClass) { c.Spec.CPUOptions = &awsv1.CPUOptions{NestedVirtualization: &value} }
	}
	wearing := func(interfaces ...awsv1.NetworkInterface) func(*awsv1.EC2NodeClass) {
		return func(c *awsv1.EC2NodeClass) { c.Spec.NetworkInterfaces = interfaces }
	}
	plain := awsv1.NetworkInterface{InterfaceType: "interface"}
	efa := func(card, device int32) awsv1.NetworkInterface {
		return awsv1.NetworkInterface{NetworkCardIndex: card, DeviceIndex: device, InterfaceType: "efa-only"}
	}
	variant := func(key string, op corev1.NodeSelectorOperator) func(*awsv1.EC2NodeClass) {
		return func(c *awsv1.EC2NodeClass) {
			for i := range c.Status.AMIs {
				c.Status.AMIs[i].Requirements = append(c.Status.AMIs[i].Requirements, corev1.NodeSelectorRequirement{Key: key, Operator: op})
			}
		}
	}
	windowsImage := func(c *awsv1.EC2NodeClass) {
		c.Status.AMIs = []awsv1.AMI{{ID: "ami-w", Requirements: []corev1.NodeSelectorRequirement{
			{Key: corev1.LabelArchStable, Operator: corev1.NodeSelectorOpIn, Values: []string{"amd64"}},
			{Key: corev1.LabelOSStable, Operator: corev1.NodeSelectorOpIn, Values: []string{"windows"}},
			{Key: corev1.LabelWindowsBuild, Operator: corev1.NodeSelectorOpIn, Values: []string{"10.0.17763"}},
		}}}
	}
	virtual := described(t, "m7i.large", func(i *ec2types.InstanceTypeInfo) {
		i.ProcessorInfo.SupportedFeatures = []ec2types.SupportedAdditionalProcessorFeature{ec2types.SupportedAdditionalProcessorFeatureNestedVirtualization}
	})
	for name, tc := range map[string]struct {
		family awsv1.AMIFamily
		change func(*awsv1.EC2NodeClass)
		on     ec2types.InstanceTypeInfo
		want   bool
	}{
		"connection tracking on nitro":             {change: tracking, on: described(t, "m5.large", nil), want: true},
		"connection tracking on xen":               {change: tracking, on: described(t, "m4.large", nil)},
		"connection tracking on metal":             {change: tracking, on: described(t, "m5.metal", nil)},
		"nested virtualization where there is":     {change: nested("enabled"), on: virtual, want: true},
		"nested virtualization where there is not": {change: nested("enabled"), on: described(t, "m5.large", nil)},
		"nested virtualization disabled":           {change: nested("disabled"), on: described(t, "m5.large", nil), want: true},
		"interfaces that fit":                      {change: wearing(plain, efa(0, 1), efa(3, 1)), on: p4d(), want: true},
		"a card that is not there":                 {change: wearing(plain, efa(4, 1)), on: p4d()},
		"a slot that is not there":                 {change: wearing(plain, efa(0, 15)), on: p4d()},
		"EFA on a type without":                    {change: wearing(plain, efa(0, 1)), on: described(t, "m5.large", nil)},
		"interfaces without ENA": {change: wearing(plain), on: described(t, "m5.large", func(i *ec2types.InstanceTypeInfo) {
			i.NetworkInfo.EnaSupport = ec2types.EnaSupportUnsupported
		})},
		"AL2023 on a1":                    {on: described(t, "a1.large", nil)},
		"AL2 on a1":                       {family: awsv1.FamilyAL2, on: described(t, "a1.large", nil), want: true},
		"standard image on a GPU":         {change: variant(awsv1.LabelInstanceGPUCount, corev1.NodeSelectorOpDoesNotExist), on: p4d()},
		"GPU image on a GPU":              {change: variant(awsv1.LabelInstanceGPUCount, corev1.NodeSelectorOpExists), on: p4d(), want: true},
		"GPU image without a GPU":         {change: variant(awsv1.LabelInstanceGPUCount, corev1.NodeSelectorOpExists), on: described(t, "m5.large", nil)},
		"Windows on amd64":                {family: awsv1.FamilyWindows2019, change: windowsImage, on: described(t, "m5.large", nil), want: true},
		"Windows on arm64":                {family: awsv1.FamilyWindows2019, change: windowsImage, on: described(t, "m6g.large", nil)},
		"a Windows image of another year": {family: awsv1.FamilyWindows2022, change: windowsImage, on: described(t, "m5.large", nil)},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if tc.family == "" {
				tc.family = awsv1.FamilyAL2023
			}
			c := class(tc.family)
			if tc.change != nil {
				tc.change(c)
			}
			available := false
			for _, o := range newFixture(t, nil, tc.on).types(t, c)[0].Offerings {
				available = available || o.Available
			}
			if available != tc.want {
				t.Errorf("available: %v, want %v", available, tc.want)
			}
		})
	}
}
