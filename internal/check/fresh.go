package check

import (
	"fmt"
	"math"
	"slices"
	"strconv"

	"github.com/dovetail-sh/dovetail/internal/catalog"
	"github.com/dovetail-sh/dovetail/internal/cluster"
	"github.com/dovetail-sh/dovetail/internal/resources"
	"github.com/dovetail-sh/dovetail/internal/solve"
)

// newNode verifies a node to be launched (scheduling 6.2).
func (c *checker) newNode(at *place) {
	switch {
	case at.offerings == nil:
		c.add(PoolUnknown, "SC-06", at.name, "a pool of the snapshot", at.plan.Pool)
		return
	case at.offerings.pool.Closed:
		c.add(PoolClosed, "SC-06", at.name, "a pool that is open", at.plan.Pool)
	case len(at.come) == 0:
		c.add(NodeEmpty, "SC-24", at.name, "a pod", "none")
	}
	at.sum = new(at.requestsOfArrivals())
	defer func() { at.sum = nil }()
	c.checkNeeds(at)
	for _, p := range at.come {
		c.podOn(at, p)
		if taint, refused := untolerated(shapeOf(p.Shape), at.offerings.pool.Taints); refused {
			c.add(TaintNotTolerated, "scheduling 6.2", "pod/"+p.Key.String(), "no taint "+taint, at.name)
		}
	}
	c.ports(at, nil, nil)
	c.checkTypeList(at)
	for _, t := range at.types {
		if v, wrong := c.firstMisfit(at, t, at.typeCache); wrong {
			c.add(v.Code, v.Rule, at.name+" type "+t.Name, v.Want, v.Have)
		}
	}
	c.checkTypeOrder(at)
	c.requests(at)
	c.checkMinValues(at)
	c.reservedFirst(at)
	if overlaid := slices.ContainsFunc(at.types, func(t *catalog.InstanceType) bool { return t.Overlaid }); overlaid != at.plan.Overlaid {
		c.add(OverlaidWrong, "SC-50", at.name, strconv.FormatBool(overlaid), strconv.FormatBool(at.plan.Overlaid))
	}
	if resized := slices.ContainsFunc(at.types, func(t *catalog.InstanceType) bool { return t.CapacityOverlaid }); resized != at.plan.CapacityOverlaid {
		c.add(OverlaidWrong, "SC-50", at.name, "capacity "+strconv.FormatBool(resized), strconv.FormatBool(at.plan.CapacityOverlaid))
	}
}

// checkNeeds judges that the pool's requirements were narrowed and never widened.
func (c *checker) checkNeeds(at *place) {
	pool := at.offerings.pool.Requirements
	for _, key := range pool.Keys() {
		have, defined := at.plan.Needs[key]
		if !defined || !within(have, pool[key]) || have.Empty() && !pool[key].Negative() {
			c.add(NeedsTooWide, "scheduling 6.2", at.name, key+" "+pool[key].String(), have.String())
		}
	}
}

// checkTypeList judges the list of types itself.
func (c *checker) checkTypeList(at *place) {
	if n := len(at.plan.Types); n > solve.MaxTypes {
		c.add(TooManyTypes, "SC-48", at.name, strconv.Itoa(solve.MaxTypes), strconv.Itoa(n))
	}
	if len(at.plan.Types) == 0 {
		c.add(TypeUnknown, "SC-19", at.name, "a type", "none")
	}
	seen := map[string]bool{}
	for _, name := range at.plan.Types {
		if at.offerings.types[name] == nil {
			c.add(TypeUnknown, "SC-08", at.name, "a type of pool "+at.plan.Pool, name)
		}
		if seen[name] {
			c.add(TypeTwice, "SC-48", at.name, "each type once", name)
		}
		seen[name] = true
	}
}

