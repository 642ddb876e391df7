package check_test

import (
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/dovetail-sh/dovetail/internal/catalog"
	"github.com/dovetail-sh/dovetail/internal/check"
	"github.com/dovetail-sh/dovetail/internal/cluster"
	"github.com/dovetail-sh/dovetail/internal/reqs"
	"github.com/dovetail-sh/dovetail/internal/solve"
)

// Planted faults about ResourceClaims are found, whatever else is wrong with the plan.
func TestDevicesAreChecked(t *testing.T) {
	t.Parallel()
	claim := func(name string, count int64) *resourcev1.ResourceClaim {
		return &resourcev1.ResourceClaim{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: name}, Spec: resourcev1.ResourceClaimSpec{Devices: resourcev1.DeviceClaim{
			Requests: []resourcev1.DeviceRequest{{Name: "r", Exactly: &resourcev1.ExactDeviceRequest{AllocationMode: resourcev1.DeviceAllocationModeExactCount, Count: count}}},
		}}}
	}
	pod := func(name string, claims ...string) cluster.Pod {
		return cluster.Pod{Key: cluster.PodKey{Namespace: "ns", Name: name}, Shape: &cluster.Shape{Key: name, Namespace: "ns", Required: []reqs.Set{{}}, Devices: claims}}
	}
	held := func(by ...string) *resourcev1.ResourceClaim { // on node a
		c := claim("c", 1)
		c.Status.Allocation = &resourcev1.AllocationResult{NodeSelector: &corev1.NodeSelector{NodeSelectorTerms: []corev1.NodeSelectorTerm{{
			MatchFields: []corev1.NodeSelectorRequirement{{Key: "metadata.name", Operator: corev1.NodeSelectorOpIn, Values: []string{"a"}}},
		}}}}
		for _, uid := range by {
			c.Status.ReservedFor = append(c.Status.ReservedFor, resourcev1.ResourceClaimConsumerReference{Resource: "pods", Name: uid, UID: types.UID(uid)})
		}
		return c
	}
	node := func(name string) cluster.Node { return cluster.Node{Name: name, Initialized: true} }
	slice := func(node string) *resourcev1.ResourceSlice {
		return &resourcev1.ResourceSlice{Spec: resourcev1.ResourceSliceSpec{NodeName: &node, Devices: []resourcev1.Device{{Name: "d"}}}}
	}
	bound := claim("c", 1)
	bound.Status.Allocation = &resourcev1.AllocationResult{NodeSelector: &corev1.NodeSelector{NodeSelectorTerms: []corev1.NodeSelectorTerm{{
		MatchExpressions: []corev1.NodeSelectorRequirement{{Key: corev1.LabelTopologyZone, Operator: corev1.NodeSelectorOpIn, Values: []string{"z2"}}},
	}}}}
	for name, tc := range map[string]struct {
		devices *cluster.Devices
		pods    []cluster.Pod
		plan    solve.Plan
		want    check.Code // "": none of those about devices
	}{
		"DR-01: switched off": {
			pods: []cluster.Pod{pod("p", "ns/c")}, plan: solve.Plan{Bind: []solve.Bind{{Pod: cluster.PodKey{Namespace: "ns", Name: "p"}, Node: "a"}}}, want: check.PodInvalid,
		},
		"DR-04: no such claim": {
			devices: &cluster.Devices{}, pods: []cluster.Pod{pod("p", "ns/c")},
			plan: solve.Plan{Bind: []solve.Bind{{Pod: cluster.PodKey{Namespace: "ns", Name: "p"}, Node: "a"}}}, want: check.PodInvalid,
		},
		"DR-09: one claim on two nodes": {
			devices: &cluster.Devices{Claims: []*resourcev1.ResourceClaim{claim("c", 1)}, Slices: []*resourcev1.ResourceSlice{slice("a"), slice("b")}},
			pods:    []cluster.Pod{pod("p", "ns/c"), pod("q", "ns/c")},
			plan: solve.Plan{Bind: []solve.Bind{
				{Pod: cluster.PodKey{Namespace: "ns", Name: "p"}, Node: "a"}, {Pod: cluster.PodKey{Namespace: "ns", Name: "q"}, Node: "b"},
			}},
			want: check.ClaimApart,
		},
		"DR-05: more devices than there are": {
			devices: &cluster.Devices{Claims: []*resourcev1.ResourceClaim{claim("c", 2)}, Slices: []*resourcev1.ResourceSlice{slice("a")}}, pods: []cluster.Pod{pod("p", "ns/c")},
			plan: solve.Plan{Bind: []solve.Bind{{Pod: cluster.PodKey{Namespace: "ns", Name: "p"}, Node: "a"}}}, want: check.DevicesShort,
		},
		"DR-07: a new node without devices": {
			devices: &cluster.Devices{Claims: []*resourcev1.ResourceClaim{claim("c", 1)}}, pods: []cluster.Pod{pod("p", "ns/c")},
			plan: solve.Plan{Create: []solve.NewNode{{Pool: "pool", Types: []string{"t"}, Pods: []cluster.PodKey{{Namespace: "ns", Name: "p"}}}}}, want: check.DevicesShort,
		},
		"DR-13: a claim is bound to another zone": {
			devices: &cluster.Devices{Claims: []*resourcev1.ResourceClaim{bound}}, pods: []cluster.Pod{pod("p", "ns/c")},
			plan: solve.Plan{Bind: []solve.Bind{{Pod: cluster.PodKey{Namespace: "ns", Name: "p"}, Node: "a"}}}, want: check.DevicesElsewhere,
		},
		"DR-05: enough": {
			devices: &cluster.Devices{Claims: []*resourcev1.ResourceClaim{claim("c", 1)}, Slices: []*resourcev1.ResourceSlice{slice("a")}}, pods: []cluster.Pod{pod("p", "ns/c")},
			plan: solve.Plan{Bind: []solve.Bind{{Pod: cluster.PodKey{Namespace: "ns", Name: "p"}, Node: "a"}}},
		},
		"DR-06: a claim that a pod elsewhere uses": {
			devices: &cluster.Devices{Claims: []*resourcev1.ResourceClaim{held("leaves", "stays")}, Slices: []*resourcev1.ResourceSlice{slice("a"), slice("b")}}, pods: []cluster.Pod{pod("p", "ns/c")},
			plan: solve.Plan{Bind: []solve.Bind{{Pod: cluster.PodKey{Namespace: "ns", Name: "p"}, Node: "b"}}}, want: check.DevicesElsewhere,
		},
		"DR-11: a claim whose users leave": {
			devices: &cluster.Devices{Claims: []*resourcev1.ResourceClaim{held("leaves")}, Slices: []*resourcev1.ResourceSlice{slice("a"), slice("b")}}, pods: []cluster.Pod{pod("p", "ns/c")},
			plan: solve.Plan{Bind: []solve.Bind{{Pod: cluster.PodKey{Namespace: "ns", Name: "p"}, Node: "b"}}},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			view := &cluster.Snapshot{Words: reqs.CoreVocabulary(), Devices: tc.devices, Nodes: []cluster.Node{node("a"), node("b")}, Pools: []cluster.Pool{{Name: "pool", Types: []catalog.InstanceType{{Name: "t"}}}}}
			view.Nodes[0].Pods = []cluster.Pod{{UID: "leaves", Terminating: true}, {UID: "stays"}}
			found := check.Plan(solve.Problem{View: view, Pods: tc.pods}, tc.plan)
			about := slices.DeleteFunc(found, func(v check.Violation) bool {
				return !slices.Contains([]check.Code{check.ClaimApart, check.DevicesShort, check.DevicesElsewhere, check.PodInvalid}, v.Code)
			})
			switch {
			case tc.want == "" && len(about) > 0:
				t.Errorf("found %v", about)
			case tc.want != "" && (len(about) != 1 || about[0].Code != tc.want):
				t.Errorf("found %v, want %s", about, tc.want)
			}
		})
	}
}

// V15-45: machines of a reservation may not have the devices of a pod, so that its node is launched elsewhere. Without the
// claim the same plan passes the reservation over.
func TestV15_45_DevicesMayNotBeReserved(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		claims []string
		want   bool
	}{"no claim": {want: true}, "a claim": {claims: []string{"ns/c"}}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld()
			of := &w.pool().Types[0]
			of.Offerings = append(of.Offerings, catalog.Offering{Zone: "a", CapacityType: "reserved", Reservation: "r", Remaining: 1, Price: 0.0001, Available: true})
			w.buy(reqs.Set{capacity: in("spot")}, pod("p", shape("web", func(s *cluster.Shape) { s.Devices = tc.claims })))
			passed := slices.ContainsFunc(check.Plan(w.Problem, w.plan), func(v check.Violation) bool { return v.Code == check.ReservedPassedOver })
			if passed != tc.want {
				t.Errorf("passed over: %v, want %v", passed, tc.want)
			}
		})
	}
}
