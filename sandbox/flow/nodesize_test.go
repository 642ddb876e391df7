package flow_test

import (
	"slices"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	awsv1 "github.com/dovetail-sh/dovetail/api/aws/v1"
	karpv1 "github.com/dovetail-sh/dovetail/api/v1"
)

// What beside the requests of pending pods decides how large a node is and how many there are: DaemonSets, host
// ports, minValues.

// createDaemonSet makes a DaemonSet on the nodes of the test.
func (f *flow) createDaemonSet(name, cpu string) {
	f.Helper()
	labels := map[string]string{"app": name}
	f.create(&appsv1.DaemonSet{
		ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: f.namespace},
		Spec: appsv1.DaemonSetSpec{
			Selector: &metav1.LabelSelector{MatchLabels: labels},
			Template: corev1.PodTemplateSpec{
				ObjectMeta: metav1.ObjectMeta{Labels: labels},
				Spec: corev1.PodSpec{
					NodeSelector: map[string]string{karpv1.LabelNodePool: f.name}, TerminationGracePeriodSeconds: new(int64(0)),
					Containers: []corev1.Container{{
						Name: name, Image: "public.ecr.aws/eks-distro/kubernetes/pause:3.7",
						Resources: corev1.ResourceRequirements{Requests: corev1.ResourceList{"cpu": resource.MustParse(cpu), "memory": resource.MustParse("128Mi")}},
					}},
				},
			},
		},
	})
}

// SC-22, SC-24, SC-49: a DaemonSet without a pod counts when the first node is sized, so that one node holds both. A
// DaemonSet that is added later causes no node, and counts on the next one.
func TestSC_24_DaemonSetsCountWhenANodeIsSized(t *testing.T) {
	t.Parallel()
	f := newFlow(t, disturbsNone)
	f.createDaemonSet("agent", "1500m")
	f.pool("", onlyTypes("m5.large", "m5.xlarge", "m5.2xlarge"))
	f.deploy("inflate", 1, withRequests("1", "1Gi")) // alone it would have an m5.large
	f.waitForRunningPods("inflate", 1)
	f.waitForRunningPods("agent", 1)
	first := f.ready(1)[0]
	if got := first.Labels[corev1.LabelInstanceTypeStable]; got != "m5.xlarge" {
		t.Errorf("pod and DaemonSet run on an %s, want m5.xlarge", got)
	}
	if got := first.Spec.Resources.Requests.Cpu(); got.MilliValue() != 2500 {
		t.Errorf("the claim requests %s of cpu, want 2500m of pod and DaemonSet", got)
	}

	f.createDaemonSet("late", "1500m") // has no room beside the others
	f.waitForUnschedulable(1)
	f.deploy("more", 1, withRequests("2", "1Gi")) // beside one DaemonSet it would have an m5.xlarge
	f.waitForRunningPods("more", 1)
	f.waitForRunningPods("agent", 2)
	for _, c := range f.ready(2) {
		if got := c.Labels[corev1.LabelInstanceTypeStable]; c.Name != first.Name && got != "m5.2xlarge" {
			t.Errorf("pod and both DaemonSets run on an %s, want m5.2xlarge", got)
		}
	}
	if n := len(f.allInstances()); n != 2 {
		t.Errorf("%d instances were launched, want 2: none for a DaemonSet alone", n)
	}
}

// SC-25: two pods with one host port get two nodes, planned at once; a pod with the same port of another protocol, and
// one with another port, share these.
func TestSC_25_PodsWithOneHostPortGetANodeEach(t *testing.T) {
	t.Parallel()
	f := newFlow(t, disturbsNone)
	port := func(number int32, protocol corev1.Protocol) func(*corev1.PodTemplateSpec) {
		return func(p *corev1.PodTemplateSpec) {
			p.Spec.Containers[0].Ports = []corev1.ContainerPort{{ContainerPort: number, HostPort: number, Protocol: protocol}}
		}
	}
	small := withRequests("100m", "128Mi")
	f.deploy("web", 2, small, port(8080, corev1.ProtocolTCP))
	f.deploy("other-protocol", 1, small, port(8080, corev1.ProtocolUDP))
	f.deploy("other-port", 1, small, port(9090, corev1.ProtocolTCP))
	f.waitForUnschedulable(4)
	f.pool("", onlyTypes("m5.xlarge"))
	web := f.waitForRunningPods("web", 2)
	f.waitForRunningPods("other-protocol", 1)
	f.waitForRunningPods("other-port", 1)
	f.ready(2)
	if web[0].Spec.NodeName == web[1].Spec.NodeName {
		t.Errorf("both pods with host port 8080 run on %s", web[0].Spec.NodeName)
	}
	if n := len(f.allInstances()); n != 2 {
		t.Errorf("%d instances were launched, want 2", n)
	}
}

// withMinValues gives a pool a requirement with minValues.
func withMinValues(values int, key string, names ...string) func(*karpv1.NodePool) {
	return func(p *karpv1.NodePool) {
		withRequirement(key, corev1.NodeSelectorOpIn, names...)(p)
		list := p.Spec.Template.Spec.Requirements
		list[slices.IndexFunc(list, func(r karpv1.Requirement) bool { return r.Key == key })].MinValues = &values
	}
}

// SC-09, SC-42, SC-43: by default minValues is strict. A launch may choose among as many families as the pool requests,
// and a pool that cannot have as many families as it requests says so and launches nothing.
func TestSC_43_MinValuesAreStrict(t *testing.T) {
	t.Parallel()
	f := newFlow(t, disturbsNone)
	f.pool("", withMinValues(3, awsv1.LabelInstanceFamily, "c5", "m5", "r5"))
	few := f.pool("-few", onlyTypes("m5.large"), withMinValues(2, awsv1.LabelInstanceFamily, "c5", "m5"))
	f.deploy("inflate", 1)
	f.deploy("waits", 1, withNodeSelector(karpv1.LabelNodePool, few.Name))
	f.waitForRunningPods("inflate", 1)
	claim := f.claims(f.name)[0]
	if got := claim.Annotations[karpv1.AnnotationMinValuesRelaxed]; got != "false" {
		t.Errorf("annotation %s is %q, want false", karpv1.AnnotationMinValuesRelaxed, got)
	}
	families := map[string]bool{}
	for _, call := range f.fleetCalls() {
		for name, value := range call.Parameters {
			if strings.Contains(name, ".Overrides.") && strings.HasSuffix(name, ".InstanceType") {
				family, _, _ := strings.Cut(value, ".")
				families[family] = true
			}
		}
	}
	if len(families) != 3 {
		t.Errorf("the fleet may choose among the families %v, want three", families)
	}
	f.event("NodePool", few.Name, "NoCompatibleInstanceTypes", "minValues")
	f.event("Pod", "waits", "FailedScheduling", "minValues")
	if list := f.claims(few.Name); len(list) > 0 {
		t.Errorf("the pool with too few families has a claim: %s", sayConditions(list))
	}
}
