package store

import (
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"

	karpv1 "github.com/dovetail-sh/dovetail/api/v1"
	"github.com/dovetail-sh/dovetail/internal/catalog"
	"github.com/dovetail-sh/dovetail/internal/resources"
)

// A claim that is not launched has room for what every type it may become has room for, not only for what was planned
// for it: pods that come in between would get another node.
func TestRoomOfClaimsThatAreNotLaunched(t *testing.T) {
	t.Parallel()
	lanes := resources.NewTable()
	for name, tc := range map[string]struct {
		claim func(*karpv1.NodeClaim)
		types func([]catalog.InstanceType)
		want  corev1.ResourceList
	}{
		"the smallest of its types":  {want: amounts("4", "16Gi")},
		"less what the system takes": {types: func(list []catalog.InstanceType) { list[0].Overhead = lanes.Capacity(amounts("1", "1Gi")) }, want: amounts("3", "15Gi")},
		"resource by resource":       {types: func(list []catalog.InstanceType) { list[1].Capacity = lanes.Capacity(amounts("16", "8Gi")) }, want: amounts("4", "8Gi")},
		"the smallest way to launch it": {types: func(list []catalog.InstanceType) {
			list[1].Offerings[0].Size = &catalog.Size{Capacity: lanes.Capacity(amounts("2", "64Gi"))}
		}, want: amounts("2", "16Gi")},
		"one type alone":                 {claim: func(c *karpv1.NodeClaim) { c.Spec.Requirements[0].Values = []string{"large"} }, want: amounts("16", "64Gi")},
		"never less than was planned":    {types: func(list []catalog.InstanceType) { list[0].Capacity = lanes.Capacity(amounts("500m", "1Gi")) }, want: amounts("1", "2Gi")},
		"an unknown type":                {claim: func(c *karpv1.NodeClaim) { c.Spec.Requirements[0].Values = []string{"small", "gone"} }, want: amounts("1", "2Gi")},
		"types that it must not be":      {claim: func(c *karpv1.NodeClaim) { c.Spec.Requirements[0].Operator = corev1.NodeSelectorOpNotIn }, want: amounts("1", "2Gi")},
		"nothing said of types":          {claim: func(c *karpv1.NodeClaim) { c.Spec.Requirements = nil }, want: amounts("1", "2Gi")},
		"launched: what the claim tells": {claim: func(c *karpv1.NodeClaim) { *c = *claimObject("c1", "aws:///a/i-1", true) }, want: amounts("3900m", "14Gi")},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			types := testTypes()
			types["general"] = slices.Clone(types["general"])
			if tc.types != nil {
				tc.types(types["general"])
			}
			claim := claimObject("c1", "aws:///a/i-1", false)
			if tc.claim != nil {
				tc.claim(claim)
			}
			s := New(testOptions())
			s.feedObject(poolObject("general"), false)
			s.feedObject(claim, false)
			view := s.Snapshot(types)
			if len(view.Nodes) != 1 {
				t.Fatalf("nodes = %+v", view.Nodes)
			}
			if diff := cmp.Diff(lanes.Capacity(tc.want), view.Nodes[0].Allocatable); diff != "" {
				t.Errorf("allocatable (-want +got):\n%s", diff)
			}
		})
	}
}
