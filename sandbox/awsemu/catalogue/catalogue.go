package catalogue

import (
	"bytes"
	"compress/gzip"
	_ "embed"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
)

// Type is what EC2 describes of an instance type. Its slices are shared: read them, do not write.
type Type struct {
	Name                string        `json:"name"`
	VCPU                int           `json:"vcpu"`
	Cores               int           `json:"cores"`
	ThreadsPerCore      int           `json:"threadsPerCore"`
	MemoryMiB           int           `json:"memoryMiB"`
	Arch                []string      `json:"arch"`                 // x86_64 or arm64
	Manufacturer        string        `json:"manufacturer"`         // of the processor: Intel, AMD or AWS
	ClockGHz            float64       `json:"clockGHz"`             // sustained
	Hypervisor          string        `json:"hypervisor,omitempty"` // nitro or xen; empty for bare metal
	BareMetal           bool          `json:"bareMetal,omitempty"`
	CurrentGeneration   bool          `json:"currentGeneration"`
	Spot                bool          `json:"-"`                        // offered as spot somewhere in the region
	CapacityBlocks      bool          `json:"capacityBlocks,omitempty"` // offered in blocks that are booked ahead
	ENA                 bool          `json:"ena"`
	EncryptionInTransit bool          `json:"encryptionInTransit,omitempty"`
	NitroEnclaves       bool          `json:"nitroEnclaves,omitempty"`
	MaxENIs             int           `json:"maxENIs"` // over all network cards
	IPv4PerENI          int           `json:"ipv4PerENI"`
	Cards               []Card        `json:"cards"`                   // at least one; the first is the default
	EFAInterfaces       int           `json:"efaInterfaces,omitempty"` // 0: no EFA
	EBSMbps             int           `json:"ebsMbps,omitempty"`       // maximum; 0: not EBS-optimised by default
	NVMeGB              int           `json:"nvmeGB,omitempty"`        // all local NVMe disks together; 0: none
	NVMeDisks           []Disk        `json:"nvmeDisks,omitempty"`
	GPUs                []GPU         `json:"gpus,omitempty"`
	Accelerators        []Accelerator `json:"accelerators,omitempty"` // inference accelerators: Inferentia
	Neuron              []Neuron      `json:"neuron,omitempty"`       // Inferentia and Trainium
	Features            []string      `json:"features,omitempty"`     // of the processor: amd-sev-snp
	Strategies          []string      `json:"strategies"`             // of placement groups: cluster, partition, spread
}

// Card is a network card.
type Card struct {
	Index   int `json:"index"`
	MaxENIs int `json:"maxENIs"`
}

// Disk is a group of equal local NVMe disks.
type Disk struct {
	Count  int `json:"count"`
	SizeGB int `json:"sizeGB"`
}

// GPU is a group of equal GPUs. MemoryMiB is that of one.
type GPU struct {
	Name         string `json:"name"`
	Manufacturer string `json:"manufacturer"`
	Count        int    `json:"count"`
	MemoryMiB    int    `json:"memoryMiB"`
}

// Accelerator is a group of equal inference accelerators.
type Accelerator struct {
	Name         string `json:"name"`
	Manufacturer string `json:"manufacturer"`
	Count        int    `json:"count"`
}

// Neuron is a group of equal Neuron devices. Cores is that of one.
type Neuron struct {
	Name  string `json:"name"`
	Count int    `json:"count"`
	Cores int    `json:"cores"`
}

// Catalogue is the list of types with their prices. It never changes, so everyone may share it.
type Catalogue struct {
	source string
	names  []string
	offers map[string]Offer
}

// Offer is a type with what it costs and where. Zones count from 0; zones after the last repeat them,
// so that a region may have any number.
type Offer struct {
	Type
	OnDemand float64   // USD per hour, the same in all zones; 0: in no price list
	Offered  []bool    // by zone; empty: nowhere
	SpotUSD  []float64 // base price by zone; 0: not offered as spot there
	Retired  bool      // cannot be launched any more; what runs goes on
}

// inZone reports whether a zone offers the type.
func (o Offer) inZone(zone int) bool {
	return len(o.Offered) > 0 && zone >= 0 && o.Offered[zone%len(o.Offered)]
}

//go:embed types.json.gz
var packed []byte

// Load unpacks the embedded types. It takes a few milliseconds; keep what it returns.
func Load() (*Catalogue, error) {
	doc, err := unpackDocument(packed)
	if err != nil {
		return nil, fmt.Errorf("load catalogue: %w", err)
	}
	c := &Catalogue{
		source: doc.Source,
		names:  make([]string, 0, len(doc.Types)),
		offers: make(map[string]Offer, len(doc.Types)),
	}
	doc.Types = append(doc.Types, newerGenerations(doc.Types)...)
	for i := range doc.Types {
		r := &doc.Types[i]
		o := Offer{Type: describe(r), OnDemand: r.OnDemand}
		for zone := range zones {
			o.Offered = append(o.Offered, r.inZone(zone))
			o.SpotUSD = append(o.SpotUSD, r.spotIn(zone))
		}
		c.names = append(c.names, r.Name)
		c.offers[r.Name] = o
	}
	slices.Sort(c.names)
	return c, nil
}

// Only returns a catalogue of some families, such as m5.
func (c *Catalogue) Only(families ...string) *Catalogue {
	some := &Catalogue{source: c.source, offers: map[string]Offer{}}
	for _, name := range c.names {
		if family, _, _ := strings.Cut(name, "."); slices.Contains(families, family) {
			some.names = append(some.names, name)
			some.offers[name] = c.offers[name]
		}
	}
	return some
}

// With returns a catalogue in which these types are as given, whether they were there before or not.
func (c *Catalogue) With(changes ...Offer) *Catalogue {
	changed := &Catalogue{source: c.source, offers: maps.Clone(c.offers)}
	for _, o := range changes {
		changed.offers[o.Name] = o
	}
	for name, o := range changed.offers {
		if !o.Retired {
			changed.names = append(changed.names, name)
		}
	}
	slices.Sort(changed.names)
	return changed
}

func unpackDocument(data []byte) (document, error) {
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
	return o.Type, found && !o.Retired
}

// Machine returns the type of that name also when it is retired: machines of it may still run.
func (c *Catalogue) Machine(name string) (Type, bool) {
	o, found := c.offers[name]
	return o.Type, found
}

// Offer returns all that is known of a type that can be launched.
func (c *Catalogue) Offer(name string) (Offer, bool) {
	o, found := c.offers[name]
	return o, found && !o.Retired
}

// OnDemand returns the price of an hour in USD, the same in all zones.
func (c *Catalogue) OnDemand(name string) (usdPerHour float64, ok bool) {
	o, found := c.Offer(name)
	return o.OnDemand, found && o.OnDemand > 0
}

// Offered reports whether a zone offers the type. Zones count from 0; those of the embedded types stand
// for us-east-1a, b and c.
func (c *Catalogue) Offered(name string, zone int) bool {
	o, found := c.Offer(name)
	return found && o.inZone(zone)
}
