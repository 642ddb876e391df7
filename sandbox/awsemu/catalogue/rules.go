package catalogue

import (
	"slices"
	"strings"
)

// describe joins what the source says of a type with what the rules below add.
func describe(r *record) Type {
	family, size := r.split()
	t := Type{
		Name:              r.Name,
		VCPU:              r.VCPU,
		MemoryMiB:         r.MemoryMiB,
		Arch:              r.Arch,
		Manufacturer:      cpuManufacturer(r.Processor),
		ClockGHz:          clockSpeed(r, family),
		BareMetal:         strings.HasPrefix(size, "metal"),
		CurrentGeneration: r.Current,
		Spot:              len(r.Spot) > 0,
		CapacityBlocks:    has(blockSizes[family], size),
		MaxENIs:           r.MaxENIs,
		IPv4PerENI:        r.IPv4PerENI,
		Cards:             networkCards(r),
		EBSMbps:           r.EBSMbps,
		Strategies:        []string{"cluster", "partition", "spread"},
	}
	t.ThreadsPerCore = threadsPerCore(r, family)
	t.Cores = r.VCPU / t.ThreadsPerCore
	switch {
	case t.BareMetal:
	case r.EBSNVMe:
		t.Hypervisor = "nitro"
	default:
		t.Hypervisor = "xen"
	}
	t.ENA = t.Hypervisor != "xen" || has(xenWithENA, family) || r.Name == "m4.16xlarge"
	t.EncryptionInTransit = t.Hypervisor != "xen" && !has(plainTraffic, family)
	t.NitroEnclaves = supportsEnclaves(r, t.Hypervisor, family)
	if has(efaSizes[family], size) {
		t.EFAInterfaces = len(t.Cards)
	}
	if r.Disks > 0 {
		t.NVMeGB = r.Disks * r.DiskGB
		t.NVMeDisks = []Disk{{Count: r.Disks, SizeGB: r.DiskGB}}
	}
	if !r.Cluster || isFlexFamily(family) {
		t.Strategies = t.Strategies[1:]
	}
	if has(sevSizes[family], size) {
		t.Features = []string{"amd-sev-snp"}
	}
	if has(nestedFamilies, family) && !t.BareMetal {
		t.Features = append(t.Features, "nested-virtualization")
	}
	t.GPUs, t.Accelerators, t.Neuron = splitDevices(r, family)
	return t
}

// has looks for a word in a list of words parted by spaces.
func has(list, word string) bool {
	return slices.Contains(strings.Fields(list), word)
}

// cpuManufacturer reads the first word of the processor, Intel's when that says nothing: t1 is "Variable",
// some names begin with "High Frequency".
func cpuManufacturer(processor string) string {
	first, _, _ := strings.Cut(processor, " ")
	if first == "AMD" || first == "AWS" {
		return first
	}
	return "Intel"
}

// isFlexFamily types share their hosts: they join no cluster group and have no enclaves.
func isFlexFamily(family string) bool { return strings.HasSuffix(family, "-flex") }

// clockSpeed fills the speeds that the source leaves out: high-memory machines run at 2.1 GHz, m6g and inf1
// at 2.5 GHz, which also has to do for the first generations, where EC2 says nothing. And it fixes two
// that differ from what EC2 says.
func clockSpeed(r *record, family string) float64 {
	switch {
	case family == "m7i-flex":
		return 3.2
	case family == "inf2":
		return 3.6
	case r.ClockGHz > 0:
		return r.ClockGHz
	case strings.HasPrefix(family, "u-"):
		return 2.1
	default:
		return 2.5
	}
}

// threadsPerCore per core: two, but one on Graviton, on AMD's seventh generation, on the first generations, on
// t2, and wherever there is but one vCPU.
func threadsPerCore(r *record, family string) int {
	if r.VCPU == 1 || slices.Contains(r.Arch, "arm64") || has(singleThread, family) {
		return 1
	}
	return 2
}

