package awsemu

import (
	"strings"

	"github.com/dovetail-sh/dovetail/sandbox/awsemu/catalogue"
)

type typeItem struct {
	Name              string        `xml:"instanceType"`
	CurrentGeneration bool          `xml:"currentGeneration"`
	BareMetal         bool          `xml:"bareMetal"`
	Hypervisor        string        `xml:"hypervisor,omitempty"`
	UsageClasses      []string      `xml:"supportedUsageClasses>item"`
	RootTypes         []string      `xml:"supportedRootDeviceTypes>item"`
	Virtualization    []string      `xml:"supportedVirtualizationTypes>item"`
	Burstable         bool          `xml:"burstablePerformanceSupported"`
	Processor         processorInfo `xml:"processorInfo"`
	VCPU              vcpuInfo      `xml:"vCpuInfo"`
	Memory            sizeInfo      `xml:"memoryInfo"`
	HasStorage        bool          `xml:"instanceStorageSupported"`
	Storage           *storageInfo  `xml:"instanceStorageInfo"`
	EBS               ebsInfo       `xml:"ebsInfo"`
	Network           networkInfo   `xml:"networkInfo"`
	GPUs              *gpuInfo      `xml:"gpuInfo"`
	Accelerators      *acceleInfo   `xml:"inferenceAcceleratorInfo"`
	Neuron            *neuronInfo   `xml:"neuronInfo"`
	Enclaves          string        `xml:"nitroEnclavesSupport"`
	Placement         placementInfo `xml:"placementGroupInfo"`
}

type processorInfo struct {
	Architectures []string `xml:"supportedArchitectures>item"`
	ClockGHz      float64  `xml:"sustainedClockSpeedInGhz,omitempty"`
	Manufacturer  string   `xml:"manufacturer,omitempty"`
	Features      []string `xml:"supportedFeatures>item"`
}

type vcpuInfo struct {
	VCPUs          int `xml:"defaultVCpus"`
	Cores          int `xml:"defaultCores"`
	ThreadsPerCore int `xml:"defaultThreadsPerCore"`
}

type sizeInfo struct {
	MiB int `xml:"sizeInMiB"`
}

type storageInfo struct {
	TotalGB    int        `xml:"totalSizeInGB"`
	Disks      []diskInfo `xml:"disks>item"`
	NVMe       string     `xml:"nvmeSupport"`
	Encryption string     `xml:"encryptionSupport"`
}

type diskInfo struct {
	SizeGB int    `xml:"sizeInGB"`
	Count  int    `xml:"count"`
	Type   string `xml:"type"`
}

type ebsInfo struct {
	Optimized  string        `xml:"ebsOptimizedSupport"`
	Encryption string        `xml:"encryptionSupport"`
	Info       *ebsOptimized `xml:"ebsOptimizedInfo"`
	NVMe       string        `xml:"nvmeSupport"`
}

type ebsOptimized struct {
	MaximumMbps int `xml:"maximumBandwidthInMbps"`
}

type networkInfo struct {
	MaximumInterfaces int        `xml:"maximumNetworkInterfaces"`
	MaximumCards      int        `xml:"maximumNetworkCards"`
	DefaultCard       int        `xml:"defaultNetworkCardIndex"`
	Cards             []cardInfo `xml:"networkCards>item"`
	IPv4              int        `xml:"ipv4AddressesPerInterface"`
	IPv6              int        `xml:"ipv6AddressesPerInterface"`
	IPv6Supported     bool       `xml:"ipv6Supported"`
	Encryption        bool       `xml:"encryptionInTransitSupported"`
	ENA               string     `xml:"enaSupport"`
	EFA               bool       `xml:"efaSupported"`
	EFAInfo           *efaInfo   `xml:"efaInfo"`
}

type cardInfo struct {
	Index             int `xml:"networkCardIndex"`
	MaximumInterfaces int `xml:"maximumNetworkInterfaces"`
}

type efaInfo struct {
	Maximum int `xml:"maximumEfaInterfaces"`
}

type gpuInfo struct {
	GPUs     []gpuItem `xml:"gpus>item"`
	TotalMiB int       `xml:"totalGpuMemoryInMiB"`
}

type gpuItem struct {
	Name         string   `xml:"name"`
	Manufacturer string   `xml:"manufacturer"`
	Count        int      `xml:"count"`
	Memory       sizeInfo `xml:"memoryInfo"`
}

type acceleInfo struct {
	Items []acceleItem `xml:"accelerators>item"`
}

type acceleItem struct {
	Name         string `xml:"name"`
	Manufacturer string `xml:"manufacturer"`
	Count        int    `xml:"count"`
}

