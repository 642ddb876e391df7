package convert

import (
	"strconv"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	awsv1 "github.com/dovetail-sh/dovetail/api/aws/v1"
	karpv1 "github.com/dovetail-sh/dovetail/api/v1"
)

// provisioner is the part of karpenter.sh/v1alpha5 Provisioner that has a meaning today.
type provisioner struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata"`
	Spec              provisionerSpec       `json:"spec"`
	Status            *runtime.RawExtension `json:"status"`
}

type provisionerSpec struct {
	Labels                 map[string]string     `json:"labels"`
	Annotations            map[string]string     `json:"annotations"`
	Taints                 []corev1.Taint        `json:"taints"`
	StartupTaints          []corev1.Taint        `json:"startupTaints"`
	Requirements           []karpv1.Requirement  `json:"requirements"`
	KubeletConfiguration   map[string]any        `json:"kubeletConfiguration"`
	Provider               *runtime.RawExtension `json:"provider"`
	ProviderRef            *providerRef          `json:"providerRef"`
	TTLSecondsAfterEmpty   *int64                `json:"ttlSecondsAfterEmpty"`
	TTLSecondsUntilExpired *int64                `json:"ttlSecondsUntilExpired"`
	Limits                 *struct {
		Resources corev1.ResourceList `json:"resources"`
	} `json:"limits"`
	Weight        *int32 `json:"weight"`
	Consolidation *struct {
		Enabled *bool `json:"enabled"`
	} `json:"consolidation"`
}

type providerRef struct {
	APIVersion string `json:"apiVersion"`
	Kind       string `json:"kind"`
	Name       string `json:"name"`
}

// addProvisioner makes a NodePool of a Provisioner, and an EC2NodeClass of its inline provider (API
// 12.1).
func (b *batch) addProvisioner(d *document) {
	old := &provisioner{}
	if !b.versionKnown(d, "v1alpha5") || !b.decode(d, old) || !b.checkName(d, &old.ObjectMeta) {
		return
	}
	spec := &old.Spec
	pool := &karpv1.NodePool{ObjectMeta: old.ObjectMeta}
	template := &pool.Spec.Template
	template.ObjectMeta.Labels = b.poolLabels(d, spec.Labels)
	template.ObjectMeta.Annotations = spec.Annotations
	template.Spec.Taints, template.Spec.StartupTaints = spec.Taints, spec.StartupTaints
	template.Spec.Requirements = b.poolRequirements(d, spec)
	template.Spec.ExpireAfter = karpv1.Never
	if spec.TTLSecondsUntilExpired != nil {
		template.Spec.ExpireAfter = b.seconds(d, "spec.ttlSecondsUntilExpired", *spec.TTLSecondsUntilExpired)
		if *spec.TTLSecondsUntilExpired == 0 {
			b.warn(d, "spec.ttlSecondsUntilExpired", "is 0: every node expires as soon as it is there; leave it out for no expiry")
		}
	}
	pool.Spec.Disruption = b.poolDisruption(d, spec)
	if spec.Limits != nil {
		pool.Spec.Limits = spec.Limits.Resources
	}
	pool.Spec.Weight = spec.Weight
	template.Spec.Kubelet = b.oldKubelet(d, spec.KubeletConfiguration)

	e := &entry{doc: d, pool: pool, kubeletField: "spec.kubeletConfiguration", spelling: limitSpelling(d, "limits", "resources")}
	var inline *entry
	switch {
	case spec.ProviderRef != nil && spec.ProviderRef.Name != "":
		template.Spec.NodeClassRef.Name = spec.ProviderRef.Name
		if spec.Provider != nil {
			b.warn(d, "spec.provider", "is left out: spec.providerRef counts")
		}
	case spec.Provider != nil && len(spec.Provider.Raw) > 0:
		template.Spec.NodeClassRef.Name = old.Name
		inline = b.inlineClass(d, old.Name, spec.Provider.Raw)
	default:
		b.fail(d, "spec.providerRef.name", "is required; name the AWSNodeTemplate of the Provisioner")
	}
	e.pool, _ = pool.Canonical(false)
	b.entries = append(b.entries, e)
	if inline != nil {
		b.entries = append(b.entries, inline)
	}
}

