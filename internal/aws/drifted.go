package aws

import (
	"context"
	"slices"

	corev1 "k8s.io/api/core/v1"

	awsv1 "github.com/dovetail-sh/dovetail/api/aws/v1"
	karpv1 "github.com/dovetail-sh/dovetail/api/v1"
	"github.com/dovetail-sh/dovetail/internal/aws/discover"
	"github.com/dovetail-sh/dovetail/internal/aws/inventory"
	"github.com/dovetail-sh/dovetail/internal/aws/nodeclass"
	"github.com/dovetail-sh/dovetail/internal/catalog"
	"github.com/dovetail-sh/dovetail/internal/cloud"
	"github.com/dovetail-sh/dovetail/internal/reason"
)

// lookup is what drift has to know beyond the status of a class.
type lookup interface {
	KnownPlacementGroup(class *awsv1.EC2NodeClass) (discover.PlacementGroup, bool)
	FreshReservations(ctx context.Context, class *awsv1.EC2NodeClass) ([]discover.Reservation, error)
}

// drifter brings together what nodeclass.Drift decides upon.
type drifter struct {
	inventory instanceInventory
	types     typeCatalog
	lookup    lookup
}

func (d *drifter) drifted(ctx context.Context, class *awsv1.EC2NodeClass, claim *karpv1.NodeClaim) (reason.Reason, error) {
	id := inventory.InstanceID(claim.Status.ProviderID)
	instance, err := d.inventory.Find(ctx, id)
	if err != nil {
		return reason.Reason{}, ignoreNotFound(err)
	}
	all, err := d.types.Types(class, claim.Spec.Kubelet)
	if err != nil {
		return reason.Reason{}, err
	}
	want := nodeclass.Wanted{PlacementGroupKnown: class.Spec.PlacementGroupSelector == nil}
	if group, known := d.lookup.KnownPlacementGroup(class); known {
		want.PlacementGroup, want.PlacementGroupKnown = group.ID, true
	}
	name := claim.Labels[corev1.LabelInstanceTypeStable]
	if n := slices.IndexFunc(all, func(t catalog.InstanceType) bool { return t.Name == name }); n >= 0 {
		image, _ := discover.Image(class, &all[n])
		want.Image, want.ImageKnown = image.ID, true
	}
	why := nodeclass.Drift(class, claim, driftInstance(instance), want)
	if why.Code != reason.CapacityReservationDrift {
		return why, nil
	}
	// The reservation, or the instance's place in it, may have changed a moment ago: look at both anew.
	if instance, err = d.inventory.Fresh(ctx, id); err != nil {
		return reason.Reason{}, ignoreNotFound(err)
	}
	fresh, err := d.lookup.FreshReservations(ctx, class)
	if err != nil {
		return reason.Reason{}, &cloud.Error{Op: "describe capacity reservations", Err: err}
	}
	class = class.DeepCopy()
	class.Status.CapacityReservations = nil
	for _, r := range fresh {
		class.Status.CapacityReservations = append(class.Status.CapacityReservations, r.CapacityReservation)
	}
	return nodeclass.Drift(class, claim, driftInstance(instance), want), nil
}

func driftInstance(i inventory.Instance) nodeclass.Instance {
	return nodeclass.Instance{Subnet: i.Subnet, Groups: i.Groups, Reservation: i.Reservation}
}

// ignoreNotFound drops the error about an instance that has ended: it cannot drift any more.
func ignoreNotFound(err error) error {
	if cloud.Is(err, cloud.NotFound) {
		return nil
	}
	return err
}
