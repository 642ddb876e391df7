package awsemu

import (
	"time"

	"github.com/dovetail-sh/dovetail/sandbox/awsemu/wire"
)

// CapacityReservation is an on-demand capacity reservation or a capacity block.
type CapacityReservation struct {
	ID            string            `json:"id"`
	InstanceType  string            `json:"instanceType"`
	Zone          string            `json:"zone"`
	Owner         string            `json:"owner"`
	Total         int               `json:"total"`
	Available     int               `json:"available"`
	Match         string            `json:"match"` // targeted or open
	Type          string            `json:"type"`  // default or capacity-block
	Interruptible bool              `json:"interruptible,omitempty"`
	Source        string            `json:"source,omitempty"`  // the reservation that an interruptible one is lent from
	Reclaim       int               `json:"reclaim,omitempty"` // instances that go back to the source when they end
	End           time.Time         `json:"end,omitzero"`
	State         string            `json:"state"` // active until the end, then expired; or cancelled
	Tags          map[string]string `json:"tags,omitempty"`
}

// stateAt is active, or expired after the end.
func (r *CapacityReservation) stateAt(now time.Time) string {
	if r.State == "active" && !r.End.IsZero() && !now.Before(r.End) {
		return "expired"
	}
	return r.State
}

// giveBack records that an instance of the reservation ended.
func (e *Emulator) giveBack(r *CapacityReservation) {
	source := e.ec2().Reservations[r.Source]
	if r.Reclaim == 0 || source == nil {
		r.Available = min(r.Total, r.Available+1)
		return
	}
	r.Reclaim--
	r.Total--
	source.Total++
	source.Available++
}

// loseReservations takes instances out of reservations that are over. They run on and cost what they
// would without; those of capacity blocks and of interruptible reservations end instead.
func (e *Emulator) loseReservations(now time.Time) (changed bool) {
	for _, i := range e.ec2().Instances {
		if i.Reservation == "" || i.Lifecycle != "" || !i.holdsResources() {
			continue
		}
		if r := e.ec2().Reservations[i.Reservation]; r == nil || r.stateAt(now) != "active" {
			i.Reservation, i.CapacityType, changed = "", capacityOnDemand, true
		}
	}
	return changed
}

type reservationItem struct {
	ID            string          `xml:"capacityReservationId"`
	ARN           string          `xml:"capacityReservationArn"`
	Owner         string          `xml:"ownerId"`
	InstanceType  string          `xml:"instanceType"`
	Platform      string          `xml:"instancePlatform"`
	Zone          string          `xml:"availabilityZone"`
	ZoneID        string          `xml:"availabilityZoneId"`
	Tenancy       string          `xml:"tenancy"`
	Total         int             `xml:"totalInstanceCount"`
	Available     int             `xml:"availableInstanceCount"`
	State         string          `xml:"state"`
	End           string          `xml:"endDate,omitempty"`
	EndType       string          `xml:"endDateType"`
	Match         string          `xml:"instanceMatchCriteria"`
	Type          string          `xml:"reservationType"`
	Interruptible bool            `xml:"interruptible"`
	Lent          *allocationItem `xml:"interruptibleCapacityAllocation"`
	From          *lentFromItem   `xml:"interruptionInfo"`
	Tags          []tagItem       `xml:"tagSet>item"`
}

// allocationItem is what a reservation lends, and the response to lending.
type allocationItem struct {
	ID               string `xml:"interruptibleCapacityReservationId,omitempty"`
	Source           string `xml:"sourceCapacityReservationId,omitempty"`
	Count            int    `xml:"instanceCount"`
	Target           int    `xml:"targetInstanceCount"`
	Status           string `xml:"status"`
	InterruptionType string `xml:"interruptionType"`
}

type lentFromItem struct {
	Source           string `xml:"sourceCapacityReservationId"`
	InterruptionType string `xml:"interruptionType"`
}

// adhoc is the only way in which EC2 reclaims what was lent.
const adhoc = "adhoc"

func (e *Emulator) reservationItem(r *CapacityReservation, now time.Time) reservationItem {
	item := reservationItem{
		ID: r.ID, ARN: e.accountARN("ec2", "capacity-reservation/"+r.ID), Owner: r.Owner, InstanceType: r.InstanceType, Platform: "Linux/UNIX",
		Zone: r.Zone, Tenancy: "default", Total: r.Total, Available: r.Available, State: r.stateAt(now), EndType: "unlimited",
		Match: r.Match, Type: r.Type, Interruptible: r.Interruptible, Tags: tagItems(r.Tags),
	}
	if index := e.zoneIndex(r.Zone); index >= 0 {
		item.ZoneID = e.fixture.Zones[index].ID
	}
	if !r.End.IsZero() {
		item.End, item.EndType = wire.Time(r.End), "limited"
	}
	if r.Source != "" {
		item.From = &lentFromItem{Source: r.Source, InterruptionType: adhoc}
	}
	if lent := e.lentBy(r); lent != nil {
		item.Lent = &allocationItem{ID: lent.ID, Count: lent.Total, Target: lent.Total - lent.Reclaim, Status: lent.allocationID(), InterruptionType: adhoc}
	}
	return item
}

