package flow_test

import (
	"context"
	"fmt"
	"math"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apiextensions "k8s.io/apiextensions-apiserver/pkg/client/clientset/clientset"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	karpv1 "github.com/dovetail-sh/dovetail/api/v1"
	"github.com/dovetail-sh/dovetail/api/v1alpha1"
	"github.com/dovetail-sh/dovetail/internal/condition"
	"github.com/dovetail-sh/dovetail/sandbox/fakenode"
)

const ownDevice = "example.com/device"

// createOverlay makes a NodeOverlay for the pools of the test alone.
func (f *flow) createOverlay(name, spec string, pools ...string) *v1alpha1.NodeOverlay {
	f.Helper()
	o := &v1alpha1.NodeOverlay{}
	f.decode(spec, o)
	o.Name = f.name + name
	if len(pools) == 0 {
		pools = []string{f.name}
	}
	o.Spec.Requirements = append(o.Spec.Requirements, v1alpha1.Requirement{Key: karpv1.LabelNodePool, Operator: corev1.NodeSelectorOpIn, Values: pools})
	if err := f.kube.Create(f.Context(), o); err != nil {
		f.Fatal(err)
	}
	f.Cleanup(func() { f.remove(o) })
	return o
}

// waitForOverlayCondition waits until a condition of an overlay is as it should be.
func (f *flow) waitForOverlayCondition(o *v1alpha1.NodeOverlay, status metav1.ConditionStatus, reason string) string {
	f.Helper()
	var message string
	f.waitUntil(soon, "NodeOverlay "+o.Name+" is "+string(status)+" "+reason, func() (bool, string) {
		var list v1alpha1.NodeOverlayList
		f.list(&list)
		for i := range list.Items {
			if list.Items[i].Name != o.Name {
				continue
			}
			for _, c := range list.Items[i].Status.Conditions {
				if c.Type == karpv1.ConditionValidationSucceeded {
					message = c.Message
					return c.Status == status && c.Reason == reason && c.ObservedGeneration == list.Items[i].Generation, string(c.Status) + " " + c.Reason + " " + c.Message
				}
			}
			return false, "it has no condition"
		}
		return false, "it is not there"
	})
	return message
}

// OV-11, OV-14, OV-19, OV-22, OV-23, P04, M08: an overlay that makes the larger type cheaper decides which type is launched; the launch
// passes on the order of the prices. Once it is deleted, the smaller type is launched again.
func TestOV_11_APriceOverlayDecidesWhatIsBought(t *testing.T) {
	t.Parallel()
	f := newFlow(t, disturbsNone)
	o := f.createOverlay("-cheap", `spec: {price: "0.001", requirements: [{key: node.kubernetes.io/instance-type, operator: In, values: [m5.2xlarge]}]}`)
	f.waitForOverlayCondition(o, metav1.ConditionTrue, karpv1.ConditionValidationSucceeded)
	f.pool("", onlyTypes("m5.large", "m5.2xlarge"))
	d := f.deploy("inflate", 1, onePerNode("inflate"))
	f.waitForRunningPods("inflate", 1)
	claim := f.ready(1)[0]
	if got := claim.Labels[corev1.LabelInstanceTypeStable]; got != "m5.2xlarge" {
		t.Errorf("launched %s, want the type that the overlay makes cheapest", got)
	}
	if claim.Annotations[karpv1.AnnotationPriceOverlayApplied] != "true" || claim.Annotations[karpv1.AnnotationCapacityOverlayApplied] != "" {
		t.Errorf("annotations %v", claim.Annotations)
	}
	for _, call := range f.fleetCalls() {
		if got := call.Parameters["OnDemandOptions.AllocationStrategy"]; got != "prioritized" {
			t.Errorf("a fleet with allocation strategy %q", got)
		}
	}
	f.remove(o)
	next := f.createOverlay("-next", `spec: {requirements: []}`) // once it has a condition, the other one was seen to be gone
	f.waitForOverlayCondition(next, metav1.ConditionTrue, karpv1.ConditionValidationSucceeded)
	patch(f, d, func(d *appsv1.Deployment) { d.Spec.Replicas = new(int32(2)) })
	f.waitForRunningPods("inflate", 2)
	for _, c := range f.ready(2) {
		if c.Name != claim.Name && (c.Labels[corev1.LabelInstanceTypeStable] != "m5.large" || c.Annotations[karpv1.AnnotationPriceOverlayApplied] != "") {
			t.Errorf("without the overlay %s was launched, annotations %v", c.Labels[corev1.LabelInstanceTypeStable], c.Annotations)
		}
	}
}

