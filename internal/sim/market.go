package sim

import (
	"context"
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"

	awsv1 "github.com/dovetail-sh/dovetail/api/aws/v1"
	karpv1 "github.com/dovetail-sh/dovetail/api/v1"
	"github.com/dovetail-sh/dovetail/internal/catalog"
	"github.com/dovetail-sh/dovetail/internal/interruption"
	"github.com/dovetail-sh/dovetail/internal/lifecycle"
	"github.com/dovetail-sh/dovetail/internal/solve"
)

// reservedShare is the share of the on-demand price at which reserved capacity is planned: it is paid for already, so that
// it is preferred to everything else.
const reservedShare = 1e-7

// Reservation is capacity that the account of a run has reserved: instances of one type in one zone.
type Reservation struct {
	ID, Machine, Zone string
	Instances         int

	Block   bool          // a capacity block: its instances end with it, half an hour early
	Ends    time.Duration // since the start; 0: never. Instances of a reservation that is no block run on, on demand
	Counted bool          // free slots are queried periodically, and counted in between
}

const (
	blockLeft  = 40 * time.Minute // before its end a block is left (FM-F09), written a second time for the rules of a run
	blockTakes = 30 * time.Minute // before its end its instances are ended
	blockType  = "capacity-block"

	reservationsEvery = time.Minute // the controller looks at claims in reservations
	countsFor         = time.Minute // how long a number of free slots is used until it is looked up again
)

// reservation is a Reservation in use.
type reservation struct {
	Reservation

	foreign int       // instances that others run in it
	out     time.Time // until then it is out of plans, because it was interrupted
	over    bool
	free    int      // slots when they were last looked up, less what was launched since
	takers  []string // claims whose instances free leaves out, or has counted
}

// open returns the state of reservations in which nothing runs.
func open(list []Reservation) []*reservation {
	var out []*reservation
	for _, r := range list {
		out = append(out, &reservation{Reservation: r, free: r.Instances})
	}
	return out
}

// end is when the reservation ends; false: it does not.
func (r *reservation) end(w *World) (time.Time, bool) { return w.start.Add(r.Ends), r.Ends > 0 }

// labels are those of a node in the reservation.
func (r *reservation) labels() map[string]string {
	labels := map[string]string{awsv1.LabelCapacityReservationID: r.ID}
	if r.Block {
		labels[awsv1.LabelCapacityReservationType] = blockType
	}
	return labels
}

// reservedOffers are the offerings of a machine that use reserved capacity in some zones. A full reservation is an
// offering that cannot be launched (V15-44), and a block that ends soon is not available (V15-67).
func (m *simCloud) reservedOffers(machine *Machine, zones ...string) (list []catalog.Offering) {
	for _, r := range m.reserved {
		if r.Machine != machine.Name || !slices.Contains(zones, r.Zone) || r.over {
			continue
		}
		o := catalog.Offering{
			Zone: r.Zone, CapacityType: karpv1.CapacityTypeReserved, Price: machine.Price * reservedShare, Available: true, Reservation: r.ID, Labels: r.labels(),
		}
		if end, ends := r.end(m.w); ends && r.Block {
			o.Available = !lifecycle.BlockEnds(end, m.w.now)
		}
		if o.Remaining, o.Takers = m.slots(r); r.Counted {
			o.Remaining, o.Takers = r.free, slices.Clone(r.takers)
		}
		if m.w.now.Before(r.out) {
			o.Remaining = 0
		}
		list = append(list, o)
	}
	return list
}

// slots are the free slots of a reservation, and the claims whose instances have the others. Instances that are shutting
// down still occupy theirs.
func (m *simCloud) slots(r *reservation) (free int, takers []string) {
	free = r.Instances - r.foreign
	for _, id := range sorted(m.byID) {
		if i := m.byID[id]; i.reservation == r.ID {
			free--
			takers = append(takers, string(i.uid))
		}
	}
	return max(0, free), takers
}

// lookUpSlots has the controller query the free slots of a reservation, as it does periodically.
func (m *simCloud) lookUpSlots(r *reservation) {
	r.free, r.takers = m.slots(r)
	m.types = nil
	m.w.after(countsFor, func() { m.lookUpSlots(r) })
}

// reservationOf finds a reservation.
func (m *simCloud) reservationOf(id string) *reservation {
	for _, r := range m.reserved {
		if r.ID == id {
			return r
		}
	}
	return nil
}

// takeSlot reports whether a launch can use a reservation. The slots that the controller has counted may be gone: then it
// knows that nothing is left (FM-F08).
func (m *simCloud) takeSlot(o *catalog.Offering, allows func(key, value string) bool) bool {
	if !o.Available || o.Remaining <= 0 || !allows(awsv1.LabelCapacityReservationID, o.Reservation) {
		return false
	}
	r := m.reservationOf(o.Reservation)
	if free, _ := m.slots(r); free == 0 {
		m.w.logf("cloud: reservation %s is full", r.ID)
		r.free, m.types = 0, nil
		return false
	}
	return true
}

