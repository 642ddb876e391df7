package inspect_test

import (
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/dovetail-sh/dovetail/internal/snapshot"
	"github.com/dovetail-sh/dovetail/internal/snapshot/snapshottest"
)

// WI-51: a plan that launches nodes for their devices says what of them it does not simulate; any other plan does not.
func TestWI_51_DevicesOfLaunchedNodes(t *testing.T) {
	t.Parallel()
	for _, uses := range []bool{true, false} {
		f := snapshottest.New(snapshottest.Options{Nodes: 1})
		f.Settings.Devices = true
		for i := range f.Catalogues[0].InstanceTypes {
			f.Catalogues[0].InstanceTypes[i].Devices = []snapshot.Devices{{Driver: "gpu.example.com", Devices: []resourcev1.Device{{Name: "gpu-0"}}}}
		}
		f.Objects.DeviceClasses = []resourcev1.DeviceClass{{ObjectMeta: metav1.ObjectMeta{Name: "gpu"}}}
		f.Objects.ResourceClaims = []resourcev1.ResourceClaim{{
			ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "gpu", UID: "claim-gpu"},
			Spec: resourcev1.ResourceClaimSpec{Devices: resourcev1.DeviceClaim{Requests: []resourcev1.DeviceRequest{{
				Name: "gpu", Exactly: &resourcev1.ExactDeviceRequest{DeviceClassName: "gpu", AllocationMode: resourcev1.DeviceAllocationModeExactCount, Count: 1},
			}}}},
		}}
		pod := snapshottest.Pod("trains", "", "3", "1Gi")
		if uses {
			pod.Spec.ResourceClaims = []corev1.PodResourceClaim{{Name: "gpu", ResourceClaimName: new("gpu")}}
		}
		f.Objects.Pods = append(f.Objects.Pods, *pod)
		p := planOf(t, f)
		noted := slices.ContainsFunc(p.Notes, func(note string) bool { return strings.HasPrefix(note, "devices of the nodes that are launched") })
		if len(p.Launch) == 0 || noted != uses {
			t.Errorf("with a claim %t: %d launches, notes %q", uses, len(p.Launch), p.Notes)
		}
	}
}
