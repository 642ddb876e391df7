package launch

import (
	"fmt"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	awsv1 "github.com/dovetail-sh/dovetail/api/aws/v1"
	karpv1 "github.com/dovetail-sh/dovetail/api/v1"
	"github.com/dovetail-sh/dovetail/internal/catalog"
	"github.com/dovetail-sh/dovetail/internal/cloud"
	"github.com/dovetail-sh/dovetail/internal/reqs"
)

func nothingOut(string, *catalog.Offering) bool { return false }

// words writes what is left of candidates: type, then zone and capacity type or reservation.
func words(list []candidate) []string {
	out := []string{}
	for _, c := range list {
		for _, o := range c.offers {
			what := o.CapacityType
			if o.Reservation != "" {
				what = o.Reservation
			}
			out = append(out, c.it.Name+" "+o.Zone+" "+what)
		}
	}
	return out
}

func all(types ...catalog.InstanceType) []candidate {
	var list []candidate
	for i := range types {
		c := candidate{it: &types[i]}
		for k := range types[i].Offerings {
			c.offers = append(c.offers, &types[i].Offerings[k])
		}
		list = append(list, c)
	}
	return list
}

func wants(t *testing.T, claim *karpv1.NodeClaim) want {
	t.Helper()
	w, err := readClaim(claim, lanes())
	if err != nil {
		t.Fatal(err)
	}
	return w
}

