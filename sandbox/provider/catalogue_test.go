package provider

import (
	"net/http"
	"regexp"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/ec2"
	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	awsv1 "github.com/dovetail-sh/dovetail/api/aws/v1"
	"github.com/dovetail-sh/dovetail/internal/aws/discover"
	"github.com/dovetail-sh/dovetail/internal/aws/offering"
	"github.com/dovetail-sh/dovetail/internal/aws/price"
	"github.com/dovetail-sh/dovetail/internal/aws/settings"
	"github.com/dovetail-sh/dovetail/internal/catalog"
	"github.com/dovetail-sh/dovetail/sandbox/awsemu/wire"
)

// market is everything that a catalogue is made of.
type market struct {
	*offering.Catalog
	prices       *price.Table
	unavailable  *offering.Unavailable
	reservations *offering.Reservations
}

func (l *awsEnv) newMarket(d *discover.Discoverer) *market {
	m := &market{prices: l.prices(false), unavailable: offering.NewUnavailable(l.currentTime), reservations: offering.NewReservations(l.currentTime)}
	m.Catalog = offering.New(offering.Options{
		EC2: ec2.NewFromConfig(l.sdk), Prices: m.prices, Unavailable: m.unavailable, Reservations: m.reservations, Region: region,
		Settings: settings.AWS{VMMemoryOverheadPercent: 0.075}, Reserved: true, Now: l.currentTime,
		Group: d.KnownPlacementGroup,
	})
	return m
}

// open is a market that has been queried.
func (l *awsEnv) open() *market {
	l.Helper()
	return l.openMarket(l.newMarket(l.newDiscoverer()))
}

func (l *awsEnv) openMarket(m *market) *market {
	l.Helper()
	l.refreshPrices(m.prices)
	if err := m.Refresh(l.Context()); err != nil {
		l.Fatalf("refresh: %v", err)
	}
	return m
}

// resolvedClass is a class with its status filled by the real lookups.
func (l *awsEnv) resolvedClass(changes ...func(*awsv1.EC2NodeClass)) *awsv1.EC2NodeClass {
	l.Helper()
	class := l.newClass(changes...)
	l.resolve(l.newDiscoverer(), class)
	return class
}

func (l *awsEnv) resolve(d *discover.Discoverer, class *awsv1.EC2NodeClass) {
	l.Helper()
	subnets, err := d.Subnets(l.Context(), class)
	if err != nil {
		l.Fatal(err)
	}
	class.Status.Subnets = nil
	for _, s := range subnets {
		class.Status.Subnets = append(class.Status.Subnets, awsv1.Subnet{ID: s.ID, Zone: s.Zone, ZoneID: s.ZoneID})
	}
	if class.Status.SecurityGroups, err = d.SecurityGroups(l.Context(), class, false); err != nil {
		l.Fatal(err)
	}
	if _, err = d.PlacementGroup(l.Context(), class); err != nil {
		l.Fatal(err)
	}
	if class.Status.AMIs, err = d.Images(l.Context(), class, "1.34"); err != nil {
		l.Fatal(err)
	}
}

func (m *market) typesOfClass(l *awsEnv, class *awsv1.EC2NodeClass) map[string]*catalog.InstanceType {
	l.Helper()
	list, err := m.Types(class, nil)
	if err != nil {
		l.Fatalf("types: %v", err)
	}
	out := map[string]*catalog.InstanceType{}
	for i := range list {
		out[list[i].Name] = &list[i]
	}
	return out
}

// availableOfferings are the offerings with capacity, as type/zone/capacity type without the type.
func availableOfferings(t *catalog.InstanceType) []string {
	var list []string
	for _, o := range t.Offerings {
		if o.Available {
			list = append(list, o.CapacityType+" "+o.Zone)
		}
	}
	return sorted(list)
}

// Every type of the emulated account is in the catalogue, page by page.
func TestAllTypesOfTheAccountAreListed(t *testing.T) {
	t.Parallel()
	l := newAWSEnvWithAllTypes(t)
	m := l.open()
	got := m.typesOfClass(l, l.resolvedClass())
	var missing []string
	for _, name := range l.emu.Catalogue().Names() {
		if got[name] == nil {
			missing = append(missing, name)
		}
	}
	if len(missing) > 0 || len(got) != len(l.emu.Catalogue().Names()) {
		t.Errorf("%d types, want %d; missing: %v", len(got), len(l.emu.Catalogue().Names()), missing)
	}
	if calls := l.countCalls(wire.EC2, "DescribeInstanceTypes"); calls < 2 {
		t.Errorf("DescribeInstanceTypes was called %d times, want pages", calls)
	}
	if calls := l.countCalls(wire.EC2, "DescribeInstanceTypeOfferings"); calls < 2 {
		t.Errorf("DescribeInstanceTypeOfferings was called %d times, want pages", calls)
	}
}

