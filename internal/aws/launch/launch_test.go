package launch

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/ec2"
	ec2types "github.com/aws/aws-sdk-go-v2/service/ec2/types"
	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"github.com/prometheus/client_golang/prometheus"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	awsv1 "github.com/dovetail-sh/dovetail/api/aws/v1"
	karpv1 "github.com/dovetail-sh/dovetail/api/v1"
	"github.com/dovetail-sh/dovetail/internal/aws/discover"
	"github.com/dovetail-sh/dovetail/internal/aws/offering"
	"github.com/dovetail-sh/dovetail/internal/catalog"
	"github.com/dovetail-sh/dovetail/internal/cloud"
	"github.com/dovetail-sh/dovetail/internal/resources"
)

// inBubble runs a test with its own clock.
func inBubble(t *testing.T, types []catalog.InstanceType, test func(l *fixture)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) { test(newFixture(t, types...)) })
}

func twoZones() []catalog.InstanceType {
	return []catalog.InstanceType{kind("m5.large", spot("a", 0.04), spot("b", 0.05), onDemand("a", 0.1), onDemand("b", 0.1))}
}

func series(c prometheus.Collector) int {
	out := make(chan prometheus.Metric, 1000)
	c.Collect(out)
	return len(out)
}

func TestLaunch(t *testing.T) {
	t.Parallel()
	inBubble(t, twoZones(), func(l *fixture) {
		t := l.t
		got := l.must(l.request(nodeClaim("x")))
		want := Result{ID: "i-1", Type: "m5.large", Zone: "a", ZoneID: "a-id", Subnet: "subnet-a", Image: "ami-amd64", CapacityType: "spot", Tenancy: "default"}
		if diff := cmp.Diff(want, got, cmpopts.IgnoreFields(Result{}, "Launched")); diff != "" {
			t.Error(diff)
		}
		if got.Launched.IsZero() {
			t.Error("no launch time")
		}
		l.must(l.request(nodeClaim("y")))
		if diff := cmp.Diff([]string{"describe", "create", "fleet", "fleet"}, l.calls); diff != "" {
			t.Errorf("the template is made once\n%s", diff)
		}
	})
}

func TestReservedLaunch(t *testing.T) {
	t.Parallel()
	inBubble(t, []catalog.InstanceType{kind("m5.large", held("b", "cr-1", 2, 0))}, func(l *fixture) {
		t := l.t
		got := l.must(l.request(nodeClaim("x")))
		if got.Reservation != "cr-1" || got.ReservationType != "default" || got.Interruptible || got.CapacityType != "reserved" {
			t.Errorf("%+v", got)
		}
		if free, takers := l.o.Reservations.Count("cr-1"); free != 1 || len(takers) != 1 || takers[0] != string(nodeClaim("x").UID) {
			t.Errorf("%d left in the reservation, taken by %v", free, takers)
		}
	})
}

// When the first sixty types are out, the next are requested at the same moment of the clock; only the
// window in which the first request was collected has passed.
func TestS004_TheNextOfferingsAreTriedAtOnce(t *testing.T) {
	t.Parallel()
	var types []catalog.InstanceType
	for n := range 150 {
		types = append(types, kind(fmt.Sprintf("m%d.large", n), spot("a", float64(n+1))))
	}
	inBubble(t, types, func(l *fixture) {
		t := l.t
		var times []time.Duration
		start := time.Now()
		l.response = func(n int, in *ec2.CreateFleetInput) (*ec2.CreateFleetOutput, error) {
			times = append(times, time.Since(start))
			return l.serve(in, func(string, string) string {
				if n < 3 {
					return "InsufficientInstanceCapacity"
				}
				return ""
			}), nil
		}
		got := l.must(l.request(nodeClaim("x")))
		if got.Type != "m120.large" {
			t.Errorf("launched %s, want the first type of the third sixty", got.Type)
		}
		window := 35 * time.Millisecond
		if diff := cmp.Diff([]time.Duration{window, window, window}, times); diff != "" {
			t.Errorf("time passed between a response and the next request\n%s", diff)
		}
		tokens := map[string]bool{}
		for _, f := range l.fleets {
			tokens[*f.ClientToken] = true
		}
		if len(tokens) != 3 {
			t.Errorf("%d tokens for three requests", len(tokens))
		}
	})
}