func TestUsable(t *testing.T) {
	t.Parallel()
	full := held("a", "cr-1", 0, 0)
	gone := spot("b", 1)
	gone.Available = false
	small := onDemand("a", 1)
	small.Size = &catalog.Size{Capacity: lanes().Capacity(corev1.ResourceList{corev1.ResourcePods: resource.MustParse("1")})}
	partitioned := spot("a", 1)
	partitioned.Labels = map[string]string{awsv1.LabelPlacementGroupPartition: "2"}
	for name, tc := range map[string]struct {
		claim *karpv1.NodeClaim
		types []catalog.InstanceType
		out   func(string, *catalog.Offering) bool
		want  []string
	}{
		"everything": {nodeClaim("x"), []catalog.InstanceType{kind("m5.large", spot("a", 1), onDemand("a", 2))}, nothingOut, []string{"m5.large a spot", "m5.large a on-demand"}},
		"zone":       {nodeClaim("x", in(corev1.LabelTopologyZone, "b")), []catalog.InstanceType{kind("m5.large", spot("a", 1), spot("b", 2))}, nothingOut, []string{"m5.large b spot"}},
		"zone id":    {nodeClaim("x", in(awsv1.LabelZoneID, "b-id")), []catalog.InstanceType{kind("m5.large", spot("a", 1), spot("b", 2))}, nothingOut, []string{"m5.large b spot"}},
		"capacity":   {nodeClaim("x", in(karpv1.LabelCapacityType, "on-demand")), []catalog.InstanceType{kind("m5.large", spot("a", 1), onDemand("a", 2))}, nothingOut, []string{"m5.large a on-demand"}},
		"type":       {nodeClaim("x", in(corev1.LabelInstanceTypeStable, "c5.large")), []catalog.InstanceType{kind("m5.large", spot("a", 1)), kind("c5.large", spot("a", 2))}, nothingOut, []string{"c5.large a spot"}},
		"a label of the user is not the machine's": {nodeClaim("x", in("example.com/team", "a")), []catalog.InstanceType{kind("m5.large", spot("a", 1))}, nothingOut, []string{"m5.large a spot"}},
		"a label the machine does not have":        {nodeClaim("x", in(awsv1.LabelInstanceGPUCount, "1")), []catalog.InstanceType{kind("m5.large", spot("a", 1))}, nothingOut, []string{}},
		"a reservation excludes the rest":          {nodeClaim("x", in(awsv1.LabelCapacityReservationID, "cr-2")), []catalog.InstanceType{kind("m5.large", spot("a", 1), held("a", "cr-2", 1, 0), held("a", "cr-3", 1, 0))}, nothingOut, []string{"m5.large a cr-2"}},
		"a partition":                              {nodeClaim("x", in(awsv1.LabelPlacementGroupPartition, "1")), []catalog.InstanceType{kind("m5.large", partitioned)}, nothingOut, []string{}},
		"V15-44 a full reservation":                {nodeClaim("x"), []catalog.InstanceType{kind("m5.large", full, spot("a", 1))}, nothingOut, []string{"m5.large a spot"}},
		"not available":                            {nodeClaim("x"), []catalog.InstanceType{kind("m5.large", gone)}, nothingOut, []string{}},
		"no room in one size":                      {nodeClaim("x"), []catalog.InstanceType{kind("m5.large", small, spot("a", 1))}, nothingOut, []string{"m5.large a spot"}},
		"out": {nodeClaim("x"), []catalog.InstanceType{kind("m5.large", spot("a", 1), spot("b", 1))}, func(name string, o *catalog.Offering) bool {
			return name == "m5.large" && o.Zone == "a"
		}, []string{"m5.large b spot"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if diff := cmp.Diff(tc.want, words(usableCandidates(tc.types, wants(t, tc.claim), tc.out))); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestRequestsThatDoNotFit(t *testing.T) {
	t.Parallel()
	claim := nodeClaim("x")
	claim.Spec.Resources.Requests[corev1.ResourceCPU] = resource.MustParse("3")
	if got := usableCandidates([]catalog.InstanceType{kind("m5.large", spot("a", 1))}, wants(t, claim), nothingOut); len(got) != 0 {
		t.Error(words(got))
	}
}

func TestFilters(t *testing.T) {
	t.Parallel()
	gpu := kind("p3.large", onDemand("a", 9))
	gpu.Labels[awsv1.LabelInstanceGPUCount] = reqs.Req{Values: []string{"1"}}
	for name, tc := range map[string]struct {
		filter func([]candidate) []candidate
		list   []candidate
		want   []string
	}{
		"kinds: the cheapest wins": {
			oneReservationKind, all(kind("m5.large", held("a", "cr-1", 1, 2), heldInterruptible("a", "cr-2", 1), spot("a", 1))),
			[]string{"m5.large a cr-2", "m5.large a spot"},
		},
		"kinds: ties go to the ordinary one": {
			oneReservationKind, all(kind("m5.large", heldInterruptible("a", "cr-1", 1), heldBlock("a", "cr-2", 1), held("a", "cr-3", 1, 1))),
			[]string{"m5.large a cr-3"},
		},
		"kinds: then to the block": {
			oneReservationKind, all(kind("m5.large", heldInterruptible("a", "cr-1", 1), heldBlock("a", "cr-2", 1))),
			[]string{"m5.large a cr-2"},
		},
		"blocks: one alone": {
			oneBlock, all(kind("m5.large", heldBlock("a", "cr-1", 2), heldBlock("b", "cr-2", 1), spot("a", 1)), kind("c5.large", heldBlock("a", "cr-3", 3))),
			[]string{"m5.large b cr-2", "m5.large a spot"},
		},
		"one reservation per zone: most room": {
			oneReservationPerZone, all(kind("m5.large", held("a", "cr-1", 1, 0), held("a", "cr-2", 5, 0), held("b", "cr-3", 1, 0), spot("a", 1))),
			[]string{"m5.large a cr-2", "m5.large b cr-3", "m5.large a spot"},
		},
		"one reservation per zone: equal room": {
			oneReservationPerZone, all(kind("m5.large", held("a", "cr-2", 5, 0), held("a", "cr-1", 5, 0))),
			[]string{"m5.large a cr-1"},
		},
		"exotic: dropped": {
			dropSpecialHardware, all(gpu, kind("m5.metal", spot("a", 1)), kind("m5.large", spot("a", 1))),
			[]string{"m5.large a spot"},
		},
		"exotic: unless nothing else is left": {
			dropSpecialHardware, all(gpu, kind("m5.metal-24xl", spot("a", 1))),
			[]string{"p3.large a on-demand", "m5.metal-24xl a spot"},
		},
		"spot: not dearer than on demand": {
			dropExpensiveSpot, all(kind("m5.large", spot("a", 1), spot("b", 3), onDemand("a", 2)), kind("c5.large", spot("a", 4))),
			[]string{"m5.large a spot", "m5.large a on-demand"},
		},
		"spot: alone it may cost anything": {
			dropExpensiveSpot, all(kind("m5.large", spot("a", 9))),
			[]string{"m5.large a spot"},
		},
		"S-042 the cheapest first": {
			byPrice, all(kind("m5.large", spot("a", 2)), kind("c5.large", spot("a", 3), spot("b", 1)), kind("b5.large", spot("a", 2))),
			[]string{"c5.large a spot", "c5.large b spot", "b5.large a spot", "m5.large a spot"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if diff := cmp.Diff(tc.want, words(tc.filter(tc.list))); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestChoose(t *testing.T) {
	t.Parallel()
	partition := func(o catalog.Offering, n string) catalog.Offering {
		o.Labels = map[string]string{awsv1.LabelPlacementGroupPartition: n}
		return o
	}
	for name, tc := range map[string]struct {
		claim    *karpv1.NodeClaim
		types    []catalog.InstanceType
		capacity string
		tenancy  string
		want     []string
	}{
		"reserved first":        {nodeClaim("x"), []catalog.InstanceType{kind("m5.large", held("a", "cr-1", 1, 0), spot("a", 1), onDemand("a", 2))}, "reserved", "default", []string{"m5.large a cr-1"}},
		"S-043 then spot":       {nodeClaim("x"), []catalog.InstanceType{kind("m5.large", spot("a", 1), onDemand("a", 2))}, "spot", "default", []string{"m5.large a spot"}},
		"then on demand":        {nodeClaim("x"), []catalog.InstanceType{kind("m5.large", onDemand("a", 2))}, "on-demand", "default", []string{"m5.large a on-demand"}},
		"spot that is too dear": {nodeClaim("x"), []catalog.InstanceType{kind("m5.large", spot("a", 3), onDemand("a", 2))}, "on-demand", "default", []string{"m5.large a on-demand"}},
		"only dedicated":        {nodeClaim("x", in(awsv1.LabelInstanceTenancy, "dedicated")), []catalog.InstanceType{kind("m5.large", spot("a", 1))}, "spot", "dedicated", []string{"m5.large a spot"}},
		"lowest partition that was requested": {
			nodeClaim("x", in(awsv1.LabelPlacementGroupPartition, "3", "2")),
			[]catalog.InstanceType{kind("m5.large", partition(spot("a", 1), "1"), partition(spot("a", 1), "2"), partition(spot("a", 1), "3"))},
			"spot", "default",
			[]string{"m5.large a spot"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got, err := choose(tc.types, wants(t, tc.claim), false, nothingOut)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tc.want, words(got.list)); diff != "" || got.capacityType != tc.capacity || got.tenancy != tc.tenancy {
				t.Errorf("%s %s\n%s", got.capacityType, got.tenancy, diff)
			}
		})
	}
}

// FM F12: strictly, types that are out of capacity can leave too few; with best effort what there is will do.
func TestMinValues(t *testing.T) {
	t.Parallel()
	claim := nodeClaim("x", karpv1.Requirement{Key: awsv1.LabelInstanceFamily, Operator: corev1.NodeSelectorOpExists, MinValues: new(2)})
	one := []catalog.InstanceType{kind("m5.large", spot("a", 1)), kind("m5.xlarge", spot("a", 2))}
	if _, err := choose(one, wants(t, claim), false, nothingOut); !cloud.Is(err, cloud.NoCapacity) {
		t.Errorf("one family: %v", err)
	}
	if _, err := choose(one, wants(t, claim), true, nothingOut); err != nil {
		t.Errorf("best effort: %v", err)
	}
	two := slices.Concat(one, []catalog.InstanceType{kind("p3.metal", spot("a", 9), onDemand("a", 3))})
	got, err := choose(two, wants(t, claim), false, nothingOut)
	if err != nil {
		t.Fatal(err)
	}
	if len(got.list) != 3 {
		t.Errorf("with minValues neither exotic nor dear types are dropped: %v", words(got.list))
	}
}

// S-005: many types and zones go into one request, up to what a fleet takes; nothing is kept per combination.
func TestSixtyTypesAndThreeHundredOverrides(t *testing.T) {
	t.Parallel()
	var types []catalog.InstanceType
	zones := []string{"a", "b", "c", "d", "e", "f"}
	subnets := map[string]chosenSubnet{}
	for n := range 100 {
		var offers []catalog.Offering
		for _, zone := range zones {
			offers = append(offers, spot(zone, float64(n+1)))
			subnets[zone] = chosenSubnet{id: "subnet-" + zone}
		}
		types = append(types, kind(fmt.Sprintf("m%d.large", n), offers...))
	}
	got, err := choose(types, wants(t, nodeClaim("x")), false, nothingOut)
	if err != nil {
		t.Fatal(err)
	}
	if len(got.list) != 60 || got.list[59].it.Name != "m59.large" {
		t.Errorf("%d types", len(got.list))
	}
	picks := got.joinSubnets(subnets)
	seen := map[string]bool{}
	for _, p := range picks {
		seen[p.it.Name] = true
	}
	if len(picks) != 300 || len(seen) != 60 {
		t.Errorf("%d overrides of %d types, want 300 of 60", len(picks), len(seen))
	}
}
