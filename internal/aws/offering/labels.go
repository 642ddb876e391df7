package offering

import (
	"math"
	"strconv"
	"strings"

	ec2types "github.com/aws/aws-sdk-go-v2/service/ec2/types"
	corev1 "k8s.io/api/core/v1"

	awsv1 "github.com/dovetail-sh/dovetail/api/aws/v1"
	"github.com/dovetail-sh/dovetail/internal/reqs"
)

// appearance is what labels depend on beside the machine.
type appearance struct {
	windowsBuild string // empty: Linux
	group        string // id of the placement group
	partitioned  bool
}

// labeller writes labels. Values are shared between types: most have the same few.
type labeller struct {
	region string
	limits map[string]limit
	values map[string][]string
}

func (l *labeller) one(value string) reqs.Req {
	shared, known := l.values[value]
	if !known {
		shared = []string{value}
		l.values[value] = shared
	}
	return reqs.Req{Values: shared}
}

// labels gives every well-known label a value or says that it does not exist, except those that belong
// to offerings: zone, zone id, capacity type and, where there are several, the partition.
func (l *labeller) labels(m *machine, a appearance) reqs.Set {
	set := make(reqs.Set, len(awsv1.WellKnownLabels())+5)
	for _, key := range awsv1.WellKnownLabels() {
		set[key] = reqs.Req{}
	}
	delete(set, awsv1.LabelZoneID)
	put := func(key, value string) { set[key] = l.one(value) }
	count := func(key string, n int64) {
		if n > 0 {
			put(key, strconv.FormatInt(n, 10))
		}
	}
	l.kubernetes(m, a, set)
	l.name(m, put)
	count(awsv1.LabelInstanceCPU, m.vcpus)
	count(awsv1.LabelInstanceMemory, m.memoryMiB)
	if p := m.info.ProcessorInfo; p != nil {
		if maker := toLabelValue(text(p.Manufacturer)); maker != "" {
			put(awsv1.LabelInstanceCPUManufacturer, maker)
		}
		if p.SustainedClockSpeedInGhz != nil {
			count(awsv1.LabelInstanceCPUSustainedClockSpeed, int64(math.Round(*p.SustainedClockSpeedInGhz*1000)))
		}
	}
	if ebs := m.info.EbsInfo; ebs != nil && ebs.EbsOptimizedSupport == ec2types.EbsOptimizedSupportDefault && ebs.EbsOptimizedInfo != nil {
		count(awsv1.LabelInstanceEBSBandwidth, number(ebs.EbsOptimizedInfo.MaximumBandwidthInMbps))
	}
	count(awsv1.LabelInstanceNetworkBandwidth, m.bandwidth(l.limits))
	if s := m.info.InstanceStorageInfo; s != nil && s.NvmeSupport != "" && s.NvmeSupport != ec2types.EphemeralNvmeSupportUnsupported && s.TotalSizeInGB != nil {
		count(awsv1.LabelInstanceLocalNVMe, *s.TotalSizeInGB)
	}
	put(awsv1.LabelInstanceHypervisor, string(m.info.Hypervisor))
	put(awsv1.LabelInstanceEncryptionInTransit, strconv.FormatBool(m.info.NetworkInfo != nil && isTrue(m.info.NetworkInfo.EncryptionInTransitSupported)))
	if m.info.NitroEnclavesSupport == ec2types.NitroEnclavesSupportSupported {
		put(awsv1.LabelNitroSandbox, "true")
	}
	m.devices(put, count)
	set[awsv1.LabelInstanceTenancy] = reqs.Req{Values: l.tenancies()}
	if a.group != "" {
		put(awsv1.LabelPlacementGroupID, a.group)
	}
	if a.partitioned {
		delete(set, awsv1.LabelPlacementGroupPartition)
	}
	return set
}

// tenancies are both there for every type; the node gets the one it was launched with.
func (l *labeller) tenancies() []string {
	const key = "dedicated default" // no label value has a space
	if l.values[key] == nil {
		l.values[key] = []string{"dedicated", "default"}
	}
	return l.values[key]
}

// kubernetes are the labels of Kubernetes itself. Windows runs on amd64 only.
func (l *labeller) kubernetes(m *machine, a appearance, set reqs.Set) {
	set[corev1.LabelInstanceTypeStable] = l.one(m.name)
	set[corev1.LabelArchStable] = l.one(m.arch)
	set[corev1.LabelTopologyRegion] = l.one(l.region)
	set[corev1.LabelOSStable] = l.one(string(corev1.Linux))
	set[corev1.LabelWindowsBuild] = reqs.Req{}
	if a.windowsBuild != "" && m.arch == archAMD64 {
		set[corev1.LabelOSStable] = l.one(string(corev1.Windows))
		set[corev1.LabelWindowsBuild] = l.one(a.windowsBuild)
	}
}

// name are the labels that the name of the type says.
func (l *labeller) name(m *machine, put func(key, value string)) {
	family := m.family()
	put(awsv1.LabelInstanceFamily, family)
	put(awsv1.LabelInstanceSize, m.size())
	put(awsv1.LabelInstanceCapabilityFlex, strconv.FormatBool(strings.Contains(family, "-flex")))
	if category, number := generation(family); category != "" {
		put(awsv1.LabelInstanceCategory, category)
		put(awsv1.LabelInstanceGeneration, number)
	}
}

// devices are the labels of GPUs and accelerators. Labels cannot say two things, so types with
// different devices have none.
func (m *machine) devices(put func(key, value string), count func(key string, n int64)) {
	if gpus := m.info.GpuInfo; gpus != nil && len(gpus.Gpus) == 1 {
		gpu := gpus.Gpus[0]
		put(awsv1.LabelInstanceGPUName, toLabelValue(text(gpu.Name)))
		put(awsv1.LabelInstanceGPUManufacturer, toLabelValue(text(gpu.Manufacturer)))
		count(awsv1.LabelInstanceGPUCount, number(gpu.Count))
		if gpu.MemoryInfo != nil {
			count(awsv1.LabelInstanceGPUMemory, number(gpu.MemoryInfo.SizeInMiB))
		}
	}
	if a := m.info.InferenceAcceleratorInfo; a != nil && len(a.Accelerators) == 1 {
		put(awsv1.LabelInstanceAcceleratorName, toLabelValue(text(a.Accelerators[0].Name)))
		put(awsv1.LabelInstanceAcceleratorMaker, toLabelValue(text(a.Accelerators[0].Manufacturer)))
		count(awsv1.LabelInstanceAcceleratorCount, number(a.Accelerators[0].Count))
		return
	}
	if n := m.info.NeuronInfo; n != nil && len(n.NeuronDevices) == 1 {
		put(awsv1.LabelInstanceAcceleratorName, toLabelValue(text(n.NeuronDevices[0].Name)))
		put(awsv1.LabelInstanceAcceleratorMaker, "aws")
		count(awsv1.LabelInstanceAcceleratorCount, number(n.NeuronDevices[0].Count))
	}
}

// toLabelValue makes a name a label value: lower case, dashes for spaces.
func toLabelValue(name string) string {
	return strings.ReplaceAll(strings.ToLower(strings.TrimSpace(name)), " ", "-")
}