// lentBy is the interruptible reservation that another one lends, or nil.
func (e *Emulator) lentBy(r *CapacityReservation) *CapacityReservation {
	for _, other := range e.ec2().Reservations {
		if other.Source == r.ID {
			return other
		}
	}
	return nil
}

func (r *CapacityReservation) allocationID() string {
	if r.Reclaim > 0 {
		return "updating"
	}
	return "active"
}

type reservationsResponse struct {
	Items []reservationItem `xml:"capacityReservationSet>item"`
	Next  string            `xml:"nextToken,omitempty"`
}

type reservationResponse struct {
	Item reservationItem `xml:"capacityReservation"`
}

func (e *Emulator) describeReservations(c *call) (any, error) {
	filters, err := ec2Filters(c, "state", "owner-id", "instance-match-criteria", "instance-type", "availability-zone")
	if err != nil {
		return nil, err
	}
	ids := c.Form.Strings("CapacityReservationId")
	if len(ids) > 0 && c.Form.Has("MaxResults") {
		return nil, maxResultsWithIDs("capacityReservationIds")
	}
	for _, id := range ids {
		if e.ec2().Reservations[id] == nil {
			return nil, reservationNotFound(id)
		}
	}
	var list []*CapacityReservation
	for _, r := range e.ec2().Reservations {
		if isSelected(ids, r.ID) && filters.matchTags(r.Tags, map[string]string{
			"state": r.stateAt(c.now), "owner-id": r.Owner, "instance-match-criteria": r.Match, "instance-type": r.InstanceType, "availability-zone": r.Zone,
		}) {
			list = append(list, r)
		}
	}
	page, next, err := ec2Page(c, list, func(r *CapacityReservation) string { return r.ID }, 1000, 0)
	response := reservationsResponse{Next: next}
	for _, r := range page {
		response.Items = append(response.Items, e.reservationItem(r, c.now))
	}
	return response, err
}

func reservationNotFound(id string) error {
	return wire.Errorf("InvalidCapacityReservationId.NotFound", "The capacity reservation '%s' does not exist", id)
}

// activeReservation finds a reservation that can still change.
func (e *Emulator) activeReservation(c *call) (*CapacityReservation, error) {
	id := c.Form.String("CapacityReservationId")
	r := e.ec2().Reservations[id]
	if r == nil {
		return nil, reservationNotFound(id)
	}
	if state := r.stateAt(c.now); state != "active" {
		return nil, wire.Errorf("InvalidCapacityReservationState", "The capacity reservation '%s' is %s, not active", id, state)
	}
	return r, nil
}

func (e *Emulator) createReservation(c *call) (any, error) {
	tags, err := tagsListed(c.Form, "TagSpecifications", "capacity-reservation")
	if err != nil {
		return nil, err
	}
	zone := c.Form.String("AvailabilityZone")
	for _, z := range e.fixture.Zones {
		if zone == "" && z.ID == c.Form.String("AvailabilityZoneId") {
			zone = z.Name
		}
	}
	count := c.Form.Int("InstanceCount", 0)
	r := &CapacityReservation{
		InstanceType: c.Form.String("InstanceType"), Zone: zone, Total: count, Available: count, Match: c.Form.String("InstanceMatchCriteria"), Tags: tags,
	}
	setDefault(&r.Match, "open")
	if err := r.setEnd(c); err != nil {
		return nil, err
	}
	if count < 1 {
		return nil, invalidValue("InstanceCount (%s) must be at least 1", c.Form.String("InstanceCount"))
	}
	if err := e.completeReservation(r, e.nextID("cr-"), c.now); err != nil {
		return nil, invalidValue("%s", err)
	}
	e.ec2().Reservations[r.ID] = r
	return reservationResponse{Item: e.reservationItem(r, c.now)}, nil
}

// setEnd reads EndDateType and EndDate.
func (r *CapacityReservation) setEnd(c *call) error {
	end := c.Form.Time("EndDate")
	switch kind := c.Form.String("EndDateType"); {
	case kind == "unlimited":
		r.End = time.Time{}
	case kind == "limited" && end.IsZero(), !end.IsZero() && !end.After(c.now):
		return invalidValue("EndDate (%s) must be in the future", c.Form.String("EndDate"))
	case !end.IsZero():
		r.End = end
	}
	return nil
}

