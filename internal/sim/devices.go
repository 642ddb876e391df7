package sim

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/client-go/tools/cache"
	"k8s.io/dynamic-resource-allocation/cel"
	"k8s.io/dynamic-resource-allocation/structured"
	informercache "sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	karpv1 "github.com/dovetail-sh/dovetail/api/v1"
	"github.com/dovetail-sh/dovetail/internal/catalog"
	"github.com/dovetail-sh/dovetail/internal/condition"
	"github.com/dovetail-sh/dovetail/internal/solve"
)

// What a driver of dynamic resource allocation calls its things.
const (
	gpuDriver = "gpu.example.com"
	gpuClass  = "gpu"
	shared    = "shared" // the claim that all pods of some apps use
)

// devicesOf are the devices of a machine.
func devicesOf(m *Machine) []resourcev1.Device {
	var out []resourcev1.Device
	for i := range m.Devices {
		out = append(out, resourcev1.Device{Name: fmt.Sprintf("gpu-%d", i)})
	}
	return out
}

// devicePools are what the cloud says of the devices of a machine.
func devicePools(m *Machine) []catalog.DevicePool {
	if m.Devices == 0 {
		return nil
	}
	return []catalog.DevicePool{{Driver: gpuDriver, Devices: devicesOf(m)}}
}

// deviceObjects are the objects of dynamic resource allocation.
type deviceObjects struct {
	class  *resourcev1.DeviceClass // nil: the run has none
	claims map[string]*resourcev1.ResourceClaim
	slices map[string]*resourcev1.ResourceSlice
	cel    *cel.Cache
}

// List and Get make the class known to the allocator.
func (d *deviceObjects) List() ([]*resourcev1.DeviceClass, error) {
	return []*resourcev1.DeviceClass{d.class}, nil
}

// Get returns a class.
func (d *deviceObjects) Get(name string) (*resourcev1.DeviceClass, error) {
	if name == d.class.Name {
		return d.class, nil
	}
	return nil, apierrors.NewNotFound(resourcev1.Resource("deviceclasses"), name)
}

// openDevices makes the class, and the claim that pods share.
func (w *World) openDevices() {
	if !slices.ContainsFunc(w.config.Apps, func(a App) bool { return a.Devices > 0 || a.Shares }) {
		return
	}
	w.devices = deviceObjects{
		class: &resourcev1.DeviceClass{ObjectMeta: metav1.ObjectMeta{Name: gpuClass}, Spec: resourcev1.DeviceClassSpec{Selectors: []resourcev1.DeviceSelector{
			{CEL: &resourcev1.CELDeviceSelector{Expression: `device.driver == "` + gpuDriver + `"`}},
		}}},
		claims: map[string]*resourcev1.ResourceClaim{}, slices: map[string]*resourcev1.ResourceSlice{}, cel: cel.NewCache(8, cel.Features{}),
	}
	w.putDevices(w.claimFor(shared, 1))
}

// claimFor is a new claim for so many devices.
func (w *World) claimFor(name string, n int64) *resourcev1.ResourceClaim {
	return &resourcev1.ResourceClaim{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name, UID: w.api.uid("devices")},
		Spec: resourcev1.ResourceClaimSpec{Devices: resourcev1.DeviceClaim{Requests: []resourcev1.DeviceRequest{{
			Name: "gpu", Exactly: &resourcev1.ExactDeviceRequest{DeviceClassName: gpuClass, AllocationMode: resourcev1.DeviceAllocationModeExactCount, Count: n},
		}}}},
	}
}

// putDevices stores a claim or slice, and notifies the process.
func (w *World) putDevices(obj client.Object) {
	w.api.rev++
	switch o := obj.(type) {
	case *resourcev1.ResourceClaim:
		w.devices.claims[o.Name] = o
	case *resourcev1.ResourceSlice:
		w.devices.slices[o.Name] = o
	}
	w.notifyDevices(obj, false)
}

func (w *World) dropDevices(obj client.Object) {
	w.api.rev++
	switch o := obj.(type) {
	case *resourcev1.ResourceClaim:
		delete(w.devices.claims, o.Name)
	case *resourcev1.ResourceSlice:
		delete(w.devices.slices, o.Name)
	}
	w.notifyDevices(obj, true)
}

func (w *World) notifyDevices(obj client.Object, gone bool) {
	w.wakeScheduler()
	if p := w.process; p != nil {
		p.after(w.config.Lag[pods], func() { p.seeDevices(obj, gone) })
	}
}

// seeDevices hands a change to the store.
func (p *process) seeDevices(obj client.Object, gone bool) {
	handler := p.deviceHandlers[fmt.Sprintf("%T", obj)]
	if gone {
		handler.OnDelete(obj)
	} else {
		handler.OnUpdate(nil, obj)
	}
}