// poolLabels drops the label that names the pool: the controller sets it.
func (b *batch) poolLabels(d *document, labels map[string]string) map[string]string {
	if _, there := labels[karpv1.LabelProvisionerName]; there {
		b.warn(d, "spec.labels", "label "+karpv1.LabelProvisionerName+" is left out: it is now "+karpv1.LabelNodePool+" and set by the controller")
		delete(labels, karpv1.LabelProvisionerName)
	}
	return labels
}

// poolRequirements adds what v1alpha5 assumed where nothing was said.
func (b *batch) poolRequirements(d *document, spec *provisionerSpec) []karpv1.Requirement {
	list := make([]karpv1.Requirement, 0, len(spec.Requirements)+5)
	words := awsv1.Vocabulary()
	said := map[string]bool{}
	for key := range spec.Labels {
		said[words.Canonical(key)] = true
	}
	for i, r := range spec.Requirements {
		said[words.Canonical(r.Key)] = true
		if r.Key == karpv1.LabelProvisionerName {
			b.warn(d, "spec.requirements["+strconv.Itoa(i)+"]", "is left out: a pool cannot require its own name")
			continue
		}
		list = append(list, r)
	}
	if b.opts.IgnoreDefaults {
		return list
	}
	assume := func(key string, op corev1.NodeSelectorOperator, values ...string) {
		list = append(list, karpv1.Requirement{Key: key, Operator: op, Values: values})
	}
	for _, d := range []struct{ key, value string }{
		{corev1.LabelOSStable, "linux"},
		{corev1.LabelArchStable, "amd64"},
		{karpv1.LabelCapacityType, karpv1.CapacityTypeOnDemand},
	} {
		if !said[d.key] {
			assume(d.key, corev1.NodeSelectorOpIn, d.value)
		}
	}
	if !said[corev1.LabelInstanceTypeStable] && !said[awsv1.LabelInstanceFamily] && !said[awsv1.LabelInstanceCategory] && !said[awsv1.LabelInstanceGeneration] {
		assume(awsv1.LabelInstanceCategory, corev1.NodeSelectorOpIn, "c", "m", "r")
		assume(awsv1.LabelInstanceGeneration, corev1.NodeSelectorOpGt, "2")
	}
	return list
}

// poolDisruption reads the two ways v1alpha5 had to remove nodes. Without either it never did.
func (b *batch) poolDisruption(d *document, spec *provisionerSpec) karpv1.Disruption {
	consolidates := spec.Consolidation != nil && spec.Consolidation.Enabled != nil && *spec.Consolidation.Enabled
	switch {
	case consolidates:
		if spec.TTLSecondsAfterEmpty != nil {
			b.warn(d, "spec.ttlSecondsAfterEmpty", "is left out: spec.consolidation counts, and empty nodes go at once")
		}
		return karpv1.Disruption{ConsolidationPolicy: karpv1.ConsolidationWhenEmptyOrUnderutilized, ConsolidateAfter: karpv1.DefaultConsolidateAfter}
	case spec.TTLSecondsAfterEmpty != nil:
		return karpv1.Disruption{
			ConsolidationPolicy: karpv1.ConsolidationWhenEmpty,
			ConsolidateAfter:    b.seconds(d, "spec.ttlSecondsAfterEmpty", *spec.TTLSecondsAfterEmpty),
		}
	default:
		return karpv1.Disruption{ConsolidateAfter: karpv1.Never}
	}
}

func (b *batch) seconds(d *document, field string, n int64) karpv1.Duration {
	if n < 0 {
		b.fail(d, field, strconv.FormatInt(n, 10)+" is negative; want zero or more seconds")
		n = 0
	}
	return karpv1.Duration(strconv.FormatInt(n, 10) + "s")
}
