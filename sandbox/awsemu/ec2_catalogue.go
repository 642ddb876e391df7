package awsemu

import (
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"sync"

	"github.com/dovetail-sh/dovetail/sandbox/awsemu/catalogue"
	"github.com/dovetail-sh/dovetail/sandbox/awsemu/policy"
)

// loadCatalogue reads the embedded instance types once: they are part of the program.
var loadCatalogue = sync.OnceValues(catalogue.Load)

func shippedCatalogue() *catalogue.Catalogue {
	c, err := loadCatalogue()
	if err != nil {
		panic(fmt.Sprintf("the instance types that were compiled in cannot be read: %v", err)) // a broken build, no input
	}
	return c
}

// embeddedTypes is the embedded types that the fixture has.
func (e *Emulator) embeddedTypes() *catalogue.Catalogue {
	if len(e.fixture.Families) > 0 {
		return shippedCatalogue().Only(e.fixture.Families...)
	}
	return shippedCatalogue()
}

// Catalogue is the instance types that are emulated at the moment.
func (e *Emulator) Catalogue() *catalogue.Catalogue { return e.catalogue.Load() }

// TypeOffer is an instance type of the control "catalogue".
type TypeOffer struct {
	catalogue.Type
	OnDemandPrice float64            `json:"onDemandPrice"`        // USD per hour; 0: in no price list
	Zones         policy.Texts       `json:"zones"`                // names of those that offer it
	SpotPrices    map[string]float64 `json:"spotPrices,omitempty"` // by name of the zone; 0 or absent: not offered as spot
	Retired       bool               `json:"retired,omitempty"`    // cannot be launched any more
}

// toCatalogueOffer translates names of zones into their numbers.
func (e *Emulator) toCatalogueOffer(t *TypeOffer) catalogue.Offer {
	o := catalogue.Offer{Type: t.Type, OnDemand: t.OnDemandPrice, Retired: t.Retired}
	o.Spot = false
	for _, zone := range e.fixture.Zones {
		offered := slices.Contains(t.Zones, zone.Name)
		price := max(0, t.SpotPrices[zone.Name])
		o.Offered, o.SpotUSD = append(o.Offered, offered), append(o.SpotUSD, price)
		o.Spot = o.Spot || offered && price > 0
	}
	return o
}

// typeOffer is what the catalogue has of a type, as the control shows it.
func (e *Emulator) typeOffer(name string) (*TypeOffer, bool) {
	o, found := e.Catalogue().Offer(name)
	if !found {
		return nil, false
	}
	t := &TypeOffer{Type: o.Type, OnDemandPrice: o.OnDemand, Zones: policy.Texts{}, SpotPrices: map[string]float64{}}
	for n, zone := range e.fixture.Zones {
		if e.Catalogue().Offered(name, n) {
			t.Zones = append(t.Zones, zone.Name)
			if price := o.SpotUSD[n%len(o.SpotUSD)]; price > 0 {
				t.SpotPrices[zone.Name] = price
			}
		}
	}
	return t, true
}

// buildCatalogue puts the changes of the model on top of the embedded types. The emulator must be
// locked.
func (e *Emulator) buildCatalogue() {
	changes := e.ec2().Types
	if len(changes) == 0 {
		e.catalogue.Store(e.embeddedTypes())
		return
	}
	offers := make([]catalogue.Offer, 0, len(changes))
	for name, t := range changes {
		o := e.toCatalogueOffer(t)
		o.Name = name
		offers = append(offers, o)
	}
	e.catalogue.Store(e.embeddedTypes().With(offers...))
}

// catalogueControl shows the instance types, or one. POST changes or adds one, PUT a list of them;
// members that are not sent stay as they are. DELETE retires one, or takes all changes back.
func (e *Emulator) catalogueControl() control {
	return control{
		http.MethodGet: e.showTypes,
		http.MethodPost: func(r *controlRequest) (any, error) {
			return nil, e.changeTypes([]json.RawMessage{r.body})
		},
		http.MethodPut: func(r *controlRequest) (any, error) {
			var list []json.RawMessage
			if err := r.decode(&list); err != nil {
				return nil, err
			}
			return nil, e.changeTypes(list)
		},
		http.MethodDelete: func(r *controlRequest) (any, error) {
			if r.rest == "" {
				e.takeBackTypes()
				e.buildCatalogue()
				return nil, nil
			}
			t, found := e.typeOffer(r.rest)
			if !found {
				return nil, fmt.Errorf("there is no %q", r.rest)
			}
			t.Retired = true
			e.ec2().Types[r.rest] = t
			e.buildCatalogue()
			return nil, nil
		},
	}
}

