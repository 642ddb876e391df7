package controller_test

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	karpv1 "github.com/dovetail-sh/dovetail/api/v1"
	"github.com/dovetail-sh/dovetail/internal/catalog"
	"github.com/dovetail-sh/dovetail/internal/cloud"
	"github.com/dovetail-sh/dovetail/internal/controller"
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

// 16 claims for one instance type find no capacity. Pods that need another one do not wait.
func TestTrust_A05_InsufficientCapacityOfOneKindLeavesTheRest(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	for range 16 {
		l.LaunchBackoff.RecordInsufficientCapacity(failedClaim("general", in(corev1.LabelInstanceTypeStable, "large")), time.Now())
	}
	l.add(readyPool("general"), pendingPod("web", "1"), pendingPod("big", "6"))
	l.Pass(t.Context())
	claims := l.claims()
	if len(claims) != 1 {
		t.Fatalf("%d claims, want one: that of the pod that needs no large type", len(claims))
	}
	if got := claims[0].Spec.Requirements; got[len(got)-1].Key != corev1.LabelInstanceTypeStable || len(got[len(got)-1].Values) != 1 || got[len(got)-1].Values[0] != "small" {
		t.Errorf("requirements %v, want only the type that can be had", got)
	}
	if !l.told.saw("big FailedScheduling", "out of capacity at present: large") {
		t.Errorf("the pod that waits does not hear why: %q", l.told.said)
	}
}

// What is left alone, and for how long, follows from what the failed claims asked for.
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
	open := func(r *controller.LaunchBackoff, now time.Time) map[string]int {
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
		r := controller.NewLaunchBackoff()
		for _, claim := range tc.failed {
			for range 10 {
				r.RecordInsufficientCapacity(claim, at)
			}
		}
		if tc.worked != nil {
			r.RecordLaunched("general", *tc.worked)
		}
		if got := open(r, at.Add(time.Second)); got["p4d"] != tc.p4d || got["m5"] != tc.m5 {
			t.Errorf("%s: %v can be had, want p4d %d and m5 %d", name, got, tc.p4d, tc.m5)
		}
		if got := open(r, at.Add(61*time.Second)); got["p4d"] != tc.p4dLater || got["m5"] != 4 {
			t.Errorf("%s: a minute later %v can be had", name, got)
		}
	}
	r := controller.NewLaunchBackoff()
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
