package aws

import (
	"context"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/ec2"
	ec2types "github.com/aws/aws-sdk-go-v2/service/ec2/types"

	awsv1 "github.com/dovetail-sh/dovetail/api/aws/v1"
	"github.com/dovetail-sh/dovetail/internal/aws/discover"
	"github.com/dovetail-sh/dovetail/internal/aws/offering"
)

// reservationsOnly is an EC2 that is asked for capacity reservations, and for nothing else.
type reservationsOnly struct {
	discover.EC2

	calls int
}

func (r *reservationsOnly) DescribeCapacityReservations(context.Context, *ec2.DescribeCapacityReservationsInput, ...func(*ec2.Options)) (*ec2.DescribeCapacityReservationsOutput, error) {
	r.calls++
	return &ec2.DescribeCapacityReservationsOutput{CapacityReservations: []ec2types.CapacityReservation{{
		CapacityReservationId: new("cr-1"), AvailabilityZone: new("us-east-1a"), InstanceType: new("m5.large"), OwnerId: new("123456789012"),
		InstanceMatchCriteria: ec2types.InstanceMatchCriteriaTargeted, AvailableInstanceCount: new(int32(3)),
	}}}, nil
}

func TestWI_26_FreeInstancesOfReservationsAreRead(t *testing.T) {
	t.Parallel()
	api, counts := &reservationsOnly{}, offering.NewReservations(time.Now)
	m := &market{reserved: true, discoverer: discover.New(discover.Options{EC2: api, Now: time.Now, ReservationSeen: counts.Set})}
	none, some := &awsv1.EC2NodeClass{}, &awsv1.EC2NodeClass{}
	some.Spec.CapacityReservationSelectorTerms = []awsv1.CapacityReservationSelectorTerm{{ID: "cr-1"}}
	if err := m.CountReserved(t.Context(), none); err != nil || api.calls != 0 {
		t.Errorf("a class without reservations: %v, %d calls", err, api.calls)
	}
	if err := m.CountReserved(t.Context(), some); err != nil || counts.Free("cr-1") != 3 {
		t.Errorf("got %d free, %v; want 3", counts.Free("cr-1"), err)
	}
	m.reserved = false
	if err := m.CountReserved(t.Context(), some); err != nil || api.calls != 1 {
		t.Errorf("with the gate off: %v, %d calls", err, api.calls)
	}
}
