package offering

import (
	"math"
	"strconv"
	"strings"
	"testing"

	ec2types "github.com/aws/aws-sdk-go-v2/service/ec2/types"
	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/runtime"

	awsv1 "github.com/dovetail-sh/dovetail/api/aws/v1"
	"github.com/dovetail-sh/dovetail/internal/aws/ami"
	"github.com/dovetail-sh/dovetail/internal/resources"
)

func TestKubeReservedCPU(t *testing.T) {
	t.Parallel()
	for cores, want := range map[int64]int64{0: 0, 1: 60, 2: 70, 3: 75, 4: 80, 5: 82, 6: 85, 8: 90, 16: 110, 96: 310, 448: 1190} {
		if got := kubeCPU(cores); got != want {
			t.Errorf("kubeCPU(%d) = %dm, want %dm", cores, got, want)
		}
	}
}

// Sizes of 3.2 to 3.4, in the notation of resources.Table.
func TestSizes(t *testing.T) {
	t.Parallel()
	const mi = "Mi"
	for name, tc := range map[string]struct {
		class        *awsv1.EC2NodeClass
		options      func(*Options)
		on           string
		wantCapacity string
		wantOverhead string
	}{
		"AL2023 on m5.large": {
			class: class(awsv1.FamilyAL2023), on: "m5.large",
			wantCapacity: "cpu:2,memory:7577Mi,ephemeral-storage:20Gi,pods:29,vpc.amazonaws.com/pod-eni:9",
			wantOverhead: "cpu:70m,memory:674Mi,ephemeral-storage:3Gi", // 11*29+255+100
		},
		"arm64 loses 64 MiB before the share of the hypervisor": {
			class: class(awsv1.FamilyAL2023), on: "t4g.small",
			wantCapacity: "cpu:2,memory:1835Mi,ephemeral-storage:20Gi,pods:11", // 1984 - ceil(148.8)
			wantOverhead: "cpu:70m,memory:476Mi,ephemeral-storage:3Gi",
		},
		"no memory overhead": {
			class: class(awsv1.FamilyAL2023), on: "m5.large", options: func(o *Options) { o.Settings.VMMemoryOverheadPercent = 0 },
			wantCapacity: "cpu:2,memory:8Gi,ephemeral-storage:20Gi,pods:29,vpc.amazonaws.com/pod-eni:9",
			wantOverhead: "cpu:70m,memory:674Mi,ephemeral-storage:3Gi",
		},
		"maxPods changes the reserved memory of Bottlerocket": {
			class: class(awsv1.FamilyBottlerocket, withKubelet(`{"maxPods":110}`)), on: "m5.large",
			wantCapacity: "cpu:2,memory:7577Mi,ephemeral-storage:20Gi,pods:110,vpc.amazonaws.com/pod-eni:9",
			wantOverhead: "cpu:70m,memory:" + strconv.Itoa(11*110+255+100) + mi + ",ephemeral-storage:3Gi",
		},
		"maxPods leaves the reserved memory of AL2023 alone": {
			class: class(awsv1.FamilyAL2023, withKubelet(`{"maxPods":110}`)), on: "m5.large",
			wantCapacity: "cpu:2,memory:7577Mi,ephemeral-storage:20Gi,pods:110,vpc.amazonaws.com/pod-eni:9",
			wantOverhead: "cpu:70m,memory:674Mi,ephemeral-storage:3Gi",
		},
		"a reserved interface costs pods, not reserved memory": {
			class: class(awsv1.FamilyAL2), on: "m5.large", options: func(o *Options) { o.Settings.ReservedENIs = 1 },
			wantCapacity: "cpu:2,memory:7577Mi,ephemeral-storage:20Gi,pods:20,vpc.amazonaws.com/pod-eni:9",
			wantOverhead: "cpu:70m,memory:674Mi,ephemeral-storage:3Gi",
		},
		"no interface left, no pods": {
			class: class(awsv1.FamilyBottlerocket), on: "m5.large", options: func(o *Options) { o.Settings.ReservedENIs = 3 },
			wantCapacity: "cpu:2,memory:7577Mi,ephemeral-storage:20Gi,vpc.amazonaws.com/pod-eni:9",
			wantOverhead: "cpu:70m,memory:355Mi,ephemeral-storage:3Gi",
		},
		"podsPerCore caps": {
			class: class(awsv1.FamilyAL2023, withKubelet(`{"podsPerCore":5}`)), on: "m5.large",
			wantCapacity: "cpu:2,memory:7577Mi,ephemeral-storage:20Gi,pods:10,vpc.amazonaws.com/pod-eni:9",
			wantOverhead: "cpu:70m,memory:674Mi,ephemeral-storage:3Gi",
		},
		"podsPerCore caps maxPods too, never raises": {
			class: class(awsv1.FamilyAL2023, withKubelet(`{"podsPerCore":50,"maxPods":60}`)), on: "m5.large",
			wantCapacity: "cpu:2,memory:7577Mi,ephemeral-storage:20Gi,pods:60,vpc.amazonaws.com/pod-eni:9",
			wantOverhead: "cpu:70m,memory:674Mi,ephemeral-storage:3Gi",
		},
		"podsPerCore is nothing to Bottlerocket": {
			class: class(awsv1.FamilyBottlerocket, withKubelet(`{"podsPerCore":5}`)), on: "m5.large",
			wantCapacity: "cpu:2,memory:7577Mi,ephemeral-storage:20Gi,pods:29,vpc.amazonaws.com/pod-eni:9",
			wantOverhead: "cpu:70m,memory:674Mi,ephemeral-storage:3Gi",
		},
		"user reservations replace per key, system's come on top": {
			class: class(awsv1.FamilyAL2023, withKubelet(`{"kubeReserved":{"memory":"1Gi"},"systemReserved":{"cpu":"130m","ephemeral-storage":"2Gi"}}`)), on: "m5.large",
			wantCapacity: "cpu:2,memory:7577Mi,ephemeral-storage:20Gi,pods:29,vpc.amazonaws.com/pod-eni:9",
			wantOverhead: "cpu:200m,memory:1124Mi,ephemeral-storage:5Gi",
		},
		"hard eviction as an amount and as a percentage": {
			class: class(awsv1.FamilyAL2023, withKubelet(`{"evictionHard":{"memory.available":"5%","nodefs.available":"3Gi"}}`)), on: "m5.large",
			wantCapacity: "cpu:2,memory:7577Mi,ephemeral-storage:20Gi,pods:29,vpc.amazonaws.com/pod-eni:9",
			wantOverhead: "cpu:70m,memory:" + strconv.FormatInt(574<<20+397253018, 10) + ",ephemeral-storage:4Gi",
		},
		"100 % switches an eviction off, the other keeps its default": {
			class: class(awsv1.FamilyAL2023, withKubelet(`{"evictionHard":{"memory.available":"100%"}}`)), on: "m5.large",
			wantCapacity: "cpu:2,memory:7577Mi,ephemeral-storage:20Gi,pods:29,vpc.amazonaws.com/pod-eni:9",
			wantOverhead: "cpu:70m,memory:574Mi,ephemeral-storage:3Gi",
		},
		"soft eviction takes nothing": {
			class: class(awsv1.FamilyAL2023, withKubelet(`{"evictionSoft":{"memory.available":"50%"},"evictionSoftGracePeriod":{"memory.available":"1m"}}`)), on: "m5.large",
			wantCapacity: "cpu:2,memory:7577Mi,ephemeral-storage:20Gi,pods:29,vpc.amazonaws.com/pod-eni:9",
			wantOverhead: "cpu:70m,memory:674Mi,ephemeral-storage:3Gi",
		},
		"Windows": {
			class: class(awsv1.FamilyWindows2022), on: "m5.large",
			wantCapacity: "cpu:2,memory:7577Mi,ephemeral-storage:50Gi,pods:110,vpc.amazonaws.com/PrivateIPv4Address:9,vpc.amazonaws.com/pod-eni:9",
			wantOverhead: "cpu:70m,memory:" + strconv.Itoa(11*110+255+100) + mi + ",ephemeral-storage:6Gi",
		},
		"RAID0 counts local disks in decimal gigabytes": {
			class: class(awsv1.FamilyAL2023, raid0), on: "g5.xlarge",
			wantCapacity: "cpu:4,memory:15155Mi,ephemeral-storage:244140625Ki,pods:58,nvidia.com/gpu:1,vpc.amazonaws.com/pod-eni:4",
			wantOverhead: "cpu:80m,memory:993Mi,ephemeral-storage:" + strconv.Itoa(25_000_000_000+1<<30),
		},
		"RAID0 without local disks": {
			class: class(awsv1.FamilyAL2023, raid0), on: "m5.large",
			wantCapacity: "cpu:2,memory:7577Mi,ephemeral-storage:20Gi,pods:29,vpc.amazonaws.com/pod-eni:9",
			wantOverhead: "cpu:70m,memory:674Mi,ephemeral-storage:3Gi",
		},
		"an expression, gate on": {
			class: class(awsv1.FamilyBottlerocket, withKubelet(`{"maxPods":"vcpus * 10","kubeReserved":{"memory":"max_pods * 10"}}`)), on: "m5.large",
			options:      func(o *Options) { o.Settings.Gates.NodeClassCEL = true },
			wantCapacity: "cpu:2,memory:7577Mi,ephemeral-storage:20Gi,pods:20,vpc.amazonaws.com/pod-eni:9",
			wantOverhead: "cpu:70m,memory:308Mi,ephemeral-storage:3Gi", // 200 rounded up to 208
		},
		"an expression, gate off": {
			class: class(awsv1.FamilyBottlerocket, withKubelet(`{"maxPods":"vcpus * 10"}`)), on: "m5.large",
			wantCapacity: "cpu:2,memory:7577Mi,ephemeral-storage:20Gi,pods:29,vpc.amazonaws.com/pod-eni:9",
			wantOverhead: "cpu:70m,memory:674Mi,ephemeral-storage:3Gi",
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			l := newFixture(t, tc.options, allTypes(t)...)
			got := l.one(t, tc.class, tc.on)
			if diff := cmp.Diff(tc.wantCapacity, l.Lanes().Format(got.Capacity)); diff != "" {
				t.Errorf("capacity (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(tc.wantOverhead, l.Lanes().Format(got.Overhead)); diff != "" {
				t.Errorf("overhead (-want +got):\n%s", diff)
			}
		})
	}
}

