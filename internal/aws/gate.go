package aws

import (
	"context"
	"time"

	ec2types "github.com/aws/aws-sdk-go-v2/service/ec2/types"

	awsv1 "github.com/dovetail-sh/dovetail/api/aws/v1"
	karpv1 "github.com/dovetail-sh/dovetail/api/v1"
	"github.com/dovetail-sh/dovetail/internal/aws/inventory"
	"github.com/dovetail-sh/dovetail/internal/cloud"
)

// recheckInterval is how long the gate waits for EC2 to choose a partition.
const recheckInterval = 5 * time.Second

// partitionGate holds the registration of nodes in a partition placement group until EC2 has said which
// partition they are in: pods may be spread over partitions (LC-09).
type partitionGate struct {
	inventory instanceInventory
	strategy  func(ctx context.Context, claim *karpv1.NodeClaim) (string, error) // of the group of the claim's class
}

// Name is shown on the claim while the gate is closed.
func (g *partitionGate) Name() string { return "PlacementGroup" }

// Open returns the partition once it is known.
func (g *partitionGate) Open(ctx context.Context, claim *karpv1.NodeClaim) (labels map[string]string, wait time.Duration, err error) {
	group, partition := claim.Labels[awsv1.LabelPlacementGroupID], claim.Labels[awsv1.LabelPlacementGroupPartition]
	if group == "" || partition != "" {
		return nil, 0, nil
	}
	strategy, err := g.strategy(ctx, claim)
	if err != nil {
		return nil, recheckInterval, err
	}
	if strategy != string(ec2types.PlacementStrategyPartition) {
		return nil, 0, nil
	}
	id := inventory.InstanceID(claim.Status.ProviderID)
	found, err := g.inventory.Fresh(ctx, id)
	if err != nil {
		if cloud.Is(err, cloud.NotFound) {
			return nil, recheckInterval, nil // the claim is about to find that out itself
		}
		return nil, recheckInterval, err
	}
	if found.Partition == "" {
		return nil, recheckInterval, nil
	}
	return map[string]string{awsv1.LabelPlacementGroupPartition: found.Partition}, 0, nil
}
