package catalog

import (
	resourcev1 "k8s.io/api/resource/v1"

	"github.com/dovetail-sh/dovetail/internal/reqs"
	"github.com/dovetail-sh/dovetail/internal/resources"
)

// InstanceType is one kind of machine (SC-10). Zone, capacity type and reservation are not among its
// labels: they belong to its offerings.
type InstanceType struct {
	Name             string         `json:"name"`
	Labels           reqs.Set       `json:"labels"` // a value, or DoesNotExist, for every label the cloud knows
	Capacity         resources.Vec  `json:"capacity"`
	Overhead         resources.Vec  `json:"overhead"` // reserved for the system, the kubelet and eviction
	Offerings        []Offering     `json:"offerings"`
	VolumeLimits     map[string]int `json:"volumeLimits,omitempty"`     // by CSI driver; one that is absent is unlimited (V15-57)
	Overlaid         bool           `json:"overlaid,omitempty"`         // a NodeOverlay changed the price of an offering
	Unsuited         string         `json:"unsuited,omitempty"`         // why the node class can never launch it; no offering is available then
	CapacityOverlaid bool           `json:"capacityOverlaid,omitempty"` // a NodeOverlay changed its capacity
	Devices          []DevicePool   `json:"devices,omitempty"`          // what drivers of dynamic resource allocation are expected to publish for a node of it
}

// DevicePool is what one driver of dynamic resource allocation publishes for a node: the template of its ResourceSlices.
type DevicePool struct {
	Driver   string                  `json:"driver"`
	Devices  []resourcev1.Device     `json:"devices"`
	Counters []resourcev1.CounterSet `json:"counters,omitempty"` // that the devices share
}

// Offering is one way to launch an instance type.
type Offering struct {
	Zone         string            `json:"zone"`
	CapacityType string            `json:"capacityType"`
	Price        float64           `json:"price"`          // USD an hour; 0 is unknown, unless Free
	Risk         float64           `json:"risk,omitempty"` // USD an hour that the chance of losing it, or of not getting it, counts when plans are compared
	Available    bool              `json:"available"`
	Free         bool              `json:"free,omitempty"`        // a NodeOverlay made the price 0: it is known
	Out          bool              `json:"out,omitempty"`         // not available since launches found no capacity lately: it is tried again soon
	Reservation  string            `json:"reservation,omitempty"` // id, for capacity type "reserved"
	Remaining    int               `json:"remaining,omitempty"`   // instances left in the reservation
	Takers       []string          `json:"takers,omitempty"`      // UIDs of claims that lately got an instance of it, which Remaining has left out
	Labels       map[string]string `json:"labels,omitempty"`      // further labels a node launched this way has
	Size         *Size             `json:"size,omitempty"`        // where it differs from the type's
}

// Size is the capacity of an offering that differs from its type's.
type Size struct {
	Capacity resources.Vec `json:"capacity"`
	Overhead resources.Vec `json:"overhead"`
}

// Allocatable is what pods can use: capacity less overhead, nothing below zero.
func (t *InstanceType) Allocatable() resources.Vec {
	return resources.Max(resources.Sub(t.Capacity, t.Overhead), resources.Vec{})
}

// Allocatable is what pods can use on a node launched this way.
func (s *Size) Allocatable() resources.Vec {
	return resources.Max(resources.Sub(s.Capacity, s.Overhead), resources.Vec{})
}

// PriceOf is what the type costs as a capacity type, in a zone if it is offered there, else where it is cheapest; 0 if that
// is not known. Whether it has capacity at present does not matter.
func (t *InstanceType) PriceOf(capacityType, zone string) float64 {
	least := 0.0
	for i := range t.Offerings {
		o := &t.Offerings[i]
		switch {
		case o.CapacityType != capacityType || !(o.Price > 0):
		case o.Zone == zone:
			return o.Price
		case least == 0 || o.Price < least:
			least = o.Price
		}
	}
	return least
}

// Launchable reports whether a launch can be tried: a full reservation is available but not
// launchable (V15-44).
func (o *Offering) Launchable() bool {
	return o.Available && (o.Reservation == "" || o.Remaining > 0)
}
