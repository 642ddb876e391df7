package discover_test

import (
	"errors"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/ec2"
	ec2types "github.com/aws/aws-sdk-go-v2/service/ec2/types"
	"github.com/aws/smithy-go"
	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	awsv1 "github.com/dovetail-sh/dovetail/api/aws/v1"
	"github.com/dovetail-sh/dovetail/internal/aws/discover"
)

func reservation(id string, change func(*ec2types.CapacityReservation)) ec2types.CapacityReservation {
	r := ec2types.CapacityReservation{
		CapacityReservationId: &id, AvailabilityZone: new("eu-west-1a"), InstanceType: new("m5.large"), OwnerId: new("111122223333"),
		InstanceMatchCriteria: "targeted", AvailableInstanceCount: new(int32(3)),
	}
	if change != nil {
		change(&r)
	}
	return r
}

// EC2NodeClass 17: ids one call each, where not-found is ignored; other terms with filters.
func TestReservationQueries(t *testing.T) {
	t.Parallel()
	var ids [][]string
	f := &fake{reservations: func(in *ec2.DescribeCapacityReservationsInput) (*ec2.DescribeCapacityReservationsOutput, error) {
		ids = append(ids, in.CapacityReservationIds)
		if len(in.CapacityReservationIds) > 0 {
			return nil, &smithy.GenericAPIError{Code: "InvalidCapacityReservationId.NotFound"}
		}
		return &ec2.DescribeCapacityReservationsOutput{CapacityReservations: []ec2types.CapacityReservation{reservation("cr-2", nil), reservation("cr-1", nil)}}, nil
	}}
	terms := []awsv1.CapacityReservationSelectorTerm{
		{ID: "cr-9", OwnerID: "1"}, {ID: "cr-8"}, {OwnerID: "111122223333", InstanceMatchCriteria: "open", Tags: awsv1.Tags{"a": "*"}}, {OwnerID: "111122223333"},
	}
	seen := map[string]int{}
	d := discoverer(f, newClock(), func(o *discover.Options) {
		o.ReservationSeen = func(id string, free int, _ time.Time) { seen[id] += free }
	})
	nodes := class(awsv1.EC2NodeClassSpec{CapacityReservationSelectorTerms: terms})
	for range 2 { // the second response is cached, and its counts are unchanged
		got, err := d.Reservations(quiet(t), nodes)
		if err != nil || len(got) != 2 || got[0].ID != "cr-1" || got[0].Free != 3 {
			t.Fatalf("got %v, %v", got, err)
		}
	}
	if diff := cmp.Diff([][]string{{"cr-9"}, {"cr-8"}, nil}, ids); diff != "" {
		t.Errorf("ids (-want +got):\n%s", diff)
	}
	want := []string{"state=active", "state=active", "tag-key=a instance-match-criteria=open owner-id=111122223333 state=active"}
	if diff := cmp.Diff(want, f.requests); diff != "" {
		t.Errorf("calls (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(map[string]int{"cr-1": 3, "cr-2": 3}, seen); diff != "" {
		t.Errorf("counts (-want +got):\n%s", diff)
	}
	if _, err := d.FreshReservations(quiet(t), nodes); err != nil || len(f.requests) != 6 {
		t.Errorf("a fresh lookup made %d calls in all, %v", len(f.requests), err)
	}
	f.err = errThrottled
	if got, err := d.FreshReservations(quiet(t), nodes); !errors.Is(err, errThrottled) || got != nil {
		t.Errorf("got %v, %v, want the error", got, err)
	}
}

func TestReservationReading(t *testing.T) {
	t.Parallel()
	start := newClock().now
	in := func(d time.Duration) func(*ec2types.CapacityReservation) {
		return func(r *ec2types.CapacityReservation) { r.EndDate = new(start.Add(d)) }
	}
	block := func(d time.Duration) func(*ec2types.CapacityReservation) {
		return func(r *ec2types.CapacityReservation) {
			in(d)(r)
			r.ReservationType, r.Interruptible = "capacity-block", new(true)
		}
	}
	plain := awsv1.CapacityReservation{
		ID: "cr-1", AvailabilityZone: "eu-west-1a", InstanceType: "m5.large", OwnerID: "111122223333", InstanceMatchCriteria: "targeted", ReservationType: "default", State: "active",
	}
	with := func(change func(*awsv1.CapacityReservation)) *awsv1.CapacityReservation {
		r := plain
		change(&r)
		return &r
	}
	for name, tc := range map[string]struct {
		change func(*ec2types.CapacityReservation)
		want   *awsv1.CapacityReservation
	}{
		"plain":            {want: &plain},
		"with an end":      {change: in(time.Minute), want: with(func(r *awsv1.CapacityReservation) { r.EndTime = new(metav1.NewTime(start.Add(time.Minute))) })},
		"F09 ended by now": {change: in(0)},
		"unknown criteria": {change: func(r *ec2types.CapacityReservation) { r.InstanceMatchCriteria = "odd" }},
		"unknown type":     {change: func(r *ec2types.CapacityReservation) { r.ReservationType = "odd" }},
		"a block with time": {change: block(41 * time.Minute), want: with(func(r *awsv1.CapacityReservation) {
			r.EndTime, r.ReservationType, r.Interruptible = new(metav1.NewTime(start.Add(41*time.Minute))), "capacity-block", true
		})},
		"a block near its end": {change: block(40 * time.Minute), want: with(func(r *awsv1.CapacityReservation) {
			r.EndTime, r.ReservationType, r.Interruptible, r.State = new(metav1.NewTime(start.Add(40*time.Minute))), "capacity-block", true, "expiring"
		})},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := &fake{reservations: func(*ec2.DescribeCapacityReservationsInput) (*ec2.DescribeCapacityReservationsOutput, error) {
				return &ec2.DescribeCapacityReservationsOutput{CapacityReservations: []ec2types.CapacityReservation{reservation("cr-1", tc.change)}}, nil
			}}
			got, err := discoverer(f, newClock()).Reservations(quiet(t), class(awsv1.EC2NodeClassSpec{CapacityReservationSelectorTerms: []awsv1.CapacityReservationSelectorTerm{{ID: "cr-1"}}}))
			if err != nil {
				t.Fatal(err)
			}
			var have *awsv1.CapacityReservation
			if len(got) > 0 {
				have = &got[0].CapacityReservation
			}
			if diff := cmp.Diff(tc.want, have); diff != "" {
				t.Errorf("reservation (-want +got):\n%s", diff)
			}
		})
	}
}

