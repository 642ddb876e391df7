package launch

import (
	"cmp"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"

	awsv1 "github.com/dovetail-sh/dovetail/api/aws/v1"
	karpv1 "github.com/dovetail-sh/dovetail/api/v1"
	"github.com/dovetail-sh/dovetail/internal/catalog"
	"github.com/dovetail-sh/dovetail/internal/cloud"
	"github.com/dovetail-sh/dovetail/internal/reqs"
	"github.com/dovetail-sh/dovetail/internal/resources"
)

const (
	maxTypes     = 60  // instance types in one fleet
	maxOverrides = 300 // what EC2 accepts in one fleet
	flexibleFrom = 5   // spot with fewer types is often interrupted

	tenancyDefault   = "default"
	tenancyDedicated = "dedicated"

	resourceEFA     = corev1.ResourceName("vpc.amazonaws.com/efa")
	resourceEnclave = corev1.ResourceName("eks.amazonaws.com/nitro-sandbox")
)

// want is the part of a claim that matters for its launch.
type want struct {
	needs     reqs.Set
	requests  resources.Vec
	minValues bool
	overlaid  bool // prices are a NodeOverlay's: they are to decide, not EC2's
	relaxed   bool // minValues were relaxed
	efa       bool
	enclave   bool
}

// readClaim is what a claim wants. The error says what of its requirements cannot be understood.
func readClaim(claim *karpv1.NodeClaim, lanes resources.Table) (want, error) {
	w := want{minValues: slices.ContainsFunc(claim.Spec.Requirements, func(r karpv1.Requirement) bool { return r.MinValues != nil })}
	needs, faults := reqs.FromEntries(karpv1.Entries(claim.Spec.Requirements), awsv1.Vocabulary())
	if len(faults) > 0 {
		return want{}, &cloud.Error{Kind: cloud.Invalid, Op: "read nodeclaim " + claim.Name, Err: &faults[0]}
	}
	requested := claim.Spec.Resources.Requests.DeepCopy()
	_, w.efa = requested[resourceEFA]
	if amount, found := requested[resourceEnclave]; found {
		w.enclave = !amount.IsZero()
		delete(requested, resourceEnclave) // a device that a plugin offers once the node runs
	}
	w.needs, w.requests = needs, lanes.Requests(requested)
	_, w.overlaid = claim.Annotations[karpv1.AnnotationPriceOverlayApplied]
	w.relaxed = claim.Annotations[karpv1.AnnotationMinValuesRelaxed] == "true"
	return w, nil
}

// choice is what one fleet requests.
type choice struct {
	capacityType string
	kind         reservationKind // of reserved capacity
	tenancy      string
	partition    string      // partition of the placement group, if the claim requires one
	list         []candidate // sorted by price; offerings of the capacity type alone
	scarce       bool        // on demand, although spot was allowed, and few types are left
}

// choose narrows everything a class could launch to what a fleet requests (AWS provider 5.1).
func choose(types []catalog.InstanceType, w want, bestEffort bool, out func(instanceType string, o *catalog.Offering) bool) (choice, error) {
	list := usableCandidates(types, w, out)
	if len(list) == 0 {
		return choice{}, noCapacityError("no instance type that the NodeClaim allows and that fits its requests is available at the moment")
	}
	list = oneReservationPerZone(oneBlock(oneReservationKind(list)))
	if !w.minValues {
		list = dropExpensiveSpot(dropSpecialHardware(list))
	}
	list = byPrice(list)
	list = list[:min(maxTypes, len(list))]
	if key, have, found := missingMinValues(list, w.needs); found && !bestEffort {
		return choice{}, noCapacityError(fmt.Sprintf("minValues requires %d values of %s, and what is available now has %d", w.needs[key].MinValues, key, have))
	}
	c := choice{capacityType: capacityTypeOf(list), tenancy: tenancyOf(w.needs)}
	spot := w.needs.Allows(karpv1.LabelCapacityType, karpv1.CapacityTypeSpot)
	c.scarce = c.capacityType == karpv1.CapacityTypeOnDemand && spot && len(list) < flexibleFrom
	c.list = filterOfferings(list, func(_ candidate, o *catalog.Offering) bool { return o.CapacityType == c.capacityType })
	if c.capacityType == karpv1.CapacityTypeReserved {
		c.kind = kindOf(c.list[0].offers[0])
	}
	if _, found := w.needs[awsv1.LabelPlacementGroupPartition]; found {
		c.takePartition()
	}
	return c, nil
}

