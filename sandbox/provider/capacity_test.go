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
		spoil       func(*lab)
		reason      string
		roleMissing bool
	}{
		"the quota is used up": {spoil: func(l *lab) { l.put("quota", `{"spotVCPU":0}`) }, reason: "SpotQuotaExceeded"},
		"the role is missing": {
			spoil: func(l *lab) {
				roles := slices.DeleteFunc(show[[]string](l, "roles"), func(name string) bool { return name == "AWSServiceRoleForEC2Spot" })
				l.put("roles", `["`+strings.Join(roles, `","`)+`"]`)
			},
			reason: "SpotSLRCreationFailed", roleMissing: true,
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newLab(t).shop()
			tc.spoil(s.lab)
			_, err := s.buy(claim("spot-only", of("m5.large,m6i.large", "spot")))
			if e := asError(err); e == nil || e.Kind != cloud.NoCapacity || e.Reason != tc.reason {
				t.Errorf("spot alone: %#v, want NoCapacity with %s", err, tc.reason)
			}
			if !s.market.unavailable.Has("spot", "c5.large", zoneC, offering.Group{}) {
				t.Error("spot of other types is not out")
			}
			s.advance(4 * time.Minute)
			got := s.mustBuy(claim("both", of("m5.large,m6i.large", "spot,on-demand")))
			if got.CapacityType != "on-demand" || got.SpotRoleMissing != tc.roleMissing {
				t.Errorf("bought %+v", got)
			}
		})
	}
}

// F04: a vCPU quota takes out what it concerns, and says so.
func TestFM_F04_TheQuotaOfVCPUs(t *testing.T) {
	t.Parallel()
	s := newLab(t).shop()
	s.put("quota", `{"onDemandVCPU":1}`)
	_, err := s.buy(claim("one", of("m5.large", "on-demand")))
	if e := asError(err); e == nil || e.Kind != cloud.NoCapacity || e.Reason != "VCPULimitExceeded" {
		t.Errorf("launch: %#v", err)
	}
	if s.market.unavailable.Has("spot", "m5.large", zoneA, offering.Group{}) {
		t.Error("spot is out too")
	}
	if got := s.mustBuy(claim("two", of("m5.large", "spot,on-demand"))); got.CapacityType != "spot" {
		t.Errorf("bought %+v", got)
	}
}

// F06: a subnet without addresses is out for three minutes; its zone only if all its subnets are.
func TestFM_F06_ASubnetWithoutAddresses(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	first := l.subnet(zoneA)
	l.put("subnets", `[{"id":"subnet-second","zone":"`+zoneA+`","free":100,"tags":{"karpenter.sh/discovery":"`+cluster+`"}}]`)
	s := l.shop()
	s.put("subnets", `[{"id":"`+first+`","free":0}]`) // and we do not know yet
	n := of("m5.large", "on-demand").in(zoneA)
	if got := s.mustBuy(claim("one", n)); got.Subnet != "subnet-second" {
		t.Errorf("launched into %s", got.Subnet)
	}
	if !s.market.unavailable.SubnetFull(first) || s.market.unavailable.SubnetFull("subnet-second") {
		t.Error("the full subnet is not out, or the other one is")
	}
	s.put("subnets", `[{"id":"subnet-second","free":0}]`)
	if _, err := s.buy(claim("two", n)); !cloud.Is(err, cloud.NoCapacity) {
		t.Errorf("with both full: %v, want NoCapacity", err)
	}
	if got := s.mustBuy(claim("three", of("m5.large", "on-demand"))); got.Zone == zoneA {
		t.Errorf("launched into %s, where no address is left", got.Zone)
	}
}

// F07: a hundred launches at once into a small subnet do not all fail: what fits is launched, the rest is
// told so.
func TestFM_F07_AHundredLaunchesIntoASmallSubnet(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	l.put("subnets", `[{"id":"subnet-small","zone":"`+zoneA+`","cidr":"10.200.0.0/26","free":59}]`)
	s := l.shop(func(c *awsv1.EC2NodeClass) {
		c.Spec.SubnetSelectorTerms = []awsv1.SubnetSelectorTerm{{ID: "subnet-small"}}
	})
	results, failures := s.crowd(100, of("m5.large", "on-demand"))
	if len(results) != 59 || len(s.alive()) != 59 {
		t.Errorf("%d claims got one of %d instances, want 59", len(results), len(s.alive()))
	}
	for name, err := range failures {
		if !cloud.Is(err, cloud.NoCapacity) {
			t.Errorf("%s: %v, want NoCapacity", name, err)
		}
	}
	if n := s.fleets(); n > 25 {
		t.Errorf("%d fleets for a hundred claims", n)
	}
}