// tookSlot counts an instance that was launched into a reservation.
func (m *simCloud) tookSlot(i *instance) {
	if r := m.reservationOf(i.reservation); r != nil {
		r.free, r.takers = max(0, r.free-1), append(r.takers, string(i.uid))
		m.types = nil
	}
}

// openReservations has what ends end, and lets the controller look.
func (w *World) openReservations() {
	for _, r := range w.market.reserved {
		if r.Counted {
			w.after(countsFor, func() { w.market.lookUpSlots(r) })
		}
		end, ends := r.end(w)
		if !ends {
			continue
		}
		if r.Block {
			w.at(end.Add(-blockLeft), func() { w.market.types = nil })
			w.at(end.Add(-blockTakes), func() { w.market.endInstances(r) })
		}
		w.at(end, func() { w.market.endReservation(r) })
	}
}

// endInstances ends the instances of a block, without a word.
func (m *simCloud) endInstances(r *reservation) {
	for _, i := range m.running() {
		if i.reservation == r.ID {
			m.w.logf("cloud: %s ends with its block %s", i.id, r.ID)
			m.w.checks.outlived(i)
			m.removeInstance(i)
		}
	}
}

// endReservation leaves the instances of a reservation behind: they are on-demand ones now.
func (m *simCloud) endReservation(r *reservation) {
	m.w.logf("cloud: reservation %s is over", r.ID)
	m.w.spend()
	r.over, m.types = true, nil
	for _, id := range sorted(m.byID) {
		if i := m.byID[id]; i.reservation == r.ID {
			i.reservation, i.capacityType, i.price = "", karpv1.CapacityTypeOnDemand, i.machine.Price
		}
	}
}

// useReservation has instances of others occupy slots of the reservation for a while, as those of another cluster do.
func (w *World) useReservation() {
	if len(w.market.reserved) == 0 || w.market.reserved[0].foreign > 0 {
		return
	}
	r := w.market.reserved[0]
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
		if r := w.market.reservationOf(i.reservation); r != nil {
			r.Instances--
			w.market.interrupt(i)
			w.market.types = nil
			return
		}
	}
}

// shrinkReservation takes slots of a reservation away in which nothing runs; who has counted them does not know.
func (w *World) shrinkReservation() {
	for _, r := range w.market.reserved {
		if free, _ := w.market.slots(r); free > 0 && r.Counted {
			w.logf("cloud: reservation %s loses its %d free slots", r.ID, free)
			r.Instances -= free
		}
	}
}

// reservationOut takes a reservation out of plans until it is looked up again, a minute later.
func (m *simCloud) reservationOut(id string) {
	r := m.reservationOf(id)
	r.out, m.types = m.w.now.Add(time.Minute), nil
	m.w.after(time.Minute, func() { m.types = nil })
}

