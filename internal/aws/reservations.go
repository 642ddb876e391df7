package aws

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/klog/v2"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	awsv1 "github.com/dovetail-sh/dovetail/api/aws/v1"
	karpv1 "github.com/dovetail-sh/dovetail/api/v1"
	"github.com/dovetail-sh/dovetail/internal/aws/discover"
	"github.com/dovetail-sh/dovetail/internal/aws/inventory"
	"github.com/dovetail-sh/dovetail/internal/cloud/directory"
	"github.com/dovetail-sh/dovetail/internal/execute"
	"github.com/dovetail-sh/dovetail/internal/lifecycle"
)

const reservationsEvery = time.Minute

// reservations keeps NodeClaims true to the capacity reservations their instances run in.
type reservations struct {
	client    client.Client
	directory directory.Cache
	inventory instanceInventory
	remover   execute.Remover
	now       func() time.Time
}

// deleteExpiringBlocks deletes the claims in capacity blocks that end soon: EC2 ends their instances half an hour
// before the block does, without a word.
func (r *reservations) deleteExpiringBlocks(ctx context.Context) error {
	classes, claims := &awsv1.EC2NodeClassList{}, &karpv1.NodeClaimList{}
	if err := errors.Join(r.client.List(ctx, classes), r.client.List(ctx, claims)); err != nil {
		return err
	}
	blocks, now := blocksOf(classes.Items), r.now()
	byName(claims.Items)
	var failures []error
	for i := range claims.Items {
		if end, ending := blocks.Ending(&claims.Items[i], now); ending {
			failures = append(failures, r.deleteExpiring(ctx, &claims.Items[i], end))
		}
	}
	return errors.Join(failures...)
}

// deleteExpiring deletes a claim in a capacity block that ends. It insists on the version that was seen: one that
// changed is checked again in the next round, and none is counted twice.
func (r *reservations) deleteExpiring(ctx context.Context, claim *karpv1.NodeClaim, end time.Time) error {
	nodes, err := r.directory.Nodes(ctx, inventory.InstanceID(claim.Status.ProviderID))
	if err != nil {
		return err
	}
	block := claim.Labels[awsv1.LabelCapacityReservationID]
	removal := execute.Removal{Claim: claim, Reason: lifecycle.RemovedBlockExpired, Event: execute.Terminating("CapacityBlockExpired: capacity block " + block +
		" ends at " + end.UTC().Format(time.RFC3339) + ", and EC2 ends its instances half an hour before")}
	for i := range nodes {
		removal.Nodes = append(removal.Nodes, &nodes[i])
	}
	err = r.remover.Remove(ctx, removal)
	switch {
	case apierrors.IsConflict(err), apierrors.IsNotFound(err):
		return nil
	case err != nil:
		return err
	}
	log.FromContext(ctx).Info("initiating delete because its capacity block ends soon", "NodeClaim", klog.KRef("", claim.Name), "provider-id", claim.Status.ProviderID,
		"capacity-reservation-id", block)
	return nil
}

// blocksOf are the capacity blocks that classes know.
func blocksOf(classes []awsv1.EC2NodeClass) lifecycle.Blocks {
	blocks := lifecycle.Blocks{
		ReservationLabel: awsv1.LabelCapacityReservationID, TypeLabel: awsv1.LabelCapacityReservationType, Type: discover.ReservationCapacityBlock, Ends: map[string]time.Time{},
	}
	for i := range classes {
		for _, reservation := range classes[i].Status.CapacityReservations {
			if reservation.ReservationType == blocks.Type && reservation.EndTime != nil {
				blocks.Ends[reservation.ID] = reservation.EndTime.Time
			}
		}
	}
	return blocks
}

// relabel turns claims and Nodes whose instance is no longer in a reservation into on-demand ones (F09).
func (r *reservations) relabel(ctx context.Context) error {
	claims := &karpv1.NodeClaimList{}
	if err := r.client.List(ctx, claims, client.MatchingLabels{karpv1.LabelCapacityType: karpv1.CapacityTypeReserved}); err != nil {
		return err
	}
	if len(claims.Items) == 0 {
		return nil
	}
	list, err := r.inventory.List(ctx)
	if err != nil {
		return err
	}
	left := leftReservation(list)
	byName(claims.Items)
	var failures []error
	for i := range claims.Items {
		claim := &claims.Items[i]
		id := inventory.InstanceID(claim.Status.ProviderID)
		if !left[id] {
			continue
		}
		if err := r.relabelOne(ctx, claim, id); err != nil {
			failures = append(failures, fmt.Errorf("relabel NodeClaim %s: %w", claim.Name, err))
		}
	}
	return errors.Join(failures...)
}

// byName sorts what a cache listed: errors are joined in this order.
func byName(claims []karpv1.NodeClaim) {
	slices.SortFunc(claims, func(a, b karpv1.NodeClaim) int { return cmp.Compare(a.Name, b.Name) })
}

// leftReservation are the instances that run, but in no reservation.
func leftReservation(list []inventory.Instance) map[string]bool {
	left := map[string]bool{}
	for _, i := range list {
		if i.Reservation == "" && i.State == inventory.StateRunning {
			left[i.ID] = true
		}
	}
	return left
}

func (r *reservations) relabelOne(ctx context.Context, claim *karpv1.NodeClaim, id string) error {
	nodes, err := r.directory.Nodes(ctx, id)
	if err != nil {
		return err
	}
	for n := range nodes { // first, since the claim is what is searched for
		if err := r.relabelOnDemand(ctx, &nodes[n]); err != nil {
			return err
		}
	}
	if err := r.relabelOnDemand(ctx, claim); err != nil {
		return err
	}
	log.FromContext(ctx).Info("the instance is no longer in a capacity reservation and counts as on-demand", "NodeClaim", klog.KRef("", claim.Name), "provider-id", claim.Status.ProviderID)
	return nil
}

func (r *reservations) relabelOnDemand(ctx context.Context, obj client.Object) error {
	before := obj.DeepCopyObject().(client.Object)
	obj.SetLabels(lifecycle.OnDemandLabels(obj.GetLabels(), awsv1.LabelCapacityReservationID, awsv1.LabelCapacityReservationType, awsv1.LabelCapacityReservationInterrupt))
	return client.IgnoreNotFound(r.client.Patch(ctx, obj, client.MergeFrom(before)))
}
