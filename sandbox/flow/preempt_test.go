package flow_test

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	schedulingv1 "k8s.io/api/scheduling/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	karpv1 "github.com/dovetail-sh/dovetail/api/v1"
)

// A06: a node whose last pod makes way for one of higher priority is not empty while that one waits for it, although no
// pod on it will stay.
func TestTrust_A06_ANodeIsKeptForWhoPreempts(t *testing.T) {
	t.Parallel()
	f := newFlow(t, disturbsNone)
	above := &schedulingv1.PriorityClass{ObjectMeta: metav1.ObjectMeta{Name: f.name}, Value: 1000}
	f.create(above)
	f.Cleanup(func() { f.remove(above) })
	f.pool("", onlyTypes("m5.large"), emptyAfter("0s"), func(p *karpv1.NodePool) {
		p.Spec.Limits = corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("2")} // room comes from preemption alone
	})
	f.deploy("low", 1, stopsAfter(20))
	f.waitForRunningPods("low", 1)
	claim := f.ready(1)[0]
	victim := f.pods("low")[0].Name

	f.deploy("high", 1, func(p *corev1.PodTemplateSpec) { p.Spec.PriorityClassName = f.name })
	f.waitUntil(soon, "the scheduler makes room and nominates the pod", func() (bool, string) {
		for _, p := range f.pods("high") {
			return p.Status.NominatedNodeName == claim.Status.NodeName, p.Status.NominatedNodeName
		}
		return false, "no pod"
	})
	f.waitForRunningPods("high", 1, later)
	for _, p := range f.pods("low") {
		if p.Name == victim {
			t.Errorf("pod %s is still there, so that nothing was preempted", victim)
		}
	}
	if p := f.pods("high")[0]; p.Spec.NodeName != claim.Status.NodeName {
		t.Errorf("the pod runs on %s, want %s", p.Spec.NodeName, claim.Status.NodeName)
	}
	if now := f.ready(1)[0]; now.Name != claim.Name || len(f.allInstances()) != 1 {
		t.Errorf("NodeClaim %s, %d instances; want %s and no other", now.Name, len(f.allInstances()), claim.Name)
	}
}