func raid0(c *awsv1.EC2NodeClass) { c.Spec.InstanceStorePolicy = new("RAID0") }

// CV-06: the kubelet block of a v1beta1 pool replaces the class's.
func TestKubeletOverride(t *testing.T) {
	t.Parallel()
	l := newFixture(t, nil, allTypes(t)...)
	c := class(awsv1.FamilyAL2023, withKubelet(`{"maxPods":20,"systemReserved":{"cpu":"1"}}`))
	own := l.one(t, c, "m5.large")
	list, err := l.Types(c, &runtime.RawExtension{Raw: []byte(`{"maxPods":7}`)})
	if err != nil {
		t.Fatal(err)
	}
	for i := range list {
		if list[i].Name == "m5.large" && (list[i].Capacity.At(resources.Pods) != 7 || list[i].Overhead.At(resources.CPU) != 70) {
			t.Errorf("overridden: %s less %s", l.Lanes().Format(list[i].Capacity), l.Lanes().Format(list[i].Overhead))
		}
	}
	if own.Capacity.At(resources.Pods) != 20 || own.Overhead.At(resources.CPU) != 1070 {
		t.Errorf("the class's own: %s less %s", l.Lanes().Format(own.Capacity), l.Lanes().Format(own.Overhead))
	}
}

// S-025, B13: pods per node follow the interfaces of the default card, for all types as documented.
func TestFM_B13_DensityOfAllTypes(t *testing.T) {
	t.Parallel()
	l := newFixture(t, nil, allTypes(t)...)
	documented := map[string]int64{}
	cards := map[string]bool{} // the list gives the interfaces of all cards together
	for line := range strings.Lines(typeLines) {
		f := strings.Fields(line)
		documented[f[0]], _ = strconv.ParseInt(f[6], 10, 64)
		enis, _ := strconv.Atoi(f[4])
		cards[f[0]] = enis > 15
	}
	compared := 0
	for _, it := range l.types(t, class(awsv1.FamilyAL2023)) {
		if cards[it.Name] {
			continue
		}
		compared++
		if got := it.Capacity.At(resources.Pods); got != documented[it.Name] {
			t.Errorf("%s: %d pods, documented are %d", it.Name, got, documented[it.Name])
		}
	}
	if compared < 800 {
		t.Errorf("only %d types compared", compared)
	}
}

