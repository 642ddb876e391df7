package offering

import (
	"slices"
	"strconv"
	"strings"
	"testing"

	ec2types "github.com/aws/aws-sdk-go-v2/service/ec2/types"
	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"

	awsv1 "github.com/dovetail-sh/dovetail/api/aws/v1"
	karpv1 "github.com/dovetail-sh/dovetail/api/v1"
	"github.com/dovetail-sh/dovetail/internal/aws/discover"
	"github.com/dovetail-sh/dovetail/internal/reqs"
)

// described returns a type of the list with more of what EC2 says about it.
func described(t *testing.T, name string, more func(*ec2types.InstanceTypeInfo)) ec2types.InstanceTypeInfo {
	t.Helper()
	infos := allTypes(t)
	i := slices.IndexFunc(infos, func(info ec2types.InstanceTypeInfo) bool { return string(info.InstanceType) == name })
	if i < 0 {
		t.Fatalf("%s is not in the list", name)
	}
	if more != nil {
		more(&infos[i])
	}
	return infos[i]
}

func processor(maker string, ghz float64) func(*ec2types.InstanceTypeInfo) {
	return func(info *ec2types.InstanceTypeInfo) {
		info.ProcessorInfo.Manufacturer, info.ProcessorInfo.SustainedClockSpeedInGhz = &maker, &ghz
		info.NetworkInfo.EncryptionInTransitSupported = new(true)
	}
}

func ebs(mbps int32) *ec2types.EbsInfo {
	return &ec2types.EbsInfo{EbsOptimizedSupport: ec2types.EbsOptimizedSupportDefault, EbsOptimizedInfo: &ec2types.EbsOptimizedInfo{MaximumBandwidthInMbps: &mbps}}
}

