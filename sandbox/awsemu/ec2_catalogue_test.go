package awsemu

import (
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	"github.com/aws/aws-sdk-go-v2/service/ec2/types"
	"github.com/google/go-cmp/cmp"
)

// market is what the account says about an instance type: its size, where it is offered, and for what.
type market struct {
	Known    bool
	VCPU     int32
	MiB      int64
	Zones    []string
	Spot     []string // zone=price
	OnDemand string
}

// describeMarket queries every service that knows instance types.
func (l *ec2Env) describeMarket(name string) market {
	l.Helper()
	var m market
	ctx := l.Context()
	described, err := l.ec2.DescribeInstanceTypes(ctx, &ec2.DescribeInstanceTypesInput{Filters: ec2FilterOf("instance-type", name)})
	if err != nil {
		l.Fatal(err)
	}
	for _, t := range described.InstanceTypes {
		m.Known, m.VCPU, m.MiB = true, *t.VCpuInfo.DefaultVCpus, *t.MemoryInfo.SizeInMiB
	}
	offered, err := l.ec2.DescribeInstanceTypeOfferings(ctx, &ec2.DescribeInstanceTypeOfferingsInput{LocationType: types.LocationTypeAvailabilityZone, Filters: ec2FilterOf("instance-type", name)})
	if err != nil {
		l.Fatal(err)
	}
	for _, o := range offered.InstanceTypeOfferings {
		m.Zones = append(m.Zones, *o.Location)
	}
	history, err := l.ec2.DescribeSpotPriceHistory(ctx, &ec2.DescribeSpotPriceHistoryInput{InstanceTypes: []types.InstanceType{types.InstanceType(name)}})
	if err != nil {
		l.Fatal(err)
	}
	for _, s := range history.SpotPriceHistory {
		m.Spot = append(m.Spot, *s.AvailabilityZone+"="+*s.SpotPrice)
	}
	list, _ := prices(l.T, &cloud{Emulator: l.emu, url: l.server.URL, cfg: l.sdk}, nil)
	m.OnDemand = list[name]
	return m
}

func TestCatalogueChangesWhileItRuns(t *testing.T) {
	t.Parallel()
	env := newEC2Env(t)
	env.createTemplate("t", nil)
	shipped := env.describeMarket("m5.large")
	env.callControlAPI(http.MethodPut, "catalogue", `[{"name":"x9.large","vcpu":2,"memoryMiB":8192,"onDemandPrice":0.05,"zones":["eu-west-1a","eu-west-1b"],"spotPrices":{"eu-west-1a":0.02}}]`)
	env.callControlAPI(http.MethodPut, "prices", `[{"instanceType":"x9.large","capacityType":"spot","price":0.02}]`) // spot glides otherwise
	want := market{Known: true, VCPU: 2, MiB: 8192, Zones: []string{"eu-west-1a", "eu-west-1b"}, Spot: []string{"eu-west-1a=0.020000", "eu-west-1b=0.020000"}, OnDemand: "0.0500000000"}
	if diff := cmp.Diff(want, env.describeMarket("x9.large")); diff != "" {
		t.Errorf("a new type (-want +got):\n%s", diff)
	}
	id := env.launch(types.DefaultTargetCapacityTypeOnDemand, "x9.large/a")
	if got := fleetSummary(env.createFleet(fleetInput(types.DefaultTargetCapacityTypeOnDemand, 1, "x9.large/c"))); !slices.Equal(got, []string{"Unsupported x9.large/c"}) {
		t.Errorf("in a zone that does not offer it: %v", got)
	}

	env.callControlAPI(http.MethodPost, "catalogue", `{"name":"m5.large","zones":"eu-west-1b","memoryMiB":4096}`)
	changed := env.describeMarket("m5.large")
	if changed.MiB != 4096 || changed.VCPU != shipped.VCPU || changed.OnDemand != shipped.OnDemand || !slices.Equal(changed.Zones, []string{"eu-west-1b"}) || len(changed.Spot) != 1 {
		t.Errorf("a changed type: %+v, before %+v", changed, shipped)
	}

	env.callControlAPI(http.MethodDelete, "catalogue/x9.large", "")
	if got := env.describeMarket("x9.large"); got.Known || got.Zones != nil || got.Spot != nil || got.OnDemand != "" {
		t.Errorf("a retired type: %+v", got)
	}
	if _, err := env.ec2.DescribeInstanceTypes(t.Context(), &ec2.DescribeInstanceTypesInput{InstanceTypes: []types.InstanceType{"x9.large"}}); apiCode(err) != "InvalidInstanceType" {
		t.Errorf("requested a retired type: %v", err)
	}
	env.advanceClock(time.Minute)
	env.wantState(id, types.InstanceStateNameRunning) // and goes on
	if machine, found := env.emu.Catalogue().Machine("x9.large"); !found || machine.VCPU != 2 {
		t.Errorf("the machine of a retired type: %+v, %v", machine, found)
	}

	env.callControlAPI(http.MethodPut, "catalogue", `[{"name":"x9.xlarge","vcpu":4,"memoryMiB":8192,"zones":"eu-west-1a"}]`)
	env.callControlAPI(http.MethodDelete, "catalogue", "")
	if diff := cmp.Diff(shipped, env.describeMarket("m5.large")); diff != "" {
		t.Errorf("after all changes were taken back (-want +got):\n%s", diff)
	}
	for name, vcpu := range map[string]int{"x9.large": 2, "x9.xlarge": 4} { // one retired before, one now
		machine, found := env.emu.Catalogue().Machine(name)
		if env.describeMarket(name).Known || !found || machine.VCPU != vcpu {
			t.Errorf("after all changes were taken back, the machine of %s: %+v, %v", name, machine, found)
		}
	}
}

