package sim

import (
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"

	awsv1 "github.com/dovetail-sh/dovetail/api/aws/v1"
	karpv1 "github.com/dovetail-sh/dovetail/api/v1"
	"github.com/dovetail-sh/dovetail/internal/catalog"
	"github.com/dovetail-sh/dovetail/internal/interruption"
	"github.com/dovetail-sh/dovetail/internal/solve"
)

// reservedShare is the share of the on-demand price at which reserved capacity is planned: it is paid for already, so that
// it is preferred to everything else.
const reservedShare = 1e-7

// Reservation is capacity that the account of a run has reserved: instances of one type in one zone.
type Reservation struct {
	ID, Machine, Zone string
	Instances         int
}

// reservation is a Reservation in use.
type reservation struct {
	Reservation

	foreign int       // instances that others run in it
	out     time.Time // until then it is out of plans, because it was interrupted
}

// open returns the state of a reservation in which nothing runs.
func (r *Reservation) open() *reservation {
	if r == nil {
		return nil
	}
	return &reservation{Reservation: *r}
}

// reservedOffers are the offerings of a machine that use reserved capacity in some zones. A full reservation is an
// offering that cannot be launched (V15-44).
func (m *simCloud) reservedOffers(machine *Machine, zones ...string) []catalog.Offering {
	r := m.reserved
	if r == nil || r.Machine != machine.Name || !slices.Contains(zones, r.Zone) {
		return nil
	}
	o := catalog.Offering{
		Zone: r.Zone, CapacityType: karpv1.CapacityTypeReserved, Price: machine.Price * reservedShare, Available: true,
		Reservation: r.ID, Remaining: r.Instances - r.foreign, Labels: map[string]string{awsv1.LabelCapacityReservationID: r.ID},
	}
	for _, id := range sorted(m.byID) { // instances that are shutting down still occupy their slot
		if i := m.byID[id]; i.reservation == r.ID {
			o.Remaining--
			o.Takers = append(o.Takers, string(i.uid))
		}
	}
	if o.Remaining = max(0, o.Remaining); m.w.now.Before(r.out) {
		o.Remaining = 0
	}
	return []catalog.Offering{o}
}

// takeSlot reports whether a launch can use a reservation.
func (m *simCloud) takeSlot(o *catalog.Offering, allows func(key, value string) bool) bool {
	return o.Remaining > 0 && allows(awsv1.LabelCapacityReservationID, o.Reservation)
}

// useReservation has instances of others occupy slots of the reservation for a while, as those of another cluster do.
func (w *World) useReservation() {
	r := w.market.reserved
	if r == nil || r.foreign > 0 {
		return
	}
	set := func(n int) {
		w.logf("cloud: others run %d instances in reservation %s", n, r.ID)
		r.foreign, w.market.types = n, nil
	}
	set(min(1, r.Instances))
	w.after(w.between(2*time.Minute, 20*time.Minute), func() { set(0) })
}

// reclaimReserved has the lender of an interruptible reservation take one instance back, and its slot with it.
func (w *World) reclaimReserved() {
	for _, i := range w.market.running() {
		if i.reservation != "" {
			w.market.reserved.Instances--
			w.market.interrupt(i)
			w.market.types = nil
			return
		}
	}
}

// reservationOut takes the reservation out of plans until it is looked up again, a minute later.
func (m *simCloud) reservationOut() {
	m.reserved.out, m.types = m.w.now.Add(time.Minute), nil
	m.w.after(time.Minute, func() { m.types = nil })
}

// noticeOf is what the cloud says of an instance that it takes back.
func (m *simCloud) noticeOf(id string) interruption.Notice {
	kind := interruption.SpotInterrupted
	if i := m.byID[id]; i != nil && i.reservation != "" {
		kind = interruption.ReservationInterrupted
	}
	return interruption.Notice{Kind: kind, Instance: id, Text: "its instance will be interrupted"}
}

// changeSpotPrices moves the spot price of every machine, also for the instances that run.
func (w *World) changeSpotPrices() {
	w.spend() // what ran until now cost the old prices
	for i := range w.market.machines {
		machine := &w.market.machines[i]
		if machine.Spot > 0 {
			machine.Spot = min(0.95*machine.Price, machine.Spot*(0.5+1.5*w.rnd.Float64()))
		}
	}
	for _, i := range w.market.running() {
		if i.capacityType == karpv1.CapacityTypeSpot {
			i.price = i.machine.Spot
		}
	}
	w.market.types = nil
}

// prices has spot prices change in the course of a run.
func (m *maker) prices() {
	for range 1 + m.IntN(4) {
		m.change("cloud: spot prices change", (*World).changeSpotPrices)
	}
}

// reservation gives the account reserved capacity, and lets some pools use it.
func (m *maker) reservation() {
	m.c.Reserved = &Reservation{
		ID: "cr-1", Machine: pick(m, m.c.Machines...).Name, Zone: pick(m, Zones()...), Instances: 1 + m.IntN(3),
	}
	for i, pool := range m.c.Pools {
		if i > 0 && m.chance(0.5) {
			continue
		}
		for j := range pool.Spec.Template.Spec.Requirements {
			if r := &pool.Spec.Template.Spec.Requirements[j]; r.Key == karpv1.LabelCapacityType {
				r.Values = append(slices.Clone(r.Values), karpv1.CapacityTypeReserved)
			}
		}
	}
	if m.chance(0.4) {
		m.change("cloud: others use the reservation", (*World).useReservation)
	}
}

// ordersReserved checks a claim that was planned into a reservation: the slots that are free are not fewer than the claims
// that were ordered for them and are not launched (SC-45). The cloud counts those that are.
func (c *checks) ordersReserved(claim *karpv1.NodeClaim, n solve.NewNode) {
	if n.Offer.Reservation == "" {
		return
	}
	c.slots = slices.DeleteFunc(c.slots, func(name string) bool {
		have := c.w.api.claims[name]
		return have == nil || have.DeletionTimestamp != nil || have.Status.ProviderID != "" || c.w.market.instances[have.UID] != nil
	})
	c.slots = append(c.slots, claim.Name)
	for i := range c.w.market.machines {
		for _, o := range c.w.market.reservedOffers(&c.w.market.machines[i], Zones()...) {
			if len(c.slots) > o.Remaining {
				c.w.broken("SC-45", "claim %s in zone %v is ordered for reservation %s, which has %d slots left for claims %v", claim.Name, n.Needs[corev1.LabelTopologyZone], o.Reservation, o.Remaining, c.slots)
			}
		}
	}
}
