package flow_test

import (
	"fmt"
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	karpv1 "github.com/dovetail-sh/dovetail/api/v1"
	"github.com/dovetail-sh/dovetail/internal/lifecycle"
)

const gpuDriver = "gpu.nvidia.com"

// gpuTemplate makes a DeviceClass of the test and a ResourceClaimTemplate for one GPU.
func (f *flow) gpuTemplate() {
	f.Helper()
	class := &resourcev1.DeviceClass{ObjectMeta: metav1.ObjectMeta{Name: f.name}}
	f.decode(`spec: {selectors: [{cel: {expression: "device.driver == 'gpu.nvidia.com' && device.attributes['gpu.nvidia.com'].type == 'gpu'"}}]}`, class)
	class.Name = f.name
	f.create(class)
	template := &resourcev1.ResourceClaimTemplate{}
	f.decode(`spec: {spec: {devices: {requests: [{name: gpu, exactly: {deviceClassName: `+f.name+`}}]}}}`, template)
	template.Name, template.Namespace = "gpu", f.namespace
	f.create(template)
}

// withGPU has the pods of a Deployment use a claim of the template, each its own.
func withGPU(p *corev1.PodTemplateSpec) {
	p.Spec.ResourceClaims = []corev1.PodResourceClaim{{Name: "gpu", ResourceClaimTemplateName: new("gpu")}}
	p.Spec.Containers[0].Resources.Claims = []corev1.ResourceClaim{{Name: "gpu"}}
}

// publishGPU acts for the driver on a node: it publishes one GPU.
func (f *flow) publishGPU(node *corev1.Node) {
	f.Helper()
	f.create(&resourcev1.ResourceSlice{
		ObjectMeta: metav1.ObjectMeta{Name: node.Name + "-gpus", OwnerReferences: []metav1.OwnerReference{{APIVersion: "v1", Kind: "Node", Name: node.Name, UID: node.UID}}},
		Spec: resourcev1.ResourceSliceSpec{
			Driver: gpuDriver, NodeName: &node.Name, Pool: resourcev1.ResourcePool{Name: node.Name, Generation: 1, ResourceSliceCount: 1},
			Devices: []resourcev1.Device{{Name: "gpu-0", Attributes: map[resourcev1.QualifiedName]resourcev1.DeviceAttribute{
				"type": {StringValue: new("gpu")}, "productName": {StringValue: new("Tesla T4")}, "uuid": {StringValue: new("GPU-" + node.Name)},
			}}},
		},
	})
}

// DR-01: with the default settings a pod with a ResourceClaim gets no node, and an event says why; others get theirs.
func TestDR_01_PodsWithClaimsAreReported(t *testing.T) {
	t.Parallel()
	f := newFlow(t, disturbsNone)
	f.gpuTemplate()
	f.pool("", onlyTypes("m5.large", "g4dn.xlarge"))
	f.deploy("train", 1, withGPU)
	f.deploy("web", 1)
	f.waitForRunningPods("web", 1)
	f.event("Pod", f.pods("train")[0].Name, "FailedScheduling", "--ignore-dra-requests=false")
	if got := typesOf(f.ready(1)); !slices.Equal(got, []string{"m5.large"}) {
		t.Errorf("nodes of types %v, want one m5.large, for the pod without claims", got)
	}
}

// DR-07, DR-08, FM-M09: pods with claims of a template get a node with a GPU each, launched once; the nodes wait for the
// driver, which is named; once it has published the GPUs, kube-scheduler allocates them and the pods run. A pod without
// claims does not wait for any of it.
func TestDR_07_NodesForResourceClaims(t *testing.T) {
	t.Parallel()
	f := newFlow(t, exclusive)
	f.withRights([]string{"settings.ignoreDRARequests=false"}, "--ignore-dra-requests=false")
	f.gpuTemplate()
	f.pool("", onlyTypes("m5.large", "g4dn.xlarge"))
	f.deploy("train", 2, withGPU)
	f.deploy("web", 1)
	waiting := func() (list []karpv1.NodeClaim, all int) {
		for _, c := range f.claims() {
			all++
			if c.Annotations[karpv1.AnnotationRequestedDRADrivers] == gpuDriver && waitsFor(karpv1.ConditionInitialized, lifecycle.DriverPoolsNotPublished)(&c) {
				list = append(list, c)
			}
		}
		return list, all
	}
	f.waitUntil(soon, "two nodes wait for the driver", func() (bool, string) {
		list, _ := waiting()
		return len(list) == 2, sayConditions(f.claims())
	})
	f.waitForRunningPods("web", 1)
	list, all := waiting()
	if all > 3 {
		t.Errorf("%d nodes were made for three pods", all)
	}
	for i := range list {
		if got := list[i].Labels[corev1.LabelInstanceTypeStable]; got != "g4dn.xlarge" {
			t.Errorf("a pod with a claim for a GPU got a %s", got)
		}
		f.publishGPU(f.nodeOf(&list[i]))
	}
	f.waitForRunningPods("train", 2)
	f.ready(all)
	f.waitUntil(soon, "both claims are allocated on different nodes", func() (bool, string) {
		var claims resourcev1.ResourceClaimList
		f.list(&claims)
		pools := map[string]bool{}
		for _, c := range claims.Items {
			if c.Namespace == f.namespace && c.Status.Allocation != nil {
				pools[c.Status.Allocation.Devices.Results[0].Pool] = true
			}
		}
		return len(pools) == 2, fmt.Sprint(pools)
	})
	if got := len(f.claims()); got != all {
		t.Errorf("%d nodes in the end, %d before", got, all)
	}
}

