package store

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// V15-58: what the type declares counts for each driver that the node has not published, also of claims
// that are no nodes yet.
func TestV15_58_DeclaredVolumeLimits(t *testing.T) {
	t.Parallel()
	const driver = "ebs.csi.aws.com"
	types := testTypes()
	types["general"][0].VolumeLimits = map[string]int{driver: 8, "other": 3}
	types["general"][1].VolumeLimits = map[string]int{driver: 4}
	csi := func(drivers ...storagev1.CSINodeDriver) *storagev1.CSINode {
		return &storagev1.CSINode{ObjectMeta: metav1.ObjectMeta{Name: "n1"}, Spec: storagev1.CSINodeSpec{Drivers: drivers}}
	}
	for name, tc := range map[string]struct {
		launched  bool
		joined    bool
		published *storagev1.CSINode
		want      map[string]int
	}{
		"a claim that may become either":  {want: map[string]int{driver: 4, "other": 3}},
		"a claim with an instance":        {launched: true, want: map[string]int{driver: 8, "other": 3}},
		"a node that published nothing":   {launched: true, joined: true, want: map[string]int{driver: 8, "other": 3}},
		"a node that published a count":   {launched: true, joined: true, published: csi(storagev1.CSINodeDriver{Name: driver, Allocatable: &storagev1.VolumeNodeResources{Count: new(int32(20))}}), want: map[string]int{driver: 20, "other": 3}},
		"a node that published no count":  {launched: true, joined: true, published: csi(storagev1.CSINodeDriver{Name: driver}), want: map[string]int{"other": 3}},
		"a node that published no driver": {launched: true, joined: true, published: csi(), want: map[string]int{driver: 8, "other": 3}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := New(testOptions())
			s.feedObject(poolObject("general"), false)
			s.feedObject(claimObject("c1", "aws:///a/i-1", tc.launched), false)
			if tc.joined {
				s.feedObject(nodeObject("n1", "aws:///a/i-1", true), false)
			}
			if tc.published != nil {
				s.onCSINode(tc.published, false)
			}
			view := s.Snapshot(types)
			if len(view.Nodes) != 1 {
				t.Fatalf("nodes = %+v", view.Nodes)
			}
			if diff := cmp.Diff(tc.want, view.Nodes[0].VolumeLimits); diff != "" {
				t.Errorf("limits (-want +got):\n%s", diff)
			}
		})
	}
}