// Launches that are on their way count: two subnets of a zone share them by what is left.
func TestFM_F07_LaunchesSpreadOverSubnets(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	l.put("subnets", fmt.Sprintf(`[{"id":"subnet-x","zone":%q,"free":200},{"id":"subnet-y","zone":%q,"free":190}]`, zoneA, zoneA))
	s := l.shop(func(c *awsv1.EC2NodeClass) {
		c.Spec.SubnetSelectorTerms = []awsv1.SubnetSelectorTerm{{ID: "subnet-x"}, {ID: "subnet-y"}}
	})
	used := map[string]int{}
	for n := range 6 {
		used[s.mustBuy(claim(fmt.Sprintf("claim-%d", n), of("m5.large", "on-demand"))).Subnet]++
	}
	if used["subnet-x"] != 3 || used["subnet-y"] != 3 {
		t.Errorf("launches by subnet: %v, want half in each", used)
	}
}

// reservedShop has a class that selects the reservation of the fixture.
func (l *lab) reservedShop() (*shop, string) {
	l.Helper()
	s := l.shop(func(c *awsv1.EC2NodeClass) {
		c.Spec.CapacityReservationSelectorTerms = []awsv1.CapacityReservationSelectorTerm{{Tags: awsv1.Tags{"karpenter.sh/discovery": cluster}}}
	})
	found, err := s.discover.Reservations(l.Context(), s.class)
	if err != nil || len(found) != 1 {
		l.Fatalf("reservations: %+v %v, want the active one", found, err)
	}
	s.class.Status.CapacityReservations = statuses(found)
	for id, free := range counts(found) {
		s.market.reservations.Set(id, free, time.Now())
	}
	return s, s.class.Status.CapacityReservations[0].ID
}

func statuses(found []discover.Reservation) []awsv1.CapacityReservation {
	var list []awsv1.CapacityReservation
	for _, r := range found {
		list = append(list, r.CapacityReservation)
	}
	return list
}

func counts(found []discover.Reservation) map[string]int {
	free := map[string]int{}
	for _, r := range found {
		free[r.ID] = r.Free
	}
	return free
}

// A reservation is used first, as long as it has room, and counted down.
func TestReservedCapacityIsUsedFirst(t *testing.T) {
	t.Parallel()
	s, id := newLab(t).reservedShop()
	n := of("m5.large", "reserved,on-demand")
	var kinds []string
	for i := range 4 {
		got := s.mustBuy(claim(fmt.Sprintf("claim-%d", i), n))
		kinds = append(kinds, got.CapacityType)
		if reserved := got.CapacityType == "reserved"; reserved != (got.Reservation == id) || reserved != (s.instance(got.ID).Reservation == id) {
			t.Errorf("bought %+v, the instance is in %q", got, s.instance(got.ID).Reservation)
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
	s, id := newLab(t).reservedShop()
	s.put("reservations", `[{"id":"`+id+`","total":0,"available":0}]`)
	got := s.mustBuy(claim("one", of("m5.large", "reserved,on-demand")))
	if got.CapacityType != "on-demand" || got.Reservation != "" {
		t.Errorf("bought %+v, want one on demand", got)
	}
	if free := s.market.reservations.Free(id); free != 0 {
		t.Errorf("%d free in the reservation, want none", free)
	}
}

// F10: an open reservation that matches by chance is not used.
func TestFM_F10_AnOpenReservationIsLeftAlone(t *testing.T) {
	t.Parallel()
	s := newLab(t).shop()
	s.put("reservations", `[{"id":"cr-open","instanceType":"m5.large","zone":"`+zoneA+`","total":5,"available":5,"match":"open"}]`)
	got := s.mustBuy(claim("one", of("m5.large", "on-demand").in(zoneA)))
	if in := s.instance(got.ID).Reservation; in != "" || got.CapacityType != "on-demand" {
		t.Errorf("the instance is in %q: %+v", in, got)
	}
}

// F13: what is wrong with the account is said with its reason.
func TestFM_F13_TroubleWithTheAccount(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		spoil  func(*lab)
		reason string
		kind   cloud.Kind
	}{
		"too many fleets": {func(l *lab) { l.put("quota", `{"fleets":0}`) }, "FleetQuotaExceeded", cloud.NoCapacity},
		"pending verification": {
			func(l *lab) {
				l.post("ice", `{"code":"PendingVerification","message":"Your account is currently being verified."}`)
			}, "AccountPendingVerification", cloud.Unknown,
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newLab(t).shop()
			tc.spoil(s.lab)
			_, err := s.buy(claim("one", of("m5.large,m6i.large", "spot,on-demand")))
			if e := asError(err); e == nil || e.Reason != tc.reason || e.Kind != tc.kind {
				t.Errorf("launch: %#v, want %s", err, tc.reason)
			}
			if n := s.fleets(); n != 1 {
				t.Errorf("%d fleets, want one: nothing else would do either", n)
			}
		})
	}
}

