package families

import (
	"slices"
	"strconv"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	karpv1 "github.com/dovetail-sh/dovetail/api/v1"
	"github.com/dovetail-sh/dovetail/internal/scenario"
)

// Short names for labels that every family uses.
const (
	zoneKey     = corev1.LabelTopologyZone
	hostKey     = corev1.LabelHostname
	archKey     = corev1.LabelArchStable
	capacityKey = karpv1.LabelCapacityType
	categoryKey = instanceLabel + "category"
	generation  = instanceLabel + "generation"
)

type labels map[string]string

// size is what a pod requests: thousandths of a core and mebibytes.
type size struct{ cpu, memory int }

// smallSize is one of thirty: from 100m to 1.5 cores, from 100Mi to 4Gi.
func (m *maker) smallSize() size {
	return size{pick(m, []int{100, 250, 500, 1000, 1500}), pick(m, []int{100, 256, 512, 1024, 2048, 4096})}
}

func requests(milli, mib int) corev1.ResourceList {
	return corev1.ResourceList{
		corev1.ResourceCPU:    *resource.NewMilliQuantity(int64(milli), resource.DecimalSI),
		corev1.ResourceMemory: *resource.NewQuantity(int64(mib)*mebi, resource.BinarySI),
	}
}

// pod is a template of one container; the changes say what else it requests.
func pod(s size, l labels, changes ...func(*corev1.PodSpec)) *corev1.PodTemplateSpec {
	p := &corev1.PodTemplateSpec{
		ObjectMeta: metav1.ObjectMeta{Labels: l},
		Spec: corev1.PodSpec{Containers: []corev1.Container{{
			Name: "app", Image: "app", Resources: corev1.ResourceRequirements{Requests: requests(s.cpu, s.memory)},
		}}},
	}
	for _, change := range changes {
		change(&p.Spec)
	}
	return p
}

func selecting(l labels) func(*corev1.PodSpec) {
	return func(s *corev1.PodSpec) { s.NodeSelector = l }
}

func tolerating(t corev1.Toleration) func(*corev1.PodSpec) {
	return func(s *corev1.PodSpec) { s.Tolerations = append(s.Tolerations, t) }
}

func gpus(n int) func(*corev1.PodSpec) {
	return func(s *corev1.PodSpec) {
		count := *resource.NewQuantity(int64(n), resource.DecimalSI)
		s.Containers[0].Resources.Requests["nvidia.com/gpu"] = count
		s.Containers[0].Resources.Limits = corev1.ResourceList{"nvidia.com/gpu": count}
	}
}

func spread(topology string, skew int32, l labels, when corev1.UnsatisfiableConstraintAction) func(*corev1.PodSpec) {
	return func(s *corev1.PodSpec) {
		s.TopologySpreadConstraints = append(s.TopologySpreadConstraints, corev1.TopologySpreadConstraint{
			MaxSkew: skew, TopologyKey: topology, WhenUnsatisfiable: when, LabelSelector: &metav1.LabelSelector{MatchLabels: l},
		})
	}
}

func term(topology string, l labels) corev1.PodAffinityTerm {
	return corev1.PodAffinityTerm{TopologyKey: topology, LabelSelector: &metav1.LabelSelector{MatchLabels: l}}
}

func together(topology string, l labels) func(*corev1.PodSpec) {
	return func(s *corev1.PodSpec) {
		s.Affinity = &corev1.Affinity{PodAffinity: &corev1.PodAffinity{
			RequiredDuringSchedulingIgnoredDuringExecution: []corev1.PodAffinityTerm{term(topology, l)},
		}}
	}
}

// apart is one pod a host.
func apart(l labels) func(*corev1.PodSpec) {
	return func(s *corev1.PodSpec) {
		s.Affinity = &corev1.Affinity{PodAntiAffinity: &corev1.PodAntiAffinity{
			RequiredDuringSchedulingIgnoredDuringExecution: []corev1.PodAffinityTerm{term(hostKey, l)},
		}}
	}
}

