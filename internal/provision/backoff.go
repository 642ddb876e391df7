package provision

import (
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"

	karpv1 "github.com/dovetail-sh/dovetail/api/v1"
	"github.com/dovetail-sh/dovetail/internal/catalog"
	"github.com/dovetail-sh/dovetail/internal/cloud"
	"github.com/dovetail-sh/dovetail/internal/cluster"
)

const (
	backoffAfterFailures = 10          // launches of one pool that fail with insufficient capacity
	backoffWindow        = time.Minute // the failures count within this window

	// unhealthyPool is said of a pool that is backed off because its nodes do not register.
	unhealthyPool = "its last nodes did not register, so it is backed off for some minutes; kubectl describe nodepool shows why (condition NodeRegistrationHealthy)"

	// MaxBackoff is the longest back-off of an offering or a pool.
	MaxBackoff = 8 * time.Minute
)

// LaunchBackoff keeps offerings whose launches fail from being requested again and again (FM F02). Ten failures of a
// pool within a minute back off the offerings that the failed claims requested, and no others. The first back-off
// lasts a minute and each repetition doubles it. One claim that the API server denies backs off the whole pool (FM
// A14), and so does a node that does not register while the pool is unhealthy, until it is no more (RH-02).
type LaunchBackoff struct {
	ReservationLabel string // of claims and instances on reserved capacity: the id of the reservation; empty: there is none

	pools map[string]*poolBackoff
}

type poolBackoff struct {
	denied    backoffPeriod
	unhealthy backoffPeriod     // its last nodes did not register
	failed    []capacityFailure // of the last minute
	backedOff []offeringBackoff
}

// backoffPeriod is a time in which nothing is launched.
type backoffPeriod struct {
	until  time.Time
	length time.Duration
}

// nextPeriod returns the period that follows this one: twice as long, up to MaxBackoff.
func (p backoffPeriod) nextPeriod(now time.Time) backoffPeriod {
	length := min(max(2*p.length, backoffWindow), MaxBackoff)
	return backoffPeriod{until: now.Add(length), length: length}
}

type capacityFailure struct {
	at        time.Time
	offerings offeringSet
}

type offeringBackoff struct {
	backoffPeriod
	offerings offeringSet
}

// RecordLaunch records how a launch ended. Only insufficient capacity backs off the offerings of the claim: any other
// error says nothing about them.
func (r *LaunchBackoff) RecordLaunch(claim *karpv1.NodeClaim, launched cloud.Instance, err error, now time.Time) {
	switch {
	case err == nil:
		r.RecordLaunched(claim.Labels[karpv1.LabelNodePool], launched)
	case cloud.Is(err, cloud.NoCapacity):
		r.RecordInsufficientCapacity(claim, now)
	}
}

// RecordInsufficientCapacity counts a claim that found no capacity. A claim that was launched before its
// offerings were backed off is not counted.
func (r *LaunchBackoff) RecordInsufficientCapacity(claim *karpv1.NodeClaim, now time.Time) {
	what := r.offeringsOf(claim)
	p := r.poolBackoffFor(claim.Labels[karpv1.LabelNodePool])
	p.backedOff = slices.DeleteFunc(p.backedOff, func(c offeringBackoff) bool { return now.Sub(c.until) >= MaxBackoff })
	if slices.ContainsFunc(p.backedOff, func(c offeringBackoff) bool { return now.Before(c.until) && what.within(c.offerings) }) {
		return
	}
	p.failed = append(slices.DeleteFunc(p.failed, func(f capacityFailure) bool { return now.Sub(f.at) >= backoffWindow }), capacityFailure{now, what})
	if len(p.failed) >= backoffAfterFailures {
		p.backOffFailed(now)
	}
}

// backOffFailed backs off the offerings of the recent failures.
func (p *poolBackoff) backOffFailed(now time.Time) {
	before, failed := p.backedOff, p.failed
	p.backedOff, p.failed = nil, nil
	for _, f := range failed {
		if slices.ContainsFunc(p.backedOff, func(c offeringBackoff) bool { return f.offerings.within(c.offerings) }) {
			continue
		}
		var last backoffPeriod
		for _, c := range before {
			if c.offerings.overlaps(f.offerings) && c.length > last.length {
				last = c.backoffPeriod
			}
		}
		p.backedOff = append(p.backedOff, offeringBackoff{last.nextPeriod(now), f.offerings})
	}
	p.backedOff = append(p.backedOff, before...)
}

// RecordDenied backs off a pool whose claims the API server denies.
func (r *LaunchBackoff) RecordDenied(pool string, now time.Time) {
	if p := r.poolBackoffFor(pool); !now.Before(p.denied.until) { // a plan brings many claims of one pool
		p.denied = p.denied.nextPeriod(now)
	}
}

// RecordUnhealthy backs off a pool of which another node did not register and whose condition NodeRegistrationHealthy is
// False. Pods go to other pools, or wait, instead of nodes that do not join.
func (r *LaunchBackoff) RecordUnhealthy(pool string, now time.Time) {
	if p := r.poolBackoffFor(pool); !now.Before(p.unhealthy.until) { // a plan brings many claims of one pool
		p.unhealthy = p.unhealthy.nextPeriod(now)
	}
}

// RecordHealthy ends the back-off of a pool that was unhealthy.
func (r *LaunchBackoff) RecordHealthy(pool string) {
	if p := r.pools[pool]; p != nil {
		p.unhealthy = backoffPeriod{}
		r.dropIdle(pool)
	}
}

