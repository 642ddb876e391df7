package flow_test

import (
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	karpv1 "github.com/dovetail-sh/dovetail/api/v1"
)

// createAgentDaemonSet makes a DaemonSet on the nodes of the test that requests nothing, in a namespace whose LimitRange has it ask
// for more than the smallest node has left beside a pod of inflate.
func (f *flow) createAgentDaemonSet() {
	f.Helper()
	limits := &corev1.LimitRange{}
	f.decode(`spec: {limits: [{type: Container, default: {cpu: "2"}, defaultRequest: {cpu: 1500m}}]}`, limits)
	limits.Name, limits.Namespace = "defaults", f.namespace
	f.create(limits)
	labels := map[string]string{"app": "agent"}
	f.create(&appsv1.DaemonSet{
		ObjectMeta: metav1.ObjectMeta{Name: "agent", Namespace: f.namespace},
		Spec: appsv1.DaemonSetSpec{
			Selector: &metav1.LabelSelector{MatchLabels: labels},
			Template: corev1.PodTemplateSpec{
				ObjectMeta: metav1.ObjectMeta{Labels: labels},
				Spec: corev1.PodSpec{
					NodeSelector: map[string]string{karpv1.LabelNodePool: f.name}, TerminationGracePeriodSeconds: new(int64(0)),
					Containers: []corev1.Container{{Name: "agent", Image: "public.ecr.aws/eks-distro/kubernetes/pause:3.7"}},
				},
			},
		},
	})
}

// A12: what a LimitRange will give to the pods of a DaemonSet counts before there is any. The first node has room
// for both, so no other is launched.
func TestTrust_A12_LimitRangeOfADaemonSetCountsOnTheFirstNode(t *testing.T) {
	t.Parallel()
	f := newFlow(t, exclusive)
	f.withRights([]string{"optionalRights.limitRanges=true"})
	f.createAgentDaemonSet()
	f.pool("")
	f.deploy("inflate", 1)
	f.waitForRunningPods("inflate", 1)
	f.ready(1)
	agents := f.waitForRunningPods("agent", 1)
	if got := agents[0].Spec.Containers[0].Resources.Requests.Cpu().String(); got != "1500m" {
		t.Errorf("the agent requests %s of cpu, want 1500m of the LimitRange", got)
	}
	if n := len(f.allInstances()); n != 1 {
		t.Errorf("%d instances were launched, want 1", n)
	}
}

// A12: without the right to list LimitRanges the controller works as before, and one line of the log names the right.
func TestTrust_A12_WithoutTheRightPodsRunAllTheSame(t *testing.T) {
	t.Parallel()
	f := newFlow(t, exclusive)
	f.withFlags()
	f.pool("")
	f.deploy("inflate", 1)
	f.waitForRunningPods("inflate", 1)
	f.reportedOnce("allow the service account to list and watch limitranges")
}