func TestPlacementGroup(t *testing.T) {
	t.Parallel()
	group := ec2types.PlacementGroup{GroupId: new("pg-1"), GroupName: new("g"), Strategy: "partition", PartitionCount: new(int32(7))}
	want := &discover.PlacementGroup{ID: "pg-1", Strategy: "partition", Partitions: 7}
	for name, tc := range map[string]struct {
		selector *awsv1.PlacementGroupSelector
		groups   []ec2types.PlacementGroup
		err      error
		want     *discover.PlacementGroup
		wantErr  bool
	}{
		"no selector":               {groups: []ec2types.PlacementGroup{group}},
		"by id":                     {selector: &awsv1.PlacementGroupSelector{ID: "pg-1"}, groups: []ec2types.PlacementGroup{group}, want: want},
		"by name":                   {selector: &awsv1.PlacementGroupSelector{Name: "g"}, groups: []ec2types.PlacementGroup{group}, want: want},
		"a name is no pattern":      {selector: &awsv1.PlacementGroupSelector{Name: "*"}, groups: []ec2types.PlacementGroup{group}},
		"none such":                 {selector: &awsv1.PlacementGroupSelector{Name: "g"}},
		"an unknown id":             {selector: &awsv1.PlacementGroupSelector{ID: "pg-1"}, err: &smithy.GenericAPIError{Code: "InvalidPlacementGroup.Unknown"}},
		"an error is not not-found": {selector: &awsv1.PlacementGroupSelector{ID: "pg-1"}, err: errThrottled, wantErr: true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := &fake{placement: func(*ec2.DescribePlacementGroupsInput) (*ec2.DescribePlacementGroupsOutput, error) {
				return &ec2.DescribePlacementGroupsOutput{PlacementGroups: tc.groups}, tc.err
			}}
			got, err := discoverer(f, newClock()).PlacementGroup(quiet(t), class(awsv1.EC2NodeClassSpec{PlacementGroupSelector: tc.selector}))
			if (err != nil) != tc.wantErr {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("group (-want +got):\n%s", diff)
			}
		})
	}
}

// EC2NodeClass 17: the last good response stands in for a day while EC2 cannot be called.
func TestPlacementGroupOutage(t *testing.T) {
	t.Parallel()
	f := &fake{placement: func(*ec2.DescribePlacementGroupsInput) (*ec2.DescribePlacementGroupsOutput, error) {
		return &ec2.DescribePlacementGroupsOutput{PlacementGroups: []ec2types.PlacementGroup{{GroupId: new("pg-1")}}}, nil
	}}
	c := newClock()
	d := discoverer(f, c)
	nodes := class(awsv1.EC2NodeClassSpec{PlacementGroupSelector: &awsv1.PlacementGroupSelector{ID: "pg-1"}})
	if _, known := d.KnownPlacementGroup(nodes); known {
		t.Error("known before it was requested")
	}
	for _, pass := range []time.Duration{0, time.Minute, 22 * time.Hour} {
		c.pass(pass)
		if got, err := d.PlacementGroup(quiet(t), nodes); err != nil || got == nil {
			t.Fatalf("after %s: %v, %v", pass, got, err)
		}
		if _, known := d.KnownPlacementGroup(nodes); !known {
			t.Error("not known after it was requested")
		}
		f.err = errThrottled
	}
	c.pass(2 * time.Hour)
	if got, err := d.PlacementGroup(quiet(t), nodes); !errors.Is(err, errThrottled) {
		t.Errorf("a day later: %v, %v", got, err)
	}
}