func noCapacityError(message string) error {
	return &cloud.Error{Kind: cloud.NoCapacity, Op: "choose instance types", Message: message}
}

// capacityTypeOf is reserved if available, else spot, else on demand.
func capacityTypeOf(list []candidate) string {
	for _, kind := range []string{karpv1.CapacityTypeReserved, karpv1.CapacityTypeSpot} {
		for _, c := range list {
			if slices.ContainsFunc(c.offers, func(o *catalog.Offering) bool { return o.CapacityType == kind }) {
				return kind
			}
		}
	}
	return karpv1.CapacityTypeOnDemand
}

func tenancyOf(needs reqs.Set) string {
	if needs.Allows(awsv1.LabelInstanceTenancy, tenancyDefault) {
		return tenancyDefault
	}
	return tenancyDedicated
}

// takePartition keeps one partition, the lowest as text: a template can name only one.
func (c *choice) takePartition() {
	lowest, found := "", false
	for _, t := range c.list {
		for _, o := range t.offers {
			if p, has := o.Labels[awsv1.LabelPlacementGroupPartition]; has && (!found || p < lowest) {
				lowest, found = p, true
			}
		}
	}
	if !found {
		return
	}
	c.partition = lowest
	c.list = filterOfferings(c.list, func(_ candidate, o *catalog.Offering) bool {
		return o.Labels[awsv1.LabelPlacementGroupPartition] == lowest
	})
}

// zones are those that offerings are in.
func (c choice) zones() map[string]bool {
	zones := map[string]bool{}
	for _, t := range c.list {
		for _, o := range t.offers {
			zones[o.Zone] = true
		}
	}
	return zones
}

// leastPods is how many addresses a node will take at least for its pods.
func (c choice) leastPods() int {
	least := 0
	for n, t := range c.list {
		if p := pods(t.it); n == 0 || p < least {
			least = p
		}
	}
	return least
}

// pick is one way to serve a fleet: a type in a subnet.
type pick struct {
	it          *catalog.InstanceType
	zone        string
	subnet      string
	zoneID      string
	price       float64
	reservation string
}

// joinSubnets joins the choice with the subnets of its zones. Offerings that differ in their partition alone
// become one pick. What EC2 would not accept in one fleet is left out, the most expensive first; the cheapest of
// each type stays.
func (c choice) joinSubnets(subnets map[string]chosenSubnet) []pick {
	var first, more []pick
	seen := map[string]bool{}
	for _, t := range c.list {
		offers := slices.Clone(t.offers)
		slices.SortStableFunc(offers, func(a, b *catalog.Offering) int {
			return cmp.Or(cmp.Compare(a.Price, b.Price), cmp.Compare(a.Zone, b.Zone))
		})
		lead := true
		for _, o := range offers {
			subnet, has := subnets[o.Zone]
			id := t.it.Name + "/" + o.Zone
			if !has || seen[id] {
				continue
			}
			seen[id] = true
			p := pick{it: t.it, zone: o.Zone, subnet: subnet.id, zoneID: subnet.zoneID, price: o.Price, reservation: o.Reservation}
			if lead {
				first = append(first, p)
			} else {
				more = append(more, p)
			}
			lead = false
		}
	}
	slices.SortStableFunc(more, func(a, b pick) int { return cmp.Compare(a.price, b.price) })
	picks := slices.Concat(first, more[:min(len(more), maxOverrides-len(first))])
	slices.SortStableFunc(picks, func(a, b pick) int {
		return cmp.Or(cmp.Compare(a.price, b.price), cmp.Compare(a.it.Name, b.it.Name), cmp.Compare(a.zone, b.zone))
	})
	return picks
}
