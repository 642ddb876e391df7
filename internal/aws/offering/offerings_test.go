package offering

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	awsv1 "github.com/dovetail-sh/dovetail/api/aws/v1"
	karpv1 "github.com/dovetail-sh/dovetail/api/v1"
	"github.com/dovetail-sh/dovetail/internal/aws/discover"
	"github.com/dovetail-sh/dovetail/internal/catalog"
)

// offered renders offerings: zone letter, capacity type, price, labels; "-" in front: not available.
func sold(t *catalog.InstanceType) []string {
	var list []string
	for _, o := range t.Offerings {
		text := fmt.Sprintf("%s %s %g", strings.TrimPrefix(o.Zone, "us-east-1"), o.CapacityType, o.Price)
		if o.Reservation != "" {
			text += fmt.Sprintf(" %s×%d", o.Reservation, o.Remaining)
		}
		if p := o.Labels[awsv1.LabelPlacementGroupPartition]; p != "" {
			text += " partition " + p
		}
		if !o.Available {
			text = "-" + text
		}
		list = append(list, text)
	}
	return list
}

func (l *fixture) want(t *testing.T, c *awsv1.EC2NodeClass, when string, want ...string) {
	t.Helper()
	if diff := cmp.Diff(want, sold(l.one(t, c, "m5.large"))); diff != "" {
		t.Errorf("%s (-want +got):\n%s", when, diff)
	}
}

// The class has subnets in zones a and b; c is only in the region (3.6).
func TestOfferings(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		class *awsv1.EC2NodeClass
		world func(*fixture)
		want  []string
	}{
		"all there": {
			want: []string{"a on-demand 1", "a spot 0.3", "b on-demand 1", "b spot 0.3", "-c on-demand 1", "-c spot 0.3"},
		},
		"F01 one offering out": {
			world: func(l *fixture) { l.unavailable.Mark("spot", "m5.large", "us-east-1b", Group{}, "ICE") },
			want:  []string{"a on-demand 1", "a spot 0.3", "b on-demand 1", "-b spot 0.3", "-c on-demand 1", "-c spot 0.3"},
		},
		"F04 another type out": {
			world: func(l *fixture) { l.unavailable.Mark("spot", "m5.xlarge", "us-east-1b", Group{}, "ICE") },
			want:  []string{"a on-demand 1", "a spot 0.3", "b on-demand 1", "b spot 0.3", "-c on-demand 1", "-c spot 0.3"},
		},
		"F03, F05 no spot at all": {
			world: func(l *fixture) { l.unavailable.MarkCapacityType("spot", "MaxSpotInstanceCountExceeded") },
			want:  []string{"a on-demand 1", "-a spot 0.3", "b on-demand 1", "-b spot 0.3", "-c on-demand 1", "-c spot 0.3"},
		},
		"F06 the only subnet of a zone is full": {
			world: func(l *fixture) { l.unavailable.MarkSubnet("subnet-a", "full") },
			want:  []string{"-a on-demand 1", "-a spot 0.3", "b on-demand 1", "b spot 0.3", "-c on-demand 1", "-c spot 0.3"},
		},
		"F06 one of two subnets of a zone is full": {
			class: class(awsv1.FamilyAL2023, func(c *awsv1.EC2NodeClass) {
				c.Status.Subnets = append(c.Status.Subnets, awsv1.Subnet{ID: "subnet-a2", Zone: "us-east-1a", ZoneID: "use1-az1"})
			}),
			world: func(l *fixture) { l.unavailable.MarkSubnet("subnet-a", "full") },
			want:  []string{"a on-demand 1", "a spot 0.3", "b on-demand 1", "b spot 0.3", "-c on-demand 1", "-c spot 0.3"},
		},
		"P02 no on-demand price": {
			world: func(l *fixture) { l.prices.onDemand = map[string]float64{"m5.large": 0} },
			want:  []string{"-a on-demand 0", "a spot 0.3", "-b on-demand 0", "b spot 0.3", "-c on-demand 0", "-c spot 0.3"},
		},
		"P02 no spot price in one zone": {
			world: func(l *fixture) { l.prices.spot = map[string]float64{"m5.large/us-east-1a": 0} },
			want:  []string{"a on-demand 1", "-a spot 0", "b on-demand 1", "b spot 0.3", "-c on-demand 1", "-c spot 0.3"},
		},
		"a NodeOverlay prices what has no price": {
			world: func(l *fixture) {
				l.prices.onDemand, l.prices.spot = map[string]float64{"m5.large": 0}, map[string]float64{"m5.large/us-east-1a": 0}
				l.overlay, l.overlays = map[string]float64{"m5.large": 7, "m5.xlarge": 8}, 1
			},
			want: []string{"a on-demand 7", "a spot 7", "b on-demand 7", "b spot 0.3", "-c on-demand 7", "-c spot 0.3"},
		},
		"E19 a zone is shifted away": {
			world: func(l *fixture) { l.shifted["use1-az2"] = true },
			want:  []string{"a on-demand 1", "a spot 0.3", "-b on-demand 1", "-b spot 0.3", "-c on-demand 1", "-c spot 0.3"},
		},
		"no image fits": {
			class: class(awsv1.FamilyAL2023, func(c *awsv1.EC2NodeClass) { c.Status.AMIs = c.Status.AMIs[1:] }),
			want:  []string{"-a on-demand 1", "-a spot 0.3", "-b on-demand 1", "-b spot 0.3", "-c on-demand 1", "-c spot 0.3"},
		},
		"an expression that fails for the type": {
			class: class(awsv1.FamilyAL2023, withKubelet(`{"maxPods":"100 / (vcpus - 2)"}`)),
			want:  []string{"-a on-demand 1", "-a spot 0.3", "-b on-demand 1", "-b spot 0.3", "-c on-demand 1", "-c spot 0.3"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			l := newFixture(t, func(o *Options) { o.Settings.Gates.NodeClassCEL = true }, allTypes(t)...)
			if tc.world != nil {
				tc.world(l)
			}
			if tc.class == nil {
				tc.class = class(awsv1.FamilyAL2023)
			}
			l.want(t, tc.class, "offerings", tc.want...)
		})
	}
}

