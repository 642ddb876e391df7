package offering

import (
	"maps"
	"slices"
	"strconv"
	"time"

	"k8s.io/apimachinery/pkg/runtime"

	awsv1 "github.com/dovetail-sh/dovetail/api/aws/v1"
	"github.com/dovetail-sh/dovetail/internal/aws/ami"
	"github.com/dovetail-sh/dovetail/internal/aws/discover"
	"github.com/dovetail-sh/dovetail/internal/aws/kubelet"
	"github.com/dovetail-sh/dovetail/internal/catalog"
	"github.com/dovetail-sh/dovetail/internal/reqs"
	"github.com/dovetail-sh/dovetail/internal/resources"
)

// shape is the part of the instance types of a class that does not depend on prices and availability, and the last
// list that was made of it.
type shape struct {
	region *regionTypes
	images uint64 // set of images, for observations of memory
	disks  uint64 // images and devices, for observations of storage
	seen   uint64 // versions of the observations it was made with
	used   time.Time

	seenDisks uint64

	types        []size
	labels       []reqs.Set
	places       []place
	launchPlaces []launchPlace // the offerings of each place
	group        discover.PlacementGroup
	reservations map[int][]heldReservation // reservations, by machine

	stamp stamp
	list  []catalog.InstanceType
}

// size is a machine as a class launches it.
type size struct {
	capacity, overhead resources.Vec
	unsuited           string // why the class cannot launch it; empty: an image fits and the class has no objection
	devices            []catalog.DevicePool
}

// launchPlace is one way to launch in one place: a zone, or one partition of a placement group there.
type launchPlace struct {
	place  int
	group  Group
	labels map[string]string
}

// heldReservation is a capacity reservation for one machine, in one lot.
type heldReservation struct {
	id     string
	lot    int
	usable bool // not about to end
	labels map[string]string
}

// newShape computes sizes. What came before is kept as the list to compare with, so that types that did
// not change keep their offerings.
func (c *Catalog) newShape(class *awsv1.EC2NodeClass, override *runtime.RawExtension, group discover.PlacementGroup, before *shape, now time.Time) *shape {
	images, disks := imagesKey(class), disksKey(class)
	s := &shape{region: c.region, images: images, disks: disks, seen: c.seen.version(images, now), seenDisks: c.seen.version(disks, now), group: group}
	look := appearance{windowsBuild: ami.Of(class.Family()).WindowsBuild, group: group.ID, partitioned: group.Partitions > 0}
	s.labels = c.region.labelsFor(look, c.options.Region, c.limits)
	s.places = c.places(class)
	s.launchPlaces = launchPlaces(s.places, group)
	s.findReservations(class, c.options.Reserved)
	sizer := c.newSizer(class, override)
	sizer.memory, sizer.disks = c.seen.bytes(images), c.seen.bytes(disks)
	fitter := newFitter(class, group)
	s.types = make([]size, len(c.region.machines))
	for i := range c.region.machines {
		m := &c.region.machines[i]
		t := &s.types[i]
		var err error
		t.capacity, t.overhead, err = sizer.size(m)
		if t.unsuited = fitter.whyUnsuited(m, s.labels[i]); err != nil {
			t.unsuited = "an expression in spec.kubelet fails for it: " + err.Error()
		}
		if c.options.Devices {
			t.devices = m.devicePools()
		}
	}
	if before != nil && before.region == s.region {
		s.list = before.list
	}
	return s
}

func (c *Catalog) newSizer(class *awsv1.EC2NodeClass, override *runtime.RawExtension) *sizer {
	settings, _ := kubelet.Parse(kubelet.Of(class, override))
	family := ami.Of(class.Family())
	s := &sizer{
		lanes: c.lanes, limits: c.limits, family: family, kubelet: settings, cel: c.options.Settings.Gates.NodeClassCEL,
		memoryOverhead: c.options.Settings.VMMemoryOverheadPercent, reservedENIs: int64(c.options.Settings.ReservedENIs),
		storage: storageOf(class, family), efaOnly: -1,
	}
	if len(class.Spec.NetworkInterfaces) > 0 {
		s.efaOnly, s.efaOnlyCard0 = efaOnlyInterfaces(class.Spec.NetworkInterfaces)
	}
	if !settings.Expressions() {
		s.plain = readReserved(settings)
	}
	return s
}

// places are the zones of the region, and those of the class's subnets even if EC2 offers nothing
// there, by name.
func (c *Catalog) places(class *awsv1.EC2NodeClass) []place {
	own := zonesOf(class.Status.Subnets)
	for i, zone := range c.region.zones {
		p := own[zone]
		if p == nil {
			p = &place{zone: zone}
			own[zone] = p
		}
		p.bit = 1 << i
	}
	list := make([]place, 0, len(own))
	for _, zone := range slices.Sorted(maps.Keys(own)) {
		list = append(list, *own[zone])
	}
	return list[:min(len(list), maxZones)]
}

// launchPlaces multiplies the places by the partitions of the group. Labels are shared by all types.
func launchPlaces(places []place, group discover.PlacementGroup) []launchPlace {
	var lots []launchPlace
	for i := range places {
		for n := range max(1, group.Partitions) {
			l := launchPlace{place: i, group: Group{ID: group.ID}, labels: map[string]string{}}
			if places[i].id != "" {
				l.labels[awsv1.LabelZoneID] = places[i].id
			}
			if group.Partitions > 0 {
				l.group.Partition = strconv.Itoa(n + 1)
				l.labels[awsv1.LabelPlacementGroupPartition] = l.group.Partition
			}
			if len(l.labels) == 0 {
				l.labels = nil
			}
			lots = append(lots, l)
		}
	}
	return lots
}

// findReservations finds the machines of the class's reservations. Their labels come from the offering, so the type
// must not deny them.
func (s *shape) findReservations(class *awsv1.EC2NodeClass, gate bool) {
	s.reservations = map[int][]heldReservation{}
	if !gate {
		return
	}
	for i := range class.Status.CapacityReservations {
		r := &class.Status.CapacityReservations[i]
		m, known := s.region.index[r.InstanceType]
		if !known {
			continue
		}
		for j := range s.launchPlaces {
			l := &s.launchPlaces[j]
			if s.places[l.place].zone != r.AvailabilityZone {
				continue
			}
			h := heldReservation{id: r.ID, lot: j, usable: r.State != "expiring", labels: maps.Clone(l.labels)}
			if h.labels == nil {
				h.labels = map[string]string{}
			}
			h.labels[awsv1.LabelCapacityReservationID] = r.ID
			h.labels[awsv1.LabelCapacityReservationType] = "default"
			if r.ReservationType != "" {
				h.labels[awsv1.LabelCapacityReservationType] = r.ReservationType
			}
			h.labels[awsv1.LabelCapacityReservationInterrupt] = strconv.FormatBool(r.Interruptible)
			s.reservations[m] = append(s.reservations[m], h)
		}
	}
	if len(s.reservations) == 0 {
		return
	}
	s.labels = slices.Clone(s.labels)
	// any order: each machine has labels of its own
	for m := range s.reservations {
		s.labels[m] = s.labels[m].Clone()
		for _, key := range []string{awsv1.LabelCapacityReservationID, awsv1.LabelCapacityReservationType, awsv1.LabelCapacityReservationInterrupt} {
			delete(s.labels[m], key)
		}
	}
}
