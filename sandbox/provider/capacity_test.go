package provider

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	awsv1 "github.com/dovetail-sh/dovetail/api/aws/v1"
	"github.com/dovetail-sh/dovetail/internal/aws/discover"
	"github.com/dovetail-sh/dovetail/internal/aws/offering"
	"github.com/dovetail-sh/dovetail/internal/cloud"
	"github.com/dovetail-sh/dovetail/sandbox/awsemu"
	"github.com/dovetail-sh/dovetail/sandbox/awsemu/wire"
)

// F03, F05: a spot quota that is used up, or a missing role for spot, takes all of spot out for three
// minutes. On demand is launched if it is allowed.
func TestFM_F03_F05_SpotCannotBeHadAtAll(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		spoil       func(*awsEnv)
		reason      string
		roleMissing bool
	}{
		"the quota is used up": {spoil: func(l *awsEnv) { l.putControl("quota", `{"spotVCPU":0}`) }, reason: "SpotQuotaExceeded"},
		"the role is missing": {
			spoil: func(l *awsEnv) {
				roles := slices.DeleteFunc(decodeControl[[]string](l, "roles"), func(name string) bool { return name == "AWSServiceRoleForEC2Spot" })
				l.putControl("roles", `["`+strings.Join(roles, `","`)+`"]`)
			},
			reason: "SpotSLRCreationFailed", roleMissing: true,
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newAWSEnv(t).newLaunchEnv()
			tc.spoil(s.awsEnv)
			_, err := s.launchClaim(claim("spot-only", needsOf("m5.large,m6i.large", "spot")))
			if e := asError(err); e == nil || e.Kind != cloud.NoCapacity || e.Reason != tc.reason {
				t.Errorf("spot alone: %#v, want NoCapacity with %s", err, tc.reason)
			}
			if !s.market.unavailable.Has("spot", "c5.large", zoneC, offering.Group{}) {
				t.Error("spot of other types is not out")
			}
			s.advanceClock(4 * time.Minute)
			got := s.mustLaunchClaim(claim("both", needsOf("m5.large,m6i.large", "spot,on-demand")))
			if got.CapacityType != "on-demand" || got.SpotRoleMissing != tc.roleMissing {
				t.Errorf("launched %+v", got)
			}
		})
	}
}

// F04: a vCPU quota takes out what it concerns, and says so.
func TestFM_F04_TheQuotaOfVCPUs(t *testing.T) {
	t.Parallel()
	s := newAWSEnv(t).newLaunchEnv()
	s.putControl("quota", `{"onDemandVCPU":1}`)
	_, err := s.launchClaim(claim("one", needsOf("m5.large", "on-demand")))
	if e := asError(err); e == nil || e.Kind != cloud.NoCapacity || e.Reason != "VCPULimitExceeded" {
		t.Errorf("launch: %#v", err)
	}
	if s.market.unavailable.Has("spot", "m5.large", zoneA, offering.Group{}) {
		t.Error("spot is out too")
	}
	if got := s.mustLaunchClaim(claim("two", needsOf("m5.large", "spot,on-demand"))); got.CapacityType != "spot" {
		t.Errorf("launched %+v", got)
	}
}

// F06: a subnet without addresses is out for three minutes; its zone only if all its subnets are.
func TestFM_F06_ASubnetWithoutAddresses(t *testing.T) {
	t.Parallel()
	l := newAWSEnv(t)
	first := l.subnet(zoneA)
	l.putControl("subnets", `[{"id":"subnet-second","zone":"`+zoneA+`","free":100,"tags":{"karpenter.sh/discovery":"`+cluster+`"}}]`)
	s := l.newLaunchEnv()
	s.putControl("subnets", `[{"id":"`+first+`","free":0}]`) // and we do not know yet
	n := needsOf("m5.large", "on-demand").inZone(zoneA)
	if got := s.mustLaunchClaim(claim("one", n)); got.Subnet != "subnet-second" {
		t.Errorf("launched into %s", got.Subnet)
	}
	if !s.market.unavailable.SubnetFull(first) || s.market.unavailable.SubnetFull("subnet-second") {
		t.Error("the full subnet is not out, or the other one is")
	}
	s.putControl("subnets", `[{"id":"subnet-second","free":0}]`)
	if _, err := s.launchClaim(claim("two", n)); !cloud.Is(err, cloud.NoCapacity) {
		t.Errorf("with both full: %v, want NoCapacity", err)
	}
	if got := s.mustLaunchClaim(claim("three", needsOf("m5.large", "on-demand"))); got.Zone == zoneA {
		t.Errorf("launched into %s, where no address is left", got.Zone)
	}
}