func TestS004_TenRoundsAtMost(t *testing.T) {
	t.Parallel()
	var types []catalog.InstanceType
	for n := range 700 {
		types = append(types, kind(fmt.Sprintf("m%d.large", n), spot("a", float64(n+1))))
	}
	inBubble(t, types, func(l *fixture) {
		t := l.t
		l.response = func(_ int, in *ec2.CreateFleetInput) (*ec2.CreateFleetOutput, error) {
			return l.serve(in, func(string, string) string { return "InsufficientInstanceCapacity" }), nil
		}
		_, err := l.Launch(t.Context(), l.request(nodeClaim("x")))
		if !cloud.Is(err, cloud.NoCapacity) || len(l.fleets) != 10 {
			t.Errorf("%d requests, %v", len(l.fleets), err)
		}
	})
}

// F01, F05, F03, S-140: from spot to on demand within one launch, where a pool allows both.
func TestFallsBackToOnDemandAtOnce(t *testing.T) {
	t.Parallel()
	for code, role := range map[string]bool{
		"InsufficientInstanceCapacity": false, "AuthFailure.ServiceLinkedRoleCreationNotPermitted": true, "MaxSpotInstanceCountExceeded": false,
	} {
		t.Run(code, func(t *testing.T) {
			t.Parallel()
			inBubble(t, twoZones(), func(l *fixture) {
				t := l.t
				l.response = func(_ int, in *ec2.CreateFleetInput) (*ec2.CreateFleetOutput, error) {
					return l.serve(in, func(string, string) string {
						if in.SpotOptions != nil {
							return code
						}
						return ""
					}), nil
				}
				got := l.must(l.request(nodeClaim("x")))
				if got.CapacityType != "on-demand" || got.SpotRoleMissing != role || len(l.fleets) != 2 {
					t.Errorf("%d requests: %+v", len(l.fleets), got)
				}
				whole := l.o.Unavailable.Has("spot", "other.large", "c", offering.Group{})
				if want := code != "InsufficientInstanceCapacity"; whole != want {
					t.Errorf("all of spot is out: %v, want %v", whole, want)
				}
				if !l.o.Unavailable.Has("spot", "m5.large", "a", offering.Group{}) || l.o.Unavailable.Has("on-demand", "m5.large", "a", offering.Group{}) {
					t.Error("the wrong offerings are marked")
				}
			})
		})
	}
}

func TestFM_F05_SpotAloneAndNoRole(t *testing.T) {
	t.Parallel()
	inBubble(t, twoZones(), func(l *fixture) {
		t := l.t
		l.response = func(_ int, in *ec2.CreateFleetInput) (*ec2.CreateFleetOutput, error) {
			return l.serve(in, func(string, string) string { return "AuthFailure.ServiceLinkedRoleCreationNotPermitted" }), nil
		}
		_, err := l.Launch(t.Context(), l.request(nodeClaim("x", in(karpv1.LabelCapacityType, "spot"))))
		failed, ok := errors.AsType[*cloud.Error](err)
		if !ok || failed.Kind != cloud.NoCapacity || failed.Reason != "SpotSLRCreationFailed" {
			t.Errorf("%+v", err)
		}
	})
}

// F06: a subnet without addresses is left for another one in the zone, then for another zone.
func TestFM_F06_SubnetFull(t *testing.T) {
	t.Parallel()
	inBubble(t, twoZones(), func(l *fixture) {
		t := l.t
		l.free["subnet-a2"] = 50
		l.response = func(_ int, in *ec2.CreateFleetInput) (*ec2.CreateFleetOutput, error) {
			full := func(o ec2types.FleetLaunchTemplateOverridesRequest) bool {
				return strings.HasPrefix(*o.SubnetId, "subnet-a")
			}
			last := in.LaunchTemplateConfigs[0].Overrides[0]
			if full(last) {
				return l.serve(in, func(string, string) string { return "InsufficientFreeAddressesInSubnet" }), nil
			}
			return l.serve(in, nil), nil
		}
		r := l.request(nodeClaim("x", in(corev1.LabelTopologyZone, "a"), in(karpv1.LabelCapacityType, "spot")))
		r.Class.Status.Subnets = append(r.Class.Status.Subnets, awsv1.Subnet{ID: "subnet-a2", Zone: "a", ZoneID: "a-id"})
		if _, err := l.Launch(t.Context(), r); !cloud.Is(err, cloud.NoCapacity) {
			t.Errorf("got %v", err)
		}
		var tried []string
		for _, f := range l.fleets {
			tried = append(tried, *f.LaunchTemplateConfigs[0].Overrides[0].SubnetId)
		}
		if diff := cmp.Diff([]string{"subnet-a", "subnet-a2"}, tried); diff != "" {
			t.Error(diff)
		}
		if l.o.Unavailable.Has("spot", "m5.large", "a", offering.Group{}) {
			t.Error("the offering is marked, and only the subnets are full")
		}
		r.Claim = nodeClaim("y")
		if got := l.must(r); got.Zone != "b" {
			t.Errorf("launched in %s", got.Zone)
		}
	})
}

