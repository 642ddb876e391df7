package solve_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/dovetail-sh/dovetail/internal/catalog"
	"github.com/dovetail-sh/dovetail/internal/check"
	"github.com/dovetail-sh/dovetail/internal/cluster"
	"github.com/dovetail-sh/dovetail/internal/reqs"
	"github.com/dovetail-sh/dovetail/internal/resources"
	"github.com/dovetail-sh/dovetail/internal/solve"
)

const gpuDriver = "gpu.example.com"

// deviceWorld is a cluster with GPUs in the making.
type deviceWorld struct {
	view  cluster.Snapshot
	pods  []cluster.Pod
	moved []cluster.Pod
}

func cpus(n int64) resources.Vec {
	return resources.NewTable().Requests(corev1.ResourceList{corev1.ResourceCPU: *resource.NewQuantity(n, resource.DecimalSI), corev1.ResourcePods: *resource.NewQuantity(10*n, resource.DecimalSI)})
}

// gpus are devices of a model.
func gpus(n int, model string) []resourcev1.Device {
	var out []resourcev1.Device
	for i := range n {
		out = append(out, resourcev1.Device{
			Name:       fmt.Sprintf("gpu-%d", i),
			Attributes: map[resourcev1.QualifiedName]resourcev1.DeviceAttribute{"model": {StringValue: &model}, "uuid": {StringValue: new("GPU-" + fmt.Sprint(i))}},
			Capacity:   map[resourcev1.QualifiedName]resourcev1.DeviceCapacity{"memory": {Value: resource.MustParse("40Gi")}},
		})
	}
	return out
}

// newDeviceWorld has three types: one without GPUs, one with one GPU of model a, one with four of model b.
func newDeviceWorld() *deviceWorld {
	words := reqs.CoreVocabulary()
	sold := func(name string, cpu int64, price float64, devices ...resourcev1.Device) catalog.InstanceType {
		t := catalog.InstanceType{
			Name: name, Capacity: cpus(cpu), Labels: reqs.Set{corev1.LabelInstanceTypeStable: {Values: []string{name}}},
			Offerings: []catalog.Offering{{Zone: "z1", CapacityType: "on-demand", Price: price, Available: true}},
		}
		if len(devices) > 0 {
			t.Devices = []catalog.DevicePool{{Driver: gpuDriver, Devices: devices}}
		}
		return t
	}
	w := &deviceWorld{view: cluster.Snapshot{Words: words, Resources: resources.NewTable(), Devices: &cluster.Devices{
		Classes: []*resourcev1.DeviceClass{{ObjectMeta: metav1.ObjectMeta{Name: "gpu"}, Spec: resourcev1.DeviceClassSpec{Selectors: []resourcev1.DeviceSelector{{CEL: &resourcev1.CELDeviceSelector{Expression: `device.driver == "` + gpuDriver + `"`}}}}}},
	}}}
	w.view.Pools = []cluster.Pool{{Name: "default", Types: []catalog.InstanceType{sold("c1", 4, 0.1), sold("g1", 4, 1, gpus(1, "a")...), sold("g4", 16, 3, gpus(4, "b")...)}}}
	return w
}

// claim adds a ResourceClaim for some GPUs that a CEL expression selects.
func (w *deviceWorld) claim(name string, count int64, selector string) *resourcev1.ResourceClaim {
	request := &resourcev1.ExactDeviceRequest{DeviceClassName: "gpu", AllocationMode: resourcev1.DeviceAllocationModeExactCount, Count: count}
	if selector != "" {
		request.Selectors = []resourcev1.DeviceSelector{{CEL: &resourcev1.CELDeviceSelector{Expression: selector}}}
	}
	c := &resourcev1.ResourceClaim{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name, UID: types.UID(name)}, Spec: resourcev1.ResourceClaimSpec{
		Devices: resourcev1.DeviceClaim{Requests: []resourcev1.DeviceRequest{{Name: "gpu", Exactly: request}}},
	}}
	w.view.Devices.Claims = append(w.view.Devices.Claims, c)
	return c
}

// allocate gives a claim a device of a node, for a pod.
func allocate(c *resourcev1.ResourceClaim, node, device, pod string) {
	c.Status.Allocation = &resourcev1.AllocationResult{
		Devices: resourcev1.DeviceAllocationResult{Results: []resourcev1.DeviceRequestAllocationResult{{Request: "gpu", Driver: gpuDriver, Pool: node, Device: device}}},
		NodeSelector: &corev1.NodeSelector{NodeSelectorTerms: []corev1.NodeSelectorTerm{{MatchFields: []corev1.NodeSelectorRequirement{
			{Key: "metadata.name", Operator: corev1.NodeSelectorOpIn, Values: []string{node}},
		}}}},
	}
	if pod != "" {
		c.Status.ReservedFor = []resourcev1.ResourceClaimConsumerReference{{Resource: "pods", Name: pod, UID: types.UID(pod)}}
	}
}