// The labels of 3.5 that exist, without the domain karpenter.k8s.aws; S-052 requests the first ones.
func TestLabels(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		info ec2types.InstanceTypeInfo
		want string
	}{
		"m5.large": {
			info: described(t, "m5.large", func(i *ec2types.InstanceTypeInfo) {
				processor("Intel", 3.1)(i)
				i.EbsInfo, i.NetworkInfo.EncryptionInTransitSupported, i.NitroEnclavesSupport = ebs(4750), new(false), ec2types.NitroEnclavesSupportUnsupported
			}),
			want: `instance-capability-flex=false instance-category=m instance-cpu=2 instance-cpu-manufacturer=intel
				instance-cpu-sustained-clock-speed-mhz=3100 instance-ebs-bandwidth=4750 instance-encryption-in-transit-supported=false
				instance-family=m5 instance-generation=5 instance-hypervisor=nitro instance-memory=8192 instance-network-bandwidth=750
				instance-size=large instance-tenancy=dedicated|default kubernetes.io/arch=amd64 kubernetes.io/os=linux
				node.kubernetes.io/instance-type=m5.large topology.kubernetes.io/region=us-east-1`,
		},
		"g5.xlarge": {
			info: described(t, "g5.xlarge", func(i *ec2types.InstanceTypeInfo) {
				processor("AMD", 3.3)(i)
				i.NitroEnclavesSupport = ec2types.NitroEnclavesSupportSupported
				i.GpuInfo.Gpus[0] = ec2types.GpuDeviceInfo{Name: new("A10G"), Manufacturer: new("NVIDIA"), Count: new(int32(1)), MemoryInfo: &ec2types.GpuDeviceMemoryInfo{SizeInMiB: new(int32(22888))}}
			}),
			want: `instance-capability-flex=false instance-category=g instance-cpu=4 instance-cpu-manufacturer=amd
				instance-cpu-sustained-clock-speed-mhz=3300 instance-encryption-in-transit-supported=true instance-family=g5 instance-generation=5
				instance-gpu-count=1 instance-gpu-manufacturer=nvidia instance-gpu-memory=22888 instance-gpu-name=a10g instance-hypervisor=nitro
				instance-local-nvme=250 instance-memory=16384 instance-network-bandwidth=2500 instance-size=xlarge
				instance-tenancy=dedicated|default nitro-sandbox=true kubernetes.io/arch=amd64 kubernetes.io/os=linux
				node.kubernetes.io/instance-type=g5.xlarge topology.kubernetes.io/region=us-east-1`,
		},
		"inf2.xlarge": {
			info: described(t, "inf2.xlarge", func(i *ec2types.InstanceTypeInfo) {
				processor("AMD", 3.6)(i)
				i.InferenceAcceleratorInfo = &ec2types.InferenceAcceleratorInfo{Accelerators: []ec2types.InferenceDeviceInfo{{Name: new("Inferentia2"), Manufacturer: new("AWS"), Count: new(int32(1))}}}
				i.NeuronInfo = &ec2types.NeuronInfo{NeuronDevices: []ec2types.NeuronDeviceInfo{{Name: new("Inferentia2"), Count: new(int32(1)), CoreInfo: &ec2types.NeuronDeviceCoreInfo{Count: new(int32(2))}}}}
			}),
			want: `instance-accelerator-count=1 instance-accelerator-manufacturer=aws instance-accelerator-name=inferentia2
				instance-capability-flex=false instance-category=inf instance-cpu=4 instance-cpu-manufacturer=amd
				instance-cpu-sustained-clock-speed-mhz=3600 instance-encryption-in-transit-supported=true instance-family=inf2 instance-generation=2
				instance-hypervisor=nitro instance-memory=16384 instance-network-bandwidth=2083 instance-size=xlarge
				instance-tenancy=dedicated|default kubernetes.io/arch=amd64 kubernetes.io/os=linux
				node.kubernetes.io/instance-type=inf2.xlarge topology.kubernetes.io/region=us-east-1`,
		},
		"trn1.2xlarge has Neuron devices alone": {
			info: described(t, "trn1.2xlarge", func(i *ec2types.InstanceTypeInfo) {
				i.NeuronInfo = &ec2types.NeuronInfo{NeuronDevices: []ec2types.NeuronDeviceInfo{{Name: new("Trainium"), Count: new(int32(1))}}}
			}),
			want: `instance-accelerator-count=1 instance-accelerator-manufacturer=aws instance-accelerator-name=trainium
				instance-capability-flex=false instance-category=trn instance-cpu=8 instance-encryption-in-transit-supported=false
				instance-family=trn1 instance-generation=1 instance-hypervisor=nitro instance-local-nvme=474 instance-memory=32768
				instance-network-bandwidth=3125 instance-size=2xlarge instance-tenancy=dedicated|default kubernetes.io/arch=amd64 kubernetes.io/os=linux
				node.kubernetes.io/instance-type=trn1.2xlarge topology.kubernetes.io/region=us-east-1`,
		},
		"t4g.small": {
			info: described(t, "t4g.small", processor("AWS", 2.5)),
			want: `instance-capability-flex=false instance-category=t instance-cpu=2 instance-cpu-manufacturer=aws
				instance-cpu-sustained-clock-speed-mhz=2500 instance-encryption-in-transit-supported=true instance-family=t4g instance-generation=4
				instance-hypervisor=nitro instance-memory=2048 instance-network-bandwidth=128 instance-size=small
				instance-tenancy=dedicated|default kubernetes.io/arch=arm64 kubernetes.io/os=linux
				node.kubernetes.io/instance-type=t4g.small topology.kubernetes.io/region=us-east-1`,
		},
		"u-6tb1.metal": {
			info: ec2types.InstanceTypeInfo{
				InstanceType: "u-6tb1.metal", VCpuInfo: &ec2types.VCpuInfo{DefaultVCpus: new(int32(448))}, MemoryInfo: &ec2types.MemoryInfo{SizeInMiB: new(int64(6291456))},
				ProcessorInfo: &ec2types.ProcessorInfo{SupportedArchitectures: []ec2types.ArchitectureType{"x86_64"}, Manufacturer: new("Intel"), SustainedClockSpeedInGhz: new(2.1)},
				EbsInfo:       &ec2types.EbsInfo{EbsOptimizedSupport: ec2types.EbsOptimizedSupportSupported, EbsOptimizedInfo: &ec2types.EbsOptimizedInfo{MaximumBandwidthInMbps: new(int32(38000))}},
				NetworkInfo:   &ec2types.NetworkInfo{NetworkCards: []ec2types.NetworkCardInfo{{BaselineBandwidthInGbps: new(100.0)}}},
			},
			want: `instance-capability-flex=false instance-category=u instance-cpu=448 instance-cpu-manufacturer=intel
				instance-cpu-sustained-clock-speed-mhz=2100 instance-encryption-in-transit-supported=false instance-family=u-6tb1
				instance-generation=1 instance-hypervisor= instance-memory=6291456 instance-network-bandwidth=100000 instance-size=metal
				instance-tenancy=dedicated|default kubernetes.io/arch=amd64 kubernetes.io/os=linux
				node.kubernetes.io/instance-type=u-6tb1.metal topology.kubernetes.io/region=us-east-1`,
		},
		"m7i-flex.large": {
			info: described(t, "m7i-flex.large", processor("Intel", 3.2)),
			want: `instance-capability-flex=true instance-category=m instance-cpu=2 instance-cpu-manufacturer=intel
				instance-cpu-sustained-clock-speed-mhz=3200 instance-encryption-in-transit-supported=true instance-family=m7i-flex
				instance-generation=7 instance-hypervisor=nitro instance-memory=8192 instance-network-bandwidth=390 instance-size=large
				instance-tenancy=dedicated|default kubernetes.io/arch=amd64 kubernetes.io/os=linux
				node.kubernetes.io/instance-type=m7i-flex.large topology.kubernetes.io/region=us-east-1`,
		},
		"p4d.24xlarge": {
			info: p4d(),
			want: `instance-capability-flex=false instance-category=p instance-cpu=96 instance-cpu-manufacturer=intel
				instance-cpu-sustained-clock-speed-mhz=3000 instance-ebs-bandwidth=19000 instance-encryption-in-transit-supported=true
				instance-family=p4d instance-generation=4 instance-gpu-count=8 instance-gpu-manufacturer=nvidia instance-gpu-memory=40960
				instance-gpu-name=a100 instance-hypervisor=nitro instance-local-nvme=8000 instance-memory=1179648 instance-network-bandwidth=400000
				instance-size=24xlarge instance-tenancy=dedicated|default kubernetes.io/arch=amd64 kubernetes.io/os=linux
				node.kubernetes.io/instance-type=p4d.24xlarge topology.kubernetes.io/region=us-east-1`,
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			l := newFixture(t, nil, tc.info)
			labels := l.types(t, class(awsv1.FamilyAL2023))[0].Labels
			if diff := cmp.Diff(strings.Fields(tc.want), present(labels)); diff != "" {
				t.Errorf("labels (-want +got):\n%s", diff)
			}
			for _, key := range awsv1.WellKnownLabels() {
				if _, defined := labels[key]; !defined && key != awsv1.LabelZoneID {
					t.Errorf("%s is left undefined", key)
				}
			}
			for _, key := range []string{corev1.LabelTopologyZone, karpv1.LabelCapacityType, awsv1.LabelZoneID} {
				if _, defined := labels[key]; defined {
					t.Errorf("%s belongs to offerings", key)
				}
			}
		})
	}
}