// OV-12, OV-14: 28 % off, as with a Savings Plan, make the dearer of two types the cheaper one, which is launched. An overlay of a higher weight says
// otherwise and counts alone: the next node is of the other type. Without it the first one counts again.
func TestOV_14_TheHeavierOverlayDecides(t *testing.T) {
	t.Parallel()
	f := newFlow(t, disturbsNone)
	const types = `requirements: [{key: node.kubernetes.io/instance-type, operator: In, values: [m5.large]}]`
	light := f.createOverlay("-light", `spec: {priceAdjustment: "-28%", weight: 1, `+types+`}`)
	f.waitForOverlayCondition(light, metav1.ConditionTrue, karpv1.ConditionValidationSucceeded)
	f.pool("", onlyTypes("m5.large", "c5.large")) // 0.096 and 0.085 $ an hour
	d := f.deploy("inflate", 0, onePerNode("inflate"))
	grow := func(n int32, want ...string) {
		t.Helper()
		f.scale(d, n)
		f.waitForRunningPods("inflate", int(n))
		if got := typesOf(f.ready(int(n))); !slices.Equal(got, want) {
			t.Errorf("the nodes are %v, want %v", got, want)
		}
	}
	grow(1, "m5.large")
	heavy := f.createOverlay("-heavy", `spec: {priceAdjustment: "+1%", weight: 10, `+types+`}`)
	f.waitForOverlayCondition(heavy, metav1.ConditionTrue, karpv1.ConditionValidationSucceeded)
	grow(2, "c5.large", "m5.large")
	f.waitForOverlayCondition(light, metav1.ConditionTrue, karpv1.ConditionValidationSucceeded) // weights differ: no conflict
	f.remove(heavy)
	next := f.createOverlay("-next", `spec: {requirements: []}`) // once it has a condition, the other one was seen to be gone
	f.waitForOverlayCondition(next, metav1.ConditionTrue, karpv1.ConditionValidationSucceeded)
	grow(3, "c5.large", "m5.large", "m5.large")
}

// OV-11, OV-22: spot prices of an overlay decide too. The launch gives EC2 the order of the overlaid prices, and may not take
// what is cheaper without the overlay.
func TestOV_22_SpotFollowsTheOrderOfPrices(t *testing.T) {
	t.Parallel()
	f := newFlow(t, disturbsNone)
	o := f.createOverlay("-cheap", `spec: {price: "0.0001", requirements: [{key: node.kubernetes.io/instance-type, operator: In, values: [m5.2xlarge]}, {key: karpenter.sh/capacity-type, operator: In, values: [spot]}]}`)
	f.waitForOverlayCondition(o, metav1.ConditionTrue, karpv1.ConditionValidationSucceeded)
	f.pool("", onlyTypes("m5.large", "m5.xlarge", "m5.2xlarge"), onlySpot)
	f.deploy("inflate", 1)
	f.waitForRunningPods("inflate", 1)
	claim := f.ready(1)[0]
	if claim.Labels[corev1.LabelInstanceTypeStable] != "m5.2xlarge" || claim.Labels[karpv1.LabelCapacityType] != karpv1.CapacityTypeSpot || claim.Annotations[karpv1.AnnotationPriceOverlayApplied] != "true" {
		t.Errorf("launched %s %s, annotations %v", claim.Labels[karpv1.LabelCapacityType], claim.Labels[corev1.LabelInstanceTypeStable], claim.Annotations)
	}
	f.checkPriorities("SpotOptions", "capacity-optimized-prioritized", "m5.2xlarge")
}