// daemon adds a DaemonSet of which each pod has a claim for one GPU, and returns the claim of one of its pods.
func (w *deviceWorld) daemon(name string, cpu int64, selector string) *resourcev1.ResourceClaim {
	w.view.Daemons = append(w.view.Daemons, cluster.Daemon{Key: cluster.PodKey{Namespace: "default", Name: name}, Shape: devicePod(name, cpu, "of-"+name).Shape})
	return w.claim("of-"+name, 1, selector)
}

// zones has all types offered in some zones.
func (w *deviceWorld) zones(names ...string) {
	for i := range w.view.Pools[0].Types {
		t := &w.view.Pools[0].Types[i]
		one := t.Offerings[0]
		t.Offerings = nil
		for _, z := range names {
			one.Zone = z
			t.Offerings = append(t.Offerings, one)
		}
	}
}

func zoneSelector(zones ...string) *corev1.NodeSelector {
	return &corev1.NodeSelector{NodeSelectorTerms: []corev1.NodeSelectorTerm{{MatchExpressions: []corev1.NodeSelectorRequirement{
		{Key: corev1.LabelTopologyZone, Operator: corev1.NodeSelectorOpIn, Values: zones},
	}}}}
}

// inZones gives a claim a device that nodes in some zones can reach.
func inZones(c *resourcev1.ResourceClaim, zones ...string) {
	allocate(c, "fabric", "d", "")
	c.Status.Allocation.NodeSelector = zoneSelector(zones...)
}

func devicePod(name string, cpu int64, claims ...string) cluster.Pod {
	s := &cluster.Shape{Namespace: "default", Requests: cpus(cpu), Required: []reqs.Set{{}}}
	for _, c := range claims {
		s.Devices = append(s.Devices, "default/"+c)
	}
	s.Key = fmt.Sprint(cpu, s.Devices)
	return cluster.Pod{Key: cluster.PodKey{Namespace: "default", Name: name}, UID: name, Created: time.Unix(0, 0), Shape: s}
}

// pod adds a pending pod. Pods that use the same claims are one class.
func (w *deviceWorld) pod(name string, cpu int64, claims ...string) {
	p := devicePod(name, cpu, claims...)
	for i := range w.pods {
		if w.pods[i].Shape.Key == p.Shape.Key {
			p.Shape = w.pods[i].Shape
		}
	}
	w.pods = append(w.pods, p)
}

// node adds a node of a type, and has it publish devices.
func (w *deviceWorld) node(name, instanceType string, cpu int64, devices []resourcev1.Device, change ...func(*cluster.Node)) {
	n := cluster.Node{
		Name: name, Claim: name, Pool: "default", InstanceType: instanceType, Initialized: true, Capacity: cpus(cpu), Allocatable: cpus(cpu),
		Labels: map[string]string{corev1.LabelHostname: name, corev1.LabelInstanceTypeStable: instanceType, corev1.LabelTopologyZone: "z1"},
	}
	for _, f := range change {
		f(&n)
	}
	w.view.Nodes = append(w.view.Nodes, n)
	if len(devices) > 0 {
		w.publish(name, name, devices, 1)
	}
}

func (w *deviceWorld) publish(name, node string, devices []resourcev1.Device, of int64) *resourcev1.ResourceSlice {
	s := &resourcev1.ResourceSlice{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: resourcev1.ResourceSliceSpec{
		Driver: gpuDriver, Pool: resourcev1.ResourcePool{Name: name, Generation: 1, ResourceSliceCount: of}, Devices: devices,
	}}
	if node != "" {
		s.Spec.NodeName = &node
	} else {
		s.Spec.AllNodes = new(true)
	}
	w.view.Devices.Slices = append(w.view.Devices.Slices, s)
	return s
}

func (w *deviceWorld) solve() solve.Plan {
	return solve.Solve(w.problem(), nil)
}

func (w *deviceWorld) problem() solve.Problem {
	return solve.Problem{View: &w.view, Pods: w.pods, Moved: w.moved, Policy: solve.Policy{Workers: 1}}
}

// outcome is a plan in short: pods on nodes, new nodes, and reasons.
func outcome(plan solve.Plan) []string {
	var out []string
	for _, b := range plan.Bind {
		out = append(out, b.Pod.Name+" on "+b.Node)
	}
	for _, n := range plan.Create {
		var pods []string
		for _, p := range n.Pods {
			pods = append(pods, p.Name)
		}
		in := ""
		if z := n.Needs[corev1.LabelTopologyZone]; len(z.Values) == 1 && !z.Not {
			in = " in " + z.Values[0]
		}
		out = append(out, "new "+strings.Join(n.Types, ",")+in+" for "+strings.Join(pods, ",")+" drivers "+strings.Join(n.Drivers, ","))
	}
	for _, u := range plan.Unplaced {
		var codes []string
		for _, r := range u.Why {
			codes = append(codes, string(r.Code))
		}
		out = append(out, "not "+u.Pod.Name+": "+strings.Join(codes, ","))
	}
	slices.Sort(out)
	return out
}