// noticeOf is what the cloud says of an instance that it takes back.
func (m *simCloud) noticeOf(n notice) interruption.Notice {
	if n.rebalance {
		return interruption.Notice{Kind: interruption.RebalanceRecommended, Instance: n.id, Text: "its instance may be interrupted"}
	}
	kind := interruption.SpotInterrupted
	if i := m.byID[n.id]; i != nil && i.reservation != "" {
		kind = interruption.ReservationInterrupted
	}
	return interruption.Notice{Kind: kind, Instance: n.id, Text: "its instance will be interrupted"}
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
	m.c.Reserved = append(m.c.Reserved, Reservation{
		ID: "cr-1", Machine: pick(m, m.c.Machines...).Name, Zone: pick(m, Zones()...), Instances: 1 + m.IntN(3),
	})
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

// reservations gives the account further reserved capacity, of the kinds that end, and lets all pools use it.
func (m *maker) reservations() {
	for i := range 1 + m.IntN(2) {
		r := Reservation{ID: fmt.Sprintf("cr-%d", 2+i), Machine: pick(m, m.c.Machines...).Name, Zone: pick(m, Zones()...), Instances: 1 + m.IntN(4), Counted: m.chance(0.7)}
		switch m.IntN(3) {
		case 0:
			r.Block, r.Ends = true, m.time(blockLeft+5*time.Minute, m.c.Active+blockTakes)
		case 1:
			r.Ends = m.time(5*time.Minute, m.c.Active)
		}
		m.c.Reserved = append(m.c.Reserved, r)
	}
	for _, pool := range m.c.Pools {
		for j := range pool.Spec.Template.Spec.Requirements {
			if r := &pool.Spec.Template.Spec.Requirements[j]; r.Key == karpv1.LabelCapacityType && !slices.Contains(r.Values, karpv1.CapacityTypeReserved) {
				r.Values = append(slices.Clone(r.Values), karpv1.CapacityTypeReserved)
			}
		}
	}
	for range m.IntN(3) {
		m.change("cloud: an instance of a reservation is taken back", (*World).reclaimReserved)
	}
	if m.chance(0.5) {
		m.change("cloud: a reservation becomes smaller", (*World).shrinkReservation)
	}
}

// leaveReservations deletes the claims in capacity blocks that end soon, and relabels those whose instance is no longer in
// its reservation (FM-F09).
func (p *process) leaveReservations() {
	blocks := lifecycle.Blocks{ReservationLabel: awsv1.LabelCapacityReservationID, TypeLabel: awsv1.LabelCapacityReservationType, Type: blockType, Ends: map[string]time.Time{}}
	for _, r := range p.w.market.reserved {
		if end, ends := r.end(p.w); ends && r.Block && !r.over {
			blocks.Ends[r.ID] = end
		}
	}
	list, err := p.cloud.List(context.Background())
	left := map[string]bool{} // instances that run in no reservation
	for i := range list {
		left[string(list[i].ID)] = err == nil && list[i].CapacityType != karpv1.CapacityTypeReserved && !list[i].Terminating
	}
	for _, name := range slices.Clone(p.w.api.claimNames()) {
		claim := p.w.api.claims[name]
		if claim == nil || claim.Labels[karpv1.LabelCapacityType] != karpv1.CapacityTypeReserved {
			continue
		}
		if _, ending := p.w.config.Steps.BlockEnding(blocks, claim, p.w.now); ending {
			p.w.logf("controller: the block of claim %s ends", name)
			p.write(func() { p.w.api.delete(claim, p.w.now) })
			continue
		}
		if left[claim.Status.ProviderID] {
			p.relabelOnDemand(claim)
		}
	}
}

// relabelOnDemand says on a claim and its Nodes that they run on demand.
func (p *process) relabelOnDemand(claim *karpv1.NodeClaim) {
	for _, node := range p.w.api.nodesOf(claim) {
		next := node.DeepCopy()
		next.Labels = p.w.config.Steps.OnDemandLabels(node.Labels, awsv1.LabelCapacityReservationID, awsv1.LabelCapacityReservationType)
		p.write(func() { p.w.api.put(next) })
	}
	p.patchClaim(claim.Name, func(next *karpv1.NodeClaim) bool {
		next.Labels = p.w.config.Steps.OnDemandLabels(next.Labels, awsv1.LabelCapacityReservationID, awsv1.LabelCapacityReservationType)
		return true
	})
}

// ordersReserved checks a claim that was planned into reservations: in each of them, the slots that are free are not fewer
// than the claims that were ordered for them and are not launched (SC-45). The cloud counts those that are. Nothing is
// ordered for a block that ends soon, nor for a reservation that was interrupted until it was looked up again (FM-F09).
func (c *checks) ordersReserved(claim *karpv1.NodeClaim, n solve.NewNode) {
	if n.Offer.Reservation == "" {
		return
	}
	var ids []string
	for _, r := range claim.Spec.Requirements {
		if r.Key == awsv1.LabelCapacityReservationID {
			ids = r.Values
		}
	}
	for _, id := range ids {
		c.slots[id] = slices.DeleteFunc(c.slots[id], func(name string) bool {
			have := c.w.api.claims[name]
			return have == nil || have.DeletionTimestamp != nil || have.Status.ProviderID != "" || c.w.market.instances[have.UID] != nil
		})
		c.slots[id] = append(c.slots[id], claim.Name)
		if c.w.now.Before(c.lost[id].Add(countsFor)) {
			c.w.broken("reservation", "claim %s is ordered for reservation %s, %s after it was interrupted", claim.Name, id, c.w.now.Sub(c.lost[id]))
		}
		if r := c.w.market.reservationOf(id); r.Block && !c.w.now.Before(c.w.start.Add(r.Ends-blockLeft)) {
			c.w.broken("block", "claim %s is ordered for block %s, which ends in %s", claim.Name, id, c.w.start.Add(r.Ends).Sub(c.w.now))
		}
	}
	for i := range c.w.market.machines {
		for _, o := range c.w.market.reservedOffers(&c.w.market.machines[i], Zones()...) {
			if len(c.slots[o.Reservation]) > o.Remaining && slices.Contains(ids, o.Reservation) {
				c.w.broken("SC-45", "claim %s in zone %v is ordered for reservation %s, which has %d slots left for claims %v", claim.Name, n.Needs[corev1.LabelTopologyZone], o.Reservation, o.Remaining, c.slots[o.Reservation])
			}
		}
	}
}

// outlived checks that the claim of an instance that the cloud ends with its block has been deleted in time (FM-F09). A
// process that has just started may not have come to it.
func (c *checks) outlived(i *instance) {
	p := c.w.process
	if p == nil || c.w.now.Sub(p.started) < 2*reservationsEvery {
		return
	}
	if claim := c.w.api.claims[i.claim]; claim != nil && claim.UID == i.uid && claim.DeletionTimestamp == nil && claim.Status.ProviderID == i.id {
		c.w.broken("block", "claim %s is not deleted when the instances of block %s are ended", claim.Name, i.reservation)
	}
}

// relabelled checks at the end of a run that no claim counts as reserved whose instance is not (FM-F09).
func (c *checks) relabelled() {
	for _, name := range c.w.api.claimNames() {
		claim := c.w.api.claims[name]
		i := c.w.market.byID[claim.Status.ProviderID]
		if i != nil && i.reservation == "" && claim.Labels[karpv1.LabelCapacityType] == karpv1.CapacityTypeReserved {
			c.w.broken("FM-F09", "claim %s counts as reserved, its instance runs in no reservation", name)
		}
	}
}
