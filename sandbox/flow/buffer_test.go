package flow_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	autoscalingv1beta1 "github.com/dovetail-sh/dovetail/api/autoscaling/v1beta1"
	karpv1 "github.com/dovetail-sh/dovetail/api/v1"
)

// createBuffer is a CapacityBuffer of the test.
func (f *flow) createBuffer(spec autoscalingv1beta1.CapacityBufferSpec) *autoscalingv1beta1.CapacityBuffer {
	f.Helper()
	return f.createNamedBuffer("spare", spec)
}

func (f *flow) createNamedBuffer(name string, spec autoscalingv1beta1.CapacityBufferSpec) *autoscalingv1beta1.CapacityBuffer {
	f.Helper()
	b := &autoscalingv1beta1.CapacityBuffer{ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: f.namespace}, Spec: spec}
	if err := f.kube.Create(f.Context(), b); err != nil {
		f.Fatal(err)
	}
	f.Cleanup(func() { f.deleteObject(b) })
	return b
}

// deleteObject deletes an object of a kind that the view does not have.
func (f *flow) deleteObject(obj client.Object) {
	f.Helper()
	if err := f.kube.Delete(context.WithoutCancel(f.Context()), obj); client.IgnoreNotFound(err) != nil {
		f.Error(err)
	}
}

// createPodTemplate is a PodTemplate whose pods are those of inflate: one of them to an m5.large.
func (f *flow) createPodTemplate() *corev1.PodTemplate {
	f.Helper()
	t := &corev1.PodTemplate{
		ObjectMeta: metav1.ObjectMeta{Name: "web", Namespace: f.namespace},
		Template: corev1.PodTemplateSpec{
			ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{"app": "web"}},
			Spec: corev1.PodSpec{
				NodeSelector: map[string]string{karpv1.LabelNodePool: f.name},
				Containers: []corev1.Container{{
					Name: "web", Image: "public.ecr.aws/eks-distro/kubernetes/pause:3.7",
					Resources: corev1.ResourceRequirements{Requests: corev1.ResourceList{"cpu": resource.MustParse("1"), "memory": resource.MustParse("1536Mi")}},
				}},
			},
		},
	}
	if err := f.kube.Create(f.Context(), t); err != nil {
		f.Fatal(err)
	}
	return t
}

// waitForBufferCondition waits for a condition of a buffer.
func (f *flow) waitForBufferCondition(b *autoscalingv1beta1.CapacityBuffer, kind string, status metav1.ConditionStatus, reason string) {
	f.Helper()
	f.waitUntil(soon, fmt.Sprintf("buffer %s is %s=%s %s", b.Name, kind, status, reason), func() (bool, string) {
		if err := f.kube.Get(f.Context(), client.ObjectKeyFromObject(b), b); err != nil {
			return false, err.Error()
		}
		at := slices.IndexFunc(b.Status.Conditions, func(c metav1.Condition) bool { return c.Type == kind })
		if at < 0 {
			return false, "no such condition"
		}
		c := b.Status.Conditions[at]
		return c.Status == status && c.Reason == reason, fmt.Sprintf("%s %s: %s", c.Status, c.Reason, c.Message)
	})
}

// waitForClaimCount waits until the pools of the test have so many claims.
func (f *flow) waitForClaimCount(n int) {
	f.Helper()
	f.waitUntil(later, fmt.Sprintf("%d claims are left", n), func() (bool, string) {
		list := f.claims()
		return len(list) == n, sayConditions(list)
	})
}

// CB-12, CB-13, CB-15, FM M05: a buffer holds nodes without a pod. Pods of a Deployment take the room at once, it is
// refilled, and the nodes go when the buffer is deleted.
func TestCB_12_ABufferHoldsRoomThatPodsTakeAtOnce(t *testing.T) {
	t.Parallel()
	f := newFlow(t, disturbsNone)
	f.pool("", onlyTypes("m5.large"), emptyAfter("10s"))
	f.createPodTemplate()
	b := f.createBuffer(autoscalingv1beta1.CapacityBufferSpec{PodTemplateRef: &autoscalingv1beta1.LocalObjectRef{Name: "web"}, Replicas: new(int32(2))})
	first := map[string]bool{}
	for _, c := range f.ready(2) {
		first[f.nodeOf(&c).Name] = true
	}
	f.waitForBufferCondition(b, "ReadyForProvisioning", metav1.ConditionTrue, "Resolved")
	f.waitForBufferCondition(b, "Provisioning", metav1.ConditionTrue, "FitsExistingCapacity")
	if b.Status.Replicas == nil || *b.Status.Replicas != 2 || b.Status.PodTemplateRef == nil || b.Status.PodTemplateRef.Name != "web" || b.Status.PodTemplateGeneration == nil {
		t.Errorf("status %+v", b.Status)
	}
	for name := range first {
		f.event("Node", name, "Unconsolidatable", "provides capacity for a CapacityBuffer", later)
	}
	if n := len(f.pods("")); n > 0 {
		t.Errorf("%d pods are in the API although none was created", n)
	}
	f.deploy("inflate", 2)
	for _, p := range f.waitForRunningPods("inflate", 2) {
		if !first[p.Spec.NodeName] {
			t.Errorf("pod %s waited for node %s", p.Name, p.Spec.NodeName)
		}
	}
	f.ready(4)
	f.waitForBufferCondition(b, "Provisioning", metav1.ConditionTrue, "FitsExistingCapacity")
	if list := f.events("Pod", "capacity-buffer-"); len(list) > 0 {
		t.Errorf("events about pods that do not exist: %s", sayEvents(list))
	}
	f.deleteObject(b)
	f.waitForClaimCount(2)
	f.waitForRunningPods("inflate", 2)
}