func TestDevices(t *testing.T) {
	t.Parallel()
	late := func(n *cluster.Node) { n.Initialized, n.LateDrivers = false, []string{gpuDriver} }
	modelIs := func(m string) string { return `device.attributes["` + gpuDriver + `"].model == "` + m + `"` }
	for name, tc := range map[string]struct {
		build func(w *deviceWorld)
		want  []string
	}{
		"DR-05: a free device of a node is used, and nothing is launched": {
			build: func(w *deviceWorld) { w.node("n1", "g1", 4, gpus(1, "a")); w.claim("c", 1, ""); w.pod("p", 1, "c") },
			want:  []string{"p on n1"},
		},
		"DR-07: a new node has a type with the devices that the selectors choose": {
			build: func(w *deviceWorld) { w.claim("c", 1, modelIs("b")); w.pod("p", 1, "c") },
			want:  []string{"new g4 for p drivers " + gpuDriver},
		},
		"DR-07: the count of a claim leaves out types with fewer devices": {
			build: func(w *deviceWorld) { w.claim("c", 2, ""); w.pod("p", 1, "c") },
			want:  []string{"new g4 for p drivers " + gpuDriver},
		},
		"DR-07: devices of a new node are given away once": {
			build: func(w *deviceWorld) {
				w.claim("c1", 1, modelIs("a"))
				w.claim("c2", 1, modelIs("a"))
				w.pod("p1", 1, "c1")
				w.pod("p2", 1, "c2")
			},
			want: []string{"new g1 for p1 drivers " + gpuDriver, "new g1 for p2 drivers " + gpuDriver},
		},
		"DR-07: more pods than devices need more nodes": {
			build: func(w *deviceWorld) {
				for i := range 6 {
					w.claim(fmt.Sprint("c", i), 1, modelIs("b"))
					w.pod(fmt.Sprint("p", i), 1, fmt.Sprint("c", i))
				}
			},
			want: []string{"new g4 for p0,p1,p2,p3 drivers " + gpuDriver, "new g4 for p4,p5 drivers " + gpuDriver},
		},
		"DR-07: several claims share a node with enough devices": {
			build: func(w *deviceWorld) {
				for i := range 4 {
					w.claim(fmt.Sprint("c", i), 1, modelIs("b"))
					w.pod(fmt.Sprint("p", i), 1, fmt.Sprint("c", i))
				}
			},
			want: []string{"new g4 for p0,p1,p2,p3 drivers " + gpuDriver},
		},
		"DR-05: a device that a claim holds is not free": {
			build: func(w *deviceWorld) {
				w.node("n1", "g1", 4, gpus(1, "a"))
				allocate(w.claim("held", 1, ""), "n1", "gpu-0", "other")
				w.claim("c", 1, modelIs("a"))
				w.pod("p", 1, "c")
			},
			want: []string{"new g1 for p drivers " + gpuDriver},
		},
		"DR-09: pods that share a claim are on one node": {
			build: func(w *deviceWorld) {
				w.claim("c", 1, "")
				for _, p := range []string{"p1", "p2", "p3"} {
					w.pod(p, 3, "c") // three cpus each: only g4 holds all of them
				}
			},
			want: []string{"new g4 for p1,p2,p3 drivers " + gpuDriver},
		},
		"DR-09: a pod that shares a claim does not start a second node": {
			build: func(w *deviceWorld) {
				w.claim("c", 1, modelIs("a"))
				w.pod("p1", 3, "c")
				w.pod("p2", 3, "c")
			},
			want: []string{"new g1 for p1 drivers " + gpuDriver, "not p2: DevicesElsewhere"},
		},
		"DR-06: a claim is left to the node it is allocated on": {
			build: func(w *deviceWorld) {
				w.node("n1", "g1", 4, gpus(1, "a"))
				w.node("n2", "g1", 4, gpus(1, "a"))
				allocate(w.claim("c", 1, ""), "n2", "gpu-0", "p")
				w.pod("p", 1, "c")
			},
			want: []string{"p on n2"},
		},
		"DR-06: no node is launched for a claim that is allocated on a full node": {
			build: func(w *deviceWorld) {
				w.node("n1", "g1", 4, gpus(1, "a"))
				allocate(w.claim("c", 1, ""), "n1", "gpu-0", "p")
				w.pod("p", 5, "c")
			},
			want: []string{"not p: DevicesElsewhere,NodeFull"},
		},
		"DR-06: what only one piece of hardware has is not expected of a new node": {
			build: func(w *deviceWorld) {
				w.view.Pools[0].Types[1].Devices = nil
				w.view.Pools[0].Types[2].Devices = nil
				w.node("n1", "g1", 4, gpus(1, "a"))
				allocate(w.claim("held", 1, ""), "n1", "gpu-0", "other")
				w.claim("c", 1, `device.attributes["`+gpuDriver+`"].?uuid.orValue("") == "GPU-0"`)
				w.pod("p", 1, "c")
			},
			want: []string{"not p: DevicesMissing,DevicesMissing"},
		},
		"DR-07: a type is expected to publish what a node of it publishes": {
			build: func(w *deviceWorld) {
				w.node("n1", "c1", 4, gpus(1, "fpga"))
				allocate(w.claim("held", 1, ""), "n1", "gpu-0", "other")
				w.claim("c", 1, modelIs("fpga"))
				w.pod("p", 1, "c")
			},
			want: []string{"new c1 for p drivers " + gpuDriver},
		},
		"DR-10: a node that is not initialized has the devices of its type, not those published": {
			build: func(w *deviceWorld) {
				w.node("n1", "g1", 4, gpus(8, "a"), func(n *cluster.Node) { n.Initialized = false })
				for i := range 2 {
					w.claim(fmt.Sprint("c", i), 1, modelIs("a"))
					w.pod(fmt.Sprint("p", i), 1, fmt.Sprint("c", i))
				}
			},
			want: []string{"new g1 for p1 drivers " + gpuDriver, "p0 on n1"},
		},
		"DR-10: pods keep the launch that was made for them (G8)": {
			build: func(w *deviceWorld) {
				w.node("n1", "", 4, nil, func(n *cluster.Node) {
					n.Initialized, n.Labels = false, map[string]string{corev1.LabelHostname: "n1"}
					n.Needs = reqs.Set{corev1.LabelInstanceTypeStable: {Values: []string{"g1", "g4"}}}
				})
				w.claim("c", 1, "")
				w.pod("p", 1, "c")
			},
			want: []string{"p on n1"},
		},
		"FM-M11: a pool that is not complete is ignored": {
			build: func(w *deviceWorld) {
				w.node("n1", "g1", 4, nil)
				w.publish("n1", "n1", gpus(1, "a"), 2)
				w.claim("c", 1, modelIs("a"))
				w.pod("p", 1, "c")
			},
			want: []string{"new g1 for p drivers " + gpuDriver},
		},
		"DR-05: devices that every node can reach are used on any node": {
			build: func(w *deviceWorld) {
				w.publish("fabric", "", gpus(1, "net"), 1)
				w.claim("c", 1, modelIs("net"))
				w.pod("p", 1, "c")
			},
			want: []string{"new c1,g1,g4 for p drivers "},
		},
		"DR-04: a claim that does not exist is named": {
			build: func(w *deviceWorld) { w.pod("p", 1, "nowhere") },
			want:  []string{"not p: DeviceClaimUnusable"},
		},
		"DR-04: a class that does not exist is named": {
			build: func(w *deviceWorld) { w.claim("c", 1, ""); w.view.Devices.Classes = nil; w.pod("p", 1, "c") },
			want:  []string{"not p: DeviceClaimUnusable"},
		},
		"DR-04: a selector that cannot be evaluated is reported, and other pods go on": {
			build: func(w *deviceWorld) {
				w.claim("c", 1, `device.attributes["nobody.example.com"].model == "x"`)
				w.pod("p", 1, "c")
				w.pod("q", 1)
			},
			want: []string{"new c1,g1,g4 for q drivers ", "not p: DevicesMissing"},
		},
		"DR-03: first available: what comes first is preferred": {
			build: func(w *deviceWorld) {
				c := w.claim("c", 1, "")
				sub := func(name string, count int64, model string) resourcev1.DeviceSubRequest {
					return resourcev1.DeviceSubRequest{Name: name, DeviceClassName: "gpu", AllocationMode: resourcev1.DeviceAllocationModeExactCount, Count: count, Selectors: []resourcev1.DeviceSelector{{CEL: &resourcev1.CELDeviceSelector{Expression: modelIs(model)}}}}
				}
				c.Spec.Devices.Requests = []resourcev1.DeviceRequest{{Name: "gpu", FirstAvailable: []resourcev1.DeviceSubRequest{sub("many", 9, "b"), sub("one", 1, "a")}}}
				w.pod("p", 1, "c")
			},
			want: []string{"new g1 for p drivers " + gpuDriver},
		},
		"DR-13: a node is launched in the zone that an allocated claim is bound to": {
			build: func(w *deviceWorld) {
				w.zones("z1", "z2")
				inZones(w.claim("c", 1, ""), "z2")
				w.pod("p", 1, "c")
			},
			want: []string{"new c1,g1,g4 in z2 for p drivers "},
		},
		"DR-13: one of several zones": {
			build: func(w *deviceWorld) {
				w.zones("z1", "z2", "z3")
				inZones(w.claim("c", 1, ""), "z4", "z3", "z2")
				w.pod("p", 1, "c")
			},
			want: []string{"new c1,g1,g4 in z3 for p drivers "},
		},
		"DR-13: a node that has the labels is used": {
			build: func(w *deviceWorld) {
				w.zones("z1", "z2")
				w.node("n1", "c1", 4, nil)
				w.node("n2", "c1", 4, nil, func(n *cluster.Node) { n.Labels[corev1.LabelTopologyZone], n.Zone = "z2", "z2" })
				inZones(w.claim("c", 1, ""), "z2")
				w.pod("p", 1, "c")
			},
			want: []string{"p on n2"},
		},
		"DR-13: two claims in different zones cannot be used together": {
			build: func(w *deviceWorld) {
				w.zones("z1", "z2")
				inZones(w.claim("c", 1, ""), "z1")
				inZones(w.claim("d", 1, ""), "z2")
				w.pod("p", 1, "c", "d")
			},
			want: []string{"not p: DevicesElsewhere"},
		},
		"DR-13: no pool has the zone": {
			build: func(w *deviceWorld) { inZones(w.claim("c", 1, ""), "z9"); w.pod("p", 1, "c") },
			want:  []string{"not p: DevicesElsewhere"},
		},
		"DR-13: devices that only nodes of a zone can reach are used on a new node there, each once": {
			build: func(w *deviceWorld) {
				w.zones("z1", "z2")
				w.publish("fabric", "", gpus(1, "net"), 1).Spec = resourcev1.ResourceSliceSpec{
					Driver: gpuDriver, Pool: resourcev1.ResourcePool{Name: "fabric", Generation: 1, ResourceSliceCount: 1}, Devices: gpus(1, "net"), NodeSelector: zoneSelector("z2"),
				}
				for i := range 2 {
					w.claim(fmt.Sprint("c", i), 1, modelIs("net"))
					w.pod(fmt.Sprint("p", i), 1, fmt.Sprint("c", i))
				}
			},
			want: []string{"new c1,g1,g4 in z2 for p0 drivers ", "not p1: DevicesMissing"},
		},
		"DR-13: pods share a claim in the zone of its devices, also on several nodes": {
			build: func(w *deviceWorld) {
				w.zones("z1", "z2")
				w.publish("fabric", "", gpus(1, "net"), 1).Spec = resourcev1.ResourceSliceSpec{
					Driver: gpuDriver, Pool: resourcev1.ResourcePool{Name: "fabric", Generation: 1, ResourceSliceCount: 1}, Devices: gpus(1, "net"), NodeSelector: zoneSelector("z2"),
				}
				w.claim("c", 1, modelIs("net"))
				w.pod("p0", 16, "c")
				w.pod("p1", 16, "c")
			},
			want: []string{"new g4 in z2 for p0 drivers ", "new g4 in z2 for p1 drivers "},
		},
		"DR-14: a DaemonSet takes a device of each new node": {
			build: func(w *deviceWorld) {
				w.daemon("d", 1, modelIs("b"))
				for i := range 4 {
					w.claim(fmt.Sprint("c", i), 1, modelIs("b"))
					w.pod(fmt.Sprint("p", i), 1, fmt.Sprint("c", i))
				}
			},
			want: []string{"new g4 for p0,p1,p2 drivers " + gpuDriver, "new g4 for p3 drivers " + gpuDriver},
		},
		"DR-14: it runs on no type without devices": {
			build: func(w *deviceWorld) { w.daemon("d", 1, modelIs("b")); w.pod("q", 4) },
			want:  []string{"new c1,g1,g4 for q drivers "},
		},
		"DR-14: it takes room of its own": {
			build: func(w *deviceWorld) {
				w.daemon("d", 1, modelIs("b"))
				w.claim("c", 1, modelIs("b"))
				w.pod("p", 16, "c")
			},
			want: []string{"not p: NoTypeFits"},
		},
		"DR-14: nodes without devices for it have none": {
			build: func(w *deviceWorld) {
				w.daemon("d", 1, modelIs("b"))
				w.node("n1", "g1", 4, gpus(1, "a"))
				w.claim("c", 1, modelIs("a"))
				w.pod("p", 4, "c")
			},
			want: []string{"p on n1"},
		},
		"DR-14: on a node that is not initialized too": {
			build: func(w *deviceWorld) {
				w.daemon("d", 1, modelIs("b"))
				w.node("n1", "g4", 16, nil, func(n *cluster.Node) { n.Initialized = false })
				for i := range 4 {
					w.claim(fmt.Sprint("c", i), 1, modelIs("b"))
					w.pod(fmt.Sprint("p", i), 1, fmt.Sprint("c", i))
				}
			},
			want: []string{"new g4 for p3 drivers " + gpuDriver, "p0 on n1", "p1 on n1", "p2 on n1"},
		},
		"DR-14: administrative access takes no device": {
			build: func(w *deviceWorld) {
				w.daemon("d", 1, modelIs("b")).Spec.Devices.Requests[0].Exactly.AdminAccess = new(true)
				for i := range 4 {
					w.claim(fmt.Sprint("c", i), 1, modelIs("b"))
					w.pod(fmt.Sprint("p", i), 1, fmt.Sprint("c", i))
				}
			},
			want: []string{"new g4 for p0,p1,p2,p3 drivers " + gpuDriver},
		},
		"DR-15: extended resources of pods are devices, each pod's its own": {
			build: func(w *deviceWorld) {
				w.node("n1", "g1", 4, gpus(1, "a"))
				for i := range 3 {
					w.pod(fmt.Sprint("p", i), 1, fmt.Sprintf("extended resources of pod p%d: gpu=1", i))
				}
			},
			want: []string{"new g1,g4 for p1 drivers " + gpuDriver, "new g1,g4 for p2 drivers " + gpuDriver, "p0 on n1"},
		},
		"DR-15: a pod that is being bound has its claim already, and needs nothing more": {
			build: func(w *deviceWorld) {
				w.node("n1", "g1", 4, gpus(1, "a"))
				c := w.claim("p-extended-resources-x", 1, "")
				c.Annotations = map[string]string{resourcev1.ExtendedResourceClaimAnnotation: "true"}
				c.OwnerReferences = []metav1.OwnerReference{{Kind: "Pod", Name: "p", Controller: new(true)}}
				allocate(c, "n1", "gpu-0", "p")
				w.pod("p", 1, "extended resources of pod p: gpu=1")
			},
			want: []string{"p on n1"},
		},
		"DR-15: a type has enough of them": {
			build: func(w *deviceWorld) { w.pod("p", 1, "extended resources of pod p: gpu=3") },
			want:  []string{"new g4 for p drivers " + gpuDriver},
		},
		"DR-15: the class is gone": {
			build: func(w *deviceWorld) { w.pod("p", 1, "extended resources of pod p: other=1") },
			want:  []string{"not p: DeviceClaimUnusable"},
		},
		"DR-15: none has so many": {
			build: func(w *deviceWorld) { w.pod("p", 1, "extended resources of pod p: gpu=9") },
			want:  []string{"not p: DevicesMissing"},
		},
		"DR-16: no further node is launched for a driver that is silent in the pool, which keeps its pod": {
			build: func(w *deviceWorld) {
				w.node("n1", "g1", 4, nil, late)
				for i := range 2 {
					w.claim(fmt.Sprint("c", i), 1, modelIs("a"))
					w.pod(fmt.Sprint("p", i), 1, fmt.Sprint("c", i))
				}
				w.pod("q", 16)
			},
			want: []string{"new g4 for q drivers ", "not p1: DeviceDriverSilent,DevicesMissing", "p0 on n1"},
		},
		"DR-16: nor of another type": {
			build: func(w *deviceWorld) {
				w.node("n1", "g1", 4, nil, late)
				w.claim("c", 1, modelIs("b"))
				w.pod("p", 1, "c")
			},
			want: []string{"not p: DeviceDriverSilent,DevicesMissing"},
		},
		"DR-16: other pools have nodes launched": {
			build: func(w *deviceWorld) {
				w.node("n1", "g1", 4, nil, late, func(n *cluster.Node) { n.Pool = "other" })
				w.claim("c", 1, modelIs("b"))
				w.pod("p", 1, "c")
			},
			want: []string{"new g4 for p drivers " + gpuDriver},
		},
		"DR-16: a driver that works on another node of the pool is not to blame": {
			build: func(w *deviceWorld) {
				w.node("n1", "g1", 4, nil, late)
				w.node("n2", "c1", 4, gpus(1, "c"))
				w.claim("c", 1, modelIs("b"))
				w.pod("p", 1, "c")
			},
			want: []string{"new g4 for p drivers " + gpuDriver},
		},
		"DR-16: once it has published, it is not silent": {
			build: func(w *deviceWorld) {
				w.node("n1", "g1", 4, gpus(1, "a"), late)
				w.claim("c", 1, modelIs("b"))
				w.pod("p", 1, "c")
			},
			want: []string{"new g4 for p drivers " + gpuDriver},
		},
		"DR-11: pods of a node that is removed get devices elsewhere": {
			build: func(w *deviceWorld) {
				w.node("n2", "g1", 4, gpus(1, "a"))
				allocate(w.claim("c", 1, ""), "gone", "gpu-0", "p")
				w.moved = append(w.moved, devicePod("p", 1, "c"))
			},
			want: []string{"p on n2"},
		},
		"DR-11: a claim that a pod elsewhere uses too stays where it is": {
			build: func(w *deviceWorld) {
				w.node("n1", "g1", 4, gpus(1, "a"))
				w.node("n2", "g1", 4, gpus(1, "a"))
				c := w.claim("c", 1, "")
				allocate(c, "n1", "gpu-0", "p")
				c.Status.ReservedFor = append(c.Status.ReservedFor, resourcev1.ResourceClaimConsumerReference{Resource: "pods", Name: "stays", UID: "stays"})
				w.moved = append(w.moved, devicePod("p", 1, "c"))
			},
			want: []string{"p on n1"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newDeviceWorld()
			tc.build(w)
			plan := w.solve()
			if diff := cmp.Diff(tc.want, outcome(plan)); diff != "" {
				t.Errorf("want - got +\n%s", diff)
			}
			if wrong := check.Plan(w.problem(), plan); len(wrong) > 0 {
				t.Errorf("the plan breaks rules: %v", wrong)
			}
		})
	}
}