// Only the default card counts: EC2 gives p4d 60 interfaces on four cards.
func TestDensityOfSeveralCards(t *testing.T) {
	t.Parallel()
	l := newFixture(t, nil, p4d())
	if got := l.one(t, class(awsv1.FamilyAL2023), "p4d.24xlarge").Capacity.At(resources.Pods); got != 737 {
		t.Errorf("%d pods, want 737", got)
	}
	interfaces := func(c *awsv1.EC2NodeClass) {
		c.Spec.NetworkInterfaces = []awsv1.NetworkInterface{
			{InterfaceType: "interface"},
			{DeviceIndex: 1, InterfaceType: "efa-only"},
			{NetworkCardIndex: 1, DeviceIndex: 1, InterfaceType: "efa-only"},
		}
	}
	it := l.one(t, class(awsv1.FamilyAL2023, interfaces), "p4d.24xlarge")
	const want = "cpu:96,memory:1065Gi,ephemeral-storage:20Gi,pods:688,nvidia.com/gpu:8,vpc.amazonaws.com/efa:2"
	if got := l.Lanes().Format(it.Capacity); !strings.Contains(got, "pods:688") || !strings.Contains(got, "vpc.amazonaws.com/efa:2") {
		t.Errorf("with efa-only interfaces: %s, want as in %s", got, want)
	}
}