// A zone that does not offer the type is listed, and so is a zone with a subnet where EC2 offers nothing.
func TestOfferingsFollowWhatEC2Offers(t *testing.T) {
	t.Parallel()
	infos := allTypes(t)
	l := newFixture(t, nil, infos...)
	l.ec2.offered = map[string][]string{"us-east-1a": {"m5.large"}, "us-east-1c": {"m5.large"}}
	if err := l.Refresh(t.Context()); err != nil {
		t.Fatal(err)
	}
	l.want(t, class(awsv1.FamilyAL2023), "offerings", "a on-demand 1", "a spot 0.3", "-b on-demand 1", "-b spot 0.3", "-c on-demand 1", "-c spot 0.3")
	o := l.one(t, class(awsv1.FamilyAL2023), "m5.large").Offerings
	if o[0].Labels[awsv1.LabelZoneID] != "use1-az1" || o[4].Labels != nil {
		t.Errorf("zone ids: %v, %v; want use1-az1 and none", o[0].Labels, o[4].Labels)
	}
}

// F01: three minutes, then it is tried again; the same list while nothing changes.
func TestFM_F01_MarksExpire(t *testing.T) {
	t.Parallel()
	l := newFixture(t, nil, allTypes(t)...)
	c := class(awsv1.FamilyAL2023)
	first := l.types(t, c)
	l.unavailable.Mark("spot", "m5.large", "us-east-1a", Group{}, "ICE")
	l.clock = l.clock.Add(3*time.Minute - time.Second)
	l.want(t, c, "just before", "a on-demand 1", "-a spot 0.3", "b on-demand 1", "b spot 0.3", "-c on-demand 1", "-c spot 0.3")
	during := l.types(t, c)
	if &during[0] == &first[0] {
		t.Error("the list was changed in place: a plan that is being made would see it")
	}
	if again := l.types(t, c); &again[0] != &during[0] {
		t.Error("nothing changed, yet the list is a new one")
	}
	l.clock = l.clock.Add(time.Second)
	l.want(t, c, "after", "a on-demand 1", "a spot 0.3", "b on-demand 1", "b spot 0.3", "-c on-demand 1", "-c spot 0.3")
	l.unavailable.Mark("spot", "no.such", "us-east-1a", Group{}, "ICE")
	after := l.types(t, c)
	l.unavailable.Mark("spot", "no.other", "us-east-1a", Group{}, "ICE")
	if again := l.types(t, c); &again[0] != &after[0] {
		t.Error("a mark that concerns no offering made a new list")
	}
}

