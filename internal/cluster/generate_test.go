package cluster_test

import (
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"pgregory.net/rapid"

	"github.com/dovetail-sh/dovetail/internal/cluster"
)

// source draws Kubernetes objects from few words, so that objects are often almost equal, and with
// fields no API server would let through.
type source struct{ t *rapid.T }

func (s source) chance(percent int) bool {
	return rapid.IntRange(1, 100).Draw(s.t, "chance") <= percent
}

func (s source) oneOf(words ...string) string { return rapid.SampledFrom(words).Draw(s.t, "word") }

func (s source) count(most int) int { return rapid.IntRange(0, most).Draw(s.t, "count") }

func (s source) number(low, high int) int { return rapid.IntRange(low, high).Draw(s.t, "number") }

// many draws a list of at most most items, nil or empty among them.
func many[T any](s source, most int, one func() T) []T {
	n := s.count(most)
	if n == 0 {
		return nil
	}
	list := make([]T, n)
	for i := range list {
		list[i] = one()
	}
	return list
}

func (s source) key() string {
	return s.oneOf("app", "team", "kubernetes.io/arch", "beta.kubernetes.io/arch", corev1.LabelTopologyZone, "topology.ebs.csi.aws.com/zone",
		corev1.LabelHostname, "karpenter.sh/nodepool", "karpenter.sh/capacity-type", "karpenter.sh/other", "", "a b")
}

func (s source) value() string { return s.oneOf("a", "b", "spot", "7", "-3", "", "x y") }

func (s source) labels(most int) map[string]string {
	n := s.count(most)
	if n == 0 {
		return nil
	}
	m := map[string]string{}
	for range n {
		m[s.key()] = s.value()
	}
	return m
}

func (s source) quantity() resource.Quantity {
	return resource.MustParse(s.oneOf("0", "1", "1000m", "250m", "1Gi", "1073741824", "1u", "-5", "9e18", "99999999999999999999E", "1n"))
}

func (s source) resources() corev1.ResourceList {
	n := s.count(3)
	if n == 0 {
		return nil
	}
	list := corev1.ResourceList{}
	for range n {
		list[corev1.ResourceName(s.oneOf("cpu", "memory", "pods", "ephemeral-storage", "hugepages-2Mi", "x.io/gpu", "y.io/gpu", ""))] = s.quantity()
	}
	return list
}

func (s source) container() corev1.Container {
	c := corev1.Container{Name: s.oneOf("a", "b")}
	c.Resources.Requests, c.Resources.Limits = s.resources(), s.resources()
	if s.chance(2) {
		c.Resources.Claims = []corev1.ResourceClaim{{Name: "x"}}
	}
	if s.chance(20) {
		always := corev1.ContainerRestartPolicyAlways
		c.RestartPolicy = &always
	}
	if s.chance(20) {
		c.Ports = many(s, 2, func() corev1.ContainerPort {
			return corev1.ContainerPort{HostPort: int32(s.number(-1, 2)), HostIP: s.oneOf("", "::", "0.0.0.0", "10.0.0.1"), Protocol: corev1.Protocol(s.oneOf("", "TCP", "UDP"))}
		})
	}
	return c
}

func (s source) requirement() corev1.NodeSelectorRequirement {
	return corev1.NodeSelectorRequirement{
		Key: s.key(), Operator: corev1.NodeSelectorOperator(s.oneOf("In", "NotIn", "Exists", "DoesNotExist", "Gt", "Lt", "Near", "")), Values: many(s, 3, s.value),
	}
}

func (s source) term() corev1.NodeSelectorTerm {
	t := corev1.NodeSelectorTerm{MatchExpressions: many(s, 3, s.requirement)}
	if s.chance(5) {
		t.MatchFields = many(s, 1, s.requirement)
	}
	return t
}

func (s source) selector() *metav1.LabelSelector {
	if s.chance(20) {
		return nil
	}
	return &metav1.LabelSelector{MatchLabels: s.labels(2), MatchExpressions: many(s, 2, func() metav1.LabelSelectorRequirement {
		return metav1.LabelSelectorRequirement{Key: s.key(), Operator: metav1.LabelSelectorOperator(s.oneOf("In", "NotIn", "Exists", "DoesNotExist", "Near")), Values: many(s, 2, s.value)}
	})}
}

