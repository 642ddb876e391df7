package aws

import (
	"strconv"
	"time"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	awsv1 "github.com/dovetail-sh/dovetail/api/aws/v1"
	karpv1 "github.com/dovetail-sh/dovetail/api/v1"
	"github.com/dovetail-sh/dovetail/internal/aws/inventory"
	"github.com/dovetail-sh/dovetail/internal/aws/launch"
	"github.com/dovetail-sh/dovetail/internal/catalog"
	"github.com/dovetail-sh/dovetail/internal/cloud"
	"github.com/dovetail-sh/dovetail/internal/cloud/adopt"
)

// machine describes one instance, whether it was just launched or found. It is what a
// launch returns.
type machine launch.Result

// machineOf is a machine as the inventory shows it.
func machineOf(i inventory.Instance) machine {
	m := machine{
		ID: i.ID, Type: i.Type, Zone: i.Zone, ZoneID: i.ZoneID, Subnet: i.Subnet, Image: i.Image, CapacityType: i.CapacityType,
		Tenancy: i.Tenancy, PlacementGroup: i.PlacementGroup, Partition: i.Partition, Launched: i.Launched,
	}
	if i.CapacityType == karpv1.CapacityTypeReserved {
		m.Reservation = i.Reservation
	}
	return m
}

// inventoryInstance is what the inventory caches of a machine that was launched just now with a class.
func (m machine) inventoryInstance(class *awsv1.EC2NodeClass, tags map[string]string) inventory.Instance {
	groups := make([]string, 0, len(class.Status.SecurityGroups))
	for _, g := range class.Status.SecurityGroups {
		groups = append(groups, g.ID)
	}
	return inventory.Instance{
		ID: m.ID, Type: m.Type, Zone: m.Zone, ZoneID: m.ZoneID, Subnet: m.Subnet, Image: m.Image, CapacityType: m.CapacityType,
		State: inventory.StatePending, Tags: tags, Reservation: m.Reservation, PlacementGroup: m.PlacementGroup, Partition: m.Partition,
		Tenancy: m.Tenancy, Launched: m.Launched, Groups: groups, Profile: class.Status.InstanceProfile,
	}
}

// completeReservation completes what EC2 does not report about the reservation a machine runs in.
func (m *machine) completeReservation(class *awsv1.EC2NodeClass) {
	for _, r := range class.Status.CapacityReservations {
		if m.Reservation == r.ID {
			m.ReservationType, m.Interruptible = r.ReservationType, r.Interruptible
		}
	}
}

// machineLabels are the labels that a node has because of the machine it is: everything that is certain
// about its type, and what was chosen when it was launched (5.7).
func machineLabels(t *catalog.InstanceType, m machine) map[string]string {
	labels := make(map[string]string, len(t.Labels)+8)
	for key, r := range t.Labels {
		if !r.Not && len(r.Values) == 1 {
			labels[key] = r.Values[0]
		}
	}
	put := func(key, value string) {
		if value != "" {
			labels[key] = value
		}
	}
	put(corev1.LabelInstanceTypeStable, t.Name)
	put(corev1.LabelTopologyZone, m.Zone)
	put(awsv1.LabelZoneID, m.ZoneID)
	put(karpv1.LabelCapacityType, m.CapacityType)
	put(awsv1.LabelInstanceTenancy, m.Tenancy)
	put(awsv1.LabelPlacementGroupID, m.PlacementGroup)
	put(awsv1.LabelPlacementGroupPartition, m.Partition)
	for _, o := range t.Offerings {
		if m.ZoneID == "" && o.Zone == m.Zone {
			put(awsv1.LabelZoneID, o.Labels[awsv1.LabelZoneID])
		}
	}
	if m.Reservation != "" {
		kind := m.ReservationType
		if kind == "" {
			kind = "default"
		}
		put(awsv1.LabelCapacityReservationID, m.Reservation)
		put(awsv1.LabelCapacityReservationType, kind)
		put(awsv1.LabelCapacityReservationInterrupt, strconv.FormatBool(m.Interruptible))
	}
	return labels
}

// cloudInstance is an instance of the inventory in the words of the port.
func cloudInstance(i inventory.Instance) cloud.Instance {
	return cloud.Instance{
		ID: i.ProviderID(), Type: i.Type, Zone: i.Zone, CapacityType: i.CapacityType, Image: i.Image,
		Launched: i.Launched.Truncate(time.Second), Terminating: i.Terminating(), Stopped: !i.Terminating() && i.State != inventory.StatePending && i.State != inventory.StateRunning,
		Pool: i.Tags[inventory.TagNodePool], Class: i.Tags[inventory.TagNodeClass], Claim: i.Tags[inventory.TagNodeClaim],
	}
}

// newAdopter finds instances of earlier processes. Ours have no mark of the claim until they are tagged, which a
// process may not live to do.
func newAdopter(list lister, claims client.Reader, ledger *adopt.Ledger, now func() time.Time) *adopt.Adopter[inventory.Instance] {
	return &adopt.Adopter[inventory.Instance]{
		List: list.List, Read: cloudInstance, Claims: claims, Ledger: ledger, Name: inventory.InstanceID, Words: awsv1.Vocabulary(), Now: now,
		Labels: func(i inventory.Instance, of *catalog.InstanceType) map[string]string {
			return machineLabels(of, machineOf(i))
		},
	}
}
