package offering

import (
	"context"
	_ "embed"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/ec2"
	ec2types "github.com/aws/aws-sdk-go-v2/service/ec2/types"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"

	awsv1 "github.com/dovetail-sh/dovetail/api/aws/v1"
	"github.com/dovetail-sh/dovetail/internal/aws/discover"
	"github.com/dovetail-sh/dovetail/internal/aws/settings"
	"github.com/dovetail-sh/dovetail/internal/catalog"
)

// One type per line: name, vCPUs, MiB, architecture, interfaces, addresses per interface, documented pod
// density, local GB, GPUs, hypervisor, usage classes.
//
//go:embed testdata/types.txt
var typeLines string

// allTypes are the types of the list as EC2 would describe them, as far as the list goes.
func allTypes(tb testing.TB) []ec2types.InstanceTypeInfo {
	tb.Helper()
	var infos []ec2types.InstanceTypeInfo
	for line := range strings.Lines(typeLines) {
		f := strings.Fields(line)
		if len(f) != 11 {
			tb.Fatalf("line %q has %d fields", line, len(f))
		}
		n := func(i int) int32 {
			v, err := strconv.ParseInt(f[i], 10, 32)
			if err != nil {
				tb.Fatal(err)
			}
			return int32(v)
		}
		arch := map[string]ec2types.ArchitectureType{"amd64": ec2types.ArchitectureTypeX8664, "arm64": ec2types.ArchitectureTypeArm64}[f[3]]
		info := ec2types.InstanceTypeInfo{
			InstanceType:  ec2types.InstanceType(f[0]),
			VCpuInfo:      &ec2types.VCpuInfo{DefaultVCpus: new(n(1))},
			MemoryInfo:    &ec2types.MemoryInfo{SizeInMiB: new(int64(n(2)))},
			ProcessorInfo: &ec2types.ProcessorInfo{SupportedArchitectures: []ec2types.ArchitectureType{arch}},
			NetworkInfo: &ec2types.NetworkInfo{
				DefaultNetworkCardIndex: new(int32(0)), MaximumNetworkCards: new(int32(1)), MaximumNetworkInterfaces: new(n(4)),
				NetworkCards:              []ec2types.NetworkCardInfo{{NetworkCardIndex: new(int32(0)), MaximumNetworkInterfaces: new(n(4))}},
				Ipv4AddressesPerInterface: new(n(5)), EnaSupport: ec2types.EnaSupportRequired,
			},
			PlacementGroupInfo: &ec2types.PlacementGroupInfo{SupportedStrategies: []ec2types.PlacementGroupStrategy{"partition", "spread"}},
		}
		for class := range strings.SplitSeq(f[10], ",") {
			info.SupportedUsageClasses = append(info.SupportedUsageClasses, ec2types.UsageClassType(class))
		}
		if f[9] != "-" {
			info.Hypervisor = ec2types.InstanceTypeHypervisor(f[9])
		}
		if n(7) > 0 {
			info.InstanceStorageInfo = &ec2types.InstanceStorageInfo{TotalSizeInGB: new(int64(n(7))), NvmeSupport: ec2types.EphemeralNvmeSupportRequired}
		}
		if n(8) > 0 {
			info.GpuInfo = &ec2types.GpuInfo{Gpus: []ec2types.GpuDeviceInfo{{Count: new(n(8)), Manufacturer: new("NVIDIA"), Name: new("X")}}}
		}
		infos = append(infos, info)
	}
	return infos
}

// fakeEC2 responds in pages of fifty, whatever size is requested.
type fakeEC2 struct {
	infos   []ec2types.InstanceTypeInfo
	offered map[string][]string // by zone; nil: all types in all zones of the fixture
	err     error
}

func (f *fakeEC2) DescribeInstanceTypes(_ context.Context, in *ec2.DescribeInstanceTypesInput, _ ...func(*ec2.Options)) (*ec2.DescribeInstanceTypesOutput, error) {
	if f.err != nil {
		return nil, f.err
	}
	from := 0
	if in.NextToken != nil {
		from, _ = strconv.Atoi(*in.NextToken)
	}
	to := min(from+50, len(f.infos))
	out := &ec2.DescribeInstanceTypesOutput{InstanceTypes: f.infos[from:to]}
	if to < len(f.infos) {
		out.NextToken = new(strconv.Itoa(to))
	}
	return out, nil
}

func (f *fakeEC2) DescribeInstanceTypeOfferings(context.Context, *ec2.DescribeInstanceTypeOfferingsInput, ...func(*ec2.Options)) (*ec2.DescribeInstanceTypeOfferingsOutput, error) {
	if f.err != nil {
		return nil, f.err
	}
	out := &ec2.DescribeInstanceTypeOfferingsOutput{}
	for _, zone := range labZones() {
		for i := range f.infos {
			if f.offered == nil || slices.Contains(f.offered[zone], string(f.infos[i].InstanceType)) {
				out.InstanceTypeOfferings = append(out.InstanceTypeOfferings, ec2types.InstanceTypeOffering{InstanceType: f.infos[i].InstanceType, Location: new(zone)})
			}
		}
	}
	return out, nil
}

