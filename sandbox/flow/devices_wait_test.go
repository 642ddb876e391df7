package flow_test

import (
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	karpv1 "github.com/dovetail-sh/dovetail/api/v1"
	"github.com/dovetail-sh/dovetail/internal/lifecycle"
	"github.com/dovetail-sh/dovetail/sandbox/apiproxy"
)

// Devices that are shared, that nobody publishes, and that the API server does not serve yet.

// withGPUOf has the pods of a Deployment use one claim together.
func withGPUOf(claim string) func(*corev1.PodTemplateSpec) {
	return func(p *corev1.PodTemplateSpec) {
		p.Spec.ResourceClaims = []corev1.PodResourceClaim{{Name: "gpu", ResourceClaimName: &claim}}
		p.Spec.Containers[0].Resources.Claims = []corev1.ResourceClaim{{Name: "gpu"}}
	}
}

// waitForDriverless waits for a claim whose node waits for its driver.
func (f *flow) waitForDriverless() *karpv1.NodeClaim {
	f.Helper()
	return f.claim("waits for the driver", func(c *karpv1.NodeClaim) bool {
		return !isDeleting(c) && waitsFor(karpv1.ConditionInitialized, lifecycle.DriverPoolsNotPublished)(c)
	})
}

// DR-06, DR-09: two pods that share a claim for one GPU run on one node, although two would be launched for two claims. A
// third pod that shares it, and finds no room beside them, waits and is told so: no other node could reach the device. It runs once there is
// room.
func TestDR_09_PodsThatShareAClaimShareANode(t *testing.T) {
	t.Parallel()
	f := newFlow(t, exclusive)
	f.withRights([]string{"settings.ignoreDRARequests=false"}, "--ignore-dra-requests=false")
	f.gpuTemplate()
	claim := &resourcev1.ResourceClaim{}
	f.decode(`spec: {devices: {requests: [{name: gpu, exactly: {deviceClassName: `+f.name+`}}]}}`, claim)
	claim.Name, claim.Namespace = "shared", f.namespace
	f.create(claim)
	f.deploy("train", 2, withGPUOf("shared"), withRequests("1", "1Gi"))
	f.waitForUnschedulable(2)
	f.pool("", onlyTypes("g4dn.xlarge")) // holds three such pods
	waiting := f.waitForDriverless()
	f.publishGPU(f.nodeOf(waiting))
	running := f.waitForRunningPods("train", 2)
	f.ready(1)
	if running[0].Spec.NodeName != running[1].Spec.NodeName {
		t.Errorf("the pods run on %s and %s", running[0].Spec.NodeName, running[1].Spec.NodeName)
	}
	more := f.deploy("more", 1, withGPUOf("shared"), withRequests("3", "1Gi"))
	f.event("Pod", "more", "FailedScheduling", "")
	f.waitForUnschedulable(1)
	web := f.deploy("web", 1, withRequests("3", "1Gi")) // fits as little, and shows that the pods were planned for
	f.waitForRunningPods("web", 1)
	if list := f.ready(2); !slices.ContainsFunc(list, func(c karpv1.NodeClaim) bool { return c.Name == waiting.Name }) {
		t.Errorf("nodes: %s", sayConditions(list))
	}
	f.scale(web, 0)
	f.scale(more, 0)
	f.deploy("small", 1, withGPUOf("shared"), withRequests("500m", "512Mi"))
	if p := f.waitForRunningPods("small", 1)[0]; p.Spec.NodeName != running[0].Spec.NodeName {
		t.Errorf("a pod that shares the claim runs on %s, and the device is on %s", p.Spec.NodeName, running[0].Spec.NodeName)
	}
}

