package launch

import (
	"cmp"
	"math"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	awsv1 "github.com/dovetail-sh/dovetail/api/aws/v1"
	karpv1 "github.com/dovetail-sh/dovetail/api/v1"
	"github.com/dovetail-sh/dovetail/internal/catalog"
	"github.com/dovetail-sh/dovetail/internal/reqs"
	"github.com/dovetail-sh/dovetail/internal/resources"
)

// candidate is an instance type with those of its offerings that may be launched. They are shared with the catalogue
// and must not be changed.
type candidate struct {
	it     *catalog.InstanceType
	offers []*catalog.Offering
}

// cheapest is the lowest price of the offerings.
func (c candidate) cheapest() float64 {
	lowest := math.Inf(1)
	for _, o := range c.offers {
		lowest = min(lowest, o.Price)
	}
	return lowest
}

// filterOfferings drops offerings, and types that have none left. The list given is not changed, and is returned if
// nothing is dropped, as mostly.
func filterOfferings(list []candidate, good func(c candidate, o *catalog.Offering) bool) []candidate {
	for n, c := range list {
		bad := slices.IndexFunc(c.offers, func(o *catalog.Offering) bool { return !good(c, o) })
		if bad < 0 {
			continue
		}
		kept := append(make([]candidate, 0, len(list)), list[:n]...)
		for _, c := range list[n:] {
			if c.offers = filterOfferingsOf(c, good); len(c.offers) > 0 {
				kept = append(kept, c)
			}
		}
		return kept
	}
	return list
}

func filterOfferingsOf(c candidate, good func(c candidate, o *catalog.Offering) bool) []*catalog.Offering {
	offers := make([]*catalog.Offering, 0, len(c.offers))
	for _, o := range c.offers {
		if good(c, o) {
			offers = append(offers, o)
		}
	}
	return offers
}

// offeringLabelKeys are the labels that a node gets from its offering; types do not decide them.
func offeringLabelKeys() []string {
	return []string{
		corev1.LabelTopologyZone, karpv1.LabelCapacityType, awsv1.LabelZoneID, awsv1.LabelCapacityReservationID,
		awsv1.LabelCapacityReservationType, awsv1.LabelCapacityReservationInterrupt, awsv1.LabelPlacementGroupPartition,
	}
}

// usableCandidates returns what a claim allows and what is available: types that meet the requirements and hold the requests,
// with offerings that are launchable (V15-44) and not unavailable.
func usableCandidates(types []catalog.InstanceType, w want, out func(instanceType string, o *catalog.Offering) bool) []candidate {
	machine, offeringNeeds := w.needs.Clone(), reqs.Set{}
	for _, key := range offeringLabelKeys() {
		if need, requested := machine[key]; requested {
			offeringNeeds[key] = need
			delete(machine, key)
		}
	}
	list := make([]candidate, 0, len(types))
	for i := range types {
		t := &types[i]
		if !w.needs.Allows(corev1.LabelInstanceTypeStable, t.Name) {
			continue // most of them, before anything is compared
		}
		if _, conflict := machine.Conflict(t.Labels); conflict {
			continue
		}
		if offers := w.matchingOfferings(t, offeringNeeds, out); len(offers) > 0 {
			list = append(list, candidate{it: t, offers: offers})
		}
	}
	return list
}

// matchingOfferings returns the offerings of a type that hold the requests and have the required labels.
func (w want) matchingOfferings(t *catalog.InstanceType, offeringNeeds reqs.Set, out func(instanceType string, o *catalog.Offering) bool) []*catalog.Offering {
	allocatable := t.Allocatable()
	fits := resources.Fits(&w.requests, &allocatable)
	var offers []*catalog.Offering
	for i := range t.Offerings {
		o := &t.Offerings[i]
		inside := fits
		if o.Size != nil {
			allocatable := o.Size.Allocatable()
			inside = resources.Fits(&w.requests, &allocatable)
		}
		if inside && o.Launchable() && allows(offeringNeeds, o) && !out(t.Name, o) {
			if offers == nil {
				offers = make([]*catalog.Offering, 0, len(t.Offerings)-i)
			}
			offers = append(offers, o)
		}
	}
	return offers
}

// allows reports whether a node launched as this offering would have the required labels.
func allows(offeringNeeds reqs.Set, o *catalog.Offering) bool {
	for key, need := range offeringNeeds {
		value, has := o.Labels[key]
		switch key {
		case corev1.LabelTopologyZone:
			value, has = o.Zone, true
		case karpv1.LabelCapacityType:
			value, has = o.CapacityType, true
		}
		if has && !need.Has(value) || !has && !need.Negative() {
			return false
		}
	}
	return true
}

// reservationKind sorts reservations, in the order that decides between equal prices.
type reservationKind int

const (
	ordinary reservationKind = iota
	block
	interruptible
)

const typeBlock = "capacity-block"

func kindOf(o *catalog.Offering) reservationKind {
	switch {
	case o.Labels[awsv1.LabelCapacityReservationType] == typeBlock:
		return block
	case o.Labels[awsv1.LabelCapacityReservationInterrupt] == "true":
		return interruptible
	default:
		return ordinary
	}
}