// F07: a hundred launches at once into a small subnet do not all fail: what fits is launched, the rest is
// told so.
func TestFM_F07_AHundredLaunchesIntoASmallSubnet(t *testing.T) {
	t.Parallel()
	l := newAWSEnv(t)
	l.putControl("subnets", `[{"id":"subnet-small","zone":"`+zoneA+`","cidr":"10.200.0.0/26","free":59}]`)
	s := l.newLaunchEnv(func(c *awsv1.EC2NodeClass) {
		c.Spec.SubnetSelectorTerms = []awsv1.SubnetSelectorTerm{{ID: "subnet-small"}}
	})
	results, failures := s.launchMany(100, needsOf("m5.large", "on-demand"))
	if len(results) != 59 || len(s.liveInstances()) != 59 {
		t.Errorf("%d claims got one of %d instances, want 59", len(results), len(s.liveInstances()))
	}
	for name, err := range failures {
		if !cloud.Is(err, cloud.NoCapacity) {
			t.Errorf("%s: %v, want NoCapacity", name, err)
		}
	}
	if n := s.countFleetCalls(); n > 25 {
		t.Errorf("%d fleets for a hundred claims", n)
	}
}

// Launches that are on their way count: two subnets of a zone share them by what is left.
func TestFM_F07_LaunchesSpreadOverSubnets(t *testing.T) {
	t.Parallel()
	l := newAWSEnv(t)
	l.putControl("subnets", fmt.Sprintf(`[{"id":"subnet-x","zone":%q,"free":200},{"id":"subnet-y","zone":%q,"free":190}]`, zoneA, zoneA))
	s := l.newLaunchEnv(func(c *awsv1.EC2NodeClass) {
		c.Spec.SubnetSelectorTerms = []awsv1.SubnetSelectorTerm{{ID: "subnet-x"}, {ID: "subnet-y"}}
	})
	used := map[string]int{}
	for n := range 6 {
		used[s.mustLaunchClaim(claim(fmt.Sprintf("claim-%d", n), needsOf("m5.large", "on-demand"))).Subnet]++
	}
	if used["subnet-x"] != 3 || used["subnet-y"] != 3 {
		t.Errorf("launches by subnet: %v, want half in each", used)
	}
}

// newReservedLaunchEnv has a class that selects the reservation of the fixture.
func (l *awsEnv) newReservedLaunchEnv() (*launchEnv, string) {
	l.Helper()
	s := l.newLaunchEnv(func(c *awsv1.EC2NodeClass) {
		c.Spec.CapacityReservationSelectorTerms = []awsv1.CapacityReservationSelectorTerm{{Tags: awsv1.Tags{"karpenter.sh/discovery": cluster}}}
	})
	found, err := s.discover.Reservations(l.Context(), s.class)
	if err != nil || len(found) != 1 {
		l.Fatalf("reservations: %+v %v, want the active one", found, err)
	}
	s.class.Status.CapacityReservations = toStatuses(found)
	for id, free := range freeCounts(found) {
		s.market.reservations.Set(id, free, time.Now())
	}
	return s, s.class.Status.CapacityReservations[0].ID
}

func toStatuses(found []discover.Reservation) []awsv1.CapacityReservation {
	var list []awsv1.CapacityReservation
	for _, r := range found {
		list = append(list, r.CapacityReservation)
	}
	return list
}

func freeCounts(found []discover.Reservation) map[string]int {
	free := map[string]int{}
	for _, r := range found {
		free[r.ID] = r.Free
	}
	return free
}

