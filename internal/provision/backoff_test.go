package provision

import (
	"errors"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	karpv1 "github.com/dovetail-sh/dovetail/api/v1"
	"github.com/dovetail-sh/dovetail/internal/catalog"
	"github.com/dovetail-sh/dovetail/internal/cloud"
	"github.com/dovetail-sh/dovetail/internal/cluster"
)

// failedClaim is a claim of a pool that allows some values of properties of offerings.
func failedClaim(pool string, requirements ...karpv1.Requirement) *karpv1.NodeClaim {
	return &karpv1.NodeClaim{
		ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{karpv1.LabelNodePool: pool}},
		Spec:       karpv1.NodeClaimSpec{Requirements: requirements},
	}
}

func in(key string, values ...string) karpv1.Requirement {
	return karpv1.Requirement{Key: key, Operator: corev1.NodeSelectorOpIn, Values: values}
}

// FM F02: launches that fail for lack of capacity close what they requested, for growing times.
func TestFM_F02_Backoff(t *testing.T) {
	t.Parallel()
	r, at := &LaunchBackoff{}, time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	fail := func(n int) {
		for range n {
			r.RecordInsufficientCapacity(failedClaim("p"), at)
		}
	}
	if fail(9); r.PoolBackedOff("p", at) {
		t.Error("resting after 9 failures")
	}
	if fail(1); !r.PoolBackedOff("p", at) || !r.PoolBackedOff("p", at.Add(59*time.Second)) || r.PoolBackedOff("p", at.Add(time.Minute)) {
		t.Error("10 failures within a minute should close the pool for a minute")
	}
	at = at.Add(time.Minute)
	if fail(10); !r.PoolBackedOff("p", at.Add(119*time.Second)) || r.PoolBackedOff("p", at.Add(2*time.Minute)) {
		t.Error("the second rest should be twice as long")
	}
	if fail(10); r.PoolBackedOff("p", at.Add(2*time.Minute)) {
		t.Error("failures of launches that were under way make a rest longer")
	}
	for _, rest := range []time.Duration{4 * time.Minute, 8 * time.Minute, 8 * time.Minute} {
		at = at.Add(rest / 2) // the one before is over, at last
		if fail(10); !r.PoolBackedOff("p", at.Add(rest-time.Second)) || r.PoolBackedOff("p", at.Add(rest)) {
			t.Errorf("want a rest of %s", rest)
		}
		at = at.Add(rest / 2)
	}
	if r.RecordLaunched("p", cloud.Instance{Type: "large", Zone: "a", CapacityType: "on-demand"}); r.PoolBackedOff("p", at) {
		t.Error("resting although a launch worked")
	}
	for i := range 30 {
		r.RecordInsufficientCapacity(failedClaim("q"), at.Add(time.Duration(i)*10*time.Second))
	}
	if r.PoolBackedOff("q", at.Add(5*time.Minute)) {
		t.Error("six failures a minute are no reason to rest")
	}
}

// FM A14: the pool rests for a minute, then for two, however many claims of one plan are denied.
func TestFM_A14_Backoff(t *testing.T) {
	t.Parallel()
	r, at := &LaunchBackoff{}, time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	for _, rest := range []time.Duration{time.Minute, 2 * time.Minute, 4 * time.Minute} {
		for range 30 {
			r.RecordDenied("p", at)
		}
		end := at.Add(rest)
		if !r.PoolBackedOff("p", end.Add(-time.Second)) || r.PoolBackedOff("p", end) {
			t.Errorf("want a rest of %s", rest)
		}
		at = end
	}
}