func reserve(c *awsv1.EC2NodeClass) {
	c.Status.CapacityReservations = []awsv1.CapacityReservation{
		{ID: "cr-1", InstanceType: "m5.large", AvailabilityZone: "us-east-1a", ReservationType: "default", State: "active"},
		{ID: "cr-2", InstanceType: "m5.large", AvailabilityZone: "us-east-1b", ReservationType: "capacity-block", State: "expiring", Interruptible: true},
		{ID: "cr-3", InstanceType: "c5.large", AvailabilityZone: "us-east-1a"},
		{ID: "cr-4", InstanceType: "no.such", AvailabilityZone: "us-east-1a"},
	}
}

// V15-44, V15-67: a full reservation is available with nothing remaining.
func TestReservedOfferings(t *testing.T) {
	t.Parallel()
	rest := []string{"a on-demand 1", "a spot 0.3", "b on-demand 1", "b spot 0.3", "-c on-demand 1", "-c spot 0.3"}
	c := class(awsv1.FamilyAL2023, reserve)
	l := newFixture(t, nil, allTypes(t)...)
	l.reservations.Set("cr-1", 2, l.clock)
	l.want(t, c, "two free", append([]string{"a reserved 1e-07 cr-1×2", "-b reserved 1e-07 cr-2×0"}, rest...)...)
	l.reservations.Took("cr-1", "claim")
	l.want(t, c, "one taken", append([]string{"a reserved 1e-07 cr-1×1", "-b reserved 1e-07 cr-2×0"}, rest...)...)
	l.reservations.Exhausted("cr-1")
	l.want(t, c, "V15-44 full", append([]string{"a reserved 1e-07 cr-1×0", "-b reserved 1e-07 cr-2×0"}, rest...)...)
	if o := l.one(t, c, "m5.large").Offerings[0]; o.Launchable() {
		t.Error("V15-44: a full reservation is launchable")
	}
	l.prices.onDemand = map[string]float64{"m5.large": 0}
	l.prices.version++
	l.want(t, c, "no price", "a reserved 0 cr-1×0", "-b reserved 0 cr-2×0", "-a on-demand 0", "a spot 0.3", "-b on-demand 0", "b spot 0.3", "-c on-demand 0", "-c spot 0.3")
	l.shifted["use1-az1"] = true
	if o := l.one(t, c, "m5.large").Offerings[0]; o.Available {
		t.Error("V15-67: a reservation in a zone that is shifted away from is available")
	}
}

func TestReservedLabels(t *testing.T) {
	t.Parallel()
	c := class(awsv1.FamilyAL2023, reserve)
	l := newFixture(t, nil, allTypes(t)...)
	it := l.one(t, c, "m5.large")
	want := map[string]string{
		awsv1.LabelZoneID: "use1-az2", awsv1.LabelCapacityReservationID: "cr-2",
		awsv1.LabelCapacityReservationType: "capacity-block", awsv1.LabelCapacityReservationInterrupt: "true",
	}
	if diff := cmp.Diff(want, it.Offerings[1].Labels); diff != "" {
		t.Errorf("labels (-want +got):\n%s", diff)
	}
	if _, denied := it.Labels[awsv1.LabelCapacityReservationID]; denied {
		t.Error("the type denies a label that its offerings have")
	}
	if r, defined := l.one(t, c, "m5.xlarge").Labels[awsv1.LabelCapacityReservationID]; !defined || !r.Empty() {
		t.Error("a type without reservations does not deny the label")
	}
	if r := l.one(t, class(awsv1.FamilyAL2023), "m5.large").Labels[awsv1.LabelCapacityReservationID]; !r.Empty() {
		t.Error("the labels of another class were changed")
	}
	off := newFixture(t, func(o *Options) { o.Reserved = false }, allTypes(t)...)
	for _, o := range off.one(t, c, "m5.large").Offerings {
		if o.CapacityType == karpv1.CapacityTypeReserved {
			t.Errorf("gate ReservedCapacity is off, yet there is %v", o)
		}
	}
}