func TestFM_F08_ReservationGone(t *testing.T) {
	t.Parallel()
	inBubble(t, []catalog.InstanceType{kind("m5.large", held("a", "cr-1", 5, 0), onDemand("a", 1))}, func(l *fixture) {
		t := l.t
		l.response = func(n int, in *ec2.CreateFleetInput) (*ec2.CreateFleetOutput, error) {
			return l.serve(in, func(string, string) string {
				if n == 1 {
					return "ReservationCapacityExceeded"
				}
				return ""
			}), nil
		}
		if got := l.must(l.request(nodeClaim("x"))); got.CapacityType != "on-demand" || got.Reservation != "" {
			t.Errorf("%+v", got)
		}
		if l.o.Reservations.Free("cr-1") != 0 {
			t.Error("the reservation is assigned again")
		}
	})
}

func TestFM_F14_SpreadGroupFull(t *testing.T) {
	t.Parallel()
	inBubble(t, append(twoZones(), kind("c5.large", spot("a", 0.03))), func(l *fixture) {
		t := l.t
		l.group = &discover.PlacementGroup{ID: "pg-1", Strategy: "spread"}
		l.response = func(n int, in *ec2.CreateFleetInput) (*ec2.CreateFleetOutput, error) {
			out := l.serve(in, func(_, zone string) string {
				if zone == "a" {
					return "InsufficientInstanceCapacity"
				}
				return ""
			})
			for i := range out.Errors {
				out.Errors[i].ErrorMessage = new("You have reached the limit of 7 instances per Availability Zone of the spread placement group x in a.")
			}
			return out, nil
		}
		r := l.request(nodeClaim("x"))
		withGroup(r.Class)
		if got := l.must(r); got.Zone != "b" || got.PlacementGroup != "pg-1" {
			t.Errorf("%+v", got)
		}
		if !l.o.Unavailable.Has("on-demand", "x9.large", "a", offering.Group{ID: "pg-1"}) || l.o.Unavailable.Has("spot", "c5.large", "a", offering.Group{}) {
			t.Error("the zone is to be out for the group alone")
		}
	})
}

// Errors about other things than capacity are not read as "no capacity", and are not tried again.
func TestOtherErrors(t *testing.T) {
	t.Parallel()
	for code, want := range map[string]struct {
		kind   cloud.Kind
		reason string
	}{
		"UnauthorizedOperation": {cloud.Denied, "Unauthorized"},
		"PendingVerification":   {cloud.Unknown, "AccountPendingVerification"},
		"RequestLimitExceeded":  {cloud.Throttled, "RequestLimitExceeded"},
		"InvalidAMIID.NotFound": {cloud.Unknown, "AMINotFound"},
		"MaxFleetCountExceeded": {cloud.NoCapacity, "FleetQuotaExceeded"},
	} {
		for _, whole := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s, of the call %v", code, whole), func(t *testing.T) {
				t.Parallel()
				inBubble(t, twoZones(), func(l *fixture) {
					t := l.t
					l.response = func(_ int, in *ec2.CreateFleetInput) (*ec2.CreateFleetOutput, error) {
						if whole {
							return nil, fault(code, "sorry")
						}
						return l.serve(in, func(_, zone string) string {
							if zone == "a" {
								return code
							}
							return "InsufficientInstanceCapacity"
						}), nil
					}
					_, err := l.Launch(t.Context(), l.request(nodeClaim("x")))
					failed, ok := errors.AsType[*cloud.Error](err)
					if !ok || failed.Kind != want.kind || failed.Reason != want.reason || len(l.fleets) != 1 {
						t.Errorf("%d requests, %+v", len(l.fleets), err)
					}
					if n := series(l.o.Metrics.LaunchFailures); !whole && n != 2 {
						t.Errorf("%d series of failures, want one for each zone", n)
					}
				})
			})
		}
	}
}