// FM-M10: a search that explodes is cut off after a number of steps, the pod is reported, and the others are planned.
func TestFM_M10_SearchForDevicesIsCutOff(t *testing.T) {
	t.Parallel()
	w := newDeviceWorld()
	c := w.claim("c", 1, "")
	// No attribute is equal for twelve devices: all ways to choose them are tried.
	w.view.Pools[0].Types[2].Devices[0].Devices = nil
	for i := range 24 {
		model := fmt.Sprint("m", i%12)
		w.view.Pools[0].Types[2].Devices[0].Devices = append(w.view.Pools[0].Types[2].Devices[0].Devices, resourcev1.Device{
			Name: fmt.Sprint("d", i), Attributes: map[resourcev1.QualifiedName]resourcev1.DeviceAttribute{"model": {StringValue: &model}, "odd": {BoolValue: new(i%2 == 1)}},
		})
	}
	c.Spec.Devices.Requests = nil
	for i := range 10 {
		c.Spec.Devices.Requests = append(c.Spec.Devices.Requests, resourcev1.DeviceRequest{Name: fmt.Sprint("r", i), Exactly: &resourcev1.ExactDeviceRequest{DeviceClassName: "gpu", AllocationMode: resourcev1.DeviceAllocationModeExactCount, Count: 1}})
	}
	last := &c.Spec.Devices.Requests[9].Exactly.Selectors
	*last = []resourcev1.DeviceSelector{{CEL: &resourcev1.CELDeviceSelector{Expression: `false`}}}
	w.pod("p", 1, "c")
	w.pod("q", 1)
	plan := w.solve()
	if diff := cmp.Diff([]string{"new c1,g1,g4 for q drivers ", "not p: DeviceSearchCut"}, outcome(plan)); diff != "" {
		t.Errorf("want - got +\n%s", diff)
	}
}