// Partition groups multiply offerings; marks are for a partition, a group, or everyone (17, 5.6).
func TestPlacementGroups(t *testing.T) {
	t.Parallel()
	l := newFixture(t, nil, allTypes(t)...)
	c := class(awsv1.FamilyAL2023, func(c *awsv1.EC2NodeClass) {
		c.Spec.PlacementGroupSelector = &awsv1.PlacementGroupSelector{Name: "g"}
		c.Status.Subnets = c.Status.Subnets[:1]
	})
	inA := func() (list []string) {
		for _, s := range sold(l.one(t, c, "m5.large")) {
			if zone := strings.TrimPrefix(s, "-"); strings.HasPrefix(zone, "a spot") {
				list = append(list, s)
			}
		}
		return list
	}
	check := func(when string, want ...string) {
		t.Helper()
		if diff := cmp.Diff(want, inA()); diff != "" {
			t.Errorf("%s (-want +got):\n%s", when, diff)
		}
	}
	check("a group that is not known yet", "-a spot 0.3")
	l.group = discover.PlacementGroup{ID: "pg-1", Strategy: "cluster"}
	check("a strategy that the type does not join", "-a spot 0.3")
	l.group = discover.PlacementGroup{ID: "pg-1", Strategy: "spread"}
	check("spread", "a spot 0.3")
	l.unavailable.MarkZone("us-east-1a", Group{ID: "pg-1"}, "seven instances")
	check("spread group full", "-a spot 0.3")
	l.group = discover.PlacementGroup{ID: "pg-2", Strategy: "partition", Partitions: 2}
	check("partition", "a spot 0.3 partition 1", "a spot 0.3 partition 2")
	l.unavailable.Mark("spot", "m5.large", "us-east-1a", Group{ID: "pg-2", Partition: "2"}, "ICE")
	check("one partition out", "a spot 0.3 partition 1", "-a spot 0.3 partition 2")
	l.unavailable.Mark("spot", "m5.large", "us-east-1a", Group{ID: "pg-2"}, "ICE")
	check("all partitions out", "-a spot 0.3 partition 1", "-a spot 0.3 partition 2")
	plain := class(awsv1.FamilyAL2023)
	l.want(t, plain, "classes without a group", "a on-demand 1", "a spot 0.3", "b on-demand 1", "b spot 0.3", "-c on-demand 1", "-c spot 0.3")
}

// Pools that share a class share the list; two classes that mean the same do, too.
func TestListsAreShared(t *testing.T) {
	t.Parallel()
	l := newFixture(t, nil, allTypes(t)...)
	one := l.types(t, class(awsv1.FamilyAL2023))
	same := l.types(t, class(awsv1.FamilyAL2023, func(c *awsv1.EC2NodeClass) { c.Name, c.Generation = "other", 7 }))
	if &one[0] != &same[0] {
		t.Error("equal classes have lists of their own")
	}
	for name, change := range map[string]func(*awsv1.EC2NodeClass){
		"kubelet":      withKubelet(`{"maxPods":9}`),
		"raid":         raid0,
		"image":        func(c *awsv1.EC2NodeClass) { c.Status.AMIs[0].ID = "ami-y" },
		"image needs":  func(c *awsv1.EC2NodeClass) { c.Status.AMIs[0].Requirements[0].Values[0] = "arm64" },
		"subnet":       func(c *awsv1.EC2NodeClass) { c.Status.Subnets[0].ID = "subnet-z" },
		"zone":         func(c *awsv1.EC2NodeClass) { c.Status.Subnets = c.Status.Subnets[:1] },
		"reservations": reserve,
		"tracking":     func(c *awsv1.EC2NodeClass) { c.Spec.ConnectionTracking = &awsv1.ConnectionTracking{} },
		"nested": func(c *awsv1.EC2NodeClass) {
			c.Spec.CPUOptions = &awsv1.CPUOptions{NestedVirtualization: new("enabled")}
		},
		"group":      func(c *awsv1.EC2NodeClass) { c.Spec.PlacementGroupSelector = &awsv1.PlacementGroupSelector{ID: "pg-1"} },
		"disk":       func(c *awsv1.EC2NodeClass) { c.Spec.BlockDeviceMappings = make([]awsv1.BlockDeviceMapping, 1) },
		"interfaces": func(c *awsv1.EC2NodeClass) { c.Spec.NetworkInterfaces = make([]awsv1.NetworkInterface, 1) },
		"family":     func(c *awsv1.EC2NodeClass) { c.Spec.AMIFamily = awsv1.FamilyAL2 },
	} {
		if other := l.types(t, class(awsv1.FamilyAL2023, change)); &other[0] == &one[0] {
			t.Errorf("%s: a class that differs shares the list", name)
		}
	}
	if n := len(l.shapes); n != 14 {
		t.Errorf("%d shapes kept, want 14", n)
	}
	l.clock = l.clock.Add(shapeFor + time.Second)
	l.types(t, class(awsv1.FamilyBottlerocket))
	if n := len(l.shapes); n != 1 {
		t.Errorf("%d shapes kept after five minutes, want the one in use", n)
	}
}
