package cluster_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
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

// DR-01: a DaemonSet with claims counts on no planned node, whatever the setting.
func TestDR_01_DaemonSetsWithClaims(t *testing.T) {
	t.Parallel()
	r := cluster.NewReader(reqs.CoreVocabulary(), cluster.ReaderOptions{Resources: resources.NewTable(), Devices: true})
	set := &appsv1.DaemonSet{}
	set.Spec.Template.Spec.ResourceClaims = []corev1.PodResourceClaim{{Name: "gpu", ResourceClaimName: new("mine")}}
	if shape := r.Daemon(set, nil, nil).Shape; len(shape.Invalid) != 1 {
		t.Errorf("it is planned for: %v", shape.Invalid)
	}
}
