package ami

import "strings"

// Image is a public parameter that holds the id of an image, and what the image is good for.
type Image struct {
	Parameter string
	Mutable   bool // the parameter will name a newer image some day
	Variants  []Variant
}

// Variant is the hardware that an image is made for.
type Variant int

// Variants of the images of a family.
const (
	Standard   Variant = iota // no GPU and no accelerator
	NVIDIA                    // GPUs
	Neuron                    // accelerators
	ServerCore                // Windows of one build
)

const eksImages = "/aws/service/eks/optimized-ami/"

// release is the part of a path that names a version: the recommended one, or a pinned name.
func release(version, pinned string) string {
	if version == Latest {
		return "recommended"
	}
	return pinned + "-" + version
}

func al2Images(kubernetes, version string) []Image {
	one := func(directory, pinned string, variants ...Variant) Image {
		return Image{
			Parameter: eksImages + kubernetes + "/" + directory + "/" + release(version, pinned+"-"+kubernetes) + "/image_id",
			Mutable:   version == Latest, Variants: variants,
		}
	}
	return []Image{
		one("amazon-linux-2", "amazon-eks-node", Standard),
		one("amazon-linux-2-arm64", "amazon-eks-arm64-node", Standard),
		one("amazon-linux-2-gpu", "amazon-eks-gpu-node", Neuron, NVIDIA),
	}
}

func al2023Images(kubernetes, version string) []Image {
	one := func(architecture, name string, variant Variant) Image {
		return Image{
			Parameter: eksImages + kubernetes + "/amazon-linux-2023/" + architecture + "/" + name + "/" +
				release(version, "amazon-eks-node-al2023-"+architecture+"-"+name+"-"+kubernetes) + "/image_id",
			Mutable: version == Latest, Variants: []Variant{variant},
		}
	}
	return []Image{
		one("x86_64", "standard", Standard),
		one("x86_64", "nvidia", NVIDIA),
		one("x86_64", "neuron", Neuron),
		one("arm64", "standard", Standard),
		one("arm64", "nvidia", NVIDIA),
	}
}

func bottlerocketImages(kubernetes, version string) []Image {
	one := func(directory, architecture string, variants ...Variant) Image {
		return Image{
			Parameter: "/aws/service/bottlerocket/aws-k8s-" + directory + "/" + architecture + "/" + strings.TrimPrefix(version, "v") + "/image_id",
			Mutable:   version == Latest, Variants: variants,
		}
	}
	return []Image{
		one(kubernetes, "x86_64", Standard, Neuron),
		one(kubernetes, "arm64", Standard),
		one(kubernetes+"-nvidia", "x86_64", NVIDIA),
		one(kubernetes+"-nvidia", "arm64", NVIDIA),
	}
}

// windowsImages are those of a year. AWS keeps a parameter for the latest one alone.
func windowsImages(year string) func(kubernetes, version string) []Image {
	return func(kubernetes, _ string) []Image {
		return []Image{{
			Parameter: "/aws/service/ami-windows-latest/Windows_Server-" + year + "-English-Core-EKS_Optimized-" + kubernetes + "/image_id",
			Mutable:   true, Variants: []Variant{ServerCore},
		}}
	}
}