func TestCatalogueLikeAnotherAndSnapshots(t *testing.T) {
	t.Parallel()
	env := newEC2Env(t)
	env.callControlAPI(http.MethodPost, "catalogue", `{"name":"g9.xlarge","like":"g4dn.xlarge","onDemandPrice":1}`)
	got, like := env.describeMarket("g9.xlarge"), env.describeMarket("g4dn.xlarge")
	if got.VCPU != like.VCPU || got.OnDemand != "1.0000000000" || !slices.Equal(got.Zones, like.Zones) {
		t.Errorf("%+v is not like %+v", got, like)
	}
	text, err := env.emu.Snapshot()
	if err != nil {
		t.Fatal(err)
	}
	env.callControlAPI(http.MethodPost, "reset", "")
	if env.describeMarket("g9.xlarge").Known {
		t.Error("the type survived the reset")
	}
	if err := env.emu.Restore(text); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(got, env.describeMarket("g9.xlarge")); diff != "" {
		t.Errorf("after the snapshot (-want +got):\n%s", diff)
	}
	if shown := env.callControlAPI(http.MethodGet, "catalogue/g9.xlarge", ""); !strings.Contains(shown, `"gpus"`) || !strings.Contains(shown, `"T4"`) {
		t.Errorf("GET shows %s", shown)
	}
	if all := env.callControlAPI(http.MethodGet, "catalogue", ""); strings.Count(all, `"onDemandPrice"`) != len(env.emu.Catalogue().Names()) {
		t.Error("GET does not show every type")
	}
	for body, want := range map[string]string{
		`{"name":"large"}`:                                         "want one such as m5.large",
		`{"name":"x.y"}`:                                           "a machine has some of both",
		`{"name":"x.y","likes":"m5.large"}`:                        "unknown field",
		`{"name":"x.y","like":"m99.large"}`:                        `there is no "m99.large"`,
		`{"name":"m5.large","zones":["mars"]}`:                     "not one of the region",
		`{"name":"m5.large","spotPrices":{"mars":1}}`:              "no price in a zone",
		`{"name":"m5.large","arch":["i386"]}`:                      "want x86_64 or arm64",
		`{"name":"x.y","vcpu":1,"memoryMiB":1,"onDemandPrice":-1}`: "is negative",
	} {
		if status, response := env.tryControl(http.MethodPost, "catalogue", body); status != http.StatusBadRequest || !strings.Contains(response, want) {
			t.Errorf("POST %s: %d %s, want %q", body, status, response, want)
		}
	}
}

