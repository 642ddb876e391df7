package catalogue

import (
	"bytes"
	"compress/gzip"
	_ "embed"
	"encoding/json"
	"fmt"
	"slices"
)

// Type is what EC2 describes of an instance type. Its slices are shared: read them, do not write.
type Type struct {
	Name                string
	VCPU                int
	Cores               int
	ThreadsPerCore      int
	MemoryMiB           int
	Arch                []string // x86_64 or arm64
	Manufacturer        string   // of the processor: Intel, AMD or AWS
	ClockGHz            float64  // sustained
	Hypervisor          string   // nitro or xen; empty for bare metal
	BareMetal           bool
	CurrentGeneration   bool
	Spot                bool // sold as spot somewhere in the region
	ENA                 bool
	EncryptionInTransit bool
	NitroEnclaves       bool
	MaxENIs             int // over all network cards
	IPv4PerENI          int
	Cards               []Card // at least one; the first is the default
	EFAInterfaces       int    // 0: no EFA
	EBSMbps             int    // maximum; 0: not EBS-optimised by default
	NVMeGB              int    // all local NVMe disks together; 0: none
	NVMeDisks           []Disk
	GPUs                []GPU
	Accelerators        []Accelerator // inference accelerators: Inferentia
	Neuron              []Neuron      // Inferentia and Trainium
	Features            []string      // of the processor: amd-sev-snp
	Strategies          []string      // of placement groups: cluster, partition, spread
}

// Card is a network card.
type Card struct{ Index, MaxENIs int }

// Disk is a group of equal local NVMe disks.
type Disk struct{ Count, SizeGB int }

// GPU is a group of equal GPUs. MemoryMiB is that of one.
type GPU struct {
	Name         string
	Manufacturer string
	Count        int
	MemoryMiB    int
}

// Accelerator is a group of equal inference accelerators.
type Accelerator struct {
	Name         string
	Manufacturer string
	Count        int
}

// Neuron is a group of equal Neuron devices. Cores is that of one.
type Neuron struct {
	Name  string
	Count int
	Cores int
}

// Catalogue is the list of types with their prices. It never changes, so everyone may share it.
type Catalogue struct {
	source string
	names  []string
	offers map[string]offer
}

// offer is a type with what it costs and where. Spot prices are per zone; 0 means not sold as spot there.
type offer struct {
	kind     Type
	onDemand float64
	spot     [zones]float64
	offered  [zones]bool
}

//go:embed types.json.gz
var packed []byte

// Load unpacks the embedded types. It takes a few milliseconds; keep what it returns.
func Load() (*Catalogue, error) {
	doc, err := unpack(packed)
	if err != nil {
		return nil, fmt.Errorf("load catalogue: %w", err)
	}
	c := &Catalogue{
		source: doc.Source,
		names:  make([]string, 0, len(doc.Types)),
		offers: make(map[string]offer, len(doc.Types)),
	}
	for i := range doc.Types {
		r := &doc.Types[i]
		c.names = append(c.names, r.Name)
		o := offer{kind: describe(r), onDemand: r.OnDemand}
		for zone := range zones {
			o.offered[zone] = r.in(zone)
			o.spot[zone] = r.spotIn(zone)
		}
		c.offers[r.Name] = o
	}
	slices.Sort(c.names)
	return c, nil
}

func unpack(data []byte) (document, error) {
	text, err := gzip.NewReader(bytes.NewReader(data))
	if err != nil {
		return document{}, err
	}
	var doc document
	if err := json.NewDecoder(text).Decode(&doc); err != nil {
		return document{}, err
	}
	return doc, text.Close()
}

// Source names the data set, its version and its licence.
func (c *Catalogue) Source() string { return c.source }

// Names returns the names of all types, sorted.
func (c *Catalogue) Names() []string { return slices.Clone(c.names) }

// Type returns the type of that name.
func (c *Catalogue) Type(name string) (Type, bool) {
	o, found := c.offers[name]
	return o.kind, found
}

// OnDemand returns the price of an hour in USD, the same in all zones.
func (c *Catalogue) OnDemand(name string) (usdPerHour float64, ok bool) {
	o, found := c.offers[name]
	return o.onDemand, found && o.onDemand > 0
}

// Offered tells whether a zone sells the type. Zones count from 0 and stand for us-east-1a, b and c;
// zones after the third repeat them, so that a region may have any number.
func (c *Catalogue) Offered(name string, zone int) bool {
	return zone >= 0 && c.offers[name].offered[max(zone, 0)%zones]
}
