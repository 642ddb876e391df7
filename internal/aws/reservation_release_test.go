package aws

import (
	"testing"
	"time"

	"github.com/dovetail-sh/dovetail/internal/aws/inventory"
	"github.com/dovetail-sh/dovetail/internal/aws/offering"
)

// EC2NodeClass 17: the slot of a reserved instance that is gone is free at once. Others had none.
func TestEndedInstancesGiveTheirSlotBack(t *testing.T) {
	t.Parallel()
	cloud := &Cloud{reservations: offering.NewReservations(func() time.Time { return start })}
	cloud.reservations.Set("cr-1", 0, start)
	for name, tc := range map[string]struct {
		capacityType string
		seen         time.Time
		want         int
	}{
		"on demand in an open reservation":               {"on-demand", start.Add(time.Minute), 0},
		"reserved, but EC2 was called since it was seen": {"reserved", start.Add(-time.Minute), 0},
		"reserved": {"reserved", start.Add(time.Minute), 1},
	} {
		cloud.reservations.Exhausted("cr-1")
		cloud.releaseReservationSlot(newInstance("i-1", start, func(i *inventory.Instance) { i.CapacityType, i.Reservation = tc.capacityType, "cr-1" }), tc.seen)
		if free := cloud.reservations.Free("cr-1"); free != tc.want {
			t.Errorf("%s: %d free, want %d", name, free, tc.want)
		}
	}
}
