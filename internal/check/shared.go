package check

import (
	"cmp"
	"maps"
	"slices"
	"strconv"

	"github.com/dovetail-sh/dovetail/internal/cluster"
	"github.com/dovetail-sh/dovetail/internal/reqs"
	"github.com/dovetail-sh/dovetail/internal/resources"
)

// sharedLimits is what new nodes share: limits of pools and units of reservations.
type sharedLimits struct {
	back  map[string]resources.Vec // capacity that moves gave back, by pool
	nodes map[string]int64         // nodes that moves gave back, by pool
	units map[string]int           // left of each reservation
}

func sharedLimitsOf(view *cluster.Snapshot) sharedLimits {
	p := sharedLimits{back: map[string]resources.Vec{}, nodes: map[string]int64{}, units: map[string]int{}}
	for i := range view.Pools {
		for j := range view.Pools[i].Types {
			offerings := view.Pools[i].Types[j].Offerings
			for k := range offerings {
				o := &offerings[k]
				if o.Reservation == "" {
					continue
				}
				left, known := p.units[o.Reservation]
				if !known || o.Remaining < left { // SC-45: seen with different counts, the smallest
					left = o.Remaining
				}
				p.units[o.Reservation] = left
			}
		}
	}
	return p
}

// checkLimits judges the limits of pools (api 4.2): each type of each new node fits what remained when the
// node was opened, the largest capacity of the nodes before it gone. A sum does not depend on its
// order, so it does not matter in which one the planner opened them.
func (c *checker) checkLimits() {
	for i := range c.view.Pools {
		pool := &c.view.Pools[i]
		if c.offerings[pool.Name].pool != pool {
			continue
		}
		spent, nodes := resources.Vec{}, int64(0)
		for _, at := range c.places {
			if at.plan == nil || at.plan.Pool != pool.Name {
				continue
			}
			largest := resources.Vec{}
			for _, t := range at.types {
				largest = resources.Max(largest, t.Capacity)
			}
			spent = resources.Add(spent, largest)
			nodes++
			if at.judged {
				continue
			}
			left := pool.NodeLimit
			if left != nil && nodes > *left+c.sharedLimits.nodes[pool.Name] {
				c.add(LimitExceeded, "api 4.2", at.name, strconv.FormatInt(*left, 10)+" more nodes of "+pool.Name, strconv.FormatInt(nodes, 10))
			}
			for _, l := range pool.Limits {
				lane, known := c.view.Resources.Lane(l.Resource)
				used, back := int64(0), int64(0)
				if known {
					used, back = spent.At(lane), c.sharedLimits.back[pool.Name].At(lane)
				}
				if used > l.Remaining+back {
					c.add(LimitExceeded, "api 4.2", at.name, strconv.FormatInt(l.Remaining+back, 10)+" of "+string(l.Resource)+" from "+pool.Name, strconv.FormatInt(used, 10))
				}
			}
		}
	}
}

// reservations verifies SC-45: a new node holds one unit of every reservation that it leaves open, and no reservation
// is held more often than it has units. SC-47: a node that holds one is launched as reserved and in no other way.
func (c *checker) reservations() {
	if c.policy.NoReserved {
		return
	}
	held := map[string]int{}
	for _, at := range c.places {
		if at.plan == nil {
			continue
		}
		ids, otherwise := c.reservationsOf(at)
		if len(ids) > 0 && otherwise && !at.judged {
			c.add(ReservedMixed, "SC-47", at.name, "reserved capacity alone", "reservation "+ids[0]+" and other capacity types")
		}
		for _, id := range ids {
			if held[id]++; held[id] > c.sharedLimits.units[id] && !at.judged {
				c.add(ReservationExceeded, "SC-45", at.name, strconv.Itoa(c.sharedLimits.units[id])+" nodes in reservation "+id, strconv.Itoa(held[id]))
			}
		}
	}
}

// reservationsOf returns the reservations a new node could be launched into, and whether it could also be launched
// without one.
func (c *checker) reservationsOf(at *place) (ids []string, otherwise bool) {
	open := map[string]bool{}
	for _, t := range at.types {
		for _, o := range c.typeAsNeeded(at, t, at.typeCache).open {
			switch {
			case o.Reservation == "":
				otherwise = true
			case o.Launchable():
				open[o.Reservation] = true
			}
		}
	}
	return sortedKeys(open), otherwise
}

// reservedFirst verifies the strict mode of V15-45: while a compatible reservation has units, a node is launched into
// it or its pods wait. A reservation counts as compatible only if nothing but the planner's own choice keeps the node
// from it. Every other explanation is accepted: a pod that excludes reserved nodes or prefers others, a topology of
// capacity types, minValues, a limit, devices.
func (c *checker) reservedFirst(at *place) {
	pool := at.offerings.pool
	if len(c.sharedLimits.units) == 0 || c.policy.NoReserved || c.policy.ReservedFallback || !pool.Requirements.Allows(capacityKey, reserved) ||
		len(pool.Limits) > 0 || hasMinimums(pool.Requirements) || c.overCapacity() {
		return
	}
	for _, p := range at.come {
		if mayAvoid(at, p) || len(shapeOf(p.Shape).Devices) > 0 { // machines of the reservation may not have its devices
			return
		}
	}
	if ids, _ := c.reservationsOf(at); len(ids) > 0 {
		return
	}
	needs := at.plan.Needs.Clone()
	needs[capacityKey] = one(reserved)
	other := newTypeCache(needs)
	for i := range pool.Types {
		t := &pool.Types[i]
		if _, wrong := c.firstMisfit(at, t, other); wrong {
			continue
		}
		for _, o := range c.typeAsNeeded(at, t, other).open {
			if o.Reservation != "" && o.Launchable() && o.Size == nil {
				c.add(ReservedPassedOver, "V15-45", at.name, "reservation "+o.Reservation+" or waiting for it", at.plan.Offer.CapacityType)
				return
			}
		}
	}
}

// mayAvoid reports whether a requirement or preference of the pod may be why its node is not reserved.
func mayAvoid(at *place, p *cluster.Pod) bool {
	shape := shapeOf(p.Shape)
	excludes := func(s reqs.Set) bool { return !s.Allows(capacityKey, reserved) }
	return slices.ContainsFunc(holding(at, shape.Required), excludes) ||
		slices.ContainsFunc(shape.Zones, excludes) ||
		slices.ContainsFunc(shape.Preferred, func(p cluster.Preference) bool { return excludes(p.Needs) })
}

// capacityTopology reports whether any pod spreads over, or is attracted or repelled by capacity types.
func (c *checker) capacityTopology() bool {
	onCapacity := func(t cluster.PodTerm) bool { return c.view.Words.Canonical(t.Key) == capacityKey }
	for _, at := range c.places {
		for _, s := range shapesOf(at.pods()) {
			if slices.ContainsFunc(s.Affinity, onCapacity) || slices.ContainsFunc(s.AntiAffinity, onCapacity) ||
				slices.ContainsFunc(s.Spread, func(s cluster.Spread) bool { return c.view.Words.Canonical(s.Key) == capacityKey }) {
				return true
			}
		}
	}
	return false
}

func hasMinimums(s reqs.Set) bool {
	for _, r := range s {
		if r.MinValues > 0 {
			return true
		}
	}
	return false
}

func sortedKeys[K cmp.Ordered, V any](m map[K]V) []K { return slices.Sorted(maps.Keys(m)) }