// F14: a spread placement group takes seven instances in a zone. Then the zone is out for this group
// alone.
func TestFM_F14_ASpreadGroupIsFull(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	l.put("placement-groups", `[{"id":"pg-spread","name":"spread","strategy":"spread"}]`)
	s := l.shop(func(c *awsv1.EC2NodeClass) {
		c.Spec.PlacementGroupSelector = &awsv1.PlacementGroupSelector{Name: "spread"}
	})
	n := of("m5.large,m5.xlarge", "on-demand")
	for i := range 7 {
		s.mustBuy(claim(fmt.Sprintf("claim-%d", i), n.in(zoneA)))
	}
	if _, err := s.buy(claim("eighth", n.in(zoneA))); !cloud.Is(err, cloud.NoCapacity) {
		t.Errorf("the eighth: %v, want NoCapacity", err)
	}
	group := offering.Group{ID: "pg-spread"}
	if out := s.market.unavailable; !out.Has("on-demand", "c5.large", zoneA, group) || out.Has("on-demand", "c5.large", zoneA, offering.Group{}) || out.Has("on-demand", "m5.large", zoneB, group) {
		t.Error("not exactly this zone is out for this group")
	}
	if got := s.mustBuy(claim("ninth", n)); got.Zone == zoneA || got.PlacementGroup != "pg-spread" {
		t.Errorf("bought %+v, want one in another zone", got)
	}
}

// Launch templates are made once, deleted a minute after their last use, and those that an earlier
// process left are taken over (AWS provider 5.3). Others' templates stay.
func TestLaunchTemplatesComeAndGo(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	l.bought(1, onDemand, nil) // leaves a template of somebody else
	others := l.templates()
	s := l.shop()
	n := of("m5.large", "on-demand")
	s.mustBuy(claim("one", n))
	s.mustBuy(claim("two", n))
	if made := s.calls(wire.EC2, "CreateLaunchTemplate"); made != 1 {
		t.Errorf("%d templates were made for two equal launches, want one", made)
	}
	s.advance(59 * time.Second)
	s.Sweep(t.Context())
	if len(s.templates()) != len(others)+1 {
		t.Errorf("after 59 seconds: %v", s.templates())
	}
	s.restart()
	if err := s.Load(t.Context()); err != nil {
		t.Fatal(err)
	}
	s.advance(61 * time.Second)
	s.Sweep(t.Context())
	if diff := cmp.Diff(others, s.templates()); diff != "" {
		t.Errorf("a minute after the restart (-want +got):\n%s", diff)
	}
	// And a launch afterwards makes it anew.
	s.mustBuy(claim("three", n))
	if err := s.Forget(t.Context(), s.class); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(others, s.templates()); diff != "" {
		t.Errorf("after the class is gone (-want +got):\n%s", diff)
	}
}

// A template that cannot be deleted now is deleted later.
func TestATemplateThatCannotBeDeleted(t *testing.T) {
	t.Parallel()
	s := newLab(t).shop()
	s.mustBuy(claim("one", of("m5.large", "on-demand")))
	s.throttle("ec2:DeleteLaunchTemplate")
	s.advance(61 * time.Second)
	s.Sweep(t.Context())
	if n := len(s.templates()); n != 1 {
		t.Fatalf("%d templates", n)
	}
	s.remove("throttle")
	s.advance(61 * time.Second)
	s.Sweep(t.Context())
	if n := len(s.templates()); n != 0 {
		t.Errorf("%d templates are left", n)
	}
}

// E08, E09: a launch that is throttled, or whose call breaks, says nothing about capacity.
func TestFM_E09_TroubleIsNeverNoCapacity(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		spoil func(*lab)
		kind  cloud.Kind
	}{
		"throttled":               {func(l *lab) { l.throttle("ec2:CreateFleet") }, cloud.Throttled},
		"broken":                  {func(l *lab) { l.fault(awsemu.Fault{Action: "ec2:CreateFleet", Code: "InternalError", Status: 500}) }, cloud.Unknown},
		"cut off":                 {func(l *lab) { l.fault(awsemu.Fault{Action: "ec2:CreateFleet", Drop: awsemu.DropBefore}) }, cloud.Unknown},
		"templates are throttled": {func(l *lab) { l.throttle("ec2:*LaunchTemplate*") }, cloud.Throttled},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newLab(t).shop()
			tc.spoil(s.lab)
			c := claim("one", of("m5.large", "on-demand"))
			if _, err := s.buy(c); !cloud.Is(err, tc.kind) {
				t.Errorf("launch: %v, want kind %d", err, tc.kind)
			}
			s.remove("throttle")
			s.remove("faults")
			s.mustBuy(c)
			if n := len(s.alive()); n != 1 {
				t.Errorf("%d instances", n)
			}
		})
	}
}