// firstMisfit returns the first reason for which a type cannot run the node's pods (SC-19, V15-57). The cache is an
// argument so that callers can check what other needs would allow.
func (c *checker) firstMisfit(at *place, t *catalog.InstanceType, s *typeCache) (Violation, bool) {
	k := c.typeAsNeeded(at, t, s)
	if k.conflict {
		return Violation{Code: TypeMismatch, Rule: "SC-19", Want: k.key + " " + s.needs[k.key].String(), Have: labelsOf(t)[k.key].String()}, true
	}
	if len(t.VolumeLimits) > 0 {
		after := claims(at.come)
		for _, driver := range sortedKeys(t.VolumeLimits) {
			if n := len(after[driver]); n > t.VolumeLimits[driver] {
				return Violation{Code: VolumeLimit, Rule: "V15-57", Want: fmt.Sprintf("at most %d volumes of %s", t.VolumeLimits[driver], driver), Have: strconv.Itoa(n)}, true
			}
		}
	}
	for _, d := range k.daemons {
		for _, port := range d.HostPorts {
			for _, s := range shapesOf(at.come) {
				if slices.ContainsFunc(s.HostPorts, func(o cluster.HostPort) bool { return hostPortsConflict(port, o) }) {
					return Violation{Code: PortConflict, Rule: "SC-25", Want: fmt.Sprintf("port %d/%s free", port.Port, port.Protocol), Have: "taken by a DaemonSet"}, true
				}
			}
		}
	}
	if len(k.open) == 0 {
		return Violation{Code: OfferingMissing, Rule: "SC-19", Want: "an available offering within " + s.needs.String(), Have: "none"}, true
	}
	requested := resources.Add(at.requestsOfArrivals(), k.overhead)
	if !slices.ContainsFunc(k.open, func(o *catalog.Offering) bool { return k.canHold(o, &requested) }) {
		have := k.allocatable(k.open[0])
		lane, _ := resources.Short(&requested, &have)
		return Violation{Code: TooSmall, Rule: "SC-19", Want: fmt.Sprintf("%s %d", c.view.Resources.Name(lane), requested.At(lane)), Have: strconv.FormatInt(have.At(lane), 10)}, true
	}
	return Violation{}, false
}

// reading is one way to understand "cheapest": which of the open offerings of a type count.
type reading struct {
	fitting   bool // only those large enough, where offerings of one type differ in size
	available bool // also full reservations: with the gate off they are ordinary (scheduling 16)
}

// readings are those that are accepted; the first is the usual one.
func (c *checker) readings() []reading {
	all := []reading{{fitting: true}, {}}
	if c.policy.NoReserved {
		all = append(all, reading{fitting: true, available: true}, reading{available: true})
	}
	return all
}

// prices are the cheapest launchable offerings of the listed types, infinite where there is none.
func (c *checker) prices(at *place, r reading) []float64 {
	prices := make([]float64, 0, len(at.types))
	for _, t := range at.types {
		k := c.typeAsNeeded(at, t, at.typeCache)
		requested := resources.Add(at.requestsOfArrivals(), k.overhead)
		cheapest := math.Inf(1)
		for _, o := range k.open {
			if (r.available || o.Launchable()) && (!r.fitting || k.canHold(o, &requested)) {
				cheapest = min(cheapest, o.Price)
			}
		}
		prices = append(prices, cheapest)
	}
	return prices
}

// checkTypeOrder judges the order of types (SC-48, by launchable offerings: V15-44) and the offer, which must
// be one that can be launched, that fits, and than which none is cheaper.
func (c *checker) checkTypeOrder(at *place) {
	if len(at.types) == 0 {
		return
	}
	readings := c.readings()
	prices := make([][]float64, len(readings)) // by reading, worked out when needed
	price := func(n int) []float64 {
		if prices[n] == nil {
			prices[n] = c.prices(at, readings[n])
		}
		return prices[n]
	}
	sorted := false
	var have []float64
	for n := 0; n < len(readings) && !sorted; n++ {
		have = price(n)
		sorted = slices.IsSorted(have)
	}
	if !sorted {
		c.add(TypesDisordered, "SC-48", at.name, "cheapest first", fmt.Sprint(have))
	}
	offer := at.plan.Offer
	subject := at.name + " offer " + offer.Type
	t := at.offerings.types[offer.Type]
	if t == nil || !slices.Contains(at.plan.Types, offer.Type) {
		c.add(OfferWrong, "SC-48", subject, "a listed type", "another")
		return
	}
	k := c.typeAsNeeded(at, t, at.typeCache)
	requested := resources.Add(at.requestsOfArrivals(), k.overhead)
	var matches []*catalog.Offering
	for _, o := range k.open {
		if o.Zone == offer.Zone && o.CapacityType == offer.CapacityType && o.Reservation == offer.Reservation &&
			(o.Launchable() || c.policy.NoReserved) && k.canHold(o, &requested) {
			matches = append(matches, o)
		}
	}
	if len(matches) == 0 {
		c.add(OfferWrong, "V15-44", subject, "a launchable offering left open", fmt.Sprintf("%s in %s %s", offer.CapacityType, offer.Zone, offer.Reservation))
		return
	}
	if !slices.ContainsFunc(matches, func(o *catalog.Offering) bool { return o.Price == offer.Price }) {
		c.add(PriceWrong, "SC-10", subject, fmt.Sprint(matches[0].Price), fmt.Sprint(offer.Price))
	}
	for n, r := range readings {
		if r.fitting && slices.Min(price(n)) == offer.Price {
			return
		}
	}
	c.add(OfferWrong, "SC-48", subject, fmt.Sprint(slices.Min(price(0))), fmt.Sprint(offer.Price))
}