func TestEphemeralStorage(t *testing.T) {
	t.Parallel()
	disk := func(device, size string, root bool) awsv1.BlockDeviceMapping {
		m := awsv1.BlockDeviceMapping{DeviceName: &device, RootVolume: root, EBS: &awsv1.BlockDevice{}}
		if size != "" {
			m.EBS.VolumeSize = new(resource.MustParse(size))
		}
		return m
	}
	for name, tc := range map[string]struct {
		family awsv1.AMIFamily
		disks  []awsv1.BlockDeviceMapping
		want   int64
	}{
		"AL2023 without disks":             {family: awsv1.FamilyAL2023, want: 20 << 30},
		"Windows without disks":            {family: awsv1.FamilyWindows2019, want: 50 << 30},
		"Custom without disks":             {family: awsv1.FamilyCustom, want: 20 << 30},
		"Custom takes the last":            {family: awsv1.FamilyCustom, disks: []awsv1.BlockDeviceMapping{disk("/dev/a", "10Gi", false), disk("/dev/b", "30Gi", false)}, want: 30 << 30},
		"Custom with a size from snapshot": {family: awsv1.FamilyCustom, disks: []awsv1.BlockDeviceMapping{disk("/dev/a", "", false)}, want: 20 << 30},
		"the root volume wins":             {family: awsv1.FamilyBottlerocket, disks: []awsv1.BlockDeviceMapping{disk("/dev/xvda", "8Gi", true), disk("/dev/xvdb", "90Gi", false)}, want: 8 << 30},
		"Bottlerocket's data disk":         {family: awsv1.FamilyBottlerocket, disks: []awsv1.BlockDeviceMapping{disk("/dev/xvda", "8Gi", false), disk("/dev/xvdb", "90Gi", false)}, want: 90 << 30},
		"AL2's only disk, decimal":         {family: awsv1.FamilyAL2, disks: []awsv1.BlockDeviceMapping{disk("/dev/xvda", "100G", false)}, want: 100e9},
		"another device is not it":         {family: awsv1.FamilyAL2, disks: []awsv1.BlockDeviceMapping{disk("/dev/sdf", "100Gi", false)}, want: 20 << 30},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := class(tc.family, func(c *awsv1.EC2NodeClass) { c.Spec.BlockDeviceMappings = tc.disks })
			if got := storageOf(c, ami.Of(tc.family)).bytes(&machine{}); got != tc.want {
				t.Errorf("%d bytes, want %d", got, tc.want)
			}
		})
	}
}