func present(labels reqs.Set) []string {
	var list []string
	for _, key := range labels.Keys() {
		if r := labels[key]; !r.Empty() {
			list = append(list, strings.TrimPrefix(key, "karpenter.k8s.aws/")+"="+strings.Join(r.Values, "|"))
		}
	}
	return list
}

func TestGeneration(t *testing.T) {
	t.Parallel()
	for family, want := range map[string]string{
		"m5": "m 5", "c7i-flex": "c 7", "inf2": "inf 2", "u-6tb1": "u 1", "u7i-6tb": "u 7", "u7in-16tb": "u 7", "is4gen": "is 4", "x2gd": "x 2",
		"hpc7g": "hpc 7", "mac2": "mac 2", "p6-b200": "p 6", "trn1n": "trn 1", "dl2q": "dl 2", "g4dn": "g 4", "gr6": "gr 6",
		"": " ", "m": " ", "5m": " ", "u-tb1": " ", "u-6gb1": " ", "u-6tb": " ", "-": " ",
	} {
		category, number := generation(family)
		if got := category + " " + number; got != want {
			t.Errorf("generation(%q) = %q, want %q", family, got, want)
		}
	}
}

// The real list: every name has a category and a generation.
func TestGenerationOfAllTypes(t *testing.T) {
	t.Parallel()
	for _, info := range allTypes(t) {
		m := newMachine(info)
		category, number := generation(m.family())
		if _, err := strconv.Atoi(number); category == "" || err != nil || m.size() == "" {
			t.Errorf("%s: category %q, generation %q, size %q", m.name, category, number, m.size())
		}
	}
}