// OV-22, LC-46: the claims of a static pool carry what overlays changed, as others do, and their launch follows the order of
// the prices.
func TestOV_22_AStaticPoolFollowsOverlays(t *testing.T) {
	t.Parallel()
	f := newFlow(t, disturbsNone)
	o := f.createOverlay("-cheap", `spec: {price: "0.001", requirements: [{key: node.kubernetes.io/instance-type, operator: In, values: [m5.2xlarge]}]}`)
	f.waitForOverlayCondition(o, metav1.ConditionTrue, karpv1.ConditionValidationSucceeded)
	f.pool("", onlyTypes("m5.large", "m5.2xlarge"), withReplicas(2, "3"))
	for _, c := range f.ready(2) {
		if c.Labels[corev1.LabelInstanceTypeStable] != "m5.2xlarge" || c.Annotations[karpv1.AnnotationPriceOverlayApplied] != "true" || c.Annotations[karpv1.AnnotationCapacityOverlayApplied] != "" {
			t.Errorf("%s is an %s, annotations %v", c.Name, c.Labels[corev1.LabelInstanceTypeStable], c.Annotations)
		}
	}
	f.checkPriorities("OnDemandOptions", "prioritized", "m5.2xlarge")
}

// checkPriorities fails unless all fleets of the test have an allocation strategy by priority, and one type has the lowest
// priority, which EC2 takes first.
func (f *flow) checkPriorities(options, strategy, first string) {
	f.Helper()
	calls := f.fleetCalls()
	if len(calls) == 0 {
		f.Error("no fleet was requested")
	}
	for _, call := range calls {
		if got := call.Parameters[options+".AllocationStrategy"]; got != strategy {
			f.Errorf("a fleet has allocation strategy %q, want %s", got, strategy)
		}
		lowest, of := math.Inf(1), ""
		for name, value := range call.Parameters {
			override, is := strings.CutSuffix(name, ".Priority")
			if !is {
				continue
			}
			priority, err := strconv.ParseFloat(value, 64)
			if err != nil {
				f.Fatal(err)
			}
			if priority < lowest {
				lowest, of = priority, call.Parameters[override+".InstanceType"]
			}
		}
		if of != first {
			f.Errorf("the first by priority is %q (%v), want %s", of, lowest, first)
		}
	}
}

// OV-21: a type that is in no price list is not launched. An overlay that does nothing but price it makes it available, in
// all pools.
func TestOV_21_AnOverlayPricesATypeInPreview(t *testing.T) {
	t.Parallel()
	f := newFlow(t, exclusive)
	f.callControlAPI(http.MethodPut, "catalogue", `[{"name":"x9.large","vcpu":2,"memoryMiB":8192,"zones":["eu-west-1a","eu-west-1b"]}]`)
	f.Cleanup(func() { f.callControlAPI(http.MethodDelete, "catalogue", "") })
	f.withFlags()
	f.pool("", onlyTypes("x9.large"))
	f.deploy("inflate", 1)
	f.event("Pod", "inflate", "FailedScheduling", "")
	if list := f.claims(); len(list) > 0 {
		t.Errorf("a type without a price has a claim: %s", sayConditions(list))
	}
	o := &v1alpha1.NodeOverlay{}
	f.decode(`spec: {price: "0.42", requirements: [{key: node.kubernetes.io/instance-type, operator: In, values: [x9.large]}]}`, o)
	o.Name = f.name + "-preview"
	f.create(o)
	f.Cleanup(func() { f.remove(o) })
	f.waitForOverlayCondition(o, metav1.ConditionTrue, karpv1.ConditionValidationSucceeded)
	f.waitForRunningPods("inflate", 1)
	claim := f.ready(1)[0]
	if claim.Labels[corev1.LabelInstanceTypeStable] != "x9.large" || claim.Annotations[karpv1.AnnotationPriceOverlayApplied] != "true" {
		t.Errorf("launched %s, annotations %v", claim.Labels[corev1.LabelInstanceTypeStable], claim.Annotations)
	}
}