type neuronInfo struct {
	Devices []neuronItem `xml:"neuronDevices>item"`
}

type neuronItem struct {
	Name  string    `xml:"name"`
	Count int       `xml:"count"`
	Cores countInfo `xml:"coreInfo"`
}

type countInfo struct {
	Count int `xml:"count"`
}

type placementInfo struct {
	Strategies []string `xml:"supportedStrategies>item"`
}

// typeItemOf renders an instance type.
func typeItemOf(t catalogue.Type) typeItem {
	item := typeItem{
		Name: t.Name, CurrentGeneration: t.CurrentGeneration, BareMetal: t.BareMetal, Hypervisor: t.Hypervisor,
		UsageClasses: usageClasses(t), RootTypes: []string{"ebs"}, Virtualization: []string{"hvm"}, Burstable: strings.HasPrefix(t.Name, "t"),
		Processor: processorInfo{Architectures: t.Arch, ClockGHz: t.ClockGHz, Manufacturer: t.Manufacturer, Features: t.Features},
		VCPU:      vcpuInfo{VCPUs: t.VCPU, Cores: t.Cores, ThreadsPerCore: t.ThreadsPerCore},
		Memory:    sizeInfo{MiB: t.MemoryMiB}, HasStorage: t.NVMeGB > 0,
		EBS:       ebsInfo{Optimized: "unsupported", Encryption: "supported", NVMe: "unsupported"},
		Network:   networkOf(t),
		Enclaves:  supportedText(t.NitroEnclaves),
		Placement: placementInfo{Strategies: t.Strategies},
	}
	if t.EBSMbps > 0 {
		item.EBS.Optimized, item.EBS.Info = "default", &ebsOptimized{MaximumMbps: t.EBSMbps}
	}
	if t.Hypervisor != "xen" {
		item.EBS.NVMe = "required"
	}
	if t.BareMetal {
		item.Hypervisor = ""
	}
	if t.NVMeGB > 0 {
		item.Storage = &storageInfo{TotalGB: t.NVMeGB, NVMe: "required", Encryption: "required"}
		for _, d := range t.NVMeDisks {
			item.Storage.Disks = append(item.Storage.Disks, diskInfo{SizeGB: d.SizeGB, Count: d.Count, Type: "ssd"})
		}
	}
	addAccelerators(&item, t)
	return item
}

func addAccelerators(item *typeItem, t catalogue.Type) {
	if len(t.GPUs) > 0 {
		item.GPUs = &gpuInfo{}
		for _, g := range t.GPUs {
			item.GPUs.TotalMiB += g.Count * g.MemoryMiB
			item.GPUs.GPUs = append(item.GPUs.GPUs, gpuItem{Name: g.Name, Manufacturer: g.Manufacturer, Count: g.Count, Memory: sizeInfo{MiB: g.MemoryMiB}})
		}
	}
	if len(t.Accelerators) > 0 {
		item.Accelerators = &acceleInfo{}
		for _, a := range t.Accelerators {
			item.Accelerators.Items = append(item.Accelerators.Items, acceleItem{Name: a.Name, Manufacturer: a.Manufacturer, Count: a.Count})
		}
	}
	if len(t.Neuron) > 0 {
		item.Neuron = &neuronInfo{}
		for _, n := range t.Neuron {
			item.Neuron.Devices = append(item.Neuron.Devices, neuronItem{Name: n.Name, Count: n.Count, Cores: countInfo{Count: n.Cores}})
		}
	}
}

func networkOf(t catalogue.Type) networkInfo {
	n := networkInfo{
		MaximumInterfaces: t.MaxENIs, MaximumCards: max(1, len(t.Cards)), IPv4: t.IPv4PerENI, IPv6: t.IPv4PerENI, IPv6Supported: true,
		Encryption: t.EncryptionInTransit, ENA: supportedText(t.ENA), EFA: t.EFAInterfaces > 0,
	}
	if t.ENA {
		n.ENA = "required"
	}
	for _, c := range t.Cards {
		n.Cards = append(n.Cards, cardInfo{Index: c.Index, MaximumInterfaces: c.MaxENIs})
	}
	if len(n.Cards) == 0 {
		n.Cards = []cardInfo{{MaximumInterfaces: t.MaxENIs}}
	}
	if n.EFA {
		n.EFAInfo = &efaInfo{Maximum: t.EFAInterfaces}
	}
	return n
}

func supportedText(yes bool) string {
	if yes {
		return "supported"
	}
	return "unsupported"
}