func (s source) podTerm() corev1.PodAffinityTerm {
	t := corev1.PodAffinityTerm{TopologyKey: s.key(), LabelSelector: s.selector(), Namespaces: many(s, 2, s.namespace)}
	if s.chance(40) {
		t.NamespaceSelector = s.selector()
	}
	return t
}

func (s source) weightedTerm() corev1.WeightedPodAffinityTerm {
	return corev1.WeightedPodAffinityTerm{Weight: int32(s.number(-1, 3)), PodAffinityTerm: s.podTerm()}
}

func (s source) namespace() string { return s.oneOf("ns", "other", "") }

func (s source) affinity() *corev1.Affinity {
	a := &corev1.Affinity{}
	if s.chance(60) {
		a.NodeAffinity = &corev1.NodeAffinity{PreferredDuringSchedulingIgnoredDuringExecution: many(s, 2, func() corev1.PreferredSchedulingTerm {
			return corev1.PreferredSchedulingTerm{Weight: int32(s.number(-1, 3)), Preference: s.term()}
		})}
		if s.chance(70) {
			a.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution = &corev1.NodeSelector{NodeSelectorTerms: many(s, 3, s.term)}
		}
	}
	if s.chance(40) {
		a.PodAffinity = &corev1.PodAffinity{
			RequiredDuringSchedulingIgnoredDuringExecution:  many(s, 2, s.podTerm),
			PreferredDuringSchedulingIgnoredDuringExecution: many(s, 2, s.weightedTerm),
		}
	}
	if s.chance(40) {
		a.PodAntiAffinity = &corev1.PodAntiAffinity{
			RequiredDuringSchedulingIgnoredDuringExecution:  many(s, 2, s.podTerm),
			PreferredDuringSchedulingIgnoredDuringExecution: many(s, 2, s.weightedTerm),
		}
	}
	return a
}

func (s source) spread() corev1.TopologySpreadConstraint {
	c := corev1.TopologySpreadConstraint{
		TopologyKey: s.key(), MaxSkew: int32(s.number(-1, 2)), WhenUnsatisfiable: corev1.UnsatisfiableConstraintAction(s.oneOf("DoNotSchedule", "ScheduleAnyway", "")),
		LabelSelector: s.selector(), MatchLabelKeys: many(s, 2, s.key),
	}
	if s.chance(30) {
		domains, policy := int32(s.number(-1, 3)), corev1.NodeInclusionPolicy(s.oneOf("Honor", "Ignore"))
		c.MinDomains, c.NodeAffinityPolicy, c.NodeTaintsPolicy = &domains, &policy, &policy
	}
	return c
}

func (s source) volume() corev1.Volume {
	v := corev1.Volume{Name: s.oneOf("v", "w")}
	switch s.count(3) {
	case 0:
		v.Ephemeral = &corev1.EphemeralVolumeSource{}
	case 1:
		v.EmptyDir = &corev1.EmptyDirVolumeSource{}
	default:
		v.PersistentVolumeClaim = &corev1.PersistentVolumeClaimVolumeSource{ClaimName: s.oneOf("a", "b", "web-v", "missing")}
	}
	return v
}