// watchDevices has the store watch devices, and lists all.
func (p *process) watchDevices() {
	d := &p.w.devices
	if d.class == nil {
		return
	}
	p.deviceHandlers = map[string]cache.ResourceEventHandler{}
	for _, kind := range []client.Object{&resourcev1.DeviceClass{}, &resourcev1.ResourceClaim{}, &resourcev1.ResourceSlice{}} {
		_ = p.store.WatchDevices(context.Background(), deviceInformers{informers{p}}, kind) // ours never fail
	}
	p.seeDevices(d.class, false)
	for _, name := range sorted(d.claims) {
		p.seeDevices(d.claims[name], false)
	}
	for _, name := range sorted(d.slices) {
		p.seeDevices(d.slices[name], false)
	}
}

// deviceInformers hand the handlers of the store to the process.
type deviceInformers struct{ informers }

// GetInformer returns the watch of a kind.
func (i deviceInformers) GetInformer(_ context.Context, obj client.Object, _ ...informercache.InformerGetOption) (informercache.Informer, error) {
	return deviceInformer{informer{p: i.p, kind: kinds}, fmt.Sprintf("%T", obj)}, nil
}

type deviceInformer struct {
	informer
	of string
}

// AddEventHandler registers a handler.
func (i deviceInformer) AddEventHandler(h cache.ResourceEventHandler) (cache.ResourceEventHandlerRegistration, error) {
	i.p.deviceHandlers[i.of] = h
	return registration{p: i.p}, nil
}

// publishDevices has the driver of a node say what there is, some time after the node is ready.
func (w *World) publishDevices(i *instance) {
	if i.machine.Devices == 0 || w.devices.class == nil {
		return
	}
	w.after(w.between(5*time.Second, time.Minute), func() {
		if w.api.nodes[i.node] == nil || i.dead {
			return
		}
		w.putDevices(&resourcev1.ResourceSlice{ObjectMeta: metav1.ObjectMeta{Name: i.node}, Spec: resourcev1.ResourceSliceSpec{
			Driver: gpuDriver, NodeName: new(i.node), Pool: resourcev1.ResourcePool{Name: i.node, Generation: 1, ResourceSliceCount: 1}, Devices: devicesOf(i.machine),
		}})
	})
}

// claimName is the claim of a pod; empty: it has none. created is false while that of its template does not exist.
func claimName(p *corev1.Pod) (name string, created bool) {
	switch {
	case len(p.Spec.ResourceClaims) == 0:
		return "", true
	case p.Spec.ResourceClaims[0].ResourceClaimName != nil:
		return *p.Spec.ResourceClaims[0].ResourceClaimName, true
	case len(p.Status.ResourceClaimStatuses) == 0:
		return "", false
	}
	return *p.Status.ResourceClaimStatuses[0].ResourceClaimName, true
}

// wantDevices has a pod of an app request devices.
func (d *deployment) wantDevices(p *corev1.Pod) {
	entry := corev1.PodResourceClaim{Name: "gpu"}
	switch {
	case d.Shares:
		entry.ResourceClaimName = new(shared)
	case d.Devices > 0:
		entry.ResourceClaimTemplateName = new("gpu")
	default:
		return
	}
	p.Spec.ResourceClaims = []corev1.PodResourceClaim{entry}
	p.Spec.Containers[0].Resources.Claims = []corev1.ResourceClaim{{Name: "gpu"}}
}

// claimsChange does what the controller of claims does when a pod appears or ends.
func (w *World) claimsChange(d *deployment, p *corev1.Pod, before client.Object, gone bool) {
	switch name, created := claimName(p); {
	case w.devices.class == nil || len(p.Spec.ResourceClaims) == 0:
	case gone && created:
		claim := w.devices.claims[name]
		switch {
		case claim == nil:
		case name != shared:
			w.dropDevices(claim)
		default:
			next := claim.DeepCopy()
			next.Status.ReservedFor = slices.DeleteFunc(next.Status.ReservedFor, func(r resourcev1.ResourceClaimConsumerReference) bool { return r.UID == p.UID })
			if len(next.Status.ReservedFor) == 0 {
				next.Status.Allocation = nil
			}
			w.putDevices(next)
		}
	case !gone && !created && before == nil:
		w.after(w.between(50*time.Millisecond, time.Second), func() {
			now := w.api.pods[p.Name]
			if now == nil || now.UID != p.UID {
				return
			}
			claim := w.claimFor(p.Name+"-gpu", d.Devices)
			w.putDevices(claim)
			next := now.DeepCopy()
			next.Status.ResourceClaimStatuses = []corev1.PodResourceClaimStatus{{Name: "gpu", ResourceClaimName: new(claim.Name)}}
			w.api.put(next)
		})
	}
}