func (e *Emulator) modifyReservation(c *call) (any, error) {
	r, err := e.activeReservation(c)
	if err != nil {
		return nil, err
	}
	used := r.Total - r.Available
	total := c.Form.Int("InstanceCount", r.Total)
	if total < max(1, used) {
		return nil, invalidValue("InstanceCount (%d) must be at least 1 and not less than the %d instances that run in the reservation", total, used)
	}
	if err := r.setEnd(c); err != nil {
		return nil, err
	}
	r.Total, r.Available = total, total-used
	setIfSent(c.Form, "InstanceMatchCriteria", &r.Match)
	return returnResponse{Return: true}, nil
}

func setIfSent(f wire.Form, name string, field *string) {
	if f.Has(name) {
		*field = f.String(name)
	}
}

// cancelReservation ends a reservation. Its instances run on without it, unless the capacity was lent.
func (e *Emulator) cancelReservation(c *call) (any, error) {
	r, err := e.activeReservation(c)
	if err != nil {
		return nil, err
	}
	r.State, r.Available = "cancelled", 0
	if r.Interruptible {
		e.reclaimLentCapacity(c.now, r, r.Total)
	}
	e.loseReservations(c.now)
	return returnResponse{Return: true}, nil
}

// lendCapacity makes an interruptible reservation of slots that are free.
func (e *Emulator) lendCapacity(c *call) (any, error) {
	r, err := e.activeReservation(c)
	if err != nil {
		return nil, err
	}
	tags, err := tagsFor(c.Form, "capacity-reservation")
	if err != nil {
		return nil, err
	}
	count := c.Form.Int("InstanceCount", 0)
	if count < 1 || count > r.Available {
		return nil, invalidValue("InstanceCount (%s) must be at least 1 and at most the %d free slots of %s", c.Form.String("InstanceCount"), r.Available, r.ID)
	}
	if e.lentBy(r) != nil || r.Interruptible {
		return nil, wire.Errorf("InvalidCapacityReservationState", "The capacity reservation '%s' lends capacity already, or was lent", r.ID)
	}
	lent := *r
	lent.ID, lent.Total, lent.Available, lent.Interruptible, lent.Source, lent.Match, lent.Tags = e.nextID("cr-"), count, count, true, r.ID, "targeted", tags
	r.Total -= count
	r.Available -= count
	e.ec2().Reservations[lent.ID] = &lent
	return allocationItem{Source: r.ID, Count: count, Target: count, Status: lent.allocationID(), InterruptionType: adhoc}, nil
}

// updateLent changes how much a reservation lends: what is free comes back at once, the rest after a notice.
func (e *Emulator) updateLent(c *call) (any, error) {
	r, err := e.activeReservation(c)
	if err != nil {
		return nil, err
	}
	lent := e.lentBy(r)
	if lent == nil {
		return nil, wire.Errorf("InvalidCapacityReservationState", "The capacity reservation '%s' lends no capacity", r.ID)
	}
	target := c.Form.Int("TargetInstanceCount", -1)
	more := target - (lent.Total - lent.Reclaim)
	if target < 0 || more > r.Available {
		return nil, invalidValue("TargetInstanceCount (%s) must be between 0 and %d", c.Form.String("TargetInstanceCount"), lent.Total-lent.Reclaim+r.Available)
	}
	if more > 0 {
		r.Total, r.Available = r.Total-more, r.Available-more
		lent.Total, lent.Available = lent.Total+more, lent.Available+more
	}
	free := min(max(-more, 0), lent.Available)
	lent.Total, lent.Available = lent.Total-free, lent.Available-free
	r.Total, r.Available = r.Total+free, r.Available+free
	e.reclaimLentCapacity(c.now, lent, -more-free)
	return allocationItem{ID: lent.ID, Source: r.ID, Count: lent.Total, Target: target, Status: lent.allocationID(), InterruptionType: adhoc}, nil
}

// reclaimLentCapacity announces the end of some instances that run on lent capacity.
func (e *Emulator) reclaimLentCapacity(now time.Time, lent *CapacityReservation, count int) {
	var inside []*Instance
	for _, i := range e.ec2().Instances {
		if i.Reservation == lent.ID && i.holdsResources() && i.State != stateShuttingDown && i.Interrupt.IsZero() {
			inside = append(inside, i)
		}
	}
	sortInstances(inside)
	for _, i := range inside[:min(max(count, 0), len(inside))] {
		lent.Reclaim++
		e.interruptReserved(now, i, now.Add(time.Duration(e.scaledDuration(e.ec2().Timing.Notice))))
	}
}
