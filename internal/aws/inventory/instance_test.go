package inventory

import (
	"testing"
	"time"

	ec2types "github.com/aws/aws-sdk-go-v2/service/ec2/types"
	"github.com/google/go-cmp/cmp"
)

func TestRead(t *testing.T) {
	t.Parallel()
	at := time.Date(2030, 1, 1, 0, 0, 0, 0, time.UTC)
	only := &ec2types.CapacityReservationSpecificationResponse{CapacityReservationPreference: ec2types.CapacityReservationPreferenceCapacityReservationsOnly}
	open := &ec2types.CapacityReservationSpecificationResponse{CapacityReservationPreference: ec2types.CapacityReservationPreferenceOpen}
	for name, tc := range map[string]struct {
		in      ec2types.Instance
		without bool // the gate ReservedCapacity is off
		want    Instance
	}{
		"an empty response": {want: Instance{CapacityType: "on-demand", Tags: map[string]string{}}},
		"everything": {
			in: ec2types.Instance{
				InstanceId: new("i-1"), InstanceType: "m5.large", SubnetId: new("subnet-1"), ImageId: new("ami-1"), LaunchTime: &at,
				State: &ec2types.InstanceState{Name: "running"}, SpotInstanceRequestId: new("sir-1"),
				IamInstanceProfile: &ec2types.IamInstanceProfile{Arn: new("arn:aws:iam::1:instance-profile/path/nodes")},
				SecurityGroups:     []ec2types.GroupIdentifier{{GroupId: new("sg-1")}, {GroupId: new("sg-2")}},
				Tags:               []ec2types.Tag{{Key: new("a"), Value: new("b")}, {Key: new("c")}},
				Placement: &ec2types.Placement{
					AvailabilityZone: new("eu-west-1a"), AvailabilityZoneId: new("euw1-az1"), Tenancy: "dedicated", GroupId: new("pg-1"), PartitionNumber: new(int32(3)),
				},
			},
			want: Instance{
				ID: "i-1", Type: "m5.large", Subnet: "subnet-1", Image: "ami-1", Launched: at, State: "running", CapacityType: "spot", Profile: "nodes",
				Groups: []string{"sg-1", "sg-2"}, Tags: map[string]string{"a": "b", "c": ""},
				Zone: "eu-west-1a", ZoneID: "euw1-az1", Tenancy: "dedicated", PlacementGroup: "pg-1", Partition: "3",
			},
		},
		"a targeted reservation": {
			in:   ec2types.Instance{CapacityReservationId: new("cr-1"), CapacityReservationSpecification: only},
			want: Instance{CapacityType: "reserved", Reservation: "cr-1", Tags: map[string]string{}},
		},
		"a targeted reservation, but the gate is off": {
			in: ec2types.Instance{CapacityReservationId: new("cr-1"), CapacityReservationSpecification: only}, without: true,
			want: Instance{CapacityType: "on-demand", Reservation: "cr-1", Tags: map[string]string{}},
		},
		"F09 a targeted reservation that it left": {
			in:   ec2types.Instance{CapacityReservationSpecification: only},
			want: Instance{CapacityType: "on-demand", Tags: map[string]string{}},
		},
		"an open reservation it fell into": {
			in:   ec2types.Instance{CapacityReservationId: new("cr-1"), CapacityReservationSpecification: open},
			want: Instance{CapacityType: "on-demand", Reservation: "cr-1", Tags: map[string]string{}},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if diff := cmp.Diff(tc.want, read(tc.in, !tc.without)); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestInstanceID(t *testing.T) {
	t.Parallel()
	for provider, want := range map[string]string{
		"aws:///eu-west-1a/i-0abc":   "i-0abc",
		"other:///eu-west-1a/i-0abc": "i-0abc",
		":///eu-west-1a/i-0abc":      "i-0abc",
		"aws:///eu-west-1a/":         "",
		"aws:///i-0abc":              "",
		"aws:///a/b/i-0abc":          "",
		"kwok://node-1":              "",
		"":                           "",
	} {
		if got := InstanceID(provider); got != want {
			t.Errorf("%q is %q, want %q", provider, got, want)
		}
	}
	if got := ProviderID("eu-west-1a", "i-1"); InstanceID(string(got)) != "i-1" || got != "aws:///eu-west-1a/i-1" {
		t.Error(got)
	}
}

func TestFM_E07_OwnedNeedsAllThreeTags(t *testing.T) {
	t.Parallel()
	all := map[string]string{TagCluster: "sandbox", TagNodePool: "default", TagNodeClass: "default"}
	if i := (&Instance{Tags: all}); !i.Owned("sandbox") || i.Owned("other") {
		t.Error("tags are misread")
	}
	for missing := range all {
		tags := map[string]string{}
		for k, v := range all {
			if k != missing {
				tags[k] = v
			}
		}
		if i := (&Instance{Tags: tags}); i.Owned("sandbox") {
			t.Errorf("owned without %s", missing)
		}
	}
}