// The same problem has the same plan, however often it is solved and whatever the order of the pods.
func TestDevicesArePlannedRepeatably(t *testing.T) {
	t.Parallel()
	build := func(reverse bool) []string {
		w := newDeviceWorld()
		w.node("n1", "g4", 16, gpus(4, "b"))
		for i := range 20 {
			w.claim(fmt.Sprint("c", i), int64(1+i%3), "")
			w.pod(fmt.Sprint("p", i), 1, fmt.Sprint("c", i))
		}
		if reverse {
			slices.Reverse(w.pods)
		}
		return outcome(w.solve())
	}
	first := build(false)
	for range 5 {
		if diff := cmp.Diff(first, build(true)); diff != "" {
			t.Fatalf("want - got +\n%s", diff)
		}
	}
}

// The text of a refusal names the claim and where its devices are.
func TestTextsAboutDevices(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		build func(w *deviceWorld)
		want  string
	}{
		"DR-04": {func(w *deviceWorld) { w.pod("p", 1, "c") }, "resourceclaim/default/c: it does not exist; create it"},
		"DR-06": {
			func(w *deviceWorld) {
				w.node("n1", "g1", 4, gpus(1, "a"))
				allocate(w.claim("c", 1, ""), "n1", "gpu-0", "p")
				w.pod("p", 5, "c")
			},
			"nodepool/default: the devices of claim default/c are on node n1",
		},
		"DR-07": {func(w *deviceWorld) { w.claim("c", 9, ""); w.pod("p", 1, "c") }, "nodepool/default: no devices are free that serve claim default/c"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newDeviceWorld()
			tc.build(w)
			plan := w.solve()
			if len(plan.Unplaced) != 1 {
				t.Fatalf("%d pods have no node", len(plan.Unplaced))
			}
			if got := plan.Unplaced[0].Why[0].Text(); got != tc.want {
				t.Errorf("got %q, want %q", got, tc.want)
			}
		})
	}
}