func TestLabelsOfWindowsAndGroups(t *testing.T) {
	t.Parallel()
	l := newFixture(t, nil, allTypes(t)...)
	values := func(c *awsv1.EC2NodeClass, on, key string) string {
		r, defined := l.one(t, c, on).Labels[key]
		if !defined {
			return "undefined"
		}
		return r.String()
	}
	windows := class(awsv1.FamilyWindows2022)
	for _, tc := range []struct{ on, key, want string }{
		{"m5.large", corev1.LabelOSStable, "In [windows]"},
		{"m5.large", corev1.LabelWindowsBuild, "In [10.0.20348]"},
		{"t4g.small", corev1.LabelOSStable, "In [linux]"},
		{"t4g.small", corev1.LabelWindowsBuild, "DoesNotExist"},
	} {
		if got := values(windows, tc.on, tc.key); got != tc.want {
			t.Errorf("Windows: %s of %s is %s, want %s", tc.key, tc.on, got, tc.want)
		}
	}
	grouped := class(awsv1.FamilyAL2023, func(c *awsv1.EC2NodeClass) { c.Spec.PlacementGroupSelector = &awsv1.PlacementGroupSelector{Name: "g"} })
	l.group = discover.PlacementGroup{ID: "pg-1", Strategy: "partition", Partitions: 3}
	for key, want := range map[string]string{awsv1.LabelPlacementGroupID: "In [pg-1]", awsv1.LabelPlacementGroupPartition: "undefined"} {
		if got := values(grouped, "m5.large", key); got != want {
			t.Errorf("with a group: %s is %s, want %s", key, got, want)
		}
	}
}

func TestLimitsAreWellFormed(t *testing.T) {
	t.Parallel()
	last := ""
	for line := range strings.Lines(limitLines) {
		f := strings.Fields(line)
		if len(f) != 3 || !strings.Contains(f[0], ".") || f[0] <= last {
			t.Fatalf("line %q after %q", line, last)
		}
		last = f[0]
		for _, n := range f[1:] {
			if v, err := strconv.Atoi(n); n != "-" && (err != nil || v < 0) {
				t.Errorf("line %q: %q is no number", line, n)
			}
		}
	}
	limits := readLimits(limitLines)
	for name, want := range map[string]limit{
		"m5.large": {750, 9}, "m6i.8xlarge": {12500, 84}, "m7g.medium": {520, 4}, "t3.micro": {64, 0}, "g5.xlarge": {2500, 4}, "p4d.24xlarge": {400000, 0}, "no.such": {},
	} {
		if limits[name] != want {
			t.Errorf("%s: %v, want %v", name, limits[name], want)
		}
	}
}