// OV-13, OV-22, SC-50: no type has the resource that a pod requests, until an overlay says which ones have it. The claim carries it at once,
// so that no second node is launched, and the node is not initialized before it registers it.
func TestOV_13_ACapacityOverlayAddsAResource(t *testing.T) {
	t.Parallel()
	f := newFlow(t, disturbsNone)
	f.pool("", onlyTypes("m5.large", "m5.xlarge"))
	f.deploy("inflate", 1, func(p *corev1.PodTemplateSpec) {
		list := corev1.ResourceList{"cpu": resource.MustParse("1"), ownDevice: resource.MustParse("2")}
		p.Spec.Containers[0].Resources = corev1.ResourceRequirements{Requests: list, Limits: corev1.ResourceList{ownDevice: resource.MustParse("2")}}
	})
	f.waitForUnschedulable(1)
	o := f.createOverlay("-device", `spec: {capacity: {example.com/device: "3"}, requirements: [{key: node.kubernetes.io/instance-type, operator: In, values: [m5.xlarge]}]}`)
	f.waitForOverlayCondition(o, metav1.ConditionTrue, karpv1.ConditionValidationSucceeded)
	claim := f.claim("is registered", func(c *karpv1.NodeClaim) bool { return condition.True(c.Status.Conditions, karpv1.ConditionRegistered) })
	if got := claim.Status.Capacity[ownDevice]; got.Value() != 3 {
		t.Errorf("the claim has %s of the device, want 3", got.String())
	}
	if claim.Annotations[karpv1.AnnotationCapacityOverlayApplied] != "true" {
		t.Errorf("annotations %v", claim.Annotations)
	}
	if condition.True(claim.Status.Conditions, karpv1.ConditionInitialized) {
		t.Error("the node is initialized without the device")
	}
	f.nodeFault(fakenode.Fault{Devices: corev1.ResourceList{ownDevice: resource.MustParse("3")}})
	f.waitForRunningPods("inflate", 1)
	if claims := f.ready(1); claims[0].Labels[corev1.LabelInstanceTypeStable] != "m5.xlarge" {
		t.Errorf("launched %s", claims[0].Labels[corev1.LabelInstanceTypeStable])
	}
	if n := len(f.allInstances()); n != 1 {
		t.Errorf("%d instances were launched, want 1", n)
	}
}

// OV-16, OV-17, OV-23, M07: of two overlays of one weight the one whose name comes last is applied; the other says with which it conflicts, and is
// applied once that is deleted. One that is malformed says why.
func TestOV_16_ConflictsAreSaid(t *testing.T) {
	t.Parallel()
	f := newFlow(t, disturbsNone)
	pool := f.pool("", onlyTypes("m5.large", "m5.xlarge"))
	f.waitForCondition(pool, karpv1.ConditionReady, metav1.ConditionTrue, "")
	first := f.createOverlay("-a", `spec: {priceAdjustment: "-10%", weight: 7, requirements: []}`)
	second := f.createOverlay("-b", `spec: {price: "0.5", weight: 7, requirements: [{key: node.kubernetes.io/instance-type, operator: In, values: [m5.large]}]}`)
	bad := f.createOverlay("-c", `spec: {price: "0.5", weight: 7, requirements: [{key: kubernetes.io/hostname, operator: In, values: [a]}]}`)
	f.waitForOverlayCondition(second, metav1.ConditionTrue, karpv1.ConditionValidationSucceeded)
	if said := f.waitForOverlayCondition(first, metav1.ConditionFalse, "Conflict"); !strings.Contains(said, second.Name) || !strings.Contains(said, "m5.large") {
		t.Errorf("the condition says %q", said)
	}
	if said := f.waitForOverlayCondition(bad, metav1.ConditionFalse, "RuntimeValidation"); !strings.Contains(said, "kubernetes.io/hostname") {
		t.Errorf("the condition says %q", said)
	}
	f.remove(second)
	f.waitForOverlayCondition(first, metav1.ConditionTrue, karpv1.ConditionValidationSucceeded)
}

// OV-19, P04: a price that changes acts through consolidation alone: no node drifts, and one that became too dear is replaced.
func TestOV_19_AChangedPriceConsolidates(t *testing.T) {
	t.Parallel()
	f := newFlow(t, disturbsNone)
	f.pool("", onlyTypes("m5.large", "c5.large"), allowConsolidation)
	f.deploy("inflate", 1)
	f.waitForRunningPods("inflate", 1)
	old := f.ready(1)[0]
	bought := old.Labels[corev1.LabelInstanceTypeStable]
	f.waitForOverlayCondition(f.createOverlay("-dear", `spec: {priceAdjustment: "+5", requirements: [{key: node.kubernetes.io/instance-type, operator: In, values: [`+bought+`]}]}`), metav1.ConditionTrue, karpv1.ConditionValidationSucceeded)
	f.waitUntilGone(&old, later)
	f.waitForRunningPods("inflate", 1)
	if now := typesOf(f.ready(1)); len(now) != 1 || now[0] == bought {
		t.Errorf("the pod runs on %v, want another type than %s", now, bought)
	}
	if commands := f.startedCommands(); !slices.Contains(commands, "underutilized replace") || slices.ContainsFunc(commands, func(c string) bool { return strings.HasPrefix(c, "drifted") }) {
		t.Errorf("the log says %v", commands)
	}
}

