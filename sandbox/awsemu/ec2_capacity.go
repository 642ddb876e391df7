package awsemu

import (
	"cmp"
	"fmt"
	"maps"
	"net/netip"
	"slices"

	"github.com/dovetail-sh/dovetail/sandbox/awsemu/wire"
)

// spreadLimit is how many instances a spread placement group takes per zone.
const spreadLimit = 7

// checkPoolCapacity says why a pool cannot take one more instance, or nil. It finds the reservation and the address
// that the instance would get.
func (e *Emulator) checkPoolCapacity(c *call, p *launchPool) error {
	p.reservation, p.address = nil, ""
	if err := e.findReservation(c, p); err != nil {
		return err
	}
	for _, ice := range e.ec2().ICE {
		if ice.Remaining <= 0 && ice.matches(p.capacityType(), p.instanceType, p.zone) {
			return ice.insufficientCapacityError(p)
		}
	}
	if err := e.checkQuota(p); err != nil {
		return err
	}
	if p.placement != nil && p.placement.Strategy == "spread" {
		inside := 0
		for _, i := range e.ec2().Instances {
			if i.holdsResources() && i.Placement == p.placement.ID && i.Zone == p.zone {
				inside++
			}
		}
		if inside >= spreadLimit {
			return noCapacity("You have reached the limit of %d instances per Availability Zone of the spread placement group %s in %s.", spreadLimit, p.placement.Name, p.zone)
		}
	}
	address, found := e.findAddress(p.subnet)
	if !found || p.subnet.Free < e.addressesPerInstance() {
		return wire.Errorf("InsufficientFreeAddressesInSubnet", "There are not enough free addresses in subnet '%s' to satisfy the requested number of instances.", p.subnetID)
	}
	p.address = address
	return nil
}

// insufficientCapacityError is why a pool that ran out cannot serve.
func (ice *ICEPool) insufficientCapacityError(p *launchPool) error {
	usual := fmt.Sprintf("We currently do not have sufficient %s capacity in the Availability Zone you requested (%s).", p.instanceType, p.zone)
	return &wire.Error{Code: cmp.Or(ice.Code, "InsufficientInstanceCapacity"), Message: cmp.Or(ice.Message, usual)}
}

func noCapacity(format string, args ...any) error {
	return wire.Errorf("InsufficientInstanceCapacity", format, args...)
}

func (e *Emulator) addressesPerInstance() int { return 1 + max(0, e.ec2().Timing.WarmAddresses) }

// checkQuota says which quota one more instance would exceed.
func (e *Emulator) checkQuota(p *launchPool) error {
	spot := p.market == capacitySpot
	quota := e.ec2().Quotas.OnDemandVCPU
	if spot {
		quota = e.ec2().Quotas.SpotVCPU
	}
	if quota == nil {
		return nil
	}
	used := p.info.VCPU
	for _, i := range e.ec2().Instances {
		if i.holdsResources() && (i.CapacityType == capacitySpot) == spot {
			used += i.VCPU
		}
	}
	if used <= *quota {
		return nil
	}
	if spot {
		return wire.Errorf("MaxSpotInstanceCountExceeded", "Max spot instance count exceeded")
	}
	return wire.Errorf("VcpuLimitExceeded", "You have requested more vCPU capacity than your current vCPU limit of %d allows for the instance bucket that the specified instance type belongs to.", *quota)
}

// checkFleets says whether the account has too many fleets.
func (e *Emulator) checkFleets() error {
	quota := e.ec2().Quotas.Fleets
	if quota == nil {
		return nil
	}
	fleets := map[string]bool{}
	for _, i := range e.ec2().Instances {
		if i.holdsResources() && i.Fleet != "" {
			fleets[i.Fleet] = true
		}
	}
	if len(fleets) < *quota {
		return nil
	}
	return wire.Errorf("MaxFleetCountExceeded", "You've reached your quota for the total number of EC2 Fleets and Spot Fleets (%d).", *quota)
}

// findReservation finds the reservation that the next instance of a pool goes to: the one it names, or
// an open one that fits, or none.
func (e *Emulator) findReservation(c *call, p *launchPool) error {
	spec := p.data.Sub("CapacityReservationSpecification")
	preference := spec.String("CapacityReservationPreference")
	if id := spec.String("CapacityReservationTarget.CapacityReservationId"); id != "" {
		return e.targetReservation(c, p, id)
	}
	exceeded := wire.Errorf("ReservationCapacityExceeded", "No capacity reservation of %s in %s has a free slot.", p.instanceType, p.zone)
	if p.market == marketCapacityBlock || p.market == marketReserved {
		return exceeded
	}
	if p.market == capacitySpot || preference == "none" {
		return nil
	}
	for _, id := range slices.Sorted(maps.Keys(e.ec2().Reservations)) {
		r := e.ec2().Reservations[id]
		if r.Match == "open" && r.Type == "default" && !r.Interruptible && r.stateAt(c.now) == "active" && r.Available > 0 &&
			r.InstanceType == p.instanceType && r.Zone == p.zone {
			p.reservation = r
			return nil
		}
	}
	if preference == "capacity-reservations-only" {
		return exceeded
	}
	return nil
}

func (e *Emulator) targetReservation(c *call, p *launchPool, id string) error {
	r := e.ec2().Reservations[id]
	switch {
	case r == nil:
		return reservationNotFound(id)
	case r.InstanceType != p.instanceType || r.Zone != p.zone:
		return invalidValue("The capacity reservation '%s' is for %s in %s, not for %s in %s", id, r.InstanceType, r.Zone, p.instanceType, p.zone)
	case (r.Type == marketCapacityBlock) != (p.market == marketCapacityBlock):
		return invalidValue("The capacity reservation '%s' has the type %s and cannot be used for %s", id, r.Type, p.market)
	case r.Interruptible != (p.market == marketReserved):
		return invalidValue("The capacity reservation '%s' with interruptible %v cannot be used for %s", id, r.Interruptible, p.market)
	case r.stateAt(c.now) != "active" || r.Available <= 0:
		return wire.Errorf("ReservationCapacityExceeded", "The capacity reservation '%s' (%s) has no free slot.", id, r.stateAt(c.now))
	}
	p.reservation = r
	return nil
}

// findAddress returns a free address of a subnet, going round so that addresses rest a
// while before they are used again.
func (e *Emulator) findAddress(s *Subnet) (string, bool) {
	prefix, err := netip.ParsePrefix(s.CIDR)
	if err != nil || !prefix.Addr().Is4() || prefix.Bits() > 28 {
		return "", false
	}
	base := prefix.Masked().Addr().As4()
	size := 1<<(32-prefix.Bits()) - 5 // the first four and the last are reserved
	at := func(offset int) string {
		n := uint32(base[0])<<24 | uint32(base[1])<<16 | uint32(base[2])<<8 | uint32(base[3])
		n += uint32(4 + ((s.Cursor+offset)%size+size)%size)
		return fmt.Sprintf("%d.%d.%d.%d", n>>24, n>>16&255, n>>8&255, n&255)
	}
	first, free := at(0), true
	for _, i := range e.ec2().Instances {
		free = free && (i.PrivateIP != first || i.Subnet != s.ID || !i.holdsResources())
	}
	if free { // nearly always, and much cheaper than the map
		return first, true
	}
	taken := map[string]bool{}
	for _, i := range e.ec2().Instances {
		if i.Subnet == s.ID && i.holdsResources() {
			taken[i.PrivateIP] = true
		}
	}
	for offset := range min(size, len(taken)+1) {
		if address := at(offset); !taken[address] {
			return address, true
		}
	}
	return "", false
}
