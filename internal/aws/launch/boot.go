package launch

import (
	"encoding/json"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"

	ec2types "github.com/aws/aws-sdk-go-v2/service/ec2/types"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"

	awsv1 "github.com/dovetail-sh/dovetail/api/aws/v1"
	karpv1 "github.com/dovetail-sh/dovetail/api/v1"
	"github.com/dovetail-sh/dovetail/internal/aws/ami"
	"github.com/dovetail-sh/dovetail/internal/aws/kubelet"
	"github.com/dovetail-sh/dovetail/internal/aws/userdata"
	"github.com/dovetail-sh/dovetail/internal/catalog"
	"github.com/dovetail-sh/dovetail/internal/resources"
)

// site has the properties of the cluster and the settings that a launch needs.
type site struct {
	cluster, endpoint, caBundle, dns, serviceCIDR, region string

	ipv6        bool
	reserved    bool // gate ReservedCapacity
	expressions bool // gate NodeClassCEL
	raw         func(instanceType string) (ec2types.InstanceTypeInfo, bool)
}

// bootLabels are the labels a kubelet gives its node: those of the claim, less the ones that API
// servers refuse from kubelets (EC2NodeClass 11). Where user data is generated it has the taints too, so
// that they are not to be put on the node again.
func bootLabels(claim *karpv1.NodeClaim, capacityType string, family ami.Family) map[string]string {
	labels := maps.Clone(claim.Labels)
	if labels == nil {
		labels = map[string]string{}
	}
	labels[karpv1.LabelCapacityType] = capacityType
	if family.UserData != ami.Verbatim {
		labels[karpv1.LabelDoNotSyncTaints] = "true"
	}
	maps.DeleteFunc(labels, func(key, _ string) bool { return ofKubernetes(key) })
	return labels
}

// ofKubernetes reports whether the domain of a label is, or is below, one that belongs to Kubernetes.
func ofKubernetes(key string) bool {
	domain, _, qualified := strings.Cut(key, "/")
	if !qualified {
		return false
	}
	return slices.ContainsFunc([]string{"kubernetes.io", "k8s.io", "node-restriction.kubernetes.io"}, func(parent string) bool {
		return domain == parent || strings.HasSuffix(domain, "."+parent)
	})
}

// bootTaints are the taints of a node at its first boot, each once.
func bootTaints(claim *karpv1.NodeClaim) []corev1.Taint {
	var list []corev1.Taint
	for _, t := range slices.Concat(claim.Spec.Taints, claim.Spec.StartupTaints, []corev1.Taint{karpv1.UnregisteredTaint()}) {
		if !slices.ContainsFunc(list, func(have corev1.Taint) bool { return have.Key == t.Key && have.Effect == t.Effect }) {
			list = append(list, corev1.Taint{Key: t.Key, Value: t.Value, Effect: t.Effect})
		}
	}
	return list
}

// pods is how many pods a type takes, which the catalogue has worked out already.
func pods(t *catalog.InstanceType) int { return int(t.Capacity.At(resources.Pods)) }

// kubeletFor is the kubelet document for a type: no expressions, and maxPods as the catalogue has it.
func kubeletFor(config kubelet.Config, t *catalog.InstanceType, s site) (kubelet.Config, error) {
	maxPods := int32(pods(t))
	if config.Expressions() {
		// With maxPods settled, reservations are computed from the number that is really used.
		document := maps.Clone(config.Raw)
		document["maxPods"] = int64(maxPods)
		text, err := json.Marshal(document)
		if err != nil {
			return kubelet.Config{}, fmt.Errorf("kubelet document: %w", err)
		}
		config, _ = kubelet.Parse(&runtime.RawExtension{Raw: text})
		if config, err = config.For(machine(t, s), s.expressions); err != nil {
			return kubelet.Config{}, err
		}
	}
	config.MaxPods = &maxPods
	return config, nil
}

// machine is what expressions can be about.
func machine(t *catalog.InstanceType, s site) kubelet.Machine {
	m := kubelet.Machine{Type: t.Name, Pods: pods(t)}
	info, known := s.raw(t.Name)
	if !known {
		return m
	}
	if info.VCpuInfo != nil {
		m.VCPUs = int(value(info.VCpuInfo.DefaultVCpus))
	}
	if info.MemoryInfo != nil {
		m.MemoryMiB = int(value(info.MemoryInfo.SizeInMiB))
	}
	if n := info.NetworkInfo; n != nil {
		m.IPsPerENI = int(value(n.Ipv4AddressesPerInterface))
		m.DefaultENIs = int(value(n.MaximumNetworkInterfaces))
		card := int(value(n.DefaultNetworkCardIndex))
		if card < len(n.NetworkCards) {
			m.DefaultENIs = int(value(n.NetworkCards[card].MaximumNetworkInterfaces))
		}
	}
	return m
}

func value[T any](pointer *T) T {
	var zero T
	if pointer == nil {
		return zero
	}
	return *pointer
}

// boot returns the user data for the first boot of an instance.
func boot(r Request, capacityType string, config kubelet.Config, s site) (string, error) {
	family := ami.Of(r.Class.Family())
	return userdata.Render(userdata.Input{
		Family: family, Cluster: s.cluster, Endpoint: s.endpoint, CABundle: s.caBundle, ServiceCIDR: s.serviceCIDR, DNS: s.dns,
		Labels: bootLabels(r.Claim, capacityType, family), Taints: bootTaints(r.Claim), Kubelet: config,
		RAID0: value(r.Class.Spec.InstanceStorePolicy) == "RAID0", User: value(r.Class.Spec.UserData),
		BottlerocketVersion: bottlerocketVersion(r.Class),
	})
}

// bottlerocketVersion is the version of the image as far as the class specifies it: by alias, by the name of a term,
// by the name of an image that a term names, by the name of any image.
func bottlerocketVersion(class *awsv1.EC2NodeClass) string {
	version := regexp.MustCompile(`v?(\d+\.\d+\.\d+)`)
	in := func(text string) string {
		if found := version.FindStringSubmatch(text); found != nil {
			return found[1]
		}
		return ""
	}
	for _, t := range class.Spec.AMISelectorTerms {
		if _, pinned, isAlias := strings.Cut(t.Alias, "@"); isAlias {
			return strings.TrimPrefix(pinned, "v")
		}
	}
	for _, t := range class.Spec.AMISelectorTerms {
		if found := in(t.Name); found != "" {
			return found
		}
	}
	for _, t := range class.Spec.AMISelectorTerms {
		for _, image := range class.Status.AMIs {
			if t.ID != "" && t.ID == image.ID && in(image.Name) != "" {
				return in(image.Name)
			}
		}
	}
	for _, image := range class.Status.AMIs {
		if found := in(image.Name); found != "" {
			return found
		}
	}
	return ""
}