// networkCards deals the interfaces out to the network cards evenly, as EC2 does.
func networkCards(r *record) []Card {
	list := make([]Card, max(1, cardCounts[r.Name]))
	for i := range list {
		list[i] = Card{Index: i, MaxENIs: r.MaxENIs / len(list)}
	}
	list[0].MaxENIs += r.MaxENIs % len(list)
	return list
}

// cardCounts has the types with more than one network card. Each of these has EFA, on every card.
var cardCounts = map[string]int{
	"c6in.32xlarge": 2, "c6in.metal": 2,
	"m6idn.32xlarge": 2, "m6idn.metal": 2,
	"m6in.32xlarge": 2, "m6in.metal": 2,
	"r6idn.32xlarge": 2, "r6idn.metal": 2,
	"r6in.32xlarge": 2, "r6in.metal": 2,
	"u7in-16tb.224xlarge": 2, "u7in-24tb.224xlarge": 2, "u7in-32tb.224xlarge": 2,
	"g6e.24xlarge": 2, "g6e.48xlarge": 4,
	"dl1.24xlarge": 4, "p4d.24xlarge": 4,
	"p5.48xlarge": 32, "p5en.48xlarge": 16,
	"trn1.32xlarge": 8, "trn1n.32xlarge": 16,
}

// efaSizes has the sizes with an Elastic Fabric Adapter, by family, after AWS's list of supported types.
var efaSizes = map[string]string{
	"c5n":  "9xlarge 18xlarge metal",
	"c6a":  "48xlarge metal",
	"c6gn": "16xlarge",
	"c6i":  "32xlarge metal", "c6id": "32xlarge metal", "c6in": "32xlarge metal",
	"c7a": "48xlarge metal-48xl",
	"c7g": "16xlarge metal", "c7gd": "16xlarge metal", "c7gn": "16xlarge metal",
	"c7i": "48xlarge metal-48xl",
	"c8g": "24xlarge 48xlarge metal-24xl metal-48xl", "c8gd": "24xlarge 48xlarge metal-24xl metal-48xl",
	"dl1":  "24xlarge",
	"f2":   "48xlarge",
	"g4dn": "8xlarge 12xlarge 16xlarge metal",
	"g5":   "8xlarge 12xlarge 16xlarge 24xlarge 48xlarge",
	"g6":   "8xlarge 12xlarge 16xlarge 24xlarge 48xlarge", "g6e": "8xlarge 12xlarge 16xlarge 24xlarge 48xlarge",
	"gr6":   "8xlarge",
	"hpc7g": "4xlarge 8xlarge 16xlarge",
	"i3en":  "12xlarge 24xlarge metal",
	"i4g":   "16xlarge", "i4i": "32xlarge metal",
	"i7ie": "48xlarge metal-48xl", "i8g": "24xlarge 48xlarge metal-24xl",
	"im4gn": "16xlarge",
	"inf1":  "24xlarge",
	"m5dn":  "24xlarge metal", "m5n": "24xlarge metal", "m5zn": "12xlarge metal",
	"m6a": "48xlarge metal",
	"m6i": "32xlarge metal", "m6id": "32xlarge metal", "m6idn": "32xlarge metal", "m6in": "32xlarge metal",
	"m7a": "48xlarge metal-48xl",
	"m7g": "16xlarge metal", "m7gd": "16xlarge metal",
	"m7i": "48xlarge metal-48xl",
	"m8g": "24xlarge 48xlarge metal-24xl metal-48xl", "m8gd": "24xlarge 48xlarge metal-24xl metal-48xl",
	"p3dn": "24xlarge", "p4d": "24xlarge", "p5": "48xlarge", "p5en": "48xlarge",
	"r5dn": "24xlarge metal", "r5n": "24xlarge metal",
	"r6a": "48xlarge metal",
	"r6i": "32xlarge metal", "r6id": "32xlarge metal", "r6idn": "32xlarge metal", "r6in": "32xlarge metal",
	"r7a": "48xlarge metal-48xl",
	"r7g": "16xlarge metal", "r7gd": "16xlarge metal",
	"r7i": "48xlarge metal-48xl", "r7iz": "32xlarge metal-32xl",
	"r8g": "24xlarge 48xlarge metal-24xl metal-48xl", "r8gd": "24xlarge 48xlarge metal-24xl metal-48xl",
	"trn1": "32xlarge", "trn1n": "32xlarge",
	"u7i-6tb": "112xlarge", "u7i-8tb": "112xlarge", "u7i-12tb": "224xlarge",
	"u7in-16tb": "224xlarge", "u7in-24tb": "224xlarge", "u7in-32tb": "224xlarge",
	"vt1":   "24xlarge",
	"x2idn": "32xlarge metal", "x2iedn": "32xlarge metal", "x2iezn": "12xlarge metal",
	"x8g": "24xlarge 48xlarge metal-24xl metal-48xl",
}