// A reservation is used first, as long as it has room, and counted down.
func TestReservedCapacityIsUsedFirst(t *testing.T) {
	t.Parallel()
	s, id := newAWSEnv(t).newReservedLaunchEnv()
	n := needsOf("m5.large", "reserved,on-demand")
	var kinds []string
	for i := range 4 {
		got := s.mustLaunchClaim(claim(fmt.Sprintf("claim-%d", i), n))
		kinds = append(kinds, got.CapacityType)
		if reserved := got.CapacityType == "reserved"; reserved != (got.Reservation == id) || reserved != (s.instanceByID(got.ID).Reservation == id) {
			t.Errorf("launched %+v, the instance is in %q", got, s.instanceByID(got.ID).Reservation)
		}
	}
	if diff := cmp.Diff([]string{"reserved", "reserved", "reserved", "on-demand"}, kinds); diff != "" {
		t.Errorf("capacity types (-want +got):\n%s", diff)
	}
}

// F08: a reservation that shrank since it was looked up is empty from then on; the claim gets the next
// capacity type.
func TestFM_F08_AReservationThatShrank(t *testing.T) {
	t.Parallel()
	s, id := newAWSEnv(t).newReservedLaunchEnv()
	s.putControl("reservations", `[{"id":"`+id+`","total":0,"available":0}]`)
	got := s.mustLaunchClaim(claim("one", needsOf("m5.large", "reserved,on-demand")))
	if got.CapacityType != "on-demand" || got.Reservation != "" {
		t.Errorf("launched %+v, want one on demand", got)
	}
	if free := s.market.reservations.Free(id); free != 0 {
		t.Errorf("%d free in the reservation, want none", free)
	}
}

// F10: an open reservation that matches by chance is not used.
func TestFM_F10_AnOpenReservationIsLeftAlone(t *testing.T) {
	t.Parallel()
	s := newAWSEnv(t).newLaunchEnv()
	s.putControl("reservations", `[{"id":"cr-open","instanceType":"m5.large","zone":"`+zoneA+`","total":5,"available":5,"match":"open"}]`)
	got := s.mustLaunchClaim(claim("one", needsOf("m5.large", "on-demand").inZone(zoneA)))
	if in := s.instanceByID(got.ID).Reservation; in != "" || got.CapacityType != "on-demand" {
		t.Errorf("the instance is in %q: %+v", in, got)
	}
}

// F13: what is wrong with the account is said with its reason.
func TestFM_F13_TroubleWithTheAccount(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		spoil  func(*awsEnv)
		reason string
		kind   cloud.Kind
	}{
		"too many fleets": {func(l *awsEnv) { l.putControl("quota", `{"fleets":0}`) }, "FleetQuotaExceeded", cloud.NoCapacity},
		"pending verification": {
			func(l *awsEnv) {
				l.post("ice", `{"code":"PendingVerification","message":"Your account is currently being verified."}`)
			}, "AccountPendingVerification", cloud.Unknown,
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newAWSEnv(t).newLaunchEnv()
			tc.spoil(s.awsEnv)
			_, err := s.launchClaim(claim("one", needsOf("m5.large,m6i.large", "spot,on-demand")))
			if e := asError(err); e == nil || e.Reason != tc.reason || e.Kind != tc.kind {
				t.Errorf("launch: %#v, want %s", err, tc.reason)
			}
			if n := s.countFleetCalls(); n != 1 {
				t.Errorf("%d fleets, want one: nothing else would do either", n)
			}
		})
	}
}

// F14: a spread placement group takes seven instances in a zone. Then the zone is out for this group
// alone.
func TestFM_F14_ASpreadGroupIsFull(t *testing.T) {
	t.Parallel()
	l := newAWSEnv(t)
	l.putControl("placement-groups", `[{"id":"pg-spread","name":"spread","strategy":"spread"}]`)
	s := l.newLaunchEnv(func(c *awsv1.EC2NodeClass) {
		c.Spec.PlacementGroupSelector = &awsv1.PlacementGroupSelector{Name: "spread"}
	})
	n := needsOf("m5.large,m5.xlarge", "on-demand")
	for i := range 7 {
		s.mustLaunchClaim(claim(fmt.Sprintf("claim-%d", i), n.inZone(zoneA)))
	}
	if _, err := s.launchClaim(claim("eighth", n.inZone(zoneA))); !cloud.Is(err, cloud.NoCapacity) {
		t.Errorf("the eighth: %v, want NoCapacity", err)
	}
	group := offering.Group{ID: "pg-spread"}
	if out := s.market.unavailable; !out.Has("on-demand", "c5.large", zoneA, group) || out.Has("on-demand", "c5.large", zoneA, offering.Group{}) || out.Has("on-demand", "m5.large", zoneB, group) {
		t.Error("not exactly this zone is out for this group")
	}
	if got := s.mustLaunchClaim(claim("ninth", n)); got.Zone == zoneA || got.PlacementGroup != "pg-spread" {
		t.Errorf("launched %+v, want one in another zone", got)
	}
}