// allocation finds devices for a pod on a node, as kube-scheduler does; fits is false if there are none.
func (w *World) allocation(p *corev1.Pod, node *corev1.Node) (found *resourcev1.AllocationResult, fits bool) {
	name, created := claimName(p)
	if name == "" {
		return nil, created
	}
	claim := w.devices.claims[name]
	if claim == nil {
		return nil, false
	}
	features := structured.Features{AdminAccess: true, PrioritizedList: true}
	if a := claim.Status.Allocation; a != nil {
		on, err := structured.NodeMatches(features, node, "", false, a.NodeSelector)
		return a, err == nil && on
	}
	slice := w.devices.slices[node.Name]
	if slice == nil {
		return nil, false
	}
	taken := structured.AllocatedState{
		AllocatedDevices: sets.New[structured.DeviceID](), AllocatedSharedDeviceIDs: sets.New[structured.SharedDeviceID](), AggregatedCapacity: structured.NewConsumedCapacityCollection(),
	}
	for _, other := range w.devices.claims { // any order: it is a set
		if other.Status.Allocation != nil {
			for _, r := range other.Status.Allocation.Devices.Results {
				taken.AllocatedDevices.Insert(structured.MakeDeviceID(r.Driver, r.Pool, r.Device))
			}
		}
	}
	allocator, err := structured.NewAllocator(context.Background(), features, taken, &w.devices, []*resourcev1.ResourceSlice{slice}, w.devices.cel)
	if err != nil {
		w.broken("devices", "%v", err)
		return nil, false
	}
	results, err := allocator.Allocate(context.Background(), node, []*resourcev1.ResourceClaim{claim})
	if err != nil || len(results) != 1 {
		return nil, false
	}
	return &results[0], true
}

// reserveDevices gives a pod the devices that it found on a node.
func (w *World) reserveDevices(p *corev1.Pod, node string) {
	if len(p.Spec.ResourceClaims) == 0 {
		return
	}
	found, fits := w.allocation(p, w.api.nodes[node])
	name, _ := claimName(p)
	if !fits {
		w.broken("devices", "pod %s comes to node %s, which has no devices for claim %s", p.Name, node, name)
		return
	}
	next := w.devices.claims[name].DeepCopy()
	if name == shared {
		w.checks.allocated = w.now
	}
	next.Status.Allocation = found
	next.Status.ReservedFor = append(next.Status.ReservedFor, resourcev1.ResourceClaimConsumerReference{Resource: "pods", Name: p.Name, UID: p.UID})
	w.putDevices(next)
}

// gpus gives machines of a family devices, and pods that need them, alone and together.
func (m *maker) gpus() {
	family, _, _ := strings.Cut(pick(m, m.c.Machines...).Name, ".")
	for i := range m.c.Machines {
		if name, _, _ := strings.Cut(m.c.Machines[i].Name, "."); name == family {
			m.c.Machines[i].Devices = 1 + i%4
		}
	}
	m.c.Apps = append(m.c.Apps, App{Name: "gpus", Replicas: 1 + m.IntN(6), Milli: pick(m, int64(100), 500), MiB: 512, Grace: 30, Devices: pick(m, int64(1), 1, 2)})
	if m.chance(0.4) {
		m.c.Apps = append(m.c.Apps, App{Name: "sharers", Replicas: 2 + m.IntN(2), Milli: 50, MiB: 64, Grace: 5, Shares: true})
	}
	n := 1 + m.IntN(8)
	m.change("user: changes gpus", func(w *World) { w.scale("gpus", n) })
}

// ordersDevices checks a claim for pending pods: none is launched for a pod whose claim is allocated on a node that stays,
// since only that node can serve it (DR-06).
func (c *checks) ordersDevices(p *process, claim *karpv1.NodeClaim, n solve.NewNode) {
	if c.w.devices.class == nil {
		return
	}
	devices := c.w.devices.claims[shared]
	if devices.Status.Allocation == nil || c.w.now.Sub(c.allocated) < time.Minute { // the process may not have seen it
		return
	}
	for _, use := range devices.Status.ReservedFor {
		pod := c.w.api.pods[use.Name]
		if pod == nil || pod.UID != use.UID || pod.DeletionTimestamp != nil {
			return
		}
		node := c.w.api.nodes[pod.Spec.NodeName]
		if node == nil || node.DeletionTimestamp != nil || p.commanded(node.Name) {
			return
		}
		if of := c.w.api.claimOf(node); of == nil || of.DeletionTimestamp != nil {
			return
		}
	}
	for _, key := range n.Pods {
		if pod := c.w.api.pods[key.Name]; pod != nil && pod.Spec.NodeName == "" && len(pod.Spec.ResourceClaims) > 0 && pod.Spec.ResourceClaims[0].ResourceClaimName != nil {
			c.w.broken("DR-06", "claim %s is for pod %s, whose devices are on the node of pod %s", claim.Name, pod.Name, devices.Status.ReservedFor[0].Name)
		}
	}
}

// initializes checks that no node is initialized before its driver has published devices that its pods use (DR-08).
func (c *checks) initializes(before, after *karpv1.NodeClaim) {
	if after.Annotations[karpv1.AnnotationRequestedDRADrivers] == "" || condition.True(before.Status.Conditions, karpv1.ConditionInitialized) || !condition.True(after.Status.Conditions, karpv1.ConditionInitialized) {
		return
	}
	for _, node := range c.w.api.nodesOf(after) {
		if c.w.devices.slices[node.Name] == nil {
			c.w.broken("DR-08", "claim %s is initialized before its driver has published the devices of node %s", after.Name, node.Name)
		}
	}
}
