package disrupt_test

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	karpv1 "github.com/dovetail-sh/dovetail/api/v1"
	"github.com/dovetail-sh/dovetail/internal/disrupt"
)

// Disruption 3, step 1: what has not run for long is reported once per period.
func TestMethodRuns(t *testing.T) {
	t.Parallel()
	start := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	at := func(minutes int) time.Time { return start.Add(time.Duration(minutes) * time.Minute) }
	enabled := []disrupt.Method{{Name: "a"}, {Name: "b"}}
	var runs disrupt.MethodRuns
	type turn struct {
		At   int
		Ran  string
		Pass bool
		Late []string
	}
	var got []turn
	for _, tc := range []struct {
		at  int
		ran string
	}{{0, "a"}, {10, "a"}, {16, ""}, {20, "b"}, {31, ""}, {60, ""}, {61, ""}} {
		now := at(tc.at)
		_, stalled := runs.BeginPass(now)
		seen := turn{At: tc.at, Ran: tc.ran, Pass: stalled}
		for _, late := range runs.LateMethods(enabled, now) {
			seen.Late = append(seen.Late, late.Method+" "+late.After.String())
		}
		if tc.ran != "" {
			runs.Record(tc.ran, now)
		}
		got = append(got, seen)
	}
	want := []turn{
		{At: 0, Ran: "a"},
		{At: 10, Ran: "a"},
		{At: 16, Late: []string{"b 16m0s"}}, // it never ran, and counts from the first pass
		{At: 20, Ran: "b"},
		{At: 31, Late: []string{"a 21m0s"}},
		{At: 60, Pass: true}, // no pass for long: no method is late
		{At: 61},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("late runs (-want +got):\n%s", diff)
	}
}

// Trust C04: pools that a search had no time for come first until a search ends in time.
func TestTrust_C04_UnreachedPoolsComeFirst(t *testing.T) {
	t.Parallel()
	consolidation := disrupt.Method{Reason: karpv1.ReasonUnderutilized}
	for name, tc := range map[string]struct {
		last     disrupt.Method
		decision disrupt.Decision
		want     []string
	}{
		"another method ran last":                {last: disrupt.Method{Reason: karpv1.ReasonDrifted}, want: []string{"old"}},
		"no method ran":                          {want: []string{"old"}},
		"a search ended in time":                 {last: consolidation},
		"a search missed others":                 {last: consolidation, decision: disrupt.Decision{Partial: true, Unreached: []string{"new"}}, want: []string{"new"}},
		"a search was cut off before it counted": {last: consolidation, decision: disrupt.Decision{Partial: true}, want: []string{"old"}},
	} {
		if diff := cmp.Diff(tc.want, disrupt.NextUnreached([]string{"old"}, tc.last, &tc.decision)); diff != "" {
			t.Errorf("%s: want - got +\n%s", name, diff)
		}
	}
}
