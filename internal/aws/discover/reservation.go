package discover

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/ec2"
	ec2types "github.com/aws/aws-sdk-go-v2/service/ec2/types"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/log"

	awsv1 "github.com/dovetail-sh/dovetail/api/aws/v1"
	"github.com/dovetail-sh/dovetail/internal/aws/awserr"
	"github.com/dovetail-sh/dovetail/internal/lifecycle"
)

// Words of status.capacityReservations.
const (
	ReservationDefault       = "default"
	ReservationCapacityBlock = "capacity-block"
	ReservationActive        = "active"
	ReservationExpiring      = "expiring"
)

const reservationPageSize = 1000

// Reservation is one capacity reservation, and how many instances it had left when it was looked up.
type Reservation struct {
	awsv1.CapacityReservation
	Free int
}

// Reservations returns what the reservation terms of a class select, by id, without those that ended.
func (d *Discoverer) Reservations(ctx context.Context, class *awsv1.EC2NodeClass) ([]Reservation, error) {
	key := canonical(class.Spec.CapacityReservationSelectorTerms)
	list, err := d.reservations.loadOrCall(ctx, key, d.recordUse(class, reservations, key), func() ([]ec2types.CapacityReservation, error) {
		return d.describeReservations(ctx, class.Spec.CapacityReservationSelectorTerms)
	})
	if err != nil {
		return nil, fmt.Errorf("describe capacity reservations of EC2NodeClass %s: %w", class.Name, err)
	}
	return d.asOfNow(ctx, list), nil
}

// FreshReservations looks the reservations up now, whatever is known.
func (d *Discoverer) FreshReservations(ctx context.Context, class *awsv1.EC2NodeClass) ([]Reservation, error) {
	list, err := d.describeReservations(ctx, class.Spec.CapacityReservationSelectorTerms)
	if err != nil {
		return nil, fmt.Errorf("describe capacity reservations of EC2NodeClass %s: %w", class.Name, err)
	}
	d.reservations.store(canonical(class.Spec.CapacityReservationSelectorTerms), list)
	return d.asOfNow(ctx, list), nil
}

func (d *Discoverer) describeReservations(ctx context.Context, terms []awsv1.CapacityReservationSelectorTerm) ([]ec2types.CapacityReservation, error) {
	queried := d.o.Now()
	byID := map[string]ec2types.CapacityReservation{}
	for _, input := range reservationQueries(terms) {
		for {
			page, err := d.o.EC2.DescribeCapacityReservations(ctx, input)
			if awserr.NotFound(err) {
				break // an id that does not exist selects nothing
			}
			if err != nil {
				return nil, err
			}
			for _, r := range page.CapacityReservations {
				byID[value(r.CapacityReservationId)] = r
			}
			if input.NextToken = page.NextToken; value(input.NextToken) == "" {
				break
			}
		}
	}
	list := slices.SortedFunc(maps.Values(byID), func(a, b ec2types.CapacityReservation) int {
		return cmp.Compare(value(a.CapacityReservationId), value(b.CapacityReservationId))
	})
	if d.o.ReservationSeen != nil {
		for _, r := range d.asOfNow(ctx, list) {
			d.o.ReservationSeen(r.ID, r.Free, queried)
		}
	}
	return list, nil
}

// asOfNow evaluates a cached response at the current time: blocks begin to expire and reservations end while it is cached.
func (d *Discoverer) asOfNow(ctx context.Context, list []ec2types.CapacityReservation) []Reservation {
	out := make([]Reservation, 0, len(list))
	for _, r := range list {
		next, problem := readReservation(r, d.o.Now())
		switch {
		case problem != "":
			log.FromContext(ctx).Error(nil, "ignoring a capacity reservation", "id", value(r.CapacityReservationId), "reason", problem)
		case next != nil:
			out = append(out, *next)
		}
	}
	return out
}

// readReservation returns nothing for a reservation that ended, and a problem for one that is not
// understood.
func readReservation(r ec2types.CapacityReservation, now time.Time) (*Reservation, string) {
	if r.EndDate != nil && !now.Before(*r.EndDate) {
		return nil, ""
	}
	kind := cmp.Or(string(r.ReservationType), ReservationDefault)
	if kind != ReservationDefault && kind != ReservationCapacityBlock {
		return nil, "unknown reservation type " + kind
	}
	if !slices.Contains(r.InstanceMatchCriteria.Values(), r.InstanceMatchCriteria) {
		return nil, "unknown match criteria " + string(r.InstanceMatchCriteria)
	}
	out := &Reservation{
		CapacityReservation: awsv1.CapacityReservation{
			ID: value(r.CapacityReservationId), AvailabilityZone: value(r.AvailabilityZone), InstanceType: value(r.InstanceType), OwnerID: value(r.OwnerId),
			InstanceMatchCriteria: string(r.InstanceMatchCriteria), ReservationType: kind, Interruptible: value(r.Interruptible), State: ReservationActive,
		},
		Free: int(value(r.AvailableInstanceCount)),
	}
	if r.EndDate != nil {
		out.EndTime = new(metav1.NewTime(*r.EndDate))
		if kind == ReservationCapacityBlock && lifecycle.BlockEnds(*r.EndDate, now) {
			out.State = ReservationExpiring
		}
	}
	return out, ""
}

// reservationQueries are the calls that the terms need: each id alone, because one that does not
// exist fails the whole call.
func reservationQueries(terms []awsv1.CapacityReservationSelectorTerm) []*ec2.DescribeCapacityReservationsInput {
	active := filter("state", string(ec2types.CapacityReservationStateActive))
	var queries []*ec2.DescribeCapacityReservationsInput
	for _, t := range terms {
		if t.ID != "" {
			queries = append(queries, &ec2.DescribeCapacityReservationsInput{CapacityReservationIds: []string{t.ID}, Filters: []ec2types.Filter{active}})
			continue
		}
		filters := tagFilters(t.Tags)
		if t.InstanceMatchCriteria != "" {
			filters = append(filters, filter("instance-match-criteria", t.InstanceMatchCriteria))
		}
		if len(filters) == 0 {
			continue // an owner alone selects nothing
		}
		if t.OwnerID != "" {
			filters = append(filters, filter("owner-id", t.OwnerID))
		}
		queries = append(queries, &ec2.DescribeCapacityReservationsInput{Filters: append(filters, active), MaxResults: new(int32(reservationPageSize))})
	}
	return queries
}
