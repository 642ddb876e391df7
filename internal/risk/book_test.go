package risk

import (
	"testing"
	"time"

	"pgregory.net/rapid"

	_ "github.com/dovetail-sh/dovetail/internal/seed"
)

var start = time.Date(2030, 1, 1, 12, 0, 0, 0, time.UTC)

var spot = Offering{"m5.large", "a", "spot"}

// IR-01: what was observed of an offering counts as a share of its price, by kind, for its family too, and up to a limit.
func TestIR_01_WhatEventsCount(t *testing.T) {
	t.Parallel()
	sibling := Offering{"m5.xlarge", "a", "spot"}
	for name, tc := range map[string]struct {
		events            []Event
		own, family, more float64
	}{
		"nothing":                    {},
		"an interruption":            {events: []Event{Interrupted}, own: 0.1, family: 0.025},
		"a rebalance recommendation": {events: []Event{RebalanceRecommended}, own: 0.05},
		"insufficient capacity":      {events: []Event{InsufficientCapacity}, own: 0.05, family: 0.025},
		"two kinds":                  {events: []Event{Interrupted, InsufficientCapacity}, own: 0.15, family: 0.05},
		"many have a limit": {
			events: []Event{Interrupted, Interrupted, Interrupted, Interrupted, Interrupted, Interrupted, Interrupted, Interrupted}, own: 0.3, family: 0.2,
		},
		"what is not known": {events: []Event{"Odd"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var b Book
			for _, e := range tc.events {
				b.Add(e, spot, start)
			}
			for o, want := range map[Offering]float64{
				spot: tc.own, sibling: tc.family, {"m5.large", "b", "spot"}: 0, {"m5.large", "a", "on-demand"}: 0, {"m5a.large", "a", "spot"}: 0,
			} {
				if got := b.Share(o, start); got < want-1e-9 || got > want+1e-9 {
					t.Errorf("%v: %v, want %v", o, got, want)
				}
			}
		})
	}
}

// IR-02: a share falls in steps as time passes, to nothing, and only a step raises the version.
func TestIR_02_SharesDecayInSteps(t *testing.T) {
	t.Parallel()
	var b Book
	b.Add(Interrupted, spot, start)
	before, version, steps := b.Share(spot, start), b.Version(start), 0
	for at := start; at.Before(start.Add(10 * HalfLife)); at = at.Add(time.Minute) {
		v, share := b.Version(at), b.Share(spot, at)
		switch {
		case share > before:
			t.Fatalf("%v rises to %v after %v", before, share, at.Sub(start))
		case share != before && v == version:
			t.Fatalf("%v becomes %v after %v in the same version", before, share, at.Sub(start))
		case share != before:
			steps++
		}
		before, version = share, v
	}
	if before != 0 || steps == 0 || steps > 5 || len(b.scores) != 0 {
		t.Errorf("%v is left after %d steps, with %d scores", before, steps, len(b.scores))
	}
}

// IR-02: the same events at the same times give the same shares whenever anybody looked in between.
func TestIR_02_LooksChangeNothing(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		var quiet, watched Book
		at := start
		for range rapid.IntRange(1, 20).Draw(t, "events") {
			at = at.Add(time.Duration(rapid.Int64Range(0, int64(2*HalfLife)).Draw(t, "pause")))
			e := rapid.SampledFrom([]Event{Interrupted, RebalanceRecommended, InsufficientCapacity}).Draw(t, "event")
			o := Offering{rapid.SampledFrom([]string{"m5.large", "m5.xlarge", "c5.large"}).Draw(t, "type"), "a", "spot"}
			quiet.Add(e, o, at)
			watched.Add(e, o, at)
			for range rapid.IntRange(0, 3).Draw(t, "looks") {
				watched.Version(at.Add(time.Duration(rapid.Int64Range(0, int64(time.Minute)).Draw(t, "later"))))
			}
		}
		at = at.Add(time.Hour)
		for _, name := range []string{"m5.large", "m5.xlarge", "c5.large", "m5.2xlarge"} {
			o := Offering{name, "a", "spot"}
			if q, w := quiet.Share(o, at), watched.Share(o, at); q != w || q < 0 || q > MaxShare {
				t.Fatalf("%v: %v, looked at before: %v", o, q, w)
			}
		}
	})
}