// pod draws a pod; simple fields are often left alone so that pods with few differences are common.
func (s source) pod(name string) *corev1.Pod {
	p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: s.namespace(), Labels: s.labels(2), CreationTimestamp: metav1.Unix(int64(s.number(0, 9)), 0)}}
	p.Spec.Containers = many(s, 2, s.container)
	p.Spec.InitContainers = many(s, 1, s.container)
	p.Spec.NodeSelector = s.labels(2)
	if s.chance(30) {
		p.Spec.Affinity = s.affinity()
	}
	p.Spec.TopologySpreadConstraints = many(s, 1, s.spread)
	p.Spec.Volumes = many(s, 2, s.volume)
	p.Spec.Tolerations = many(s, 2, func() corev1.Toleration {
		return corev1.Toleration{Key: s.key(), Operator: corev1.TolerationOperator(s.oneOf("", "Equal", "Exists")), Value: s.value(), Effect: corev1.TaintEffect(s.oneOf("", "NoSchedule"))}
	})
	if s.chance(20) {
		p.Spec.Overhead = s.resources()
		p.Spec.Resources = &corev1.ResourceRequirements{Requests: s.resources(), Limits: s.resources()}
		p.Status.ContainerStatuses = []corev1.ContainerStatus{{Name: "a", AllocatedResources: s.resources()}}
	}
	if s.chance(10) {
		p.OwnerReferences = []metav1.OwnerReference{{APIVersion: "apps/v1", Kind: s.oneOf("DaemonSet", "StatefulSet")}}
		p.DeletionTimestamp = &metav1.Time{Time: time.Unix(9, 0)}
	}
	if s.chance(5) {
		p.Status.Phase = corev1.PodFailed
	}
	return p
}

func (s source) pods(most int) []*corev1.Pod {
	i := 0
	return many(s, most, func() *corev1.Pod {
		i++
		return s.pod(fmt.Sprintf("pod-%d", i))
	})
}

func (s source) volumes() cluster.VolumeObjects {
	o := cluster.VolumeObjects{Claims: map[cluster.PodKey]*corev1.PersistentVolumeClaim{}, Volumes: map[string]*corev1.PersistentVolume{}, Classes: map[string]*storagev1.StorageClass{}}
	for _, name := range []string{"a", "b", "pod-1-v"} {
		claim := &corev1.PersistentVolumeClaim{Spec: corev1.PersistentVolumeClaimSpec{VolumeName: s.oneOf("", "pv", "gone")}}
		if s.chance(60) {
			class := s.oneOf("", "c", "gone")
			claim.Spec.StorageClassName = &class
		}
		if s.chance(60) {
			claim.Annotations = map[string]string{"pv.kubernetes.io/bind-completed": "yes"}
		}
		claim.Status.Phase = corev1.PersistentVolumeClaimPhase(s.oneOf("", "Bound", "Lost"))
		if s.chance(80) {
			o.Claims[cluster.PodKey{Namespace: "ns", Name: name}] = claim
		}
	}
	pv := &corev1.PersistentVolume{}
	if s.chance(50) {
		pv.Spec.CSI = &corev1.CSIPersistentVolumeSource{Driver: s.oneOf("ebs.csi.aws.com", "d", "")}
	} else {
		pv.Spec.Local = &corev1.LocalVolumeSource{}
	}
	if s.chance(70) {
		pv.Spec.NodeAffinity = &corev1.VolumeNodeAffinity{Required: &corev1.NodeSelector{NodeSelectorTerms: many(s, 3, s.term)}}
	}
	o.Volumes["pv"] = pv
	class := &storagev1.StorageClass{Provisioner: s.oneOf("kubernetes.io/aws-ebs", "d", "kubernetes.io/no-provisioner")}
	if s.chance(70) {
		mode := storagev1.VolumeBindingMode(s.oneOf("Immediate", "WaitForFirstConsumer"))
		class.VolumeBindingMode = &mode
	}
	class.AllowedTopologies = many(s, 2, func() corev1.TopologySelectorTerm {
		return corev1.TopologySelectorTerm{MatchLabelExpressions: many(s, 2, func() corev1.TopologySelectorLabelRequirement {
			return corev1.TopologySelectorLabelRequirement{Key: s.key(), Values: many(s, 2, s.value)}
		})}
	})
	o.Classes["c"] = class
	return o
}

func (s source) namespaces() map[string]map[string]string {
	return map[string]map[string]string{"ns": s.labels(2), "other": s.labels(2)}
}

func (s source) capacity() resource.Quantity { return *quantity(int64(s.number(0, 9))) }

func quantity(n int64) *resource.Quantity { return resource.NewQuantity(n, resource.DecimalSI) }

func labelSet(m map[string]string) labels.Set { return m }