// DR-16, FM-M09: the driver never publishes anything. After a quarter of an hour that is told on the NodeClaim, in its condition and on pods,
// no further node is launched for pods that need the driver, and the node stays with the pod that waits. Once a user deletes it
// another one is tried, and works when the driver does.
func TestDR_16_ADriverThatNeverPublishes(t *testing.T) {
	t.Parallel()
	f := newFlow(t, exclusive)
	f.withRights([]string{"settings.ignoreDRARequests=false"}, "--ignore-dra-requests=false")
	f.gpuTemplate()
	pool := f.pool("", onlyTypes("m5.large", "g4dn.xlarge"), emptyAfter("1s"))
	train := f.deploy("train", 1, withGPU)
	silent := f.waitForDriverless()
	f.backdateCondition(silent, karpv1.ConditionRegistered, 16*time.Minute)
	f.event("NodeClaim", silent.Name, "DeviceDriverSilent", gpuDriver)
	said := f.waitForCondition(silent, karpv1.ConditionInitialized, metav1.ConditionUnknown, lifecycle.DriverPoolsNotPublished).Message
	for _, want := range []string{gpuDriver, silent.Status.NodeName, "15m0s have passed since the node registered"} {
		if !strings.Contains(said, want) {
			t.Errorf("the condition says %q, not %q", said, want)
		}
	}
	f.reportedOnce("no devices published for nodeclaim")

	first := f.pods("train")[0].Name
	f.scale(train, 2)
	f.waitUntil(soon, "the second pod is told which node waits", func() (bool, string) {
		for _, e := range f.events("Pod", "train") {
			if e.Regarding.Name != first && e.Reason == "FailedScheduling" && strings.Contains(e.Note, gpuDriver) && strings.Contains(e.Note, silent.Status.NodeName) {
				return true, ""
			}
		}
		return false, sayEvents(f.events("Pod", "train"))
	})
	// Meanwhile others are planned for, and the loop of disruption goes on.
	elsewhere := withNodeSelector(karpv1.LabelNodePool, f.name, corev1.LabelInstanceTypeStable, "m5.large")
	f.deploy("web", 1, elsewhere)
	f.waitForRunningPods("web", 1)
	empty := f.deploy("empty", 1, elsewhere, withRequests("1500m", "2Gi"))
	f.waitForRunningPods("empty", 1)
	f.scale(empty, 0)
	f.waitUntil(later, "the empty node is gone", func() (bool, string) { return len(f.claims()) <= 2, sayConditions(f.claims()) })
	if got := typesOf(f.claims()); !slices.Equal(got, []string{"g4dn.xlarge", "m5.large"}) {
		t.Errorf("nodes of types %v, want one for the GPU and one for others", got)
	}
	if now := f.claim("waits still", func(c *karpv1.NodeClaim) bool { return c.UID == silent.UID }); isDeleting(now) {
		t.Error("the node that waits for its driver is removed")
	}

	f.patchPool(pool, emptyAfter("Never"))
	f.scale(train, 1)
	f.remove(silent)
	f.waitUntilGone(silent)
	next := f.waitForDriverless()
	f.publishGPU(f.nodeOf(next))
	f.waitForRunningPods("train", 1)
}

// DR-17, FM-C12: the API server does not serve resource.k8s.io when the controller starts. That is logged once per kind, pods without claims get
// their nodes, and one with a claim gets its node within minutes of the API being served, without a restart.
func TestDR_17_TheAPIIsServedLater(t *testing.T) {
	t.Parallel()
	f := newFlow(t, exclusive)
	resources := []string{"resourceclaims", "resourceslices", "deviceclasses"}
	var faults []apiproxy.Fault
	for _, name := range resources {
		faults = append(faults, apiproxy.Fault{Resource: name, Status: http.StatusNotFound})
	}
	serve := f.proxyFault(faults...)
	f.withRights([]string{"settings.ignoreDRARequests=false"}, "--ignore-dra-requests=false")
	f.gpuTemplate()
	f.pool("", onlyTypes("m5.large", "g4dn.xlarge"))
	f.deploy("train", 1, withGPU)
	f.deploy("web", 1)
	f.waitForRunningPods("web", 1)
	f.event("Pod", "train", "FailedScheduling", "")
	if got := typesOf(f.ready(1)); !slices.Equal(got, []string{"m5.large"}) {
		t.Errorf("nodes of types %v, want one m5.large, for the pod without claims", got)
	}
	for _, kind := range []string{"ResourceClaims", "ResourceSlices", "DeviceClasses"} {
		f.reportedOnce(kind + " of resource.k8s.io/v1 cannot be read")
	}
	starts := f.own.Starts()
	serve()
	f.publishGPU(f.nodeOf(f.waitForDriverless()))
	f.waitForRunningPods("train", 1)
	if now := f.own.Starts(); now != starts {
		t.Errorf("the controller was started %d times, and %d times before", now, starts)
	}
}
