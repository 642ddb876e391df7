package awsemu

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	"github.com/aws/aws-sdk-go-v2/service/ec2/types"
)

// reserve makes a capacity reservation of m5.large in zone a.
func (l *ec2Env) reserve(count int32, change func(*ec2.CreateCapacityReservationInput)) types.CapacityReservation {
	l.Helper()
	in := &ec2.CreateCapacityReservationInput{
		InstanceType: aws.String("m5.large"), InstancePlatform: types.CapacityReservationInstancePlatformLinuxUnix, AvailabilityZone: aws.String("eu-west-1a"),
		InstanceCount: &count, InstanceMatchCriteria: types.InstanceMatchCriteriaTargeted,
		TagSpecifications: []types.TagSpecification{{ResourceType: types.ResourceTypeCapacityReservation, Tags: []types.Tag{{Key: aws.String("team"), Value: aws.String("blue")}}}},
	}
	if change != nil {
		change(in)
	}
	out, err := l.ec2.CreateCapacityReservation(l.Context(), in)
	if err != nil {
		l.Fatal(err)
	}
	return *out.CapacityReservation
}

func (l *ec2Env) describeReservation(id string) types.CapacityReservation {
	l.Helper()
	out, err := l.ec2.DescribeCapacityReservations(l.Context(), &ec2.DescribeCapacityReservationsInput{CapacityReservationIds: []string{id}})
	if err != nil {
		l.Fatal(err)
	}
	return out.CapacityReservations[0]
}

// intoReservation makes the template launch into a reservation.
func intoReservation(id string) func(*types.RequestLaunchTemplateData) {
	return func(d *types.RequestLaunchTemplateData) {
		d.CapacityReservationSpecification = &types.LaunchTemplateCapacityReservationSpecificationRequest{
			CapacityReservationTarget: &types.CapacityReservationTarget{CapacityReservationId: &id},
		}
	}
}

func TestTrust_D03_AnInstanceLosesACancelledReservation(t *testing.T) {
	t.Parallel()
	for name, end := range map[string]func(*ec2Env, string){
		"cancelled": func(l *ec2Env, id string) {
			if _, err := l.ec2.CancelCapacityReservation(l.Context(), &ec2.CancelCapacityReservationInput{CapacityReservationId: &id}); err != nil {
				l.Fatal(err)
			}
			if r := l.describeReservation(id); r.State != types.CapacityReservationStateCancelled || *r.AvailableInstanceCount != 0 {
				l.Errorf("reservation %s with %d free", r.State, *r.AvailableInstanceCount)
			}
		},
		"expired": func(l *ec2Env, id string) {
			l.callControlAPI(http.MethodPut, "reservations", `[{"id":"`+id+`","end":"2030-01-01T01:00:00Z"}]`)
			l.advanceClock(time.Hour)
		},
		"taken away": func(l *ec2Env, id string) { l.callControlAPI(http.MethodDelete, "reservations/"+id, "") },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			env := newEC2Env(t)
			r := env.reserve(2, nil)
			env.createTemplate("t", intoReservation(*r.CapacityReservationId))
			id := env.launch(onDemand, "m5.large/a")
			env.advanceClock(time.Minute)
			if i := env.describe(id); aws.ToString(i.CapacityReservationId) != *r.CapacityReservationId || *env.describeReservation(*r.CapacityReservationId).AvailableInstanceCount != 1 {
				t.Fatalf("launched into %q", aws.ToString(i.CapacityReservationId))
			}
			end(env, *r.CapacityReservationId)
			i := env.describe(id)
			if i.CapacityReservationId != nil || i.State.Name != types.InstanceStateNameRunning {
				t.Errorf("it is %s in %q; want it to run on without a reservation", i.State.Name, aws.ToString(i.CapacityReservationId))
			}
			if target := i.CapacityReservationSpecification.CapacityReservationTarget; target == nil || *target.CapacityReservationId != *r.CapacityReservationId {
				t.Errorf("target %+v; want what the launch said", target)
			}
		})
	}
}