func reserved(o *catalog.Offering) bool { return o.CapacityType == karpv1.CapacityTypeReserved }

// oneReservationKind keeps reservations of one kind, since a fleet can use only one: the cheapest.
func oneReservationKind(list []candidate) []candidate {
	best, found, price := ordinary, false, 0.0
	for _, c := range list {
		for _, o := range c.offers {
			kind := kindOf(o)
			if reserved(o) && (!found || o.Price < price || o.Price == price && kind < best) {
				best, found, price = kind, true, o.Price
			}
		}
	}
	return filterOfferings(list, func(_ candidate, o *catalog.Offering) bool { return !reserved(o) || kindOf(o) == best })
}

// oneBlock keeps the cheapest of all capacity blocks: a fleet cannot request two.
func oneBlock(list []candidate) []candidate {
	id, found, price := "", false, 0.0
	for _, c := range list {
		for _, o := range c.offers {
			if reserved(o) && kindOf(o) == block && (!found || o.Price < price || o.Price == price && o.Reservation < id) {
				id, found, price = o.Reservation, true, o.Price
			}
		}
	}
	return filterOfferings(list, func(_ candidate, o *catalog.Offering) bool {
		return !reserved(o) || kindOf(o) != block || o.Reservation == id
	})
}

// oneReservationPerZone keeps for each type and zone the reservation with the most free instances: overrides with the
// same type and subnet would be duplicates.
func oneReservationPerZone(list []candidate) []candidate {
	return filterOfferings(list, func(c candidate, o *catalog.Offering) bool {
		if !reserved(o) {
			return true
		}
		return !slices.ContainsFunc(c.offers, func(other *catalog.Offering) bool {
			return reserved(other) && other.Zone == o.Zone && other.Reservation != o.Reservation &&
				(other.Remaining > o.Remaining || other.Remaining == o.Remaining && other.Reservation < o.Reservation)
		})
	})
}

// dropSpecialHardware drops machines that must not be launched by accident: metal, and those with accelerators.
func dropSpecialHardware(list []candidate) []candidate {
	plain := make([]candidate, 0, len(list))
	for _, c := range list {
		if !hasSpecialHardware(c.it) {
			plain = append(plain, c)
		}
	}
	if len(plain) == 0 {
		return list
	}
	return plain
}

func hasSpecialHardware(t *catalog.InstanceType) bool {
	size := t.Labels[awsv1.LabelInstanceSize]
	metal := strings.Contains(t.Name, ".metal") || slices.ContainsFunc(size.Values, func(v string) bool { return strings.HasPrefix(v, "metal") })
	return metal || defined(t.Labels, awsv1.LabelInstanceGPUCount) || defined(t.Labels, awsv1.LabelInstanceAcceleratorCount)
}

// defined reports whether a type has a label at all.
func defined(labels reqs.Set, key string) bool {
	r, there := labels[key]
	return there && len(r.Values) > 0
}

// dropExpensiveSpot drops spot offerings that cost more than the cheapest on-demand one, if on-demand is allowed too.
func dropExpensiveSpot(list []candidate) []candidate {
	limit := math.Inf(1)
	for _, c := range list {
		for _, o := range c.offers {
			if o.CapacityType == karpv1.CapacityTypeOnDemand {
				limit = min(limit, o.Price)
			}
		}
	}
	return filterOfferings(list, func(_ candidate, o *catalog.Offering) bool {
		return o.CapacityType != karpv1.CapacityTypeSpot || o.Price <= limit
	})
}

// byPrice sorts types by their cheapest offering, then by name.
func byPrice(list []candidate) []candidate {
	type priced struct {
		candidate
		price float64
	}
	sorted := make([]priced, 0, len(list))
	for _, c := range list {
		sorted = append(sorted, priced{c, c.cheapest()})
	}
	slices.SortStableFunc(sorted, func(a, b priced) int {
		return cmp.Or(cmp.Compare(a.price, b.price), cmp.Compare(a.it.Name, b.it.Name))
	})
	out := make([]candidate, 0, len(list))
	for _, p := range sorted {
		out = append(out, p.candidate)
	}
	return out
}

// missingMinValues names a requirement whose minValues the types do not reach.
func missingMinValues(list []candidate, needs reqs.Set) (key string, have int, found bool) {
	for _, key := range needs.Keys() {
		least := needs[key].MinValues
		if least == 0 {
			continue
		}
		values := map[string]bool{}
		for _, c := range list {
			for _, v := range c.it.Labels[key].Values {
				if needs[key].Has(v) {
					values[v] = true
				}
			}
			for _, o := range c.offers {
				switch key {
				case corev1.LabelTopologyZone:
					values[o.Zone] = true
				case karpv1.LabelCapacityType:
					values[o.CapacityType] = true
				default:
					if v, has := o.Labels[key]; has {
						values[v] = true
					}
				}
			}
		}
		if len(values) < least {
			return key, len(values), true
		}
	}
	return "", 0, false
}