// requests verifies SC-49: the pods and, resource by resource, the smallest request of any candidate's DaemonSets. A
// list that was cut may have lost the group with the smallest.
func (c *checker) requests(at *place) {
	if len(at.types) == 0 || len(at.plan.Types) >= solve.MaxTypes {
		return
	}
	pods := at.requestsOfArrivals()
	if !slices.ContainsFunc([]overlap{byOffering, byOffers, byLabels}, func(by overlap) bool {
		return resources.Add(pods, c.leastOverhead(at, by)).Equal(at.plan.Requests)
	}) {
		want := resources.Add(pods, c.leastOverhead(at, byOffers))
		c.add(RequestsWrong, "SC-49", at.name, c.view.Resources.Format(want), c.view.Resources.Format(at.plan.Requests))
	}
}

// leastOverhead is the component-wise minimum of SC-24.
func (c *checker) leastOverhead(at *place, by overlap) resources.Vec {
	least := total(c.daemonsOf(at.offerings, at.types[0], by))
	for _, t := range at.types[1:] {
		least = lowestOfEach(least, total(c.daemonsOf(at.offerings, t, by)))
	}
	return least
}

// lowestOfEach is the smaller number of each lane: a + b less the larger one.
func lowestOfEach(a, b resources.Vec) resources.Vec {
	return resources.Sub(resources.Add(a, b), resources.Max(a, b))
}

// checkMinValues verifies minValues: as many distinct values over the listed types as the pool requires, counting only
// values that the needs still allow (SC-42, SC-44, V15-60). Under BestEffort a node may be opened with fewer; its
// claim then states a lower minimum and meets it (SC-43). The specification does not say whether zones and capacity
// types of offerings with insufficient capacity count, so either is accepted.
func (c *checker) checkMinValues(at *place) {
	lowered := false
	for _, key := range at.offerings.pool.Requirements.Keys() {
		want := at.offerings.pool.Requirements[key].MinValues
		if want == 0 {
			continue
		}
		kept := at.plan.Needs[key].MinValues
		have := len(c.distinct(at, key, false))
		lowered = lowered || len(c.distinct(at, key, true)) < want
		switch {
		case !at.plan.Relaxed && (have < want || kept < want):
			c.add(MinValuesUnmet, "SC-42", at.name, fmt.Sprintf("%d values of %s", want, key), fmt.Sprintf("%d, and %d requested", have, kept))
		case at.plan.Relaxed && have < kept:
			c.add(MinValuesUnmet, "SC-43", at.name, fmt.Sprintf("the lowered %d values of %s", kept, key), strconv.Itoa(have))
		case at.plan.Relaxed && kept > want:
			c.add(RelaxedWrong, "SC-43", at.name, fmt.Sprintf("at most %d values of %s", want, key), strconv.Itoa(kept))
		}
	}
	if at.plan.Relaxed && (!c.policy.BestEffortMinimums || !lowered) {
		c.add(RelaxedWrong, "SC-43", at.name, "minValues kept", "relaxed")
	}
}

// distinct are the values that the listed types bring to a label, of those that the needs allow.
func (c *checker) distinct(at *place, key string, available bool) []string {
	var values []string
	for _, t := range at.types {
		if _, known := labelsOf(t)[key]; known {
			values = append(values, at.couldAs(t, key).have.Values...)
			continue
		}
		for i := range t.Offerings {
			o := &t.Offerings[i]
			if v, known := at.labelOf(o, key); known && (o.Available || !available) && at.compatible(o, at.plan.Needs) {
				values = append(values, v)
			}
		}
	}
	return several(values).Values
}
