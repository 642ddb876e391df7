package discover

import (
	"cmp"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"

	awsv1 "github.com/dovetail-sh/dovetail/api/aws/v1"
	"github.com/dovetail-sh/dovetail/internal/aws/ami"
)

// query is one public parameter that holds the id of an image, and what the image is good for.
type query struct {
	parameter string
	mutable   bool // the parameter will name a newer image some day
	variants  [][]corev1.NodeSelectorRequirement
}

// alias is a family and a version, such as al2023@latest.
type alias struct {
	family  ami.Family
	version string
}

// aliasOf returns the alias of a class; it is the only term then. An alias that names no family, which
// admission refuses, has no images.
func aliasOf(class *awsv1.EC2NodeClass) (alias, bool) {
	for _, t := range class.Spec.AMISelectorTerms {
		if t.Alias != "" {
			name, version, _ := strings.Cut(t.Alias, "@")
			family, _ := ami.ByAlias(name)
			return alias{family: family, version: cmp.Or(version, ami.Latest)}, true
		}
	}
	return alias{}, false
}

// UnsupportedAlias says why no image can exist for the alias of a class under a Kubernetes version,
// such as 1.34; empty if one can.
func UnsupportedAlias(class *awsv1.EC2NodeClass, kubernetes string) string {
	a, found := aliasOf(class)
	_, text, _ := strings.Cut(kubernetes, ".")
	minor, err := strconv.Atoi(text)
	if !found || err != nil {
		return ""
	}
	none := "EKS publishes no " + a.family.Title + " image for Kubernetes " + kubernetes
	switch first, last := a.family.FirstMinor, a.family.LastMinor; {
	case last > 0 && minor > last:
		return none + "; use the alias " + a.family.Instead
	case minor < first:
		return none + ", only from 1." + strconv.Itoa(first) + " on; use the alias " + a.family.Instead
	}
	return ""
}

// queries are the parameters of an alias under a Kubernetes version (EC2NodeClass 8).
func (a alias) queries(kubernetes string) []query {
	if a.family.Images == nil {
		return nil
	}
	var list []query
	for _, image := range a.family.Images(kubernetes, a.version) {
		q := query{parameter: image.Parameter, mutable: image.Mutable}
		for _, v := range image.Variants {
			q.variants = append(q.variants, requirements(v, a.family.WindowsBuild))
		}
		list = append(list, q)
	}
	return list
}

// requirements are what an instance type must be like for an image of a variant.
func requirements(variant ami.Variant, windowsBuild string) []corev1.NodeSelectorRequirement {
	one := func(key string, operator corev1.NodeSelectorOperator, values ...string) corev1.NodeSelectorRequirement {
		return corev1.NodeSelectorRequirement{Key: key, Operator: operator, Values: values}
	}
	switch variant {
	case ami.NVIDIA:
		return []corev1.NodeSelectorRequirement{one(awsv1.LabelInstanceGPUCount, corev1.NodeSelectorOpExists)}
	case ami.Neuron:
		return []corev1.NodeSelectorRequirement{one(awsv1.LabelInstanceAcceleratorCount, corev1.NodeSelectorOpExists)}
	case ami.ServerCore:
		return []corev1.NodeSelectorRequirement{
			one(corev1.LabelOSStable, corev1.NodeSelectorOpIn, string(corev1.Windows)),
			one(corev1.LabelWindowsBuild, corev1.NodeSelectorOpIn, windowsBuild),
		}
	case ami.Standard:
	}
	return []corev1.NodeSelectorRequirement{
		one(awsv1.LabelInstanceGPUCount, corev1.NodeSelectorOpDoesNotExist),
		one(awsv1.LabelInstanceAcceleratorCount, corev1.NodeSelectorOpDoesNotExist),
	}
}
