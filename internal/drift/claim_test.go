package drift_test

import (
	"slices"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	awsv1 "github.com/dovetail-sh/dovetail/api/aws/v1"
	karpv1 "github.com/dovetail-sh/dovetail/api/v1"
	"github.com/dovetail-sh/dovetail/internal/catalog"
	"github.com/dovetail-sh/dovetail/internal/drift"
	"github.com/dovetail-sh/dovetail/internal/reason"
)

// API 8: static drift and drift of requirements.
func TestPoolDrift(t *testing.T) {
	t.Parallel()
	stamp := func(hash, version string) map[string]string {
		return map[string]string{karpv1.AnnotationNodePoolHash: hash, karpv1.AnnotationNodePoolHashVersion: version}
	}
	require := func(key string, op corev1.NodeSelectorOperator, values ...string) []karpv1.Requirement {
		return []karpv1.Requirement{{Key: key, Operator: op, Values: values}}
	}
	for name, tc := range map[string]struct {
		pool, claim map[string]string // annotations
		labels      map[string]string
		require     []karpv1.Requirement
		want        reason.Code
	}{
		"same hash":                                        {pool: stamp("1", "v"), claim: stamp("1", "v")},
		"another hash":                                     {pool: stamp("2", "v"), claim: stamp("1", "v"), want: reason.NodePoolDrifted},
		"another version is no drift (FM C09)":             {pool: stamp("2", "w"), claim: stamp("1", "v")},
		"a claim without a hash":                           {pool: stamp("2", "v")},
		"a pool without a hash":                            {claim: stamp("1", "v")},
		"label still allowed":                              {labels: map[string]string{"zone": "a"}, require: require("zone", corev1.NodeSelectorOpIn, "a", "b")},
		"label no longer allowed":                          {labels: map[string]string{"zone": "c"}, require: require("zone", corev1.NodeSelectorOpIn, "a", "b"), want: reason.RequirementsDrifted},
		"label missing":                                    {require: require("zone", corev1.NodeSelectorOpExists), want: reason.RequirementsDrifted},
		"label missing, and need not be there":             {require: require("zone", corev1.NodeSelectorOpNotIn, "a")},
		"label there that must not be":                     {labels: map[string]string{"zone": "c"}, require: require("zone", corev1.NodeSelectorOpDoesNotExist), want: reason.RequirementsDrifted},
		"requirements that cannot be read replace nothing": {labels: map[string]string{"zone": "c"}, require: require("zone", "Maybe", "a")},
		"static drift is named first":                      {pool: stamp("2", "v"), claim: stamp("1", "v"), require: require("zone", corev1.NodeSelectorOpExists), want: reason.NodePoolDrifted},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			pool, claim := &karpv1.NodePool{}, &karpv1.NodeClaim{}
			pool.Annotations, claim.Annotations, claim.Labels = tc.pool, tc.claim, tc.labels
			pool.Spec.Template.Spec.Requirements = tc.require
			if got := drift.Pool(pool, claim, awsv1.Vocabulary()).Code; got != tc.want {
				t.Errorf("Pool() = %q, want %q", got, tc.want)
			}
		})
	}
}

// API 8, FM E11, E12: a type that is no longer offered.
func TestCatalogueDrift(t *testing.T) {
	t.Parallel()
	list := []catalog.InstanceType{{Name: "m5.large", Offerings: []catalog.Offering{{Zone: "a", CapacityType: "on-demand"}, {Zone: "a", CapacityType: "spot"}}}}
	for name, tc := range map[string]struct {
		list                 []catalog.InstanceType
		kind, zone, capacity string
		want                 reason.Code
	}{
		"offered, be it unavailable":             {list: list, kind: "m5.large", zone: "a", capacity: "spot"},
		"type gone":                              {list: list, kind: "m4.large", zone: "a", capacity: "spot", want: reason.InstanceTypeNotFound},
		"zone gone":                              {list: list, kind: "m5.large", zone: "b", capacity: "spot", want: reason.InstanceTypeNotFound},
		"reserved is content with on-demand":     {list: list, kind: "m5.large", zone: "a", capacity: "reserved"},
		"an empty list is a fault, not the news": {kind: "m5.large", zone: "a", capacity: "spot"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			claim := &karpv1.NodeClaim{}
			claim.Labels = map[string]string{corev1.LabelInstanceTypeStable: tc.kind, corev1.LabelTopologyZone: tc.zone, karpv1.LabelCapacityType: tc.capacity}
			if got := drift.Catalogue(tc.list, claim).Code; got != tc.want {
				t.Errorf("Catalogue() = %q, want %q", got, tc.want)
			}
		})
	}
}

// API 8: the instance type of a claim is looked up from an hour on, twice an hour.
func TestCatalogueLookups(t *testing.T) {
	t.Parallel()
	created := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	claim := &karpv1.NodeClaim{}
	claim.CreationTimestamp.Time = created
	var last drift.CatalogueLookup
	var at []int
	for minute := range 130 {
		if now := created.Add(time.Duration(minute) * time.Minute); last.Due(claim, now) {
			last.At = now
			at = append(at, minute)
		}
	}
	if want := []int{60, 90, 120}; !slices.Equal(at, want) {
		t.Errorf("looked up in minutes %v, want %v", at, want)
	}
}
