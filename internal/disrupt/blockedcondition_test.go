package disrupt_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	karpv1 "github.com/dovetail-sh/dovetail/api/v1"
	"github.com/dovetail-sh/dovetail/internal/condition"
	"github.com/dovetail-sh/dovetail/internal/disrupt"
	"github.com/dovetail-sh/dovetail/internal/reason"
)

// A block is written once it has lasted a minute, once a minute at most, and removed as soon as it is over.
func TestBlockedConditions(t *testing.T) {
	t.Parallel()
	start := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	claim := &karpv1.NodeClaim{ObjectMeta: metav1.ObjectMeta{Name: "c"}}
	var state disrupt.BlockedConditions
	var got []string
	for _, tc := range []struct {
		seconds int
		code    reason.Code // empty: not blocked
	}{
		{0, reason.EvictionForbidden},
		{59, reason.EvictionForbidden},
		{60, reason.EvictionForbidden},
		{70, reason.EvictionForbidden},
		{80, reason.DoNotDisrupt},
		{119, reason.DoNotDisrupt},
		{120, reason.DoNotDisrupt},
		{130, ""},
		{131, ""},
		{132, reason.EvictionForbidden},
	} {
		now := start.Add(time.Duration(tc.seconds) * time.Second)
		kept := map[string]reason.Reason{}
		if tc.code != "" {
			kept["c"] = reason.Reason{Code: tc.code}
		}
		for _, change := range state.Advance(kept, []*karpv1.NodeClaim{claim}, now) {
			change.Apply(claim)
			text := "removed"
			if have := condition.Find(claim.Status.Conditions, karpv1.ConditionDisruptionBlocked); have != nil {
				text = have.Reason + " since " + have.LastTransitionTime.Sub(start).String()
			}
			got = append(got, fmt.Sprintf("%d: %s", tc.seconds, text))
		}
	}
	want := []string{"60: " + string(reason.EvictionForbidden) + " since 0s", "120: " + string(reason.DoNotDisrupt) + " since 0s", "130: removed"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("writes (-want +got):\n%s", diff)
	}
}

// One pass writes a bounded number of claims, and the next one continues.
func TestBlockedConditionsAreBounded(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	kept := map[string]reason.Reason{}
	var claims []*karpv1.NodeClaim
	for i := range 60 {
		claims = append(claims, &karpv1.NodeClaim{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("c%02d", i)}})
		kept[claims[i].Name] = reason.Reason{Code: reason.EvictionForbidden}
	}
	var state disrupt.BlockedConditions
	var writes []int
	for _, at := range []time.Duration{0, time.Minute, 2 * time.Minute, 3 * time.Minute} {
		changes := state.Advance(kept, claims, now.Add(at))
		writes = append(writes, len(changes))
		for _, change := range changes {
			for _, c := range claims {
				if c.Name == change.Claim {
					change.Apply(c)
				}
			}
		}
	}
	if diff := cmp.Diff([]int{0, 50, 10, 0}, writes); diff != "" {
		t.Errorf("claims per pass (-want +got):\n%s", diff)
	}
}