// ClosePools closes the pools that are backed off because their nodes do not register, so that pods get that reason.
func (r *LaunchBackoff) ClosePools(pools []cluster.Pool, now time.Time) {
	for i := range pools {
		if p := &pools[i]; !p.Closed && r.poolUnhealthy(p.Name, now) {
			p.Closed, p.ClosedBy = true, unhealthyPool
		}
	}
}

// poolUnhealthy reports whether a pool is backed off because its nodes do not register.
func (r *LaunchBackoff) poolUnhealthy(pool string, now time.Time) bool {
	p := r.pools[pool]
	return p != nil && now.Before(p.unhealthy.until)
}

// dropIdle drops a pool of which nothing is known.
func (r *LaunchBackoff) dropIdle(pool string) {
	if p := r.pools[pool]; len(p.failed)+len(p.backedOff) == 0 && p.denied.until.IsZero() && p.unhealthy.until.IsZero() {
		delete(r.pools, pool)
	}
}

func (r *LaunchBackoff) poolBackoffFor(name string) *poolBackoff {
	if r.pools == nil {
		r.pools = map[string]*poolBackoff{}
	}
	if r.pools[name] == nil {
		r.pools[name] = &poolBackoff{}
	}
	return r.pools[name]
}

// RecordLaunched ends the back-off of denied claims, and that of all offerings that this instance could have
// come from.
func (r *LaunchBackoff) RecordLaunched(pool string, launched cloud.Instance) {
	p := r.pools[pool]
	if p == nil {
		return
	}
	offer := catalog.Offering{Zone: launched.Zone, CapacityType: launched.CapacityType, Reservation: launched.Labels[r.ReservationLabel]}
	p.denied = backoffPeriod{}
	p.failed = slices.DeleteFunc(p.failed, func(f capacityFailure) bool { return f.offerings.has(launched.Type, &offer) })
	p.backedOff = slices.DeleteFunc(p.backedOff, func(c offeringBackoff) bool { return c.offerings.has(launched.Type, &offer) })
	r.dropIdle(pool)
}

// PoolBackedOff reports whether a pool is backed off whose claims all request the same offerings, as those of a
// static pool do.
func (r *LaunchBackoff) PoolBackedOff(pool string, now time.Time) bool {
	p := r.pools[pool]
	return p != nil && (now.Before(p.denied.until) || now.Before(p.unhealthy.until) || len(p.activeSets(now)) > 0)
}

// WithoutBackedOff returns the instance types of a pool, with backed-off offerings marked as not available.
func (r *LaunchBackoff) WithoutBackedOff(pool string, list []catalog.InstanceType, now time.Time) []catalog.InstanceType {
	p := r.pools[pool]
	if p == nil {
		return list
	}
	sets := p.activeSets(now)
	if now.Before(p.denied.until) || now.Before(p.unhealthy.until) {
		sets = []offeringSet{{}}
	}
	if len(sets) == 0 {
		return list
	}
	out := slices.Clone(list)
	for i := range out {
		t := &out[i]
		shared := true
		for j := range t.Offerings {
			if !slices.ContainsFunc(sets, func(s offeringSet) bool { return s.has(t.Name, &t.Offerings[j]) }) {
				continue
			}
			if shared {
				t.Offerings, shared = slices.Clone(t.Offerings), false
			}
			o := &t.Offerings[j]
			o.Available, o.Out = false, o.Available || o.Out
		}
	}
	return out
}

func (p *poolBackoff) activeSets(now time.Time) []offeringSet {
	var sets []offeringSet
	for _, c := range p.backedOff {
		if now.Before(c.until) {
			sets = append(sets, c.offerings)
		}
	}
	return sets
}

// offeringSet is what a claim may become: the values that it allows of each property of an offering. A
// property that is not there may be anything.
type offeringSet struct{ types, zones, capacityTypes, reservations []string }

func (r *LaunchBackoff) offeringsOf(claim *karpv1.NodeClaim) offeringSet {
	var set offeringSet
	for _, want := range claim.Spec.Requirements {
		if want.Operator != corev1.NodeSelectorOpIn {
			continue
		}
		switch want.Key {
		case corev1.LabelInstanceTypeStable:
			set.types = want.Values
		case corev1.LabelTopologyZone:
			set.zones = want.Values
		case karpv1.LabelCapacityType:
			set.capacityTypes = want.Values
		case r.ReservationLabel:
			set.reservations = want.Values
		}
	}
	return set
}

func (s offeringSet) properties() [4][]string {
	return [4][]string{s.types, s.zones, s.capacityTypes, s.reservations}
}

func (s offeringSet) has(instanceType string, o *catalog.Offering) bool {
	values := [4]string{instanceType, o.Zone, o.CapacityType, o.Reservation}
	for i, allowed := range s.properties() {
		if len(allowed) > 0 && !slices.Contains(allowed, values[i]) {
			return false
		}
	}
	return true
}

// within reports whether everything in the set is in the other one, too.
func (s offeringSet) within(other offeringSet) bool {
	mine := s.properties()
	for i, allowed := range other.properties() {
		if len(allowed) > 0 && (len(mine[i]) == 0 || slices.ContainsFunc(mine[i], func(v string) bool { return !slices.Contains(allowed, v) })) {
			return false
		}
	}
	return true
}

// overlaps reports whether an offering can be in both sets.
func (s offeringSet) overlaps(other offeringSet) bool {
	mine := s.properties()
	for i, allowed := range other.properties() {
		if len(allowed) > 0 && len(mine[i]) > 0 && !slices.ContainsFunc(mine[i], func(v string) bool { return slices.Contains(allowed, v) }) {
			return false
		}
	}
	return true
}