// Capacity, overhead and density of well-known machines (AWS provider 3.2 to 3.4).
func TestSizesOfKnownTypes(t *testing.T) {
	t.Parallel()
	l := newAWSEnv(t)
	m := l.open()
	types := m.typesOfClass(l, l.resolvedClass())
	for name, tc := range map[string]struct {
		capacity map[corev1.ResourceName]string
		overhead map[corev1.ResourceName]string
	}{
		"m5.large": {
			// 8192 MiB less 7.5 %: 614.4, rounded up to 615.
			capacity: map[corev1.ResourceName]string{"cpu": "2", "memory": "7577Mi", "pods": "29", "ephemeral-storage": "20Gi"},
			// 11 x 29 + 255 MiB and 100 MiB for eviction; 1 GiB and a tenth of the volume.
			overhead: map[corev1.ResourceName]string{"cpu": "70m", "memory": "674Mi", "ephemeral-storage": "3Gi"},
		},
		"m6g.large": {
			// 64 MiB less on arm64: 8128, less ceil(609.6).
			capacity: map[corev1.ResourceName]string{"cpu": "2", "memory": "7518Mi", "pods": "29"},
			overhead: map[corev1.ResourceName]string{"cpu": "70m", "memory": "674Mi"},
		},
		"c5.xlarge": {
			capacity: map[corev1.ResourceName]string{"cpu": "4", "memory": "7577Mi", "pods": "58"},
			overhead: map[corev1.ResourceName]string{"cpu": "80m", "memory": "993Mi"},
		},
		"g4dn.xlarge": {
			capacity: map[corev1.ResourceName]string{"cpu": "4", "nvidia.com/gpu": "1"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			found := types[name]
			if found == nil {
				t.Fatalf("%s is not listed", name)
			}
			capacity, allocatable := offering.Resources(found, m.Lanes(), false)
			for name, want := range tc.capacity {
				have := capacity[name]
				if have.Cmp(parseQuantity(t, want)) != 0 {
					t.Errorf("capacity of %s: %s, want %s", name, have.String(), want)
				}
			}
			for name, want := range tc.overhead {
				have := capacity[name].DeepCopy()
				have.Sub(allocatable[name])
				if have.Cmp(parseQuantity(t, want)) != 0 {
					t.Errorf("overhead of %s: %s, want %s", name, have.String(), want)
				}
			}
		})
	}
}

// Labels of a machine (AWS provider 3.5).
func TestLabelsOfAKnownType(t *testing.T) {
	t.Parallel()
	l := newAWSEnv(t)
	found := l.open().typesOfClass(l, l.resolvedClass())["m5.large"]
	got := map[string]string{}
	want := map[string]string{
		corev1.LabelInstanceTypeStable: "m5.large", corev1.LabelArchStable: "amd64", corev1.LabelOSStable: "linux", corev1.LabelTopologyRegion: region,
		"karpenter.k8s.aws/instance-category": "m", "karpenter.k8s.aws/instance-generation": "5", "karpenter.k8s.aws/instance-family": "m5",
		"karpenter.k8s.aws/instance-size": "large", "karpenter.k8s.aws/instance-cpu": "2", "karpenter.k8s.aws/instance-memory": "8192",
		"karpenter.k8s.aws/instance-cpu-manufacturer": "intel", "karpenter.k8s.aws/instance-hypervisor": "nitro",
		"karpenter.k8s.aws/instance-capability-flex": "false",
	}
	for key := range want {
		if value, single := onlyValue(found, key); single {
			got[key] = value
		}
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("labels (-want +got):\n%s", diff)
	}
	ids := map[string]string{}
	for _, o := range found.Offerings {
		ids[o.Zone] = o.Labels["topology.k8s.aws/zone-id"]
	}
	if diff := cmp.Diff(map[string]string{zoneA: "euw1-az1", zoneB: "euw1-az2", zoneC: "euw1-az3"}, ids); diff != "" {
		t.Errorf("zone ids (-want +got):\n%s", diff)
	}
}

// Offerings exist where the class has subnets, EC2 offers the type, and nothing is out (3.6).
func TestOfferingsFollowZonesPricesAndCapacity(t *testing.T) {
	t.Parallel()
	l := newAWSEnv(t)
	l.post("catalogue", `{"name":"m5.large","zones":["`+zoneA+`","`+zoneB+`"]}`)
	m := l.open()
	class := l.resolvedClass()
	want := []string{"on-demand " + zoneA, "on-demand " + zoneB, "spot " + zoneA, "spot " + zoneB}
	if diff := cmp.Diff(want, availableOfferings(m.typesOfClass(l, class)["m5.large"])); diff != "" {
		t.Errorf("offered in two of three zones (-want +got):\n%s", diff)
	}
	class.Status.Subnets = slices.DeleteFunc(class.Status.Subnets, func(s awsv1.Subnet) bool { return s.Zone == zoneA })
	if diff := cmp.Diff([]string{want[1], want[3]}, availableOfferings(m.typesOfClass(l, class)["m5.large"])); diff != "" {
		t.Errorf("no subnet in one of them (-want +got):\n%s", diff)
	}
}

// onlyValue is the single value of a label.
func onlyValue(t *catalog.InstanceType, key string) (string, bool) {
	r := t.Labels[key]
	return strings.Join(r.Values, ","), !r.Not && len(r.Values) == 1
}