// DR-15: a pod that requests an extended resource which a DeviceClass stands for gets a node with the device.
// kube-scheduler makes the claim, and the claim goes to the next node when that one is replaced by a smaller.
func TestDR_15_ExtendedResourceOfADeviceClass(t *testing.T) {
	t.Parallel()
	f := newFlow(t, exclusive)
	f.withRights([]string{"settings.ignoreDRARequests=false"}, "--ignore-dra-requests=false")
	class := &resourcev1.DeviceClass{}
	f.decode(`spec: {extendedResourceName: example.com/gpu, selectors: [{cel: {expression: "device.driver == 'gpu.nvidia.com'"}}]}`, class)
	class.Name = f.name
	f.create(class)
	pool := f.pool("", onlyTypes("m5.large", "g4dn.12xlarge"))
	f.deploy("train", 1, func(p *corev1.PodTemplateSpec) {
		one := corev1.ResourceList{"example.com/gpu": resource.MustParse("1")}
		p.Spec.Containers[0].Resources.Limits = one
		p.Spec.Containers[0].Resources.Requests["example.com/gpu"] = resource.MustParse("1")
	})
	large := f.claim("waits for the driver", waitsFor(karpv1.ConditionInitialized, lifecycle.DriverPoolsNotPublished))
	if got := large.Annotations[karpv1.AnnotationRequestedDRADrivers]; got != gpuDriver {
		t.Errorf("the NodeClaim names drivers %q", got)
	}
	f.publishGPU(f.nodeOf(large))
	f.waitForRunningPods("train", 1)
	f.ready(1)
	if p := f.pods("train")[0]; p.Status.ExtendedResourceClaimStatus == nil {
		t.Errorf("kube-scheduler has made no claim: %+v", p.Status)
	}
	patch(f, pool, func(p *karpv1.NodePool) {
		onlyTypes("m5.large", "g4dn.xlarge", "g4dn.12xlarge")(p)
		p.Spec.Disruption.ConsolidationPolicy, p.Spec.Disruption.ConsolidateAfter = karpv1.ConsolidationWhenEmptyOrUnderutilized, "0s"
	})
	small := f.claim("replaces it and waits for the driver", func(c *karpv1.NodeClaim) bool {
		return c.Name != large.Name && c.Labels[corev1.LabelInstanceTypeStable] == "g4dn.xlarge" && waitsFor(karpv1.ConditionInitialized, lifecycle.DriverPoolsNotPublished)(c)
	})
	f.publishGPU(f.nodeOf(small))
	f.waitUntilGone(large)
	f.waitForRunningPods("train", 1)
}

// DR-06: a claim for more devices than any node will have is refused with the reason, and nothing is launched for it.
func TestDR_06_NoNodeForDevicesThatNoNodeHas(t *testing.T) {
	t.Parallel()
	f := newFlow(t, exclusive)
	f.withRights([]string{"settings.ignoreDRARequests=false"}, "--ignore-dra-requests=false")
	f.gpuTemplate()
	claim := &resourcev1.ResourceClaim{}
	f.decode(`spec: {devices: {requests: [{name: gpu, exactly: {deviceClassName: `+f.name+`, count: 7}}]}}`, claim)
	claim.Name, claim.Namespace = "seven", f.namespace
	f.create(claim)
	f.pool("", onlyTypes("m5.large", "g4dn.xlarge"))
	d := f.deploy("train", 1, func(p *corev1.PodTemplateSpec) {
		p.Spec.ResourceClaims = []corev1.PodResourceClaim{{Name: "gpu", ResourceClaimName: new("seven")}}
		p.Spec.Containers[0].Resources.Claims = []corev1.ResourceClaim{{Name: "gpu"}}
	})
	f.waitUntil(soon, "the pod", func() (bool, string) { return len(f.pods("train")) == 1, "" })
	f.event("Pod", f.pods("train")[0].Name, "FailedScheduling", "no devices are free that serve claim "+f.namespace+"/seven")
	if n := len(f.claims()); n != 0 {
		t.Errorf("%d nodes were made", n)
	}
	f.scale(d, 0) // nothing is left to wait for
}

// DR-08, DR-11, DR-12: a node whose pod uses one of four GPUs is replaced by one with a single GPU. The replacement is
// initialized once the driver has published it, and only then does the pod move.
func TestDR_12_ConsolidationOfDevices(t *testing.T) {
	t.Parallel()
	f := newFlow(t, exclusive)
	f.withRights([]string{"settings.ignoreDRARequests=false"}, "--ignore-dra-requests=false")
	f.gpuTemplate()
	pool := f.pool("", onlyTypes("g4dn.12xlarge"))
	f.deploy("train", 1, withGPU)
	large := f.claim("waits for the driver", waitsFor(karpv1.ConditionInitialized, lifecycle.DriverPoolsNotPublished))
	f.publishGPU(f.nodeOf(large))
	f.waitForRunningPods("train", 1)
	f.ready(1)
	patch(f, pool, func(p *karpv1.NodePool) {
		onlyTypes("g4dn.xlarge", "g4dn.12xlarge")(p)
		p.Spec.Disruption.ConsolidationPolicy, p.Spec.Disruption.ConsolidateAfter = karpv1.ConsolidationWhenEmptyOrUnderutilized, "0s"
	})
	small := f.claim("replaces it and waits for the driver", func(c *karpv1.NodeClaim) bool {
		return c.Name != large.Name && c.Labels[corev1.LabelInstanceTypeStable] == "g4dn.xlarge" && waitsFor(karpv1.ConditionInitialized, lifecycle.DriverPoolsNotPublished)(c)
	})
	f.publishGPU(f.nodeOf(small))
	f.waitUntilGone(large)
	f.waitForRunningPods("train", 1)
	if got := f.ready(1); got[0].Name != small.Name {
		t.Errorf("%s is left, want %s", got[0].Name, small.Name)
	}
}
