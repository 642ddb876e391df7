package offering

import (
	"maps"
	"slices"

	karpv1 "github.com/dovetail-sh/dovetail/api/v1"
	"github.com/dovetail-sh/dovetail/internal/catalog"
)

// reservedShare makes the price of a reservation a tiny part of the on-demand price, because it is paid for in any
// case. Reservations then sort first, and among each other by the price of what is reserved.
const reservedShare = 10_000_000

// stamp identifies the inputs of a list of offerings, to detect whether it is outdated.
type stamp struct {
	prices, unavailable, reservations, overlay, risks uint64
	shifted                                           uint64 // bit i: place i of the shape
}

// refreshOfferings returns the list of a shape with offerings as they are now. If none of them changed
// it is the same list, and types that did not change keep their offerings in any case.
func (c *Catalog) refreshOfferings(s *shape) []catalog.InstanceType {
	overlay, overlayVersion := c.options.OverlayPrices()
	now := stamp{
		prices: c.options.Prices.Version(), unavailable: c.options.Unavailable.Version(),
		reservations: c.options.Reservations.Version(), overlay: overlayVersion, risks: c.options.Risks.Version(),
	}
	for i := range s.places {
		if s.places[i].id != "" && c.options.Shifted(s.places[i].id) {
			now.shifted |= 1 << i
		}
	}
	if now == s.stamp && s.list != nil {
		return s.list
	}
	s.stamp = now
	seller := offeringWriter{catalog: c, shape: s, overlay: overlay, open: s.openPlaces(c.options.Unavailable, now.shifted)}
	list := make([]catalog.InstanceType, len(s.types))
	changed := len(list) != len(s.list)
	for i := range list {
		t := &s.types[i]
		list[i] = catalog.InstanceType{Name: s.region.machines[i].name, Labels: s.labels[i], Capacity: t.capacity, Overhead: t.overhead, Unsuited: t.unsuited, Devices: t.devices}
		seller.writeOfferings(i)
		if len(s.list) == len(list) && slices.EqualFunc(s.list[i].Offerings, seller.buffer, equal) {
			list[i].Offerings = s.list[i].Offerings
			changed = changed || s.list[i].Unsuited != t.unsuited || !s.list[i].Capacity.Equal(t.capacity) || !s.list[i].Overhead.Equal(t.overhead)
			continue
		}
		list[i].Offerings, changed = slices.Clone(seller.buffer), true
	}
	if changed {
		s.list = list
	}
	return s.list
}

// openPlaces are the places where a class can launch: it has a subnet with free addresses there, and the
// zone is not shifted away from.
func (s *shape) openPlaces(unavailable *Unavailable, shifted uint64) []bool {
	open := make([]bool, len(s.places))
	for i := range s.places {
		full := !slices.ContainsFunc(s.places[i].subnets, func(id string) bool { return !unavailable.SubnetFull(id) })
		open[i] = !full && shifted>>i&1 == 0
	}
	return open
}

// offeringWriter writes the offerings of one type after another into a buffer.
type offeringWriter struct {
	catalog *Catalog
	shape   *shape
	overlay map[string]float64
	open    []bool // by place
	buffer  []catalog.Offering
}

// writeOfferings fills the buffer for a machine: what can be reserved first, then every lot on demand and as
// spot, available or not.
func (s *offeringWriter) writeOfferings(i int) {
	m, usable := &s.shape.region.machines[i], s.shape.types[i].unsuited == ""
	s.buffer = s.buffer[:0]
	onDemand, priced := s.price(m.name)
	for _, h := range s.shape.reservations[i] {
		s.buffer = append(s.buffer, s.reserved(&h, usable, m.name, onDemand))
	}
	for j := range s.shape.launchPlaces {
		l := &s.shape.launchPlaces[j]
		zone := s.shape.places[l.place].zone
		offered := usable && s.open[l.place] && m.zones&s.shape.places[l.place].bit != 0
		add := func(capacityType string, usd float64, known bool) {
			can, out := offered && known, s.catalog.options.Unavailable.Has(capacityType, m.name, zone, l.group)
			s.buffer = append(s.buffer, catalog.Offering{
				Zone: zone, CapacityType: capacityType, Price: usd, Risk: usd * s.catalog.options.Risks.Share(capacityType, m.name, zone), Labels: l.labels, Available: can && !out, Out: can && out,
			})
		}
		if m.onDemand {
			add(karpv1.CapacityTypeOnDemand, onDemand, priced)
		}
		if m.spot {
			usd, known := s.catalog.options.Prices.Spot(m.name, zone)
			if own, overlaid := s.overlay[m.name]; !known && overlaid {
				usd, known = own, true
			}
			add(karpv1.CapacityTypeSpot, usd, known)
		}
	}
}

// price on demand; a NodeOverlay may stand in for one that is not known. An unknown price is zero, and
// the offering is then not available, so zero never wins (P02).
func (s *offeringWriter) price(instanceType string) (usd float64, known bool) {
	if usd, known = s.catalog.options.Prices.OnDemand(instanceType); known {
		return usd, true
	}
	usd, known = s.overlay[instanceType]
	return usd, known
}

// reserved is a reservation as an offering. A full one is available with nothing remaining (V15-44).
func (s *offeringWriter) reserved(h *heldReservation, usable bool, instanceType string, onDemand float64) catalog.Offering {
	l := &s.shape.launchPlaces[h.lot]
	zone := s.shape.places[l.place].zone
	free, takers := s.catalog.options.Reservations.Count(h.id)
	can, out := usable && h.usable && s.open[l.place], s.catalog.options.Unavailable.Has(karpv1.CapacityTypeReserved, instanceType, zone, l.group)
	return catalog.Offering{
		Zone: zone, CapacityType: karpv1.CapacityTypeReserved, Price: onDemand / reservedShare, Labels: h.labels,
		Reservation: h.id, Remaining: free, Takers: takers, Available: can && !out, Out: can && out,
	}
}

func equal(a, b catalog.Offering) bool {
	return a.Zone == b.Zone && a.CapacityType == b.CapacityType && a.Price == b.Price && a.Risk == b.Risk && a.Available == b.Available && a.Out == b.Out &&
		a.Reservation == b.Reservation && a.Remaining == b.Remaining && slices.Equal(a.Takers, b.Takers) && maps.Equal(a.Labels, b.Labels)
}