// takeBackTypes makes all types as they are embedded. Those added are retired: machines of them may still run.
func (e *Emulator) takeBackTypes() {
	maps.DeleteFunc(e.ec2().Types, func(name string, t *TypeOffer) bool {
		t.Retired = true
		_, embedded := e.embeddedTypes().Machine(name)
		return embedded
	})
}

func (e *Emulator) showTypes(r *controlRequest) (any, error) {
	if r.rest != "" {
		t, found := e.typeOffer(r.rest)
		if !found {
			return nil, fmt.Errorf("there is no %q", r.rest)
		}
		return t, nil
	}
	all := map[string]*TypeOffer{}
	for _, name := range e.Catalogue().Names() {
		all[name], _ = e.typeOffer(name)
	}
	return all, nil
}

// changeTypes applies all changes or none.
func (e *Emulator) changeTypes(list []json.RawMessage) error {
	changed := map[string]*TypeOffer{}
	for n, raw := range list {
		t, err := e.changedType(raw)
		if err != nil {
			return fmt.Errorf("element %d: %w", n, err)
		}
		changed[t.Name] = t
	}
	maps.Copy(e.ec2().Types, changed)
	e.buildCatalogue()
	return nil
}

// changedType reads a type onto a copy of the one that has its name, or of the one it is like.
func (e *Emulator) changedType(raw json.RawMessage) (*TypeOffer, error) {
	var body struct {
		Name string `json:"name"`
		Like string `json:"like"`
	}
	if err := json.Unmarshal(raw, &body); err != nil {
		return nil, err
	}
	if family, size, _ := strings.Cut(body.Name, "."); family == "" || size == "" {
		return nil, fmt.Errorf("name: want one such as m5.large, not %q", body.Name)
	}
	start, found := e.typeOffer(body.Name)
	if body.Like != "" {
		if start, found = e.typeOffer(body.Like); !found {
			return nil, fmt.Errorf("like: there is no %q", body.Like)
		}
	}
	t := struct {
		TypeOffer
		Like string `json:"like"`
	}{TypeOffer: *newTypeOffer()}
	if found { // through JSON: what is shared with the catalogue must not change
		if err := copyDeep(&t.TypeOffer, start); err != nil {
			return nil, err
		}
	}
	if err := (&controlRequest{body: raw}).decode(&t); err != nil {
		return nil, err
	}
	t.setDefaults()
	return &t.TypeOffer, e.checkType(&t.TypeOffer)
}

// newTypeOffer is what a type is like unless its control says otherwise: a machine of today.
func newTypeOffer() *TypeOffer {
	return &TypeOffer{Type: catalogue.Type{
		Arch: []string{"x86_64"}, Manufacturer: "Intel", ClockGHz: 3.2, Hypervisor: "nitro", CurrentGeneration: true, ENA: true,
		EncryptionInTransit: true, MaxENIs: 3, IPv4PerENI: 10, EBSMbps: 10000, Strategies: []string{"cluster", "partition", "spread"},
	}}
}

// setDefaults fills what follows from the rest.
func (t *TypeOffer) setDefaults() {
	if t.BareMetal {
		t.Hypervisor = ""
	}
	if t.ThreadsPerCore < 1 {
		t.ThreadsPerCore = 1
	}
	t.Cores = max(1, t.VCPU/t.ThreadsPerCore)
	if len(t.Cards) == 0 {
		t.Cards = []catalogue.Card{{MaxENIs: t.MaxENIs}}
	}
}

func (e *Emulator) checkType(t *TypeOffer) error {
	switch {
	case t.VCPU < 1 || t.MemoryMiB < 1:
		return fmt.Errorf("vcpu, memoryMiB: a machine has some of both")
	case t.MaxENIs < 1 || t.IPv4PerENI < 1:
		return fmt.Errorf("maxENIs, ipv4PerENI: a machine has some of both")
	case t.OnDemandPrice < 0:
		return fmt.Errorf("onDemandPrice: is negative")
	}
	for _, arch := range t.Arch {
		if arch != "x86_64" && arch != "arm64" {
			return fmt.Errorf("arch: want x86_64 or arm64, not %q", arch)
		}
	}
	for _, zone := range t.Zones {
		if e.zoneIndex(zone) < 0 {
			return fmt.Errorf("zones: %q is not one of the region", zone)
		}
	}
	for zone, price := range t.SpotPrices {
		if e.zoneIndex(zone) < 0 || price < 0 {
			return fmt.Errorf("spotPrices: %q: %v is no price in a zone of the region", zone, price)
		}
	}
	return nil
}