// OV-24: with the gate off an overlay is no more than an object.
func TestOV_24_WithTheGateOffOverlaysAreIgnored(t *testing.T) {
	t.Parallel()
	f := newFlow(t, exclusive)
	f.withFlags("--feature-gates=NodeOverlay=false")
	o := f.createOverlay("-cheap", `spec: {price: "0.001", requirements: [{key: node.kubernetes.io/instance-type, operator: In, values: [m5.2xlarge]}]}`)
	f.pool("", onlyTypes("m5.large", "m5.2xlarge"))
	f.deploy("inflate", 1)
	f.waitForRunningPods("inflate", 1)
	if got := typesOf(f.ready(1)); !slices.Equal(got, []string{"m5.large"}) {
		t.Errorf("launched %v", got)
	}
	if err := f.kube.Get(t.Context(), keyOf(o), o); err != nil || len(o.Status.Conditions) > 0 {
		t.Errorf("conditions %v, %v", o.Status.Conditions, err)
	}
}

// OV-24, C12: without the CRD of overlays everything else works and one line says what to do. Once it is there, overlays are used, without
// a restart.
func TestOV_24_FM_C12_TheKindAppearsLater(t *testing.T) {
	t.Parallel()
	f := newFlow(t, exclusive)
	crd := &apiextensionsv1.CustomResourceDefinition{}
	for _, c := range f.server.CRDs {
		if c.Spec.Names.Kind == "NodeOverlay" {
			crd = c.DeepCopy()
		}
	}
	config := f.server.Config
	admin, err := apiextensions.NewForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	crds := admin.ApiextensionsV1().CustomResourceDefinitions()
	if err := crds.Delete(t.Context(), crd.Name, metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	put := func() error {
		crd.ResourceVersion, crd.UID, crd.Status = "", "", apiextensionsv1.CustomResourceDefinitionStatus{}
		_, err := crds.Create(context.WithoutCancel(t.Context()), crd, metav1.CreateOptions{})
		if apierrors.IsAlreadyExists(err) {
			return nil
		}
		return err
	}
	t.Cleanup(func() {
		if err := put(); err != nil {
			t.Error(err)
		}
	})
	f.waitUntil(soon, "the kind is not served", func() (bool, string) {
		err := f.kube.List(t.Context(), &v1alpha1.NodeOverlayList{})
		return err != nil, "it is"
	})
	f.withFlags()
	f.pool("", onlyTypes("m5.large", "m5.2xlarge"))
	d := f.deploy("inflate", 1, onePerNode("inflate"))
	f.waitForRunningPods("inflate", 1)
	f.ready(1)
	f.reportedOnce("the cluster does not serve NodeOverlays")
	f.waitUntil(soon, "the kind is served again", func() (bool, string) {
		if err := put(); err != nil {
			return false, err.Error()
		}
		err := f.kube.List(t.Context(), &v1alpha1.NodeOverlayList{})
		return err == nil, fmt.Sprint(err)
	})
	f.waitForOverlayCondition(f.createOverlay("-cheap", `spec: {price: "0.001", requirements: [{key: node.kubernetes.io/instance-type, operator: In, values: [m5.2xlarge]}]}`), metav1.ConditionTrue, karpv1.ConditionValidationSucceeded)
	patch(f, d, func(d *appsv1.Deployment) { d.Spec.Replicas = new(int32(2)) })
	f.waitForRunningPods("inflate", 2)
	if got := typesOf(f.ready(2)); !slices.Equal(got, []string{"m5.2xlarge", "m5.large"}) && !slices.Equal(got, []string{"m5.large", "m5.2xlarge"}) {
		t.Errorf("launched %v", got)
	}
}