// What is left alone, and for how long, follows from what the failed claims requested.
func TestTrust_A05_BackOffOfOfferings(t *testing.T) {
	t.Parallel()
	at := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	list := []catalog.InstanceType{}
	for _, name := range []string{"p4d", "m5"} {
		one := catalog.InstanceType{Name: name}
		for _, zone := range []string{"a", "b"} {
			for _, capacityType := range []string{"spot", "on-demand"} {
				one.Offerings = append(one.Offerings, catalog.Offering{Zone: zone, CapacityType: capacityType, Available: true})
			}
		}
		list = append(list, one)
	}
	open := func(r *LaunchBackoff, now time.Time) map[string]int {
		out := map[string]int{}
		for _, one := range r.WithoutBackedOff("general", list, now) {
			for _, o := range one.Offerings {
				if o.Available {
					out[one.Name]++
				}
			}
		}
		return out
	}
	kind, zone, capacity := corev1.LabelInstanceTypeStable, corev1.LabelTopologyZone, karpv1.LabelCapacityType
	for name, tc := range map[string]struct {
		failed   []*karpv1.NodeClaim // each ten times
		worked   *cloud.Instance
		p4d, m5  int
		p4dLater int // after 61 s
	}{
		"one type":                    {failed: []*karpv1.NodeClaim{failedClaim("general", in(kind, "p4d"))}, p4d: 0, m5: 4, p4dLater: 4},
		"one type in one zone":        {failed: []*karpv1.NodeClaim{failedClaim("general", in(kind, "p4d"), in(zone, "a"))}, p4d: 2, m5: 4, p4dLater: 4},
		"spot":                        {failed: []*karpv1.NodeClaim{failedClaim("general", in(capacity, "spot"))}, p4d: 2, m5: 2, p4dLater: 4},
		"whatever there is":           {failed: []*karpv1.NodeClaim{failedClaim("general")}, p4dLater: 4},
		"another pool":                {failed: []*karpv1.NodeClaim{failedClaim("other", in(kind, "p4d"))}, p4d: 4, m5: 4, p4dLater: 4},
		"another type was launched":   {failed: []*karpv1.NodeClaim{failedClaim("general", in(kind, "p4d"))}, worked: &cloud.Instance{Type: "m5", Zone: "a", CapacityType: "spot"}, m5: 4, p4dLater: 4},
		"the type itself was":         {failed: []*karpv1.NodeClaim{failedClaim("general", in(kind, "p4d"))}, worked: &cloud.Instance{Type: "p4d", Zone: "a", CapacityType: "spot"}, p4d: 4, m5: 4, p4dLater: 4},
		"two kinds after one another": {failed: []*karpv1.NodeClaim{failedClaim("general", in(kind, "p4d")), failedClaim("general", in(kind, "m5"), in(zone, "b"))}, m5: 2, p4dLater: 4},
	} {
		r := &LaunchBackoff{}
		for _, claim := range tc.failed {
			for range 10 {
				r.RecordInsufficientCapacity(claim, at)
			}
		}
		if tc.worked != nil {
			r.RecordLaunched("general", *tc.worked)
		}
		if got := open(r, at.Add(time.Second)); got["p4d"] != tc.p4d || got["m5"] != tc.m5 {
			t.Errorf("%s: %v is available, want p4d %d and m5 %d", name, got, tc.p4d, tc.m5)
		}
		if got := open(r, at.Add(61*time.Second)); got["p4d"] != tc.p4dLater || got["m5"] != 4 {
			t.Errorf("%s: a minute later %v is available", name, got)
		}
	}
	r := &LaunchBackoff{}
	if shared := r.WithoutBackedOff("general", list, at); &shared[0] != &list[0] {
		t.Error("a list is copied although nothing is closed")
	}
	for range 10 {
		r.RecordInsufficientCapacity(failedClaim("general", in(kind, "p4d")), at)
	}
	if r.WithoutBackedOff("general", list, at); !list[0].Offerings[0].Available {
		t.Error("the catalogue itself was changed")
	}
}

