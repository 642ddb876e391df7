package store

import (
	"slices"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	karpv1 "github.com/dovetail-sh/dovetail/api/v1"
	"github.com/dovetail-sh/dovetail/internal/cluster"
)

func virtualObject(name string) *corev1.Pod {
	p := podObject(name, "")
	p.Name = "capacity-buffer-spare-" + name
	return p
}

// CB-12, CB-13, G8: virtual pods are in every snapshot and count nowhere else. A claim that was ordered for one is kept
// for it, also by a process that starts anew.
func TestCB_13_VirtualPods(t *testing.T) {
	t.Parallel()
	var woken []types.UID
	o := testOptions()
	o.Wake = func(uid types.UID) { woken = append(woken, uid) }
	s := New(o)
	s.feedObject(poolObject("general"), false)
	s.feedObject(nodeObject("ip-1", "aws:///a/i-1", true), false)
	if len(woken) > 0 {
		t.Errorf("a plan is requested by %v although there are no buffers", woken)
	}
	list := []*corev1.Pod{virtualObject("0"), virtualObject("1")}
	key := cluster.PodKey{Namespace: "default", Name: list[0].Name}
	if !s.SetVirtualPods(list) || s.SetVirtualPods([]*corev1.Pod{virtualObject("1"), virtualObject("0")}) {
		t.Error("a change is not noticed, or one that is none is")
	}
	view := s.Snapshot(testTypes())
	if len(view.Pods) != 0 || view.Pending != 0 || len(view.Virtual) != 2 || !view.Virtual[0].Virtual || view.Virtual[0].Key != key {
		t.Fatalf("pods %v, virtual %v", view.Pods, view.Virtual)
	}
	if v := s.Disruption(testTypes()); len(v.PodsToPlace) != 2 {
		t.Errorf("disruption sees %v", v.PodsToPlace)
	}
	if s.Waiting() != 0 || s.Pod(key) != nil || !s.NeedsPlace(key) {
		t.Errorf("%d wait, pod %v, needs a node %v", s.Waiting(), s.Pod(key), s.NeedsPlace(key))
	}
	claim := claimObject("c1", "", false)
	claim.Annotations = map[string]string{karpv1.AnnotationPods: cluster.HashPods([]cluster.PodKey{key})}
	s.RecordCreatedClaim(claim, []cluster.PodKey{key})
	if got := s.Snapshot(testTypes()).PlannedNodes[key]; got != "c1" {
		t.Errorf("the pod is planned for %q, want its claim", got)
	}
	s.ExpectPod(key, "c1", now().Add(time.Hour))
	if s.Nominated("c1") || len(s.Nominees("c1")) > 0 || len(s.Planned("c1")) > 0 {
		t.Error("a node is nominated for a virtual pod")
	}
	fresh := New(testOptions())
	fresh.feedObject(poolObject("general"), false)
	fresh.feedObject(claim, false)
	fresh.SetVirtualPods(list)
	if got := fresh.Snapshot(testTypes()).PlannedNodes[key]; got != "c1" {
		t.Errorf("after a restart the pod is planned for %q, want its claim", got)
	}
	woken = nil
	s.feedObject(podObject("web", "ip-1"), false)
	if !slices.Contains(woken, bufferTrigger) {
		t.Error("a pod that takes room requests no plan")
	}
	// A pod of a user with the name of a virtual one is a pod like any other.
	clash := podObject("x", "ip-1")
	clash.Name = list[0].Name
	s.feedObject(clash, false)
	if view := s.Snapshot(testTypes()); len(view.Virtual) != 1 {
		t.Errorf("virtual pods %v", view.Virtual)
	}
	bad := virtualObject("1")
	bad.Spec.NodeSelector = map[string]string{"kubernetes.io/hostname/x/y": "z"}
	s.SetVirtualPods([]*corev1.Pod{bad})
	if view := s.Snapshot(testTypes()); len(view.Virtual) != 0 || len(view.InvalidVirtual) != 1 || len(view.Ignored) != 0 {
		t.Errorf("virtual pods %v, invalid %v, ignored %v", view.Virtual, view.InvalidVirtual, view.Ignored)
	}
	if !s.SetVirtualPods(nil) || len(s.Snapshot(testTypes()).Virtual) > 0 {
		t.Error("virtual pods stay after their buffer")
	}
}

// CB-11: the overhead of a RuntimeClass is that of the newest pod of it.
func TestCB_11_RuntimeOverhead(t *testing.T) {
	t.Parallel()
	s := New(testOptions())
	if got := s.RuntimeOverhead("kata"); got != nil {
		t.Errorf("overhead %v of a class without pod", got)
	}
	for name, made := range map[string]struct {
		class, memory string
		at            int64
	}{"a": {"kata", "100Mi", 10}, "b": {"kata", "120Mi", 20}, "c": {"gvisor", "7Mi", 30}, "d": {"kata", "90Mi", 5}} {
		p := podObject(name, "")
		p.CreationTimestamp = metav1.Unix(made.at, 0)
		p.Spec.RuntimeClassName, p.Spec.Overhead = &made.class, corev1.ResourceList{corev1.ResourceMemory: resource.MustParse(made.memory)}
		s.feedObject(p, false)
	}
	if got := s.RuntimeOverhead("kata"); got.Memory().String() != "120Mi" {
		t.Errorf("overhead %s, want 120Mi of the newest pod", got.Memory())
	}
}
