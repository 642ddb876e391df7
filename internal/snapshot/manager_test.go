package snapshot_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"

	"github.com/dovetail-sh/dovetail/internal/config"
	"github.com/dovetail-sh/dovetail/internal/snapshot"
)

func TestTrust_C06_SchedulerConfigKeepsItsPolicies(t *testing.T) {
	t.Parallel()
	got := snapshot.DefaultSpread([]config.SpreadConstraint{
		{MaxSkew: 1, TopologyKey: "zone", WhenUnsatisfiable: "DoNotSchedule", MinDomains: new(int32(2)), NodeAffinityPolicy: "Ignore", NodeTaintsPolicy: "Honor"},
		{MaxSkew: 2, TopologyKey: "rack", WhenUnsatisfiable: "ScheduleAnyway"},
	})
	want := []corev1.TopologySpreadConstraint{
		{
			MaxSkew: 1, TopologyKey: "zone", WhenUnsatisfiable: corev1.DoNotSchedule, MinDomains: new(int32(2)),
			NodeAffinityPolicy: new(corev1.NodeInclusionPolicyIgnore), NodeTaintsPolicy: new(corev1.NodeInclusionPolicyHonor),
		},
		{MaxSkew: 2, TopologyKey: "rack", WhenUnsatisfiable: corev1.ScheduleAnyway},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("constraints (-want +got):\n%s", diff)
	}
}
