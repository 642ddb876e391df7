package cluster_test

import (
	"strconv"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/dovetail-sh/dovetail/internal/cluster"
	"github.com/dovetail-sh/dovetail/internal/reqs"
	"github.com/dovetail-sh/dovetail/internal/resources"
)

func TestDevicesOfPods(t *testing.T) {
	t.Parallel()
	named := corev1.PodResourceClaim{Name: "a", ResourceClaimName: new("mine")}
	made := corev1.PodResourceClaim{Name: "b", ResourceClaimTemplateName: new("template")}
	for name, tc := range map[string]struct {
		off      bool
		entries  []corev1.PodResourceClaim
		statuses []corev1.PodResourceClaimStatus
		want     []string
		refused  []string
	}{
		"DR-01: switched off":               {off: true, entries: []corev1.PodResourceClaim{named}, refused: []string{"DevicesUnsupported spec.resourceClaims"}},
		"DR-02: by name":                    {entries: []corev1.PodResourceClaim{named}, want: []string{"ns/mine"}},
		"DR-02: of a template":              {entries: []corev1.PodResourceClaim{made}, statuses: []corev1.PodResourceClaimStatus{{Name: "b", ResourceClaimName: new("made-x1")}}, want: []string{"ns/made-x1"}},
		"DR-02: not created yet":            {entries: []corev1.PodResourceClaim{named, made}, want: []string{"ns/mine"}, refused: []string{"DeviceClaimPending spec.resourceClaims[1]"}},
		"DR-02: the status says none":       {entries: []corev1.PodResourceClaim{made}, statuses: []corev1.PodResourceClaimStatus{{Name: "b"}}},
		"DR-02: neither claim nor template": {entries: []corev1.PodResourceClaim{{Name: "c"}}, refused: []string{"DevicesUnsupported spec.resourceClaims[0]"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := cluster.NewReader(reqs.CoreVocabulary(), cluster.ReaderOptions{Resources: resources.NewTable(), Devices: !tc.off})
			pod := &corev1.Pod{
				ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "p"}, Spec: corev1.PodSpec{ResourceClaims: tc.entries},
				Status: corev1.PodStatus{ResourceClaimStatuses: tc.statuses},
			}
			shape := r.Pod(pod, nil).Shape
			if diff := cmp.Diff(tc.want, shape.Devices); diff != "" {
				t.Errorf("claims: want - got +\n%s", diff)
			}
			var refused []string
			for _, why := range shape.Invalid {
				refused = append(refused, string(why.Code)+" "+why.Subject)
			}
			if diff := cmp.Diff(tc.refused, refused); diff != "" {
				t.Errorf("refused: want - got +\n%s", diff)
			}
		})
	}
}

// DR-02: a pod is read again with its claim once its status names it, and pods with different claims are not alike.
func TestDR_02_ShapesDependOnClaims(t *testing.T) {
	t.Parallel()
	r := cluster.NewReader(reqs.CoreVocabulary(), cluster.ReaderOptions{Resources: resources.NewTable(), Devices: true})
	pod := func(status ...corev1.PodResourceClaimStatus) *cluster.Shape {
		return r.Pod(&corev1.Pod{
			ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "p"},
			Spec:       corev1.PodSpec{ResourceClaims: []corev1.PodResourceClaim{{Name: "b", ResourceClaimTemplateName: new("template")}}},
			Status:     corev1.PodStatus{ResourceClaimStatuses: status},
		}, nil).Shape
	}
	first, one, two := pod(), pod(corev1.PodResourceClaimStatus{Name: "b", ResourceClaimName: new("x1")}), pod(corev1.PodResourceClaimStatus{Name: "b", ResourceClaimName: new("x2")})
	if first == one || one == two || one.Key == two.Key {
		t.Errorf("shapes are shared: %q, %q, %q", first.Key, one.Key, two.Key)
	}
	if again := pod(corev1.PodResourceClaimStatus{Name: "b", ResourceClaimName: new("x1")}); again != one {
		t.Error("a shape that is known was built again")
	}
}

// DR-01, DR-14: a DaemonSet with claims counts once the claims of one of its pods are known, if each pod has its own, and
// never while the feature is off.
func TestDR_14_DaemonSetsWithClaims(t *testing.T) {
	t.Parallel()
	own := []corev1.PodResourceClaim{{Name: "gpu", ResourceClaimTemplateName: new("template")}}
	made := []corev1.PodResourceClaimStatus{{Name: "gpu", ResourceClaimName: new("x1")}}
	for name, tc := range map[string]struct {
		off      bool
		claims   []corev1.PodResourceClaim
		statuses []corev1.PodResourceClaimStatus
		noPod    bool
		want     []string
	}{
		"no pod":        {claims: own, noPod: true},
		"not made yet":  {claims: own},
		"one for all":   {claims: []corev1.PodResourceClaim{{Name: "gpu", ResourceClaimName: new("mine")}}},
		"each its own":  {claims: own, statuses: made, want: []string{"ns/x1"}},
		"off, each own": {off: true, claims: own, statuses: made},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := cluster.NewReader(reqs.CoreVocabulary(), cluster.ReaderOptions{Resources: resources.NewTable(), Devices: !tc.off})
			set := &appsv1.DaemonSet{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "d"}}
			set.Spec.Template.Spec.ResourceClaims = tc.claims
			pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "d-1"}, Spec: set.Spec.Template.Spec, Status: corev1.PodStatus{ResourceClaimStatuses: tc.statuses}}
			if tc.noPod {
				pod = nil
			}
			shape := r.Daemon(set, pod, nil).Shape
			if diff := cmp.Diff(tc.want, shape.Devices); diff != "" || (len(shape.Invalid) == 0) != (len(tc.want) > 0) {
				t.Errorf("refused with %v, want - got +\n%s", shape.Invalid, diff)
			}
		})
	}
}

