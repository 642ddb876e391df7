package lifecycle_test

import (
	"errors"
	"testing"
	"time"

	"github.com/dovetail-sh/dovetail/internal/cloud"
	"github.com/dovetail-sh/dovetail/internal/lifecycle"
)

// G12: waits between failed launches double from a second to a minute, and the first call is kept.
func TestLaunchResultWaits(t *testing.T) {
	t.Parallel()
	start := time.Date(2030, 1, 1, 12, 0, 0, 0, time.UTC)
	failed := lifecycle.Outcome{Err: errors.New("no capacity")}
	var r lifecycle.LaunchResult
	now := start
	for _, seconds := range []int{1, 2, 4, 8, 16, 32, 60, 60} {
		want := time.Duration(seconds) * time.Second
		r = r.Next(failed, now, now)
		if got := r.Outcome(now); got == nil || got.Wait != want {
			t.Fatalf("waits %v, want %s", got, want)
		}
		if r.Outcome(now.Add(want-1)) == nil || r.Outcome(now.Add(want)) != nil {
			t.Errorf("the next attempt is not due after %s", want)
		}
		if r.Expired(now.Add(want)) {
			t.Error("the wait is lost while the claim may retry")
		}
		now = now.Add(want)
	}
	if !r.First.Equal(start) {
		t.Errorf("first called at %s", r.First)
	}
	r = r.Next(lifecycle.Outcome{Instance: cloud.Instance{ID: "i-1"}}, now, now)
	if r = r.Next(failed, now, now); r.Outcome(now).Wait != lifecycle.FirstLaunchRetry {
		t.Errorf("waits %s after a success", r.Outcome(now).Wait)
	}
}

// LC-02, FM A02: an instance is kept for an hour; a result that was not reported does not expire.
func TestLaunchResultIsKept(t *testing.T) {
	t.Parallel()
	start := time.Date(2030, 1, 1, 12, 0, 0, 0, time.UTC)
	var never lifecycle.LaunchResult
	if never.Outcome(start) != nil {
		t.Error("a claim that was not launched has an outcome")
	}
	if outcome, _ := never.Report(start); outcome != nil {
		t.Error("a claim that was not launched has an outcome to report")
	}
	r := never.Next(lifecycle.Outcome{Instance: cloud.Instance{ID: "i-1"}}, start, start)
	if r.Outcome(start.Add(time.Hour-1)) == nil || r.Outcome(start.Add(time.Hour)) != nil {
		t.Error("an instance is not kept for an hour")
	}
	late := start.Add(2 * time.Hour)
	outcome, r := r.Report(late)
	if outcome == nil || outcome.Reported || outcome.Instance.ID != "i-1" {
		t.Errorf("reports %v late", outcome)
	}
	if outcome, _ := r.Report(late); outcome != nil {
		t.Error("an expired result is reported twice")
	}
	if outcome, _ := r.Report(start); outcome == nil || !outcome.Reported {
		t.Errorf("a reported result is %v", outcome)
	}
}