// For every type and family, allocatable is between nothing and the capacity.
func TestAllocatableWithinCapacity(t *testing.T) {
	t.Parallel()
	l := newFixture(t, nil, allTypes(t)...)
	for _, family := range []awsv1.AMIFamily{awsv1.FamilyAL2, awsv1.FamilyAL2023, awsv1.FamilyBottlerocket, awsv1.FamilyCustom, awsv1.FamilyWindows2022} {
		for _, document := range []string{`{}`, `{"maxPods":1000,"systemReserved":{"memory":"1Ti","cpu":"500"}}`, `{"evictionHard":{"memory.available":"99%","nodefs.available":"99%"}}`} {
			for _, it := range l.types(t, class(family, withKubelet(document))) {
				allocatable := it.Allocatable()
				for lane := range l.Lanes().Len() {
					if n := allocatable.At(lane); n < 0 || n > it.Capacity.At(lane) || it.Overhead.At(lane) < 0 {
						t.Fatalf("%s %s %s: %s of %s less %s", family, document, it.Name,
							l.Lanes().Format(allocatable), l.Lanes().Format(it.Capacity), l.Lanes().Format(it.Overhead))
					}
				}
			}
		}
	}
}

func TestResources(t *testing.T) {
	t.Parallel()
	l := newFixture(t, nil, p4d())
	it := l.one(t, class(awsv1.FamilyAL2023), "p4d.24xlarge")
	for efa, want := range map[bool]int64{true: 4, false: 0} {
		capacity, allocatable := Resources(it, l.Lanes(), efa)
		gotCapacity, gotAllocatable := capacity[resourceEFA], allocatable[resourceEFA]
		if gotCapacity.Value() != want || gotAllocatable.Value() != want {
			t.Errorf("wanted %v: %s and %s EFA interfaces, want %d", efa, &gotCapacity, &gotAllocatable, want)
		}
		if _, zero := capacity["amd.com/gpu"]; zero || capacity.Cpu().MilliValue() != 96000 || allocatable.Cpu().MilliValue() != 96000-310 {
			t.Errorf("capacity %v, allocatable %v", capacity, allocatable)
		}
	}
}

// B14: what nodes report replaces the estimate, the smallest wins, for sixty days.
func TestFM_B14_ObservedMemory(t *testing.T) {
	t.Parallel()
	l := newFixture(t, nil, allTypes(t)...)
	c := class(awsv1.FamilyAL2023)
	memory := func(c *awsv1.EC2NodeClass) string {
		return resource.NewQuantity(l.one(t, c, "m5.large").Capacity.At(resources.Memory), resource.BinarySI).String()
	}
	for _, step := range []struct{ seen, want string }{{"7000Mi", "7000Mi"}, {"7100Mi", "7000Mi"}, {"6900Mi", "6900Mi"}, {"0", "6900Mi"}} {
		l.ObserveMemory("m5.large", c, resource.MustParse(step.seen))
		if got := memory(c); got != step.want {
			t.Errorf("after %s: %s, want %s", step.seen, got, step.want)
		}
	}
	other := class(awsv1.FamilyAL2023, func(c *awsv1.EC2NodeClass) { c.Status.AMIs[0].ID = "ami-new" })
	if got := memory(other); got != "7577Mi" {
		t.Errorf("with another image: %s, want the estimate", got)
	}
	l.clock = l.clock.Add(observedFor)
	if got := memory(c); got != "7577Mi" {
		t.Errorf("after sixty days: %s, want the estimate", got)
	}
}