// E11: an empty response is a failure, not the end of all types. The last list stays.
func TestFM_E11_AnEmptyListingIsAnError(t *testing.T) {
	t.Parallel()
	for name, list := range map[string]string{"no types": "instanceTypeSet", "no offerings": "instanceTypeOfferingSet"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			l := newAWSEnv(t)
			var empty atomic.Bool
			items, next := regexp.MustCompile(`(?s)<`+list+`>.*</`+list+`>`), regexp.MustCompile(`<nextToken>[^<]*</nextToken>`)
			l.sdk.HTTPClient = &http.Client{Transport: rewriting{whole{l.server.Client().Transport}, func(body []byte) []byte {
				if !empty.Load() || !items.Match(body) {
					return body
				}
				return next.ReplaceAll(items.ReplaceAll(body, []byte("<"+list+"/>")), nil)
			}}}
			m, class := l.newMarket(l.newDiscoverer()), l.resolvedClass()
			if _, err := m.Types(class, nil); err == nil {
				t.Error("types before EC2 was called: no error")
			}
			before := len(l.openMarket(m).typesOfClass(l, class))
			empty.Store(true)
			if err := m.Refresh(t.Context()); err == nil {
				t.Error("refresh with an empty response: no error")
			}
			if after := len(m.typesOfClass(l, class)); after != before {
				t.Errorf("%d types after an empty response, want the %d from before", after, before)
			}
		})
	}
}

// E10: a listing that fails leaves the last one in place.
func TestFM_E10_AFailedListingLeavesTheLastOne(t *testing.T) {
	t.Parallel()
	for name, action := range map[string]string{"types": "ec2:DescribeInstanceTypes", "offerings": "ec2:DescribeInstanceTypeOfferings"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			l := newAWSEnv(t)
			m, class := l.open(), l.resolvedClass()
			before := len(m.typesOfClass(l, class))
			l.throttleActions(action)
			if err := m.Refresh(t.Context()); err == nil {
				t.Error("refresh: no error")
			}
			if after := len(m.typesOfClass(l, class)); after != before {
				t.Errorf("%d types, want %d", after, before)
			}
		})
	}
}

// E12: a type that is withdrawn leaves the catalogue with the next listing, and only it.
func TestFM_E12_AWithdrawnTypeLeavesTheCatalogue(t *testing.T) {
	t.Parallel()
	l := newAWSEnv(t)
	m, class := l.open(), l.resolvedClass()
	before := m.typesOfClass(l, class)
	l.remove("catalogue/m5.large")
	if err := m.Refresh(t.Context()); err != nil {
		t.Fatal(err)
	}
	after := m.typesOfClass(l, class)
	if len(after) != len(before)-1 || after["m5.large"] != nil || after["m5.xlarge"] == nil {
		t.Errorf("%d types after m5.large was withdrawn, want %d", len(after), len(before)-1)
	}
}

// A type that EC2 stops pricing as spot is not offered as spot any more, on demand it is (4).
func TestSpotWithoutPriceIsNotAvailable(t *testing.T) {
	t.Parallel()
	l := newAWSEnv(t)
	m, class := l.open(), l.resolvedClass()
	l.putControl("prices", `[{"capacityType":"spot","instanceType":"m5.large","zone":"`+zoneB+`","price":0}]`)
	l.refreshPrices(m.prices)
	got := availableOfferings(m.typesOfClass(l, class)["m5.large"])
	if slices.Contains(got, "spot "+zoneB) || !slices.Contains(got, "spot "+zoneA) || !slices.Contains(got, "on-demand "+zoneB) {
		t.Errorf("offerings %v, want all but spot in %s", got, zoneB)
	}
}

// What is out is out for three minutes (5.6, F01), and of one type, zone and capacity type only.
func TestFM_F01_AnOfferingIsOutForThreeMinutes(t *testing.T) {
	t.Parallel()
	l := newAWSEnv(t)
	m, class := l.open(), l.resolvedClass()
	before := availableOfferings(m.typesOfClass(l, class)["m5.large"])
	m.unavailable.Mark("spot", "m5.large", zoneA, offering.Group{}, "InsufficientInstanceCapacity")
	want := slices.DeleteFunc(slices.Clone(before), func(o string) bool { return o == "spot "+zoneA })
	l.advanceClock(2*time.Minute + 59*time.Second)
	if diff := cmp.Diff(want, availableOfferings(m.typesOfClass(l, class)["m5.large"])); diff != "" {
		t.Errorf("while it is out (-want +got):\n%s", diff)
	}
	l.advanceClock(2 * time.Second)
	if diff := cmp.Diff(before, availableOfferings(m.typesOfClass(l, class)["m5.large"])); diff != "" {
		t.Errorf("afterwards (-want +got):\n%s", diff)
	}
}

func parseQuantity(t *testing.T, text string) resource.Quantity {
	t.Helper()
	q, err := resource.ParseQuantity(text)
	if err != nil {
		t.Fatal(err)
	}
	return q
}