func TestTrust_D03_CapacityReservationsAreMadeAndChanged(t *testing.T) {
	t.Parallel()
	env := newEC2Env(t)
	r := env.reserve(3, func(in *ec2.CreateCapacityReservationInput) {
		in.EndDateType, in.EndDate = types.EndDateTypeLimited, aws.Time(ec2Start.Add(48*time.Hour))
	})
	if r.State != "active" || *r.TotalInstanceCount != 3 || *r.AvailableInstanceCount != 3 || r.EndDateType != "limited" || len(r.Tags) != 1 || !strings.HasPrefix(*r.CapacityReservationId, "cr-") {
		t.Errorf("made %+v", r)
	}
	if _, err := env.ec2.ModifyCapacityReservation(t.Context(), &ec2.ModifyCapacityReservationInput{
		CapacityReservationId: r.CapacityReservationId, InstanceCount: aws.Int32(5), EndDateType: types.EndDateTypeUnlimited,
	}); err != nil {
		t.Fatal(err)
	}
	if r = env.describeReservation(*r.CapacityReservationId); *r.TotalInstanceCount != 5 || *r.AvailableInstanceCount != 5 || r.EndDate != nil {
		t.Errorf("changed to %+v", r)
	}
	_, err := env.ec2.CreateCapacityReservation(t.Context(), &ec2.CreateCapacityReservationInput{
		InstanceType: aws.String("m5.larg"), InstancePlatform: "Linux/UNIX", AvailabilityZone: aws.String("eu-west-1a"), InstanceCount: aws.Int32(1),
	})
	if apiCode(err) != "InvalidParameterValue" {
		t.Errorf("unknown type: %v", err)
	}
}

func TestTrust_D03_InterruptibleCapacityIsLentAndReclaimed(t *testing.T) {
	t.Parallel()
	env := newEC2Env(t)
	source := env.reserve(3, nil)
	lent, err := env.ec2.CreateInterruptibleCapacityReservationAllocation(t.Context(), &ec2.CreateInterruptibleCapacityReservationAllocationInput{
		CapacityReservationId: source.CapacityReservationId, InstanceCount: aws.Int32(2),
	})
	if err != nil || *lent.TargetInstanceCount != 2 {
		t.Fatalf("lend: %+v, %v", lent, err)
	}
	source = env.describeReservation(*source.CapacityReservationId)
	if *source.TotalInstanceCount != 1 || source.InterruptibleCapacityAllocation == nil || *source.InterruptibleCapacityAllocation.InstanceCount != 2 {
		t.Fatalf("source %+v", source)
	}
	id := *source.InterruptibleCapacityAllocation.InterruptibleCapacityReservationId
	if r := env.describeReservation(id); !aws.ToBool(r.Interruptible) || *r.TotalInstanceCount != 2 || *r.InterruptionInfo.SourceCapacityReservationId != *source.CapacityReservationId {
		t.Fatalf("lent %+v", r)
	}
	env.createTemplate("t", intoReservation(id))
	in := fleetInput("", 1, "m5.large/a")
	in.TargetCapacitySpecification.DefaultTargetCapacityType = "reserved-capacity"
	instance := fleetIDs(env.createFleet(in))[0]
	env.advanceClock(time.Minute)
	env.events()
	back, err := env.ec2.UpdateInterruptibleCapacityReservationAllocation(t.Context(), &ec2.UpdateInterruptibleCapacityReservationAllocationInput{
		CapacityReservationId: source.CapacityReservationId, TargetInstanceCount: aws.Int32(0),
	})
	if err != nil || *back.TargetInstanceCount != 0 {
		t.Fatalf("reclaim: %+v, %v", back, err)
	}
	events := eventLines(env.events())
	if len(events) != 1 || !strings.HasSuffix(events[0], "Capacity Reservation Instance Interruption Warning terminate") {
		t.Errorf("events %q", events)
	}
	env.advanceClock(3 * time.Minute)
	env.wantState(instance, types.InstanceStateNameTerminated)
	if r := env.describeReservation(*source.CapacityReservationId); *r.TotalInstanceCount != 3 || *r.AvailableInstanceCount != 3 {
		t.Errorf("after the notice the source has %d of %d", *r.AvailableInstanceCount, *r.TotalInstanceCount)
	}
}
