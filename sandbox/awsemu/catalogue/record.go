package catalogue

import (
	"cmp"
	"slices"
	"strings"
)

// zones is the number of zones with data of their own; their ids end in these digits.
const (
	zones      = 3
	zoneDigits = "246" // us-east-1a is use1-az2, b is use1-az4, c is use1-az6
)

// document is types.json.gz. Everything in it was published; generate only changed units.
type document struct {
	Source string   `json:"source"`
	Region string   `json:"region"`
	Types  []record `json:"types"`
}

type record struct {
	Name       string    `json:"name"`
	VCPU       int       `json:"vcpu"`
	MemoryMiB  int       `json:"mib"`
	Arch       []string  `json:"arch"`
	Processor  string    `json:"cpu"` // "Intel Xeon Platinum 8175"
	ClockGHz   float64   `json:"ghz"` // 0: unknown
	Current    bool      `json:"current"`
	MaxENIs    int       `json:"enis"` // over all network cards
	IPv4PerENI int       `json:"ips"`
	EBSMbps    int       `json:"ebs"`
	EBSNVMe    bool      `json:"ebsNVMe"` // EBS volumes appear as NVMe: Nitro, as opposed to Xen
	Disks      int       `json:"disks"`   // local NVMe only
	DiskGB     int       `json:"diskGB"`  // of one disk
	GPUs       int       `json:"gpus"`    // or accelerators
	GPUModel   string    `json:"gpu"`     // "NVIDIA Tesla V100"
	GPUMiB     int       `json:"gpuMiB"`  // of all together
	Cluster    bool      `json:"cluster"` // may join a cluster placement group
	Zones      string    `json:"zones"`   // last digits of the zone ids, sorted
	OnDemand   float64   `json:"usd"`
	Spot       []float64 `json:"spot"` // sorted, one per zone, but the source does not say which
}

func (r *record) inZone(zone int) bool {
	return strings.IndexByte(r.Zones, zoneDigits[zone]) >= 0
}

// spotIn returns the spot price of a zone, or 0. The source lists the prices of the zones without
// naming these, so a hash of the type and the zone decides which zone has which of them.
func (r *record) spotIn(zone int) float64 {
	if !r.inZone(zone) {
		return 0
	}
	order := []byte(r.Zones)
	slices.SortFunc(order, func(a, b byte) int {
		return cmp.Compare(hashNumbers(r.Name, uint64(a)), hashNumbers(r.Name, uint64(b)))
	})
	place := slices.Index(order, zoneDigits[zone])
	if place >= len(r.Spot) {
		return 0
	}
	return r.Spot[place]
}

// split parts "m5.large" into family and size.
func (r *record) split() (family, size string) {
	family, size, _ = strings.Cut(r.Name, ".")
	return family, size
}