// running puts a pod with claims on a node; the claims hold the devices named.
func (w *deviceWorld) running(node, pod string, cpu int64, claims ...string) {
	p := devicePod(pod, cpu, claims...)
	for i := range w.view.Nodes {
		n := &w.view.Nodes[i]
		if n.Name != node {
			continue
		}
		for _, name := range claims {
			held := 0
			for _, c := range w.view.Devices.Claims {
				if c.Status.Allocation != nil && c.Status.Allocation.Devices.Results[0].Pool == node {
					held++
				}
			}
			for _, c := range w.view.Devices.Claims {
				if c.Name == name {
					allocate(c, node, fmt.Sprint("gpu-", held), pod)
				}
			}
		}
		n.Pods = append(n.Pods, p)
	}
}

func TestConsolidationOfNodesWithDevices(t *testing.T) {
	t.Parallel()
	modelIs := func(m string) string { return `device.attributes["` + gpuDriver + `"].model == "` + m + `"` }
	priced := func(price float64) func(*cluster.Node) {
		return func(n *cluster.Node) { n.Price, n.Zone, n.CapacityType = price, "z1", "on-demand" }
	}
	for name, tc := range map[string]struct {
		build      func(w *deviceWorld)
		candidates []string
		want       []string
	}{
		"DR-12: a node with more devices than its pods use is replaced": {
			build: func(w *deviceWorld) {
				w.node("n1", "g4", 16, gpus(4, "b"), priced(3))
				w.claim("c", 1, "")
				w.running("n1", "p", 1, "c")
			},
			candidates: []string{"n1"},
			want:       []string{"remove n1", "new g1 for p drivers " + gpuDriver},
		},
		"DR-12: pods move to free devices of another node": {
			build: func(w *deviceWorld) {
				w.node("n1", "g1", 4, gpus(1, "a"), priced(1))
				w.node("n2", "g4", 16, gpus(4, "b"), priced(3))
				w.claim("c", 1, "")
				w.claim("d", 3, "")
				w.running("n1", "p", 1, "c")
				w.running("n2", "q", 1, "d")
			},
			candidates: []string{"n1"},
			want:       []string{"remove n1", "p on n2"},
		},
		"DR-12: a node without free devices takes no pod, however much room it has": {
			build: func(w *deviceWorld) {
				w.node("n1", "g1", 4, gpus(1, "a"), priced(1))
				w.node("n2", "c1", 4, nil, priced(0.1))
				w.claim("c", 1, "")
				w.running("n1", "p", 1, "c")
			},
			candidates: []string{"n1"},
			want:       nil,
		},
		"DR-12: two pods cannot have the one device that is free": {
			build: func(w *deviceWorld) {
				w.node("n1", "g1", 4, gpus(1, "a"), priced(1))
				w.node("n2", "g1", 4, gpus(1, "a"), priced(1))
				w.node("n3", "g1", 4, gpus(1, "a"), priced(1))
				w.claim("c1", 1, modelIs("a"))
				w.claim("c2", 1, modelIs("a"))
				w.running("n1", "p1", 1, "c1")
				w.running("n2", "p2", 1, "c2")
			},
			candidates: []string{"n1", "n2"},
			want:       []string{"remove n1", "p1 on n3"},
		},
		"DR-12: a claim that a pod elsewhere uses keeps its node": {
			build: func(w *deviceWorld) {
				w.node("n1", "g4", 16, gpus(4, "b"), priced(3))
				c := w.claim("c", 1, "")
				w.running("n1", "p", 1, "c")
				c.Status.ReservedFor = append(c.Status.ReservedFor, resourcev1.ResourceClaimConsumerReference{Resource: "pods", Name: "other", UID: "other"})
			},
			candidates: []string{"n1"},
			want:       nil,
		},
		"DR-12: pods that share a claim move together": {
			build: func(w *deviceWorld) {
				w.node("n1", "g4", 16, gpus(4, "b"), priced(3))
				c := w.claim("c", 1, "")
				w.running("n1", "p1", 1, "c")
				w.running("n1", "p2", 1, "c")
				c.Status.ReservedFor = []resourcev1.ResourceClaimConsumerReference{{Resource: "pods", Name: "p1", UID: "p1"}, {Resource: "pods", Name: "p2", UID: "p2"}}
			},
			candidates: []string{"n1"},
			want:       []string{"remove n1", "new g1 for p1,p2 drivers " + gpuDriver},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newDeviceWorld()
			tc.build(w)
			for _, greedy := range []bool{false, true} {
				q := solve.Question{View: &w.view, Candidates: tc.candidates, Policy: solve.Policy{Workers: 1, AnySaving: true, Greedy: greedy}}
				result := solve.Consolidate(q, nil)
				var got []string
				for _, m := range result.Moves {
					for _, n := range m.Remove {
						got = append(got, "remove "+n)
					}
					got = append(got, outcome(solve.Plan{Bind: m.Bind, Create: m.Create})...)
				}
				if diff := cmp.Diff(tc.want, got); diff != "" {
					t.Errorf("want - got +\n%s", diff)
				}
				if wrong := check.Consolidation(q, result); len(wrong) > 0 {
					t.Errorf("it breaks rules: %v", wrong)
				}
			}
		})
	}
}