// blockSizes has the sizes that are offered in capacity blocks for machine learning.
var blockSizes = map[string]string{
	"p4d": "24xlarge", "p4de": "24xlarge", "p5": "4xlarge 48xlarge", "p5e": "48xlarge", "p5en": "48xlarge", "trn1": "32xlarge",
}

// sevSizes has the sizes whose processor can encrypt the memory of a machine with a key of its own.
var sevSizes = map[string]string{
	"c6a": "large xlarge 2xlarge 4xlarge 8xlarge 12xlarge 16xlarge",
	"m6a": "large xlarge 2xlarge 4xlarge 8xlarge",
	"r6a": "large xlarge 2xlarge 4xlarge",
}

// successorOf has the families that are newer than the source, by the one they follow.
var successorOf = map[string]string{"c7i": "c8i", "m7i": "m8i", "r7i": "r8i"}

// newerGenerations are the virtual machines of the families that are newer than the source: of the same sizes, in
// the same zones, for 5 % more. Only they run virtual machines of their own.
func newerGenerations(types []record) []record {
	var list []record
	for _, r := range types {
		family, size := r.split()
		next, found := successorOf[family]
		if !found || strings.HasPrefix(size, "metal") {
			continue
		}
		r.Name, r.OnDemand, r.Spot = next+"."+size, r.OnDemand*1.05, slices.Clone(r.Spot)
		for i := range r.Spot {
			r.Spot[i] *= 1.05
		}
		list = append(list, r)
	}
	return list
}

const (
	// nestedFamilies are those whose virtual machines can run virtual machines.
	nestedFamilies = "c8i m8i r8i"

	// singleThread are the families whose x86 cores run one thread each.
	singleThread = "c1 c7a m1 m2 m7a r7a t1 t2"

	// xenWithENA are the old families that already had the new network adapter.
	xenWithENA = "f1 h1 i3 p3 r4 x1 x1e"

	// plainTraffic are the Nitro families, and metal of their age, that do not encrypt traffic between instances.
	plainTraffic = "a1 c5 c5d c6g c6gd g5g i3 m5 m5a m5ad m5d m6g m6gd r5 r5a r5ad r5b r5d r6g r6gd t3 t3a t4g x2gd z1d"

	// noEnclaves are the Nitro families that cannot part with memory for an enclave.
	noEnclaves = "a1 dl1 f2 g4ad g5g hpc7g im4gn is4gen p5 p5en t3 t3a t4g trn1 trn1n vt1 x2gd"
)

// supportsEnclaves: on Nitro, with four vCPUs, or two on Graviton, never on metal or on high-memory machines.
func supportsEnclaves(r *record, hypervisor, family string) bool {
	least := 4
	if slices.Contains(r.Arch, "arm64") {
		least = 2
	}
	barred := has(noEnclaves, family) || isFlexFamily(family) || strings.HasPrefix(family, "u")
	return hypervisor == "nitro" && r.VCPU >= least && !barred
}
