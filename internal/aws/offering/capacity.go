package offering

import (
	"math"

	ec2types "github.com/aws/aws-sdk-go-v2/service/ec2/types"
	corev1 "k8s.io/api/core/v1"

	"github.com/dovetail-sh/dovetail/internal/aws/ami"
	"github.com/dovetail-sh/dovetail/internal/aws/kubelet"
	"github.com/dovetail-sh/dovetail/internal/catalog"
	"github.com/dovetail-sh/dovetail/internal/resources"
)

// Resources that only some machines have.
const (
	resourceNVIDIA     corev1.ResourceName = "nvidia.com/gpu"
	resourceAMD        corev1.ResourceName = "amd.com/gpu"
	resourceGaudi      corev1.ResourceName = "habana.ai/gaudi"
	resourceNeuron     corev1.ResourceName = "aws.amazon.com/neuron"
	resourceNeuronCore corev1.ResourceName = "aws.amazon.com/neuroncore"
	resourceEFA        corev1.ResourceName = "vpc.amazonaws.com/efa"
	resourcePodENI     corev1.ResourceName = "vpc.amazonaws.com/pod-eni"
	resourceIPv4       corev1.ResourceName = "vpc.amazonaws.com/PrivateIPv4Address"
)

// lanes is the table of every resource an instance type can have.
func lanes() resources.Table {
	return resources.NewTable(resourceNVIDIA, resourceAMD, resourceGaudi, resourceNeuron, resourceNeuronCore, resourceEFA, resourcePodENI, resourceIPv4)
}

const (
	mebibyte = 1 << 20
	gibibyte = 1 << 30
	gigabyte = 1_000_000_000

	// armReservedMiB is memory that the kernel keeps on arm64 for contiguous allocations.
	armReservedMiB = 64
)

// sizer computes the sizes of machines for one class.
type sizer struct {
	lanes          resources.Table
	limits         map[string]limit
	family         ami.Family
	kubelet        kubelet.Config
	cel            bool
	plain          *reserved // of the kubelet settings, unless they depend on the machine
	memoryOverhead float64
	reservedENIs   int64
	efaOnly        int64 // efa-only interfaces; below zero: the class leaves interfaces to us
	efaOnlyCard0   int64 // of them, on the default card
	storage        storage
	memory         map[string]int64 // bytes that nodes were seen to have, by type
	disks          map[string]int64 // the same of ephemeral storage
}

// size is what a machine has and what of it is not for pods. The error is one of an expression in the
// kubelet settings; the size is then the one without them.
func (s *sizer) size(m *machine) (capacity, overhead resources.Vec, err error) {
	config, own := s.kubelet, s.plain
	if own == nil {
		if config, err = s.kubelet.For(s.machineFacts(m), s.cel); err != nil {
			config = kubelet.Config{}
		}
		own = readReserved(config)
	}
	list := make([]int64, s.lanes.Len())
	list[resources.CPU] = m.vcpus * 1000
	list[resources.Memory] = s.memoryOf(m)
	list[resources.EphemeralStorage] = s.storageOf(m)
	list[resources.Pods] = s.pods(m, config)
	s.devices(m, list)
	capacity = resources.Of(list...)
	return capacity, s.overhead(m, capacity, own), err
}

func (s *sizer) machineFacts(m *machine) kubelet.Machine {
	return kubelet.Machine{
		Type: m.name, VCPUs: int(m.vcpus), MemoryMiB: int(m.memoryMiB),
		DefaultENIs: int(m.enis), IPsPerENI: int(m.ipsPerENI), Pods: int(s.density(m)),
	}
}

// memoryOf is what the operating system will see: less than EC2 says, since the hypervisor and the
// kernel keep some. What a node was seen to have is better than any estimate (B14).
func (s *sizer) memoryOf(m *machine) int64 {
	if seen, known := s.memory[m.name]; known {
		return seen
	}
	mib := m.memoryMiB
	if m.arch == archARM64 {
		mib -= armReservedMiB
	}
	mib -= int64(math.Ceil(float64(mib) * s.memoryOverhead))
	return max(0, mib) * mebibyte
}

// storageOf is what pods and images share. A file system is smaller than its volume, an image may bring
// a smaller one than the class says, and not every disk becomes part of it: nodes must not turn out
// smaller than planned a second time.
func (s *sizer) storageOf(m *machine) int64 {
	planned := s.storage.bytes(m)
	if seen, known := s.disks[m.name]; known {
		return min(seen, planned)
	}
	return planned
}

// pods is how many pods the kubelet admits (B13).
func (s *sizer) pods(m *machine, config kubelet.Config) int64 {
	n := s.density(m)
	if config.MaxPods != nil {
		n = int64(*config.MaxPods)
	}
	if config.PodsPerCore != nil && *config.PodsPerCore > 0 && s.family.PodsPerCore {
		n = min(n, int64(*config.PodsPerCore)*m.vcpus)
	}
	return max(0, n)
}

// density is the number of pods without any setting of the user.
func (s *sizer) density(m *machine) int64 {
	if s.family.FixedPods > 0 {
		return s.family.FixedPods
	}
	return m.eniPods(s.reservedENIs + s.efaOnlyCard0)
}

// eniPods is how many pods get an address from the network interfaces, less some that pods cannot use.
// One address of each interface is its own; two pods run with the address of the host.
func (m *machine) eniPods(unusable int64) int64 {
	usable := m.enis - unusable
	if usable <= 0 {
		return 0
	}
	return usable*max(0, m.ipsPerENI-1) + 2
}

// devices fills the lanes of what only some machines have.
func (s *sizer) devices(m *machine, list []int64) {
	add := func(name corev1.ResourceName, n int64) {
		if lane, known := s.lanes.Lane(name); known {
			list[lane] += n
		}
	}
	if m.info.GpuInfo != nil {
		for _, gpu := range m.info.GpuInfo.Gpus {
			switch text(gpu.Manufacturer) {
			case "NVIDIA":
				add(resourceNVIDIA, number(gpu.Count))
			case "AMD":
				add(resourceAMD, number(gpu.Count))
			case "Habana":
				add(resourceGaudi, number(gpu.Count))
			}
		}
	}
	if m.info.NeuronInfo != nil {
		devices, cores := neurons(m.info.NeuronInfo)
		add(resourceNeuron, devices)
		add(resourceNeuronCore, devices*cores)
	}
	add(resourcePodENI, s.limits[m.name].branches)
	if s.efaOnly >= 0 {
		add(resourceEFA, s.efaOnly)
	} else {
		add(resourceEFA, m.efas)
	}
	if s.family.Windows() {
		add(resourceIPv4, max(0, m.ipsPerENI-1))
	}
}

// neurons counts all devices, and the cores of one of the first kind.
func neurons(info *ec2types.NeuronInfo) (devices, cores int64) {
	for i, d := range info.NeuronDevices {
		devices += number(d.Count)
		if i == 0 && d.CoreInfo != nil {
			cores = number(d.CoreInfo.Count)
		}
	}
	return devices, cores
}

// Resources are the non-zero capacity and allocatable of a type, as a NodeClaim shows them. EFA interfaces are
// included only if efaWanted is set.
func Resources(t *catalog.InstanceType, lanes resources.Table, efaWanted bool) (capacity, allocatable corev1.ResourceList) {
	capacity, allocatable = lanes.List(t.Capacity), lanes.List(t.Allocatable())
	if !efaWanted {
		delete(capacity, resourceEFA)
		delete(allocatable, resourceEFA)
	}
	return capacity, allocatable
}
