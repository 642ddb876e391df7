package scenario

import (
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	karpv1 "github.com/dovetail-sh/dovetail/api/v1"
	"github.com/dovetail-sh/dovetail/internal/near"
)

// The API server would refuse other values; here a mistyped one would be a constraint that silently
// does not hold.
var (
	capacityTypes = []string{karpv1.CapacityTypeOnDemand, karpv1.CapacityTypeSpot, karpv1.CapacityTypeReserved}
	taintEffects  = []string{string(corev1.TaintEffectNoSchedule), string(corev1.TaintEffectPreferNoSchedule), string(corev1.TaintEffectNoExecute)}
	tolerationOps = []string{
		string(corev1.TolerationOpExists), string(corev1.TolerationOpEqual), string(corev1.TolerationOpLt), string(corev1.TolerationOpGt),
	}
	unsatisfiable = []string{string(corev1.DoNotSchedule), string(corev1.ScheduleAnyway)}
	inclusion     = []string{string(corev1.NodeInclusionPolicyHonor), string(corev1.NodeInclusionPolicyIgnore)}
	protocols     = []string{string(corev1.ProtocolTCP), string(corev1.ProtocolUDP), string(corev1.ProtocolSCTP)}
	poolVersions  = []string{karpv1.Group + "/v1", karpv1.Group + "/v1beta1"} // pools are read in either form
	poolKinds     = []string{"NodePool"}
)

// oneOf checks a value that comes from a short list.
func (c *checker) oneOf(path, value string, known []string) {
	if slices.Contains(known, value) {
		return
	}
	last := len(known) - 1
	want := known[last]
	if last > 0 {
		want = strings.Join(known[:last], ", ") + " or " + want
	}
	c.faults.add(path, "%q is not known; want %s%s", value, want, near.Hint(value, known))
}

// optional is oneOf for a field that has a default.
func (c *checker) optional(path, value string, known []string) {
	if value != "" {
		c.oneOf(path, value, known)
	}
}

func (c *checker) between(path string, n, least, most int64) {
	if n < least || n > most {
		c.faults.add(path, "%d is out of range; want %d to %d", n, least, most)
	}
}

func (c *checker) atLeast(path string, n, least int64) {
	if n < least {
		c.faults.add(path, "%d is too low; want %d or more", n, least)
	}
}

func (c *checker) taints(path string, taints []corev1.Taint) {
	for i := range taints {
		c.named(index(path, i)+".key", taints[i].Key)
		c.oneOf(index(path, i)+".effect", string(taints[i].Effect), taintEffects)
	}
}

// scheduling checks what a pod says about where it may run.
func (c *checker) scheduling(path string, spec *corev1.PodSpec) {
	for i := range spec.Tolerations {
		at := index(path+".tolerations", i)
		c.optional(at+".operator", string(spec.Tolerations[i].Operator), tolerationOps)
		c.optional(at+".effect", string(spec.Tolerations[i].Effect), taintEffects)
	}
	for i := range spec.TopologySpreadConstraints {
		at, s := index(path+".topologySpreadConstraints", i), &spec.TopologySpreadConstraints[i]
		c.named(at+".topologyKey", s.TopologyKey)
		c.atLeast(at+".maxSkew", int64(s.MaxSkew), 1)
		c.oneOf(at+".whenUnsatisfiable", string(s.WhenUnsatisfiable), unsatisfiable)
		if s.MinDomains != nil {
			c.atLeast(at+".minDomains", int64(*s.MinDomains), 1)
		}
		if s.NodeAffinityPolicy != nil {
			c.oneOf(at+".nodeAffinityPolicy", string(*s.NodeAffinityPolicy), inclusion)
		}
		if s.NodeTaintsPolicy != nil {
			c.oneOf(at+".nodeTaintsPolicy", string(*s.NodeTaintsPolicy), inclusion)
		}
	}
}

func (c *checker) ports(path string, ports []corev1.ContainerPort) {
	const last = 65535
	for i := range ports {
		at := index(path, i)
		c.between(at+".containerPort", int64(ports[i].ContainerPort), 1, last)
		if ports[i].HostPort != 0 {
			c.between(at+".hostPort", int64(ports[i].HostPort), 1, last)
		}
		c.optional(at+".protocol", string(ports[i].Protocol), protocols)
	}
}

// poolValues checks what the schema of the API does: nothing else checks it here.
func (c *checker) poolValues(path string, pool *karpv1.NodePool) {
	c.optional(path+".apiVersion", pool.APIVersion, poolVersions)
	c.optional(path+".kind", pool.Kind, poolKinds)
	if pool.Spec.Weight != nil {
		c.between(path+".spec.weight", int64(*pool.Spec.Weight), 1, 100)
	}
	if pool.Spec.Replicas != nil {
		c.atLeast(path+".spec.replicas", *pool.Spec.Replicas, 0)
	}
}
