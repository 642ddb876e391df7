package store

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/cache/informertest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	karpv1 "github.com/dovetail-sh/dovetail/api/v1"
	"github.com/dovetail-sh/dovetail/internal/cluster"
)

// recordingInformers notes which kinds are watched.
type recordingInformers struct {
	*informertest.FakeInformers
	kinds []string
}

func (a *recordingInformers) GetInformer(ctx context.Context, obj client.Object, opts ...cache.InformerGetOption) (cache.Informer, error) {
	a.kinds = append(a.kinds, fmt.Sprintf("%T", obj))
	return a.FakeInformers.GetInformer(ctx, obj, opts...)
}

// DR-01: switched off, snapshots know nothing of devices, and Watch follows nothing of resource.k8s.io in any case.
func TestDR_01_NothingIsWatched(t *testing.T) {
	t.Parallel()
	s := New(testOptions())
	if s.Snapshot(testTypes()).Devices != nil {
		t.Error("a snapshot has devices")
	}
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{clientgoscheme.AddToScheme, karpv1.AddToScheme} {
		if err := add(scheme); err != nil {
			t.Fatal(err)
		}
	}
	from := &recordingInformers{FakeInformers: &informertest.FakeInformers{Scheme: scheme}}
	if err := s.Watch(t.Context(), from); err != nil {
		t.Fatal(err)
	}
	if slices.ContainsFunc(from.kinds, func(kind string) bool {
		return slices.Contains([]string{"*v1.ResourceClaim", "*v1.ResourceSlice", "*v1.DeviceClass"}, kind)
	}) || !slices.Contains(from.kinds, "*v1.DaemonSet") {
		t.Errorf("watched: %v", from.kinds)
	}
}

// Snapshots have the objects in order and share the list while nothing changes; pods with claims are pending.
func TestDR_02_DevicesInSnapshots(t *testing.T) {
	t.Parallel()
	o := testOptions()
	o.Devices = true
	s := New(o)
	claim := func(name string) *resourcev1.ResourceClaim {
		return &resourcev1.ResourceClaim{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: name}}
	}
	slice := func(name, node string) *resourcev1.ResourceSlice {
		return &resourcev1.ResourceSlice{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: resourcev1.ResourceSliceSpec{NodeName: &node}}
	}
	for _, obj := range []client.Object{claim("b"), claim("a"), slice("s2", "n"), slice("s1", "m"), &resourcev1.DeviceClass{ObjectMeta: metav1.ObjectMeta{Name: "gpu"}}} {
		s.onDeviceObject(obj, false)
	}
	first := s.Snapshot(testTypes()).Devices
	if again := s.Snapshot(testTypes()).Devices; again != first {
		t.Error("the list was made again although nothing changed")
	}
	names := func() (out []string) {
		d := s.Snapshot(testTypes()).Devices
		for _, c := range d.Claims {
			out = append(out, c.Name)
		}
		for _, x := range d.Slices {
			out = append(out, x.Name)
		}
		for _, c := range d.Classes {
			out = append(out, c.Name)
		}
		return out
	}
	if diff := cmp.Diff([]string{"a", "b", "s1", "s2", "gpu"}, names()); diff != "" {
		t.Errorf("want - got +\n%s", diff)
	}
	before := s.changes
	s.onDeviceObject(claim("a"), true)
	if diff := cmp.Diff([]string{"b", "s1", "s2", "gpu"}, names()); diff != "" || s.changes == before {
		t.Errorf("after a claim is gone: %s", diff)
	}
	if got := s.PublishedSlices("n"); len(got) != 1 || got[0].Name != "s2" {
		t.Errorf("slices of n: %v", got)
	}
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "p", UID: "p"}, Spec: corev1.PodSpec{ResourceClaims: []corev1.PodResourceClaim{{Name: "x", ResourceClaimName: new("b")}}},
		Status: corev1.PodStatus{Phase: corev1.PodPending, Conditions: []corev1.PodCondition{{Type: corev1.PodScheduled, Status: corev1.ConditionFalse, Reason: corev1.PodReasonUnschedulable}}},
	}
	s.setPod(keyOf(pod), pod)
	view := s.Snapshot(testTypes())
	if len(view.Pods) != 1 || len(view.Ignored) != 0 || !slices.Equal(view.Pods[0].Shape.Devices, []string{"ns/b"}) {
		t.Errorf("pods %v, ignored %v", view.Pods, view.Ignored)
	}
}