// Answers may leave out what they usually have.
func TestIncompleteResponses(t *testing.T) {
	t.Parallel()
	inBubble(t, twoZones(), func(l *fixture) {
		t := l.t
		l.response = func(n int, _ *ec2.CreateFleetInput) (*ec2.CreateFleetOutput, error) {
			switch n {
			case 1:
				return &ec2.CreateFleetOutput{Errors: []ec2types.CreateFleetError{{ErrorCode: new("InsufficientInstanceCapacity")}}}, nil
			case 2:
				return &ec2.CreateFleetOutput{}, nil
			default: // A18: what was not requested
				return &ec2.CreateFleetOutput{Instances: []ec2types.CreateFleetInstance{{InstanceType: "x9.large", AvailabilityZone: new("z"), InstanceIds: []string{"i-9"}}}}, nil
			}
		}
		if _, err := l.Launch(t.Context(), l.request(nodeClaim("x"))); !cloud.Is(err, cloud.NoCapacity) || len(l.fleets) != 1 {
			t.Errorf("an error about nothing: %v", err)
		}
		if _, err := l.Launch(t.Context(), l.request(nodeClaim("x"))); err == nil || cloud.KindOf(err) != cloud.Unknown {
			t.Errorf("neither instance nor error: %v", err)
		}
		if got := l.must(l.request(nodeClaim("x"))); got.ID != "i-9" || got.Type != "x9.large" || got.Zone != "z" {
			t.Errorf("labels follow the real instance: %+v", got)
		}
	})
}

// karpenter.sh/nodepool and the rest, and nothing else (EC2NodeClass 14).
func TestTags(t *testing.T) {
	t.Parallel()
	class := nodeClass()
	class.Spec.Tags = map[string]string{"Name": "mine", "karpenter.sh/nodepool": "no"}
	want := map[string]string{
		"Name": "mine", "kubernetes.io/cluster/demo": "owned", "karpenter.sh/nodepool": "pool", "eks:eks-cluster-name": "demo",
		"karpenter.k8s.aws/ec2nodeclass": "default",
	}
	if diff := cmp.Diff(want, Tags("demo", class, "pool")); diff != "" {
		t.Error(diff)
	}
	if class.Spec.Tags["karpenter.sh/nodepool"] != "no" {
		t.Error("the class was changed")
	}
}

func TestFM_A15_UserDataTooLong(t *testing.T) {
	t.Parallel()
	inBubble(t, twoZones(), func(l *fixture) {
		t := l.t
		r := l.request(nodeClaim("x"))
		r.Class.Spec.UserData = new("#!/bin/sh\n" + strings.Repeat("#", 17000))
		_, err := l.Launch(t.Context(), r)
		failed, ok := errors.AsType[*cloud.Error](err)
		if !ok || failed.Kind != cloud.Invalid || failed.Reason != "UserDataSizeLimitExceeded" || len(l.calls) != 0 {
			t.Errorf("%v, calls %v", err, l.calls)
		}
	})
}

// A resource that a NodeOverlay adds fits if the table of the request has it, and nowhere otherwise.
func TestOV_22_RequestsOfAddedResources(t *testing.T) {
	t.Parallel()
	const device = "example.com/device"
	larger := lanes().Extend(device)
	lane, _ := larger.Lane(device)
	with := kind("m5.large", onDemand("a", 0.1))
	with.Capacity = resources.With(with.Capacity, lane, 3)
	for name, tc := range map[string]struct {
		requests string
		fits     bool
	}{"as much as there is": {"3", true}, "more": {"4", false}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			l := newFixture(t, with, kind("c5.large", onDemand("a", 0.01)))
			claim := nodeClaim("x")
			claim.Spec.Resources.Requests[device] = resource.MustParse(tc.requests)
			r := l.request(claim)
			r.Lanes = larger
			result, err := l.Launch(t.Context(), r)
			if tc.fits && (err != nil || result.Type != "m5.large") || !tc.fits && !cloud.Is(err, cloud.NoCapacity) {
				t.Errorf("launched %q, error %v", result.Type, err)
			}
		})
	}
}