// Only insufficient capacity counts: a cloud that is out of order says nothing about offerings.
func TestRecordLaunch(t *testing.T) {
	t.Parallel()
	at, claim := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC), failedClaim("p")
	for name, tc := range map[string]struct {
		err  error
		want bool
	}{
		"no capacity":   {err: &cloud.Error{Kind: cloud.NoCapacity}, want: true},
		"another error": {err: &cloud.Error{Kind: cloud.Unknown}},
		"any error":     {err: errors.New("connection reset")},
		"none":          {},
	} {
		r := &LaunchBackoff{}
		for range 10 {
			r.RecordLaunch(claim, cloud.Instance{Type: "m5"}, tc.err, at)
		}
		if got := r.PoolBackedOff("p", at); got != tc.want {
			t.Errorf("%s: backed off %v, want %v", name, got, tc.want)
		}
	}
}

// RH-02: failed registrations of an unhealthy pool close it for growing times. RH-03: they end when it is healthy.
func TestRH_02_BackoffOfAnUnhealthyPool(t *testing.T) {
	t.Parallel()
	r, at := &LaunchBackoff{}, time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	types := []catalog.InstanceType{{Name: "large", Offerings: []catalog.Offering{{Zone: "a", CapacityType: "on-demand", Available: true}}}}
	for _, rest := range []time.Duration{time.Minute, 2 * time.Minute, 4 * time.Minute, 8 * time.Minute, 8 * time.Minute} {
		for range 50 { // nodes of one plan
			r.RecordUnhealthy("p", at)
		}
		r.RecordLaunched("p", cloud.Instance{Type: "large", Zone: "a", CapacityType: "on-demand"}) // says nothing about registration
		if last := at.Add(rest - time.Second); !r.poolUnhealthy("p", last) || !r.PoolBackedOff("p", last) || r.WithoutBackedOff("p", types, last)[0].Offerings[0].Available {
			t.Errorf("the back-off is shorter than %s", rest)
		}
		if at = at.Add(rest); r.poolUnhealthy("p", at) || !r.WithoutBackedOff("p", types, at)[0].Offerings[0].Available {
			t.Errorf("the back-off is longer than %s", rest)
		}
	}
	r.RecordUnhealthy("p", at)
	if r.poolUnhealthy("other", at) {
		t.Error("another pool is backed off")
	}
	if r.RecordHealthy("p"); r.poolUnhealthy("p", at) || len(r.pools) != 0 {
		t.Error("a healthy pool is backed off")
	}
}

// RH-02: a plan sees the pools that are backed off as closed, and events of pods say why.
func TestRH_02_UnhealthyPoolsAreClosed(t *testing.T) {
	t.Parallel()
	r, at := &LaunchBackoff{}, time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	r.RecordUnhealthy("bad", at)
	pools := []cluster.Pool{{Name: "bad"}, {Name: "good"}, {Name: "bad", Closed: true, ClosedBy: "it is static"}}
	r.ClosePools(pools, at)
	if !pools[0].Closed || pools[0].ClosedBy != unhealthyPool || pools[1].Closed || pools[2].ClosedBy != "it is static" {
		t.Errorf("pools are %+v", pools)
	}
}

// FM F02: a reservation that is full is backed off alone, under the label that the cloud names reservations with.
func TestBackoffOfAReservation(t *testing.T) {
	t.Parallel()
	const label = "example.com/reservation"
	r, at := &LaunchBackoff{ReservationLabel: label}, time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	for range 10 {
		r.RecordInsufficientCapacity(failedClaim("p", in(label, "cr-1")), at)
	}
	types := []catalog.InstanceType{{Name: "large", Offerings: []catalog.Offering{{Reservation: "cr-1", Available: true}, {Reservation: "cr-2", Available: true}}}}
	if o := r.WithoutBackedOff("p", types, at)[0].Offerings; o[0].Available || !o[1].Available {
		t.Errorf("offerings are %+v", o)
	}
	r.RecordLaunched("p", cloud.Instance{Type: "large", Labels: map[string]string{label: "cr-1"}})
	if o := r.WithoutBackedOff("p", types, at)[0].Offerings; !o[0].Available {
		t.Error("a launch from the reservation does not end its back-off")
	}
}