// labZones: the class of the fixture has subnets in the first two.
func labZones() []string { return []string{"us-east-1a", "us-east-1b", "us-east-1c"} }

// fakePrices: 1 USD on demand and 0.3 as spot, unless told otherwise.
type fakePrices struct {
	onDemand, spot map[string]float64 // overrides; spot by type/zone; zero: unknown
	version        uint64
}

func (p *fakePrices) OnDemand(t string) (float64, bool) {
	usd, set := p.onDemand[t]
	if !set {
		usd = 1
	}
	return usd, usd > 0
}

func (p *fakePrices) Spot(t, zone string) (float64, bool) {
	usd, set := p.spot[t+"/"+zone]
	if !set {
		usd = 0.3
	}
	return usd, usd > 0
}

func (p *fakePrices) Version() uint64 { return p.version }

// fixture is a catalogue with a clock that stands still until it is moved.
type fixture struct {
	*Catalog
	ec2          *fakeEC2
	prices       *fakePrices
	unavailable  *Unavailable
	reservations *Reservations
	clock        time.Time
	shifted      map[string]bool
	group        discover.PlacementGroup
	overlay      map[string]float64
	overlays     uint64
}

func newFixture(tb testing.TB, change func(*Options), infos ...ec2types.InstanceTypeInfo) *fixture {
	tb.Helper()
	l := &fixture{
		ec2: &fakeEC2{infos: infos}, prices: &fakePrices{version: 1}, clock: time.Date(2030, 1, 1, 0, 0, 0, 0, time.UTC), shifted: map[string]bool{},
	}
	now := func() time.Time { return l.clock }
	l.unavailable, l.reservations = NewUnavailable(now), NewReservations(now)
	o := Options{
		EC2: l.ec2, Prices: l.prices, Unavailable: l.unavailable, Reservations: l.reservations, Region: "us-east-1",
		Settings: settings.AWS{VMMemoryOverheadPercent: 0.075}, Reserved: true, Now: now,
		Shifted:       func(id string) bool { return l.shifted[id] },
		Group:         func(*awsv1.EC2NodeClass) (discover.PlacementGroup, bool) { return l.group, l.group.ID != "" },
		OverlayPrices: func() (map[string]float64, uint64) { return l.overlay, l.overlays },
	}
	if change != nil {
		change(&o)
	}
	l.Catalog = New(o)
	if err := l.Refresh(tb.Context()); err != nil {
		tb.Fatal(err)
	}
	return l
}

// class of a family with images for both architectures and subnets in two zones.
func class(family awsv1.AMIFamily, changes ...func(*awsv1.EC2NodeClass)) *awsv1.EC2NodeClass {
	arch := func(a string) []corev1.NodeSelectorRequirement {
		return []corev1.NodeSelectorRequirement{{Key: corev1.LabelArchStable, Operator: corev1.NodeSelectorOpIn, Values: []string{a}}}
	}
	c := &awsv1.EC2NodeClass{
		Spec: awsv1.EC2NodeClassSpec{AMIFamily: family},
		Status: awsv1.EC2NodeClassStatus{
			Subnets: []awsv1.Subnet{{ID: "subnet-a", Zone: "us-east-1a", ZoneID: "use1-az1"}, {ID: "subnet-b", Zone: "us-east-1b", ZoneID: "use1-az2"}},
			AMIs:    []awsv1.AMI{{ID: "ami-x", Requirements: arch("amd64")}, {ID: "ami-a", Requirements: arch("arm64")}},
		},
	}
	for _, change := range changes {
		change(c)
	}
	return c
}

func withKubelet(document string) func(*awsv1.EC2NodeClass) {
	return func(c *awsv1.EC2NodeClass) { c.Spec.Kubelet = &runtime.RawExtension{Raw: []byte(document)} }
}

func (l *fixture) types(tb testing.TB, c *awsv1.EC2NodeClass) []catalog.InstanceType {
	tb.Helper()
	list, err := l.Types(c, nil)
	if err != nil {
		tb.Fatal(err)
	}
	return list
}

func (l *fixture) one(tb testing.TB, c *awsv1.EC2NodeClass, name string) *catalog.InstanceType {
	tb.Helper()
	list := l.types(tb, c)
	for i := range list {
		if list[i].Name == name {
			return &list[i]
		}
	}
	tb.Fatalf("%s is not listed", name)
	return nil
}