// DR-16: a snapshot names the drivers that a registered node has waited for too long, and only with the feature on.
func TestDR_16_LateDrivers(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		off, initialized bool
		age              time.Duration
		drivers          string
		want             []string
	}{
		"in time":         {age: cluster.DriverTimeout - time.Second, drivers: "a.io"},
		"late":            {age: cluster.DriverTimeout, drivers: "b.io,a.io", want: []string{"a.io", "b.io"}},
		"initialized":     {age: cluster.DriverTimeout, drivers: "a.io", initialized: true},
		"without drivers": {age: cluster.DriverTimeout},
		"switched off":    {age: cluster.DriverTimeout, drivers: "a.io", off: true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			o := testOptions()
			o.Devices = !tc.off
			s := New(o)
			claim, node := claimObject("c", "aws:///a/i-1", true), nodeObject("n", "aws:///a/i-1", true)
			claim.Annotations = map[string]string{karpv1.AnnotationRequestedDRADrivers: tc.drivers}
			claim.Status.Conditions = []metav1.Condition{{Type: karpv1.ConditionRegistered, Status: metav1.ConditionTrue, LastTransitionTime: metav1.NewTime(now().Add(-tc.age))}}
			if !tc.initialized {
				delete(node.Labels, karpv1.LabelInitialized)
			}
			s.feedObject(poolObject("general"), false)
			s.feedObject(claim, false)
			s.feedObject(node, false)
			view := s.Snapshot(testTypes())
			if len(view.Nodes) != 1 || !slices.Equal(view.Nodes[0].LateDrivers, tc.want) {
				t.Errorf("nodes %+v, want late drivers %v", view.Nodes, tc.want)
			}
		})
	}
}

// DR-15: extended resources are served by devices once a DeviceClass stands for them, unless a device plugin has them.
func TestDR_15_DevicesOrPlugin(t *testing.T) {
	t.Parallel()
	o := testOptions()
	o.Devices = true
	s := New(o)
	pod := podObject("p", "")
	pod.Spec.Containers[0].Resources.Requests["x.io/gpu"] = resource.MustParse("1")
	s.feedObject(poolObject("general"), false)
	s.feedObject(pod, false)
	class := &resourcev1.DeviceClass{ObjectMeta: metav1.ObjectMeta{Name: "gpu"}, Spec: resourcev1.DeviceClassSpec{ExtendedResourceName: new("x.io/gpu")}}
	plain, withPlugin := nodeObject("n", "", false), nodeObject("n", "", false)
	withPlugin.Status.Allocatable["x.io/gpu"] = resource.MustParse("4")
	for i, step := range []struct {
		do   func()
		want int
	}{
		{func() {}, 0},
		{func() { s.onDeviceObject(class, false) }, 1},
		{func() { s.feedObject(plain, false) }, 1},
		{func() { s.feedObject(withPlugin, false) }, 0},
		{func() { s.feedObject(plain, false) }, 1},
		{func() { s.onDeviceObject(class, true) }, 0},
	} {
		step.do()
		view := s.Snapshot(testTypes())
		if len(view.Pods) != 1 || len(view.Pods[0].Shape.Devices) != step.want {
			t.Fatalf("step %d: pods %+v, want %d claims", i, view.Pods, step.want)
		}
	}
	pod.Status.ExtendedResourceClaimStatus = &corev1.PodExtendedResourceClaimStatus{ResourceClaimName: "made"}
	if stripPod(pod); pod.Status.ExtendedResourceClaimStatus == nil {
		t.Errorf("the status of the extended resource claim is lost: %+v", pod.Status)
	}
}
