package catalogue

var (
	x86     = []string{"x86_64"}
	arm     = []string{"arm64"}
	all     = []string{"cluster", "partition", "spread"}
	noGroup = []string{"partition", "spread"}
)

func oneCard(enis int) []Card { return []Card{{Index: 0, MaxENIs: enis}} }

// namedTypes are the types that the contract of the emulator names. Their names are the keys.
var namedTypes = map[string]Type{
	"t3.medium": {
		VCPU: 2, Cores: 1, ThreadsPerCore: 2, MemoryMiB: 4096, Arch: x86, Manufacturer: "Intel", ClockGHz: 3.1, Hypervisor: "nitro",
		CurrentGeneration: true, Spot: true, ENA: true, MaxENIs: 3, IPv4PerENI: 6, Cards: oneCard(3), EBSMbps: 2085, Strategies: noGroup,
	},
	"t3.large": {
		VCPU: 2, Cores: 1, ThreadsPerCore: 2, MemoryMiB: 8192, Arch: x86, Manufacturer: "Intel", ClockGHz: 3.1, Hypervisor: "nitro",
		CurrentGeneration: true, Spot: true, ENA: true, MaxENIs: 3, IPv4PerENI: 12, Cards: oneCard(3), EBSMbps: 2780, Strategies: noGroup,
	},
	"t3.xlarge": {
		VCPU: 4, Cores: 2, ThreadsPerCore: 2, MemoryMiB: 16384, Arch: x86, Manufacturer: "Intel", ClockGHz: 3.1, Hypervisor: "nitro",
		CurrentGeneration: true, Spot: true, ENA: true, MaxENIs: 4, IPv4PerENI: 15, Cards: oneCard(4), EBSMbps: 2780, Strategies: noGroup,
	},
	"t3a.medium": {
		VCPU: 2, Cores: 1, ThreadsPerCore: 2, MemoryMiB: 4096, Arch: x86, Manufacturer: "AMD", ClockGHz: 2.5, Hypervisor: "nitro",
		CurrentGeneration: true, Spot: true, ENA: true, MaxENIs: 3, IPv4PerENI: 6, Cards: oneCard(3), EBSMbps: 2085, Strategies: noGroup,
	},
	"t4g.small": {
		VCPU: 2, Cores: 2, ThreadsPerCore: 1, MemoryMiB: 2048, Arch: arm, Manufacturer: "AWS", ClockGHz: 2.5, Hypervisor: "nitro",
		CurrentGeneration: true, Spot: true, ENA: true, MaxENIs: 3, IPv4PerENI: 4, Cards: oneCard(3), EBSMbps: 2085, Strategies: noGroup,
	},
	"t4g.medium": {
		VCPU: 2, Cores: 2, ThreadsPerCore: 1, MemoryMiB: 4096, Arch: arm, Manufacturer: "AWS", ClockGHz: 2.5, Hypervisor: "nitro",
		CurrentGeneration: true, Spot: true, ENA: true, MaxENIs: 3, IPv4PerENI: 6, Cards: oneCard(3), EBSMbps: 2085, Strategies: noGroup,
	},
	"m5.large": {
		VCPU: 2, Cores: 1, ThreadsPerCore: 2, MemoryMiB: 8192, Arch: x86, Manufacturer: "Intel", ClockGHz: 3.1, Hypervisor: "nitro",
		CurrentGeneration: true, Spot: true, ENA: true, MaxENIs: 3, IPv4PerENI: 10, Cards: oneCard(3), EBSMbps: 4750, Strategies: all,
	},
	"m5.xlarge": {
		VCPU: 4, Cores: 2, ThreadsPerCore: 2, MemoryMiB: 16384, Arch: x86, Manufacturer: "Intel", ClockGHz: 3.1, Hypervisor: "nitro",
		CurrentGeneration: true, Spot: true, ENA: true, NitroEnclaves: true, MaxENIs: 4, IPv4PerENI: 15, Cards: oneCard(4), EBSMbps: 4750, Strategies: all,
	},
	"m5.2xlarge": {
		VCPU: 8, Cores: 4, ThreadsPerCore: 2, MemoryMiB: 32768, Arch: x86, Manufacturer: "Intel", ClockGHz: 3.1, Hypervisor: "nitro",
		CurrentGeneration: true, Spot: true, ENA: true, NitroEnclaves: true, MaxENIs: 4, IPv4PerENI: 15, Cards: oneCard(4), EBSMbps: 4750, Strategies: all,
	},
	"c5.large": {
		VCPU: 2, Cores: 1, ThreadsPerCore: 2, MemoryMiB: 4096, Arch: x86, Manufacturer: "Intel", ClockGHz: 3.4, Hypervisor: "nitro",
		CurrentGeneration: true, Spot: true, ENA: true, MaxENIs: 3, IPv4PerENI: 10, Cards: oneCard(3), EBSMbps: 4750, Strategies: all,
	},
	"c5.xlarge": {
		VCPU: 4, Cores: 2, ThreadsPerCore: 2, MemoryMiB: 8192, Arch: x86, Manufacturer: "Intel", ClockGHz: 3.4, Hypervisor: "nitro",
		CurrentGeneration: true, Spot: true, ENA: true, NitroEnclaves: true, MaxENIs: 4, IPv4PerENI: 15, Cards: oneCard(4), EBSMbps: 4750, Strategies: all,
	},
	"c5.2xlarge": {
		VCPU: 8, Cores: 4, ThreadsPerCore: 2, MemoryMiB: 16384, Arch: x86, Manufacturer: "Intel", ClockGHz: 3.4, Hypervisor: "nitro",
		CurrentGeneration: true, Spot: true, ENA: true, NitroEnclaves: true, MaxENIs: 4, IPv4PerENI: 15, Cards: oneCard(4), EBSMbps: 4750, Strategies: all,
	},
	"c6i.xlarge": {
		VCPU: 4, Cores: 2, ThreadsPerCore: 2, MemoryMiB: 8192, Arch: x86, Manufacturer: "Intel", ClockGHz: 3.5, Hypervisor: "nitro",
		CurrentGeneration: true, Spot: true, ENA: true, EncryptionInTransit: true, NitroEnclaves: true,
		MaxENIs: 4, IPv4PerENI: 15, Cards: oneCard(4), EBSMbps: 10000, Strategies: all,
	},
	"r5.large": {
		VCPU: 2, Cores: 1, ThreadsPerCore: 2, MemoryMiB: 16384, Arch: x86, Manufacturer: "Intel", ClockGHz: 3.1, Hypervisor: "nitro",
		CurrentGeneration: true, Spot: true, ENA: true, MaxENIs: 3, IPv4PerENI: 10, Cards: oneCard(3), EBSMbps: 4750, Strategies: all,
	},
	"m6g.large": {
		VCPU: 2, Cores: 2, ThreadsPerCore: 1, MemoryMiB: 8192, Arch: arm, Manufacturer: "AWS", ClockGHz: 2.5, Hypervisor: "nitro",
		CurrentGeneration: true, Spot: true, ENA: true, NitroEnclaves: true, MaxENIs: 3, IPv4PerENI: 10, Cards: oneCard(3), EBSMbps: 4750, Strategies: all,
	},
	"a1.large": {
		VCPU: 2, Cores: 2, ThreadsPerCore: 1, MemoryMiB: 4096, Arch: arm, Manufacturer: "AWS", ClockGHz: 2.3, Hypervisor: "nitro",
		Spot: true, ENA: true, MaxENIs: 3, IPv4PerENI: 10, Cards: oneCard(3), EBSMbps: 3500, Strategies: all,
	},
	"m7i-flex.large": {
		VCPU: 2, Cores: 1, ThreadsPerCore: 2, MemoryMiB: 8192, Arch: x86, Manufacturer: "Intel", ClockGHz: 3.2, Hypervisor: "nitro",
		CurrentGeneration: true, Spot: true, ENA: true, EncryptionInTransit: true, MaxENIs: 3, IPv4PerENI: 10, Cards: oneCard(3), EBSMbps: 10000, Strategies: noGroup,
	},
	"m5.metal": {
		VCPU: 96, Cores: 48, ThreadsPerCore: 2, MemoryMiB: 393216, Arch: x86, Manufacturer: "Intel", ClockGHz: 3.1, BareMetal: true,
		CurrentGeneration: true, Spot: true, ENA: true, MaxENIs: 15, IPv4PerENI: 50, Cards: oneCard(15), EBSMbps: 19000, Strategies: all,
	},
	"g4dn.xlarge": {
		VCPU: 4, Cores: 2, ThreadsPerCore: 2, MemoryMiB: 16384, Arch: x86, Manufacturer: "Intel", ClockGHz: 2.5, Hypervisor: "nitro",
		CurrentGeneration: true, Spot: true, ENA: true, EncryptionInTransit: true, NitroEnclaves: true,
		MaxENIs: 3, IPv4PerENI: 10, Cards: oneCard(3), EBSMbps: 3500, NVMeGB: 125, NVMeDisks: []Disk{{Count: 1, SizeGB: 125}},
		GPUs: []GPU{{Name: "T4", Manufacturer: "NVIDIA", Count: 1, MemoryMiB: 16384}}, Strategies: all,
	},
	"p3.8xlarge": {
		VCPU: 32, Cores: 16, ThreadsPerCore: 2, MemoryMiB: 249856, Arch: x86, Manufacturer: "Intel", ClockGHz: 2.3, Hypervisor: "xen",
		CurrentGeneration: true, Spot: true, ENA: true, MaxENIs: 8, IPv4PerENI: 30, Cards: oneCard(8), EBSMbps: 7000,
		GPUs: []GPU{{Name: "V100", Manufacturer: "NVIDIA", Count: 4, MemoryMiB: 16384}}, Strategies: all,
	},
	"inf2.xlarge": {
		VCPU: 4, Cores: 2, ThreadsPerCore: 2, MemoryMiB: 16384, Arch: x86, Manufacturer: "AMD", ClockGHz: 3.6, Hypervisor: "nitro",
		CurrentGeneration: true, Spot: true, ENA: true, EncryptionInTransit: true, NitroEnclaves: true, MaxENIs: 4, IPv4PerENI: 15, Cards: oneCard(4), EBSMbps: 10000,
		Accelerators: []Accelerator{{Name: "Inferentia2", Manufacturer: "AWS", Count: 1}},
		Neuron:       []Neuron{{Name: "Inferentia2", Count: 1, Cores: 2}}, Strategies: all,
	},
	"trn1.2xlarge": {
		VCPU: 8, Cores: 4, ThreadsPerCore: 2, MemoryMiB: 32768, Arch: x86, Manufacturer: "Intel", ClockGHz: 3.5, Hypervisor: "nitro",
		CurrentGeneration: true, Spot: true, ENA: true, EncryptionInTransit: true, MaxENIs: 4, IPv4PerENI: 15, Cards: oneCard(4), EBSMbps: 20000,
		NVMeGB: 474, NVMeDisks: []Disk{{Count: 1, SizeGB: 474}}, Neuron: []Neuron{{Name: "Trainium", Count: 1, Cores: 2}}, Strategies: all,
	},
	"m6idn.32xlarge": {
		VCPU: 128, Cores: 64, ThreadsPerCore: 2, MemoryMiB: 524288, Arch: x86, Manufacturer: "Intel", ClockGHz: 3.5, Hypervisor: "nitro",
		CurrentGeneration: true, Spot: true, ENA: true, EncryptionInTransit: true, NitroEnclaves: true,
		MaxENIs: 16, IPv4PerENI: 50, Cards: []Card{{Index: 0, MaxENIs: 8}, {Index: 1, MaxENIs: 8}}, EFAInterfaces: 2,
		EBSMbps: 100000, NVMeGB: 7600, NVMeDisks: []Disk{{Count: 4, SizeGB: 1900}}, Strategies: all,
	},
	"dl1.24xlarge": {
		VCPU: 96, Cores: 48, ThreadsPerCore: 2, MemoryMiB: 786432, Arch: x86, Manufacturer: "Intel", ClockGHz: 3, Hypervisor: "nitro",
		CurrentGeneration: true, Spot: true, ENA: true, EncryptionInTransit: true, MaxENIs: 60, IPv4PerENI: 50,
		Cards:         []Card{{Index: 0, MaxENIs: 15}, {Index: 1, MaxENIs: 15}, {Index: 2, MaxENIs: 15}, {Index: 3, MaxENIs: 15}},
		EFAInterfaces: 4, EBSMbps: 19000, NVMeGB: 4000, NVMeDisks: []Disk{{Count: 4, SizeGB: 1000}},
		GPUs: []GPU{{Name: "Gaudi HL-205", Manufacturer: "Habana", Count: 8, MemoryMiB: 32768}}, Strategies: all,
	},
}