// Launch templates are made once, deleted a minute after their last use, and those that an earlier
// process left are taken over (AWS provider 5.3). Others' templates stay.
func TestLaunchTemplatesComeAndGo(t *testing.T) {
	t.Parallel()
	l := newAWSEnv(t)
	l.launchInstances(1, onDemand, nil) // leaves a template of another owner
	others := l.templateNames()
	s := l.newLaunchEnv()
	n := needsOf("m5.large", "on-demand")
	s.mustLaunchClaim(claim("one", n))
	s.mustLaunchClaim(claim("two", n))
	if made := s.countCalls(wire.EC2, "CreateLaunchTemplate"); made != 1 {
		t.Errorf("%d templates were made for two equal launches, want one", made)
	}
	s.advanceClock(59 * time.Second)
	s.Sweep(t.Context())
	if len(s.templateNames()) != len(others)+1 {
		t.Errorf("after 59 seconds: %v", s.templateNames())
	}
	s.restartLauncher()
	if err := s.Load(t.Context()); err != nil {
		t.Fatal(err)
	}
	s.advanceClock(61 * time.Second)
	s.Sweep(t.Context())
	if diff := cmp.Diff(others, s.templateNames()); diff != "" {
		t.Errorf("a minute after the restart (-want +got):\n%s", diff)
	}
	// And a launch afterwards makes it anew.
	s.mustLaunchClaim(claim("three", n))
	if err := s.DeleteTemplates(t.Context(), s.class); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(others, s.templateNames()); diff != "" {
		t.Errorf("after the class is gone (-want +got):\n%s", diff)
	}
}

// A template that cannot be deleted now is deleted later.
func TestATemplateThatCannotBeDeleted(t *testing.T) {
	t.Parallel()
	s := newAWSEnv(t).newLaunchEnv()
	s.mustLaunchClaim(claim("one", needsOf("m5.large", "on-demand")))
	s.throttleActions("ec2:DeleteLaunchTemplate")
	s.advanceClock(61 * time.Second)
	s.Sweep(t.Context())
	if n := len(s.templateNames()); n != 1 {
		t.Fatalf("%d templates", n)
	}
	s.remove("throttle")
	s.advanceClock(61 * time.Second)
	s.Sweep(t.Context())
	if n := len(s.templateNames()); n != 0 {
		t.Errorf("%d templates are left", n)
	}
}

// E08, E09: a launch that is throttled, or whose call breaks, says nothing about capacity.
func TestFM_E09_TroubleIsNeverNoCapacity(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		spoil func(*awsEnv)
		kind  cloud.Kind
	}{
		"throttled": {func(l *awsEnv) { l.throttleActions("ec2:CreateFleet") }, cloud.Throttled},
		"broken": {func(l *awsEnv) {
			l.injectFault(awsemu.Fault{Action: "ec2:CreateFleet", Code: "InternalError", Status: 500})
		}, cloud.Unknown},
		"cut off":                 {func(l *awsEnv) { l.injectFault(awsemu.Fault{Action: "ec2:CreateFleet", Drop: awsemu.DropBefore}) }, cloud.Unknown},
		"templates are throttled": {func(l *awsEnv) { l.throttleActions("ec2:*LaunchTemplate*") }, cloud.Throttled},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newAWSEnv(t).newLaunchEnv()
			tc.spoil(s.awsEnv)
			c := claim("one", needsOf("m5.large", "on-demand"))
			if _, err := s.launchClaim(c); !cloud.Is(err, tc.kind) {
				t.Errorf("launch: %v, want kind %d", err, tc.kind)
			}
			s.remove("throttle")
			s.remove("faults")
			s.mustLaunchClaim(c)
			if n := len(s.liveInstances()); n != 1 {
				t.Errorf("%d instances", n)
			}
		})
	}
}
