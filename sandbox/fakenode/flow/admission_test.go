package flow_test

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/dovetail-sh/dovetail/sandbox/fakenode"
)

func cpuRequests(cpu string) corev1.ResourceRequirements {
	return corev1.ResourceRequirements{Requests: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse(cpu)}}
}

// bindPod creates a pod that is bound to a node without the scheduler.
func bindPod(t *testing.T, ns, name, label, node string, edit func(*corev1.PodSpec)) {
	t.Helper()
	createPod(t, ns, name, label, map[string]string{fakenode.StopAfterAnnotation: "0s"}, func(s *corev1.PodSpec) {
		s.NodeName = node
		if edit != nil {
			edit(s)
		}
	})
}

// A kubelet refuses what does not fit, and goes on to take what does.
func TestAdmission(t *testing.T) {
	t.Parallel()
	ns := newNamespace(t, "admission")
	i := aws.newRunningInstance("admission", "{key: evicts, effect: NoExecute}")
	i.UserData = []byte(strings.Replace(string(i.UserData), "maxPods: 50", "maxPods: 3", 1))
	launch(t, i)
	node(t, i, "usable", isUsable)
	tolerant := func(cpu, memory string) func(*corev1.PodSpec) {
		return func(s *corev1.PodSpec) {
			s.Tolerations = []corev1.Toleration{{Key: "evicts", Operator: corev1.TolerationOpExists}}
			s.Containers[0].Resources = cpuRequests(cpu)
			s.Containers[0].Resources.Requests[corev1.ResourceMemory] = resource.MustParse(memory)
		}
	}
	bindPod(t, ns, "first", "admission", i.PrivateDNS, tolerant("1500m", "1Gi"))
	pod(t, ns, "first", "ready", ready)
	for _, tc := range []struct {
		name, reason, message string
		edit                  func(*corev1.PodSpec)
	}{
		{"cpu", "OutOfcpu", "Pod was rejected: Node didn't have enough resource: cpu, requested: 500, used: 1500, capacity: 1930", tolerant("500m", "1Gi")},
		{"memory", "OutOfmemory", "enough resource: memory", tolerant("100m", "7Gi")},
		{"labels", "NodeAffinity", "didn't match Pod's node affinity", func(s *corev1.PodSpec) {
			tolerant("100m", "1Gi")(s)
			s.NodeSelector = map[string]string{"test": "elsewhere"}
		}},
		{"taint", "TaintToleration", "had taints", nil},
	} {
		bindPod(t, ns, tc.name, "admission", i.PrivateDNS, tc.edit)
		p := pod(t, ns, tc.name, "refused", func(p *corev1.Pod) bool { return p.Status.Phase == corev1.PodFailed })
		if p.Status.Reason != tc.reason || !strings.Contains(p.Status.Message, tc.message) {
			t.Errorf("%s: %s: %s, want %s: %s", tc.name, p.Status.Reason, p.Status.Message, tc.reason, tc.message)
		}
		events, err := client.CoreV1().Events(ns).List(t.Context(), metav1.ListOptions{FieldSelector: "involvedObject.name=" + tc.name + ",reason=" + tc.reason})
		if err != nil || len(events.Items) != 1 {
			t.Errorf("%s: events %v: %v", tc.name, events.Items, err)
		}
	}
	for _, name := range []string{"second", "third"} {
		bindPod(t, ns, name, "admission", i.PrivateDNS, tolerant("100m", "1Gi"))
		pod(t, ns, name, "ready", ready)
	}
	bindPod(t, ns, "fourth", "admission", i.PrivateDNS, tolerant("100m", "1Gi"))
	pod(t, ns, "fourth", "one too many", func(p *corev1.Pod) bool { return p.Status.Reason == "OutOfpods" })
	if err := client.CoreV1().Pods(ns).Delete(t.Context(), "first", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	waitUntilGone(t, client.CoreV1().RESTClient(), &corev1.Pod{}, "pods", ns, "first")
	bindPod(t, ns, "fifth", "admission", i.PrivateDNS, tolerant("1500m", "1Gi"))
	pod(t, ns, "fifth", "ready in the place of the first", ready)
}

// M16: a pod is resized in place, and its condition says when the node has no room for it.
func TestResize(t *testing.T) {
	t.Parallel()
	ns := newNamespace(t, "resize")
	i := launch(t, aws.newRunningInstance("resize"))
	for _, name := range []string{"grows", "neighbour"} {
		createPod(t, ns, name, "resize", map[string]string{fakenode.StopAfterAnnotation: "0s"}, func(s *corev1.PodSpec) { s.Containers[0].Resources = cpuRequests("500m") })
		pod(t, ns, name, "ready", ready)
	}
	resize := func(cpu string) {
		t.Helper()
		body := []byte(`{"spec":{"containers":[{"name":"main","resources":{"requests":{"cpu":"` + cpu + `"}}}]}}`)
		if _, err := client.CoreV1().Pods(ns).Patch(t.Context(), "grows", types.StrategicMergePatchType, body, metav1.PatchOptions{}, "resize"); err != nil {
			t.Fatal(err)
		}
	}
	given := func(cpu string) func(*corev1.Pod) bool {
		want := resource.MustParse(cpu)
		return func(p *corev1.Pod) bool {
			c := p.Status.ContainerStatuses[0]
			return c.AllocatedResources.Cpu().Equal(want) && c.Resources.Requests.Cpu().Equal(want) && pendingReason(p) == ""
		}
	}
	resize("900m")
	pod(t, ns, "grows", "given more", given("900m"))
	resize("1600m")
	p := pod(t, ns, "grows", "told to wait", func(p *corev1.Pod) bool { return pendingReason(p) == corev1.PodReasonDeferred })
	if !p.Status.ContainerStatuses[0].AllocatedResources.Cpu().Equal(resource.MustParse("900m")) {
		t.Errorf("it was given %v", p.Status.ContainerStatuses[0].AllocatedResources)
	}
	injectFault(t, i, fakenode.Fault{Zero: []corev1.ResourceName{corev1.ResourceCPU}})
	pod(t, ns, "grows", "told that it cannot be", func(p *corev1.Pod) bool { return pendingReason(p) == corev1.PodReasonInfeasible })
	simulator.Faults().Clear(t.Name())
	if err := client.CoreV1().Pods(ns).Delete(t.Context(), "neighbour", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	pod(t, ns, "grows", "given what it waited for", given("1600m"))
}

func pendingReason(p *corev1.Pod) string {
	for _, c := range p.Status.Conditions {
		if c.Type == corev1.PodResizePending && c.Status == corev1.ConditionTrue {
			return c.Reason
		}
	}
	return ""
}

// A container that fails again and again waits longer each time, and its pod is not ready meanwhile.
func TestCrashLoop(t *testing.T) {
	t.Parallel()
	ns := newNamespace(t, "crashes")
	launch(t, aws.newRunningInstance("crashes"))
	createPod(t, ns, "crashes", "crashes", map[string]string{fakenode.FailAfterAnnotation: "0s"}, nil)
	p := pod(t, ns, "crashes", "in a crash loop", func(p *corev1.Pod) bool {
		return len(p.Status.ContainerStatuses) == 1 && p.Status.ContainerStatuses[0].RestartCount >= 2 && p.Status.ContainerStatuses[0].State.Waiting != nil
	})
	c := p.Status.ContainerStatuses[0]
	if c.State.Waiting.Reason != "CrashLoopBackOff" || c.LastTerminationState.Terminated == nil || c.LastTerminationState.Terminated.ExitCode != 1 || c.Ready {
		t.Errorf("container %+v", c)
	}
	if p.Status.Phase != corev1.PodRunning || ready(p) {
		t.Errorf("phase %s, conditions %v", p.Status.Phase, p.Status.Conditions)
	}
	pod(t, ns, "crashes", "running once more", func(p *corev1.Pod) bool {
		return p.Status.ContainerStatuses[0].RestartCount >= 3 && p.Status.ContainerStatuses[0].State.Running != nil
	})
}