// DR-15: of several classes for one resource the newest counts, then the first by name; each class has a name by itself.
func TestDR_15_ExtendedResources(t *testing.T) {
	t.Parallel()
	class := func(name, resource string, age time.Duration) *resourcev1.DeviceClass {
		c := &resourcev1.DeviceClass{ObjectMeta: metav1.ObjectMeta{Name: name, CreationTimestamp: metav1.NewTime(time.Unix(1e9, 0).Add(-age))}}
		if resource != "" {
			c.Spec.ExtendedResourceName = &resource
		}
		return c
	}
	got := cluster.ExtendedResources([]*resourcev1.DeviceClass{
		class("b", "x.io/gpu", 0), class("a", "x.io/gpu", 0), class("old", "x.io/gpu", time.Hour), class("z", "", 0),
	})
	want := map[corev1.ResourceName]string{
		"x.io/gpu": "a", "deviceclass.resource.kubernetes.io/a": "a", "deviceclass.resource.kubernetes.io/b": "b",
		"deviceclass.resource.kubernetes.io/old": "old", "deviceclass.resource.kubernetes.io/z": "z",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("want - got +\n%s", diff)
	}
}

// DR-15: a pod has a claim of its own instead of the resources that classes stand for: first the one that kube-scheduler
// will make, then the one that it has made. What a DaemonSet requests stays a request.
func TestDR_15_PodsWithExtendedResources(t *testing.T) {
	t.Parallel()
	r := cluster.NewReader(reqs.CoreVocabulary(), cluster.ReaderOptions{
		Resources: resources.NewTable(), Devices: true, Extended: map[corev1.ResourceName]string{"x.io/gpu": "gpus", "x.io/nic": "nics"},
	})
	read := func(name string, change func(*corev1.Pod)) *cluster.Shape {
		p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: name}, Spec: corev1.PodSpec{Containers: []corev1.Container{
			{Resources: corev1.ResourceRequirements{Requests: corev1.ResourceList{"cpu": resource.MustParse("1"), "x.io/gpu": resource.MustParse("2"), "y.io/fpga": resource.MustParse("1")}}},
			{Resources: corev1.ResourceRequirements{Requests: corev1.ResourceList{"x.io/gpu": resource.MustParse("1"), "x.io/nic": resource.MustParse("1")}}},
		}}}
		if change != nil {
			change(p)
		}
		return r.Pod(p, nil).Shape
	}
	p, q := read("p", nil), read("q", nil)
	if p == q || len(p.Devices) != 1 || len(q.Devices) != 1 {
		t.Fatalf("claims %v and %v", p.Devices, q.Devices)
	}
	amounts := r.Table().List(p.Requests)
	fpgas := amounts["y.io/fpga"]
	if _, left := amounts["x.io/gpu"]; left || fpgas.Value() != 1 {
		t.Errorf("requests %v", amounts)
	}
	claim, text := cluster.ExtendedClaim(p.Devices[0], nil)
	_, same := cluster.ExtendedClaim(q.Devices[0], nil)
	if claim == nil || text != same || text != "gpus=3,nics=1" || claim.Name != "extended resources of pod p" {
		t.Fatalf("%v requests %q, the other %q", claim, text, same)
	}
	var got []string
	for _, one := range claim.Spec.Devices.Requests {
		got = append(got, one.Exactly.DeviceClassName, strconv.FormatInt(one.Exactly.Count, 10))
	}
	if diff := cmp.Diff([]string{"gpus", "3", "nics", "1"}, got); diff != "" {
		t.Errorf("want - got +\n%s", diff)
	}
	made := read("p", func(p *corev1.Pod) {
		p.Spec.NodeName = "n"
		p.Status.ExtendedResourceClaimStatus = &corev1.PodExtendedResourceClaimStatus{ResourceClaimName: "p-extended-resources-x"}
	})
	if diff := cmp.Diff([]string{"ns/p-extended-resources-x"}, made.Devices); diff != "" {
		t.Errorf("want - got +\n%s", diff)
	}
	if other, _ := cluster.ExtendedClaim("ns/p-extended-resources-x", nil); other != nil {
		t.Error("a claim that exists is taken for one that does not")
	}
	left := read("p", func(p *corev1.Pod) {
		p.Status.ExtendedResourceClaimStatus = &corev1.PodExtendedResourceClaimStatus{ResourceClaimName: "deleted"}
	})
	if diff := cmp.Diff(p.Devices, left.Devices); diff != "" {
		t.Errorf("a pod that is not bound: want - got +\n%s", diff)
	}
	none := read("r", func(p *corev1.Pod) { p.Spec.Containers = nil })
	if len(none.Devices) > 0 {
		t.Errorf("a pod without such resources has claims %v", none.Devices)
	}
	set := &appsv1.DaemonSet{}
	set.Spec.Template.Spec.Containers = []corev1.Container{{Resources: corev1.ResourceRequirements{Requests: corev1.ResourceList{"x.io/gpu": resource.MustParse("1")}}}}
	daemon := r.Daemon(set, nil, nil).Shape
	if gpus := r.Table().List(daemon.Requests)["x.io/gpu"]; len(daemon.Devices) > 0 || gpus.Value() != 1 {
		t.Errorf("a DaemonSet has %v and %v", daemon.Devices, daemon.Requests)
	}
}