// CB-10, CB-15, V15-64: a buffer that is a share of a Deployment grows with it, and ends with it.
func TestCB_10_ABufferIsAShareOfADeployment(t *testing.T) {
	t.Parallel()
	f := newFlow(t, disturbsNone)
	f.pool("", onlyTypes("m5.large"), emptyAfter("10s"))
	d := f.deploy("inflate", 2)
	b := f.createBuffer(autoscalingv1beta1.CapacityBufferSpec{
		ScalableRef: &autoscalingv1beta1.ScalableRef{APIGroup: "apps", Kind: "Deployment", Name: "inflate"}, Percentage: new(int32(50)),
	})
	f.ready(3)
	f.waitForBufferCondition(b, "Provisioning", metav1.ConditionTrue, "FitsExistingCapacity")
	f.scale(d, 4)
	f.waitForRunningPods("inflate", 4)
	f.ready(6)
	f.remove(d)
	f.waitForBufferCondition(b, "ReadyForProvisioning", metav1.ConditionFalse, "ScalableRefNotFound")
	f.waitForBufferCondition(b, "Provisioning", metav1.ConditionFalse, "NotReadyForProvisioning")
	f.waitForClaimCount(0)
}

// CB-14, FM M04: a PodTemplate that is missing is named by a condition, one that comes is found, and one that is deleted
// is noticed within 30 seconds, after which nodes go.
func TestCB_14_ABufferWithoutItsTemplateSaysSo(t *testing.T) {
	t.Parallel()
	f := newFlow(t, disturbsNone)
	f.pool("", onlyTypes("m5.large"), emptyAfter("10s"))
	b := f.createBuffer(autoscalingv1beta1.CapacityBufferSpec{PodTemplateRef: &autoscalingv1beta1.LocalObjectRef{Name: "web"}, Replicas: new(int32(1))})
	f.waitForBufferCondition(b, "ReadyForProvisioning", metav1.ConditionFalse, "PodTemplateNotFound")
	tmpl := f.createPodTemplate()
	f.waitForBufferCondition(b, "ReadyForProvisioning", metav1.ConditionTrue, "Resolved")
	f.ready(1)
	f.waitForBufferCondition(b, "Provisioning", metav1.ConditionTrue, "FitsExistingCapacity")
	f.deleteObject(tmpl)
	deleted := time.Now()
	f.waitForBufferCondition(b, "ReadyForProvisioning", metav1.ConditionFalse, "PodTemplateNotFound")
	for _, c := range b.Status.Conditions {
		if c.Type == "ReadyForProvisioning" && c.LastTransitionTime.Sub(deleted) > 30*time.Second {
			t.Errorf("noticed after %s", c.LastTransitionTime.Sub(deleted))
		}
	}
	f.waitForClaimCount(0)
}

// CB-01, CB-14: buffers whose target is missing, that request nothing, and that belong to another controller have no effect,
// while the one beside them gets its room. Ours say why, in a condition and an event; the other is left alone.
func TestCB_14_BadBuffersBesideAGoodOne(t *testing.T) {
	t.Parallel()
	f := newFlow(t, disturbsNone)
	f.pool("", onlyTypes("m5.large"))
	f.createPodTemplate()
	ref := &autoscalingv1beta1.LocalObjectRef{Name: "web"}
	missing := f.createNamedBuffer("missing", autoscalingv1beta1.CapacityBufferSpec{PodTemplateRef: &autoscalingv1beta1.LocalObjectRef{Name: "nowhere"}, Replicas: new(int32(3))})
	empty := f.createNamedBuffer("empty", autoscalingv1beta1.CapacityBufferSpec{PodTemplateRef: ref, Replicas: new(int32(0))})
	theirs := f.createNamedBuffer("theirs", autoscalingv1beta1.CapacityBufferSpec{PodTemplateRef: ref, Replicas: new(int32(3)), ProvisioningStrategy: new("example.com/theirs")})
	good := f.createBuffer(autoscalingv1beta1.CapacityBufferSpec{PodTemplateRef: ref, Replicas: new(int32(1))})
	f.waitForBufferCondition(missing, "ReadyForProvisioning", metav1.ConditionFalse, "PodTemplateNotFound")
	f.waitForBufferCondition(empty, "Provisioning", metav1.ConditionFalse, "BufferEmpty")
	f.ready(1)
	f.waitForBufferCondition(good, "Provisioning", metav1.ConditionTrue, "FitsExistingCapacity")
	f.waitUntil(soon, "the buffers have events", func() (bool, string) {
		list := copyObjects(f.view, func(e *eventsv1.Event) bool {
			return e.Regarding.Kind == "CapacityBuffer" && e.Regarding.Namespace == f.namespace
		})
		says := func(name, text string) bool {
			return slices.ContainsFunc(list, func(e eventsv1.Event) bool { return e.Regarding.Name == name && strings.Contains(e.Note, text) })
		}
		return says("missing", "PodTemplateNotFound") && says("spare", "FitsExistingCapacity") && !says("theirs", ""), sayEvents(list)
	})
	if err := f.kube.Get(f.Context(), client.ObjectKeyFromObject(theirs), theirs); err != nil || len(theirs.Status.Conditions) > 0 || theirs.Status.Replicas != nil {
		t.Errorf("the buffer of another controller has status %+v, %v", theirs.Status, err)
	}
	if n := len(f.allInstances()); n != 1 {
		t.Errorf("%d instances were launched, want 1", n)
	}
}