func preferApart(topology string, l labels) func(*corev1.PodSpec) {
	return func(s *corev1.PodSpec) {
		s.Affinity = &corev1.Affinity{PodAntiAffinity: &corev1.PodAntiAffinity{
			PreferredDuringSchedulingIgnoredDuringExecution: []corev1.WeightedPodAffinityTerm{{Weight: 100, PodAffinityTerm: term(topology, l)}},
		}}
	}
}

func matching(expressions ...corev1.NodeSelectorRequirement) corev1.NodeSelectorTerm {
	return corev1.NodeSelectorTerm{MatchExpressions: expressions}
}

func expression(key string, op corev1.NodeSelectorOperator, values ...string) corev1.NodeSelectorRequirement {
	return corev1.NodeSelectorRequirement{Key: key, Operator: op, Values: values}
}

func onNodes(expressions ...corev1.NodeSelectorRequirement) func(*corev1.PodSpec) {
	return func(s *corev1.PodSpec) {
		s.Affinity = &corev1.Affinity{NodeAffinity: &corev1.NodeAffinity{
			RequiredDuringSchedulingIgnoredDuringExecution: &corev1.NodeSelector{NodeSelectorTerms: []corev1.NodeSelectorTerm{matching(expressions...)}},
		}}
	}
}

func preferNodes(terms ...corev1.PreferredSchedulingTerm) func(*corev1.PodSpec) {
	return func(s *corev1.PodSpec) {
		s.Affinity = &corev1.Affinity{NodeAffinity: &corev1.NodeAffinity{PreferredDuringSchedulingIgnoredDuringExecution: terms}}
	}
}

func in(key string, values ...string) karpv1.Requirement {
	return karpv1.Requirement{Key: key, Operator: corev1.NodeSelectorOpIn, Values: values}
}

// newer leaves the first generations out.
func newer(than int) karpv1.Requirement {
	return karpv1.Requirement{Key: generation, Operator: corev1.NodeSelectorOpGt, Values: []string{strconv.Itoa(than)}}
}

// pool is a NodePool whose nodes never expire and may be consolidated at once.
func pool(name string, requirements ...karpv1.Requirement) *karpv1.NodePool {
	p := &karpv1.NodePool{}
	p.SetGroupVersionKind(karpv1.GroupVersion().WithKind("NodePool"))
	p.Name = name
	p.Spec.Template.Spec = karpv1.NodeClaimTemplateSpec{
		Requirements: slices.Concat([]karpv1.Requirement{in(corev1.LabelOSStable, "linux")}, requirements),
		NodeClassRef: karpv1.NodeClassReference{Group: "karpenter.k8s.aws", Kind: "EC2NodeClass", Name: "default"},
		ExpireAfter:  "Never",
	}
	p.Spec.Disruption = karpv1.Disruption{
		ConsolidationPolicy: karpv1.ConsolidationWhenEmptyOrUnderutilized, ConsolidateAfter: "0s",
		Budgets: []karpv1.Budget{{Nodes: intstr.FromString("100%")}},
	}
	return p
}

// generalPool is the one of the getting-started page, on demand only.
func generalPool() *karpv1.NodePool {
	return pool("default", in(archKey, "amd64"), in(capacityKey, "on-demand"), in(categoryKey, "c", "m", "r"), newer(2))
}

func taint(key, value string) []corev1.Taint {
	return []corev1.Taint{{Key: key, Value: value, Effect: corev1.TaintEffectNoSchedule}}
}

// daemons take 200m and 256Mi of every node.
func daemons() []scenario.DaemonSet {
	anywhere := tolerating(corev1.Toleration{Operator: corev1.TolerationOpExists})
	return []scenario.DaemonSet{
		{Name: "cni", Template: pod(size{50, 64}, labels{"ds": "cni"}, anywhere)},
		{Name: "proxy", Template: pod(size{100, 64}, labels{"ds": "proxy"}, anywhere)},
		{Name: "logs", Template: pod(size{50, 128}, labels{"ds": "logs"}, anywhere)},
	}
}
