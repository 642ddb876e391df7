package devices_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	resourcev1 "k8s.io/api/resource/v1"

	"github.com/dovetail-sh/dovetail/internal/devices"
)

func published(node, driver, pool string, generation, of int64) *resourcev1.ResourceSlice {
	return &resourcev1.ResourceSlice{Spec: resourcev1.ResourceSliceSpec{
		NodeName: &node, Driver: driver, Pool: resourcev1.ResourcePool{Name: pool, Generation: generation, ResourceSliceCount: of},
	}}
}

func TestCompleteDrivers(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		slices []*resourcev1.ResourceSlice
		want   []string
	}{
		"FM-M09: nothing is published":        {},
		"DR-08: complete":                     {slices: []*resourcev1.ResourceSlice{published("n", "b", "n", 1, 1), published("n", "a", "n", 1, 1)}, want: []string{"a", "b"}},
		"DR-08: one of several pools will do": {slices: []*resourcev1.ResourceSlice{published("n", "a", "p", 1, 2), published("n", "a", "q", 1, 1)}, want: []string{"a"}},
		"FM-M11: a slice is missing":          {slices: []*resourcev1.ResourceSlice{published("n", "a", "p", 1, 2)}},
		"FM-M11: the next generation begins": {
			slices: []*resourcev1.ResourceSlice{published("n", "a", "p", 1, 2), published("n", "a", "p", 1, 2), published("n", "a", "p", 2, 2)},
		},
		"of another node": {slices: []*resourcev1.ResourceSlice{published("m", "a", "m", 1, 1)}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if diff := cmp.Diff(tc.want, devices.CompleteDrivers(tc.slices, "n")); diff != "" {
				t.Errorf("want - got +\n%s", diff)
			}
		})
	}
}