func TestPriceOverridesReachThePriceList(t *testing.T) {
	t.Parallel()
	env := newEC2Env(t)
	before := env.describeMarket("c5.large")
	env.callControlAPI(http.MethodPut, "prices", `[{"instanceType":"m5.*","price":3},{"instanceType":"m5.large","capacityType":"on-demand","price":2},{"instanceType":"m5.large","capacityType":"spot","price":1},{"instanceType":"c5.large","zone":"eu-west-1a","price":9}]`)
	if got := env.describeMarket("m5.large"); got.OnDemand != "2.0000000000" || got.Spot[0] != "eu-west-1a=1.000000" {
		t.Errorf("m5.large: %+v", got)
	}
	if got := env.describeMarket("m5.xlarge"); got.OnDemand != "3.0000000000" {
		t.Errorf("m5.xlarge: %+v", got)
	}
	if got := env.describeMarket("c5.large"); got.OnDemand != before.OnDemand || got.Spot[0] != "eu-west-1a=9.000000" {
		t.Errorf("c5.large, with a price for one zone: %+v", got)
	}
	metal := env.describeMarket("m5.metal")
	if metal.OnDemand != "3.0000000000" {
		t.Errorf("m5.metal: %+v", metal)
	}
}

func TestUsageClasses(t *testing.T) {
	t.Parallel()
	env := newEC2Env(t)
	out, err := env.ec2.DescribeInstanceTypes(t.Context(), &ec2.DescribeInstanceTypesInput{Filters: ec2FilterOf("supported-usage-class", "capacity-block")})
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, i := range out.InstanceTypes {
		names = append(names, string(i.InstanceType))
	}
	if !slices.Contains(names, "p5.48xlarge") || slices.Contains(names, "m5.large") || slices.Contains(names, "trn1.2xlarge") {
		t.Errorf("offered in blocks: %v", names)
	}
}

// Instance types, offerings, prices, zones and checks have no tags to request.
func TestFiltersThatAreNotKnown(t *testing.T) {
	t.Parallel()
	env := newEC2Env(t)
	ctx := t.Context()
	for _, name := range []string{"tag:Name", "tag-key", "colour"} {
		filters := ec2FilterOf(name, "x")
		for what, err := range map[string]error{
			"types":     errorOf(env.ec2.DescribeInstanceTypes(ctx, &ec2.DescribeInstanceTypesInput{Filters: filters})),
			"offerings": errorOf(env.ec2.DescribeInstanceTypeOfferings(ctx, &ec2.DescribeInstanceTypeOfferingsInput{Filters: filters})),
			"prices":    errorOf(env.ec2.DescribeSpotPriceHistory(ctx, &ec2.DescribeSpotPriceHistoryInput{Filters: filters})),
			"zones":     errorOf(env.ec2.DescribeAvailabilityZones(ctx, &ec2.DescribeAvailabilityZonesInput{Filters: filters})),
			"status":    errorOf(env.ec2.DescribeInstanceStatus(ctx, &ec2.DescribeInstanceStatusInput{Filters: filters})),
		} {
			if apiCode(err) != "InvalidParameterValue" {
				t.Errorf("%s by %s: %v, want InvalidParameterValue", what, name, err)
			}
		}
	}
	if _, err := env.ec2.DescribeSubnets(ctx, &ec2.DescribeSubnetsInput{Filters: []types.Filter{{Name: aws.String("tag:"), Values: []string{"x"}}}}); apiCode(err) != "InvalidParameterValue" {
		t.Errorf("a tag without a key: %v", err)
	}
}
