package discover

import (
	"slices"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"

	awsv1 "github.com/dovetail-sh/dovetail/api/aws/v1"
)

const (
	latest = "latest"

	firstMinorWithoutAL2      = 33
	firstMinorWithWindows2025 = 35
)

// Variants of the images of a family.
const (
	standard = "standard"
	nvidia   = "nvidia"
	neuron   = "neuron"
)

// query is one public parameter that holds the id of an image, and what the image is good for.
type query struct {
	parameter string
	mutable   bool // the parameter will name a newer image some day
	variants  [][]corev1.NodeSelectorRequirement
}

// alias is a family and a version, such as al2023@latest.
type alias struct{ family, version string }

// aliasOf returns the alias of a class; it is the only term then.
func aliasOf(class *awsv1.EC2NodeClass) (alias, bool) {
	for _, t := range class.Spec.AMISelectorTerms {
		if t.Alias != "" {
			family, version, _ := strings.Cut(t.Alias, "@")
			if version == "" {
				version = latest
			}
			return alias{family: strings.ToLower(family), version: version}, true
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
	switch {
	case !found || err != nil:
		return ""
	case a.family == "al2" && minor >= firstMinorWithoutAL2:
		return "EKS publishes no AL2 image for Kubernetes " + kubernetes + "; use the alias al2023@latest or bottlerocket@latest"
	case a.family == "windows2025" && minor < firstMinorWithWindows2025:
		return "EKS publishes no Windows 2025 image for Kubernetes " + kubernetes + ", only from 1.35 on; use the alias windows2022@latest"
	}
	return ""
}

// queries are the parameters of an alias under a Kubernetes version (EC2NodeClass 8).
func (a alias) queries(kubernetes string) []query {
	switch a.family {
	case "al2":
		return a.al2(kubernetes)
	case "al2023":
		return a.al2023(kubernetes)
	case "bottlerocket":
		return a.bottlerocket(kubernetes)
	default:
		return a.windows(kubernetes)
	}
}

const eksImages = "/aws/service/eks/optimized-ami/"

// release is the part of a path that names a version: the recommended one, or a pinned name.
func (a alias) release(pinned string) string {
	if a.version == latest {
		return "recommended"
	}
	return pinned + "-" + a.version
}

func (a alias) al2(k string) []query {
	one := func(directory, pinned string, variants ...string) query {
		return a.query(eksImages+k+"/"+directory+"/"+a.release(pinned+"-"+k)+"/image_id", variants...)
	}
	return []query{
		one("amazon-linux-2", "amazon-eks-node", standard),
		one("amazon-linux-2-arm64", "amazon-eks-arm64-node", standard),
		one("amazon-linux-2-gpu", "amazon-eks-gpu-node", neuron, nvidia),
	}
}

func (a alias) al2023(k string) []query {
	one := func(architecture, variant string) query {
		return a.query(eksImages+k+"/amazon-linux-2023/"+architecture+"/"+variant+"/"+
			a.release("amazon-eks-node-al2023-"+architecture+"-"+variant+"-"+k)+"/image_id", variant)
	}
	return []query{one("x86_64", standard), one("x86_64", nvidia), one("x86_64", neuron), one("arm64", standard), one("arm64", nvidia)}
}

func (a alias) bottlerocket(k string) []query {
	one := func(directory, architecture string, variants ...string) query {
		return a.query("/aws/service/bottlerocket/aws-k8s-"+directory+"/"+architecture+"/"+strings.TrimPrefix(a.version, "v")+"/image_id", variants...)
	}
	return []query{
		one(k, "x86_64", standard, neuron),
		one(k, "arm64", standard),
		one(k+"-nvidia", "x86_64", nvidia),
		one(k+"-nvidia", "arm64", nvidia),
	}
}

func (a alias) windows(k string) []query {
	year := strings.TrimPrefix(a.family, "windows")
	return []query{{
		parameter: "/aws/service/ami-windows-latest/Windows_Server-" + year + "-English-Core-EKS_Optimized-" + k + "/image_id",
		mutable:   true,
		variants: [][]corev1.NodeSelectorRequirement{{
			{Key: corev1.LabelOSStable, Operator: corev1.NodeSelectorOpIn, Values: []string{string(corev1.Windows)}},
			{Key: corev1.LabelWindowsBuild, Operator: corev1.NodeSelectorOpIn, Values: []string{windowsBuild(year)}},
		}},
	}}
}

func windowsBuild(year string) string {
	switch year {
	case "2019":
		return "10.0.17763"
	case "2022":
		return "10.0.20348"
	default:
		return "10.0.26100"
	}
}

func (a alias) query(parameter string, variants ...string) query {
	q := query{parameter: parameter, mutable: a.version == latest}
	for _, v := range variants {
		q.variants = append(q.variants, requirements(v))
	}
	return q
}

// requirements are what an instance type must be like for an image of a variant.
func requirements(variant string) []corev1.NodeSelectorRequirement {
	gpus := corev1.NodeSelectorRequirement{Key: awsv1.LabelInstanceGPUCount, Operator: corev1.NodeSelectorOpExists}
	accelerators := corev1.NodeSelectorRequirement{Key: awsv1.LabelInstanceAcceleratorCount, Operator: corev1.NodeSelectorOpExists}
	switch variant {
	case nvidia:
		return []corev1.NodeSelectorRequirement{gpus}
	case neuron:
		return []corev1.NodeSelectorRequirement{accelerators}
	default:
		gpus.Operator, accelerators.Operator = corev1.NodeSelectorOpDoesNotExist, corev1.NodeSelectorOpDoesNotExist
		return slices.Clone([]corev1.NodeSelectorRequirement{gpus, accelerators})
	}
}