func p4d() ec2types.InstanceTypeInfo {
	cards := make([]ec2types.NetworkCardInfo, 4)
	for i := range cards {
		cards[i] = ec2types.NetworkCardInfo{NetworkCardIndex: new(int32(i)), MaximumNetworkInterfaces: new(int32(15))}
	}
	return ec2types.InstanceTypeInfo{
		InstanceType: "p4d.24xlarge", Hypervisor: ec2types.InstanceTypeHypervisorNitro,
		VCpuInfo: &ec2types.VCpuInfo{DefaultVCpus: new(int32(96))}, MemoryInfo: &ec2types.MemoryInfo{SizeInMiB: new(int64(1179648))},
		ProcessorInfo: &ec2types.ProcessorInfo{SupportedArchitectures: []ec2types.ArchitectureType{"x86_64"}, Manufacturer: new("Intel"), SustainedClockSpeedInGhz: new(3.0)},
		NetworkInfo: &ec2types.NetworkInfo{
			DefaultNetworkCardIndex: new(int32(0)), MaximumNetworkCards: new(int32(4)), MaximumNetworkInterfaces: new(int32(60)), NetworkCards: cards,
			Ipv4AddressesPerInterface: new(int32(50)), EnaSupport: ec2types.EnaSupportRequired, EncryptionInTransitSupported: new(true),
			EfaSupported: new(true), EfaInfo: &ec2types.EfaInfo{MaximumEfaInterfaces: new(int32(4))},
		},
		GpuInfo: &ec2types.GpuInfo{Gpus: []ec2types.GpuDeviceInfo{{
			Name: new("A100"), Manufacturer: new("NVIDIA"), Count: new(int32(8)), MemoryInfo: &ec2types.GpuDeviceMemoryInfo{SizeInMiB: new(int32(40960))},
		}}},
		InstanceStorageInfo:   &ec2types.InstanceStorageInfo{TotalSizeInGB: new(int64(8000)), NvmeSupport: ec2types.EphemeralNvmeSupportRequired},
		EbsInfo:               &ec2types.EbsInfo{EbsOptimizedSupport: ec2types.EbsOptimizedSupportDefault, EbsOptimizedInfo: &ec2types.EbsOptimizedInfo{MaximumBandwidthInMbps: new(int32(19000))}},
		NitroEnclavesSupport:  ec2types.NitroEnclavesSupportUnsupported,
		SupportedUsageClasses: []ec2types.UsageClassType{"on-demand", "spot", "capacity-block"},
		PlacementGroupInfo:    &ec2types.PlacementGroupInfo{SupportedStrategies: []ec2types.PlacementGroupStrategy{"cluster", "partition", "spread"}},
	}
}

// Numbers that no machine has must not wrap around.
func TestAbsurdMachines(t *testing.T) {
	t.Parallel()
	l := newFixture(t, nil, ec2types.InstanceTypeInfo{
		InstanceType: "odd", ProcessorInfo: &ec2types.ProcessorInfo{SupportedArchitectures: []ec2types.ArchitectureType{"i386", "arm64"}},
		VCpuInfo: &ec2types.VCpuInfo{DefaultVCpus: new(int32(math.MaxInt32))}, NetworkInfo: &ec2types.NetworkInfo{},
	})
	it := l.one(t, class(awsv1.FamilyAL2023), "odd")
	if a := it.Allocatable(); a.At(resources.Memory) != 0 || a.At(resources.Pods) != 0 || a.At(resources.CPU) <= 0 || len(it.Offerings) != 0 {
		t.Errorf("allocatable %s, offerings %v", l.Lanes().Format(a), it.Offerings)
	}
}

// A node that comes up with less storage than its class says is the measure for the next one of its type.
// Other devices are another measure; more than the class says is not believed.
func TestTrust_A15_ObservedStorage(t *testing.T) {
	t.Parallel()
	l := newFixture(t, nil, allTypes(t)...)
	c := class(awsv1.FamilyAL2023)
	storage := func(c *awsv1.EC2NodeClass, name string) string {
		return resource.NewQuantity(l.one(t, c, name).Capacity.At(resources.EphemeralStorage), resource.BinarySI).String()
	}
	for _, step := range []struct{ seen, want string }{{"0", "20Gi"}, {"30Gi", "20Gi"}, {"8Gi", "8Gi"}, {"9Gi", "8Gi"}} {
		l.ObserveStorage("m5.large", c, resource.MustParse(step.seen))
		if got := storage(c, "m5.large"); got != step.want {
			t.Errorf("after %s: %s, want %s", step.seen, got, step.want)
		}
	}
	if got := storage(c, "m5.xlarge"); got != "20Gi" {
		t.Errorf("another type: %s", got)
	}
	larger := class(awsv1.FamilyAL2023, func(c *awsv1.EC2NodeClass) {
		c.Spec.BlockDeviceMappings = []awsv1.BlockDeviceMapping{{DeviceName: new("/dev/xvda"), EBS: &awsv1.BlockDevice{VolumeSize: new(resource.MustParse("50Gi"))}}}
	})
	if got := storage(larger, "m5.large"); got != "50Gi" {
		t.Errorf("with another volume: %s, want what the class says", got)
	}
}