// FM M06, CB-12: a limit that has no room for all: as much as it allows, and the condition says why.
func TestFM_M06_ABufferBeyondTheLimit(t *testing.T) {
	t.Parallel()
	f := newFlow(t, disturbsNone)
	f.pool("", onlyTypes("m5.large"), func(p *karpv1.NodePool) { p.Spec.Limits = corev1.ResourceList{"cpu": resource.MustParse("4")} })
	f.createPodTemplate()
	b := f.createBuffer(autoscalingv1beta1.CapacityBufferSpec{PodTemplateRef: &autoscalingv1beta1.LocalObjectRef{Name: "web"}, Replicas: new(int32(4))})
	f.ready(2)
	f.waitForBufferCondition(b, "Provisioning", metav1.ConditionFalse, "RequiresNewCapacity")
	f.waitUntil(soon, "the condition says that 2 of 4 pods have room, and why not more", func() (bool, string) {
		f.waitForBufferCondition(b, "Provisioning", metav1.ConditionFalse, "RequiresNewCapacity")
		text := ""
		for _, c := range b.Status.Conditions {
			if c.Type == "Provisioning" {
				text = c.Message
			}
		}
		for _, part := range []string{"room for 2 of 4 pods", "no node can take 2", "limit"} {
			if !strings.Contains(text, part) {
				return false, text
			}
		}
		return true, text
	})
}

// CB-17, FM C12: without the CRD one line of the log says so, and pods get nodes; once the CRD is there buffers work,
// without a restart.
func TestCB_17_WithoutTheCRD(t *testing.T) {
	t.Parallel()
	f := newFlow(t, exclusive)
	crd := &unstructured.Unstructured{}
	crd.SetGroupVersionKind(schema.GroupVersionKind{Group: "apiextensions.k8s.io", Version: "v1", Kind: "CustomResourceDefinition"})
	if err := f.kube.Get(f.Context(), client.ObjectKey{Name: "capacitybuffers.autoscaling.x-k8s.io"}, crd); err != nil {
		t.Fatal(err)
	}
	again := crd.DeepCopy()
	again.SetResourceVersion("")
	again.SetUID("")
	unstructured.RemoveNestedField(again.Object, "status")
	f.deleteObject(crd)
	f.withFlags()
	f.pool("", onlyTypes("m5.large"))
	f.deploy("inflate", 1)
	f.waitForRunningPods("inflate", 1)
	f.reportedOnce("the cluster does not serve CapacityBuffers")
	if err := f.kube.Create(f.Context(), again); err != nil {
		t.Fatal(err)
	}
	f.createPodTemplate()
	spec := autoscalingv1beta1.CapacityBufferSpec{PodTemplateRef: &autoscalingv1beta1.LocalObjectRef{Name: "web"}, Replicas: new(int32(1))}
	f.waitUntil(soon, "the API server serves CapacityBuffers", func() (bool, string) {
		err := f.kube.List(f.Context(), &autoscalingv1beta1.CapacityBufferList{})
		return err == nil, fmt.Sprint(err)
	})
	f.createBuffer(spec)
	f.ready(2)
}

// CB-17: with the gate off a buffer is only an object.
func TestCB_17_WithTheGateOff(t *testing.T) {
	t.Parallel()
	f := newFlow(t, exclusive)
	f.withFlags("--feature-gates=CapacityBuffer=false")
	f.pool("", onlyTypes("m5.large"))
	f.createPodTemplate()
	b := f.createBuffer(autoscalingv1beta1.CapacityBufferSpec{PodTemplateRef: &autoscalingv1beta1.LocalObjectRef{Name: "web"}, Replicas: new(int32(1))})
	f.deploy("inflate", 1)
	f.waitForRunningPods("inflate", 1)
	f.checkStays(40*time.Second, "one claim, and a buffer without status", func() (bool, string) {
		if err := f.kube.Get(f.Context(), client.ObjectKeyFromObject(b), b); err != nil {
			return false, err.Error()
		}
		list := f.claims()
		return len(list) == 1 && len(b.Status.Conditions) == 0 && b.Status.Replicas == nil, fmt.Sprintf("%d claims, status %+v", len(list), b.Status)
	})
}
