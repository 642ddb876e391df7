package disrupt

import (
	"testing"
	"time"
)

// Disruption 18: one minute, then two, four, eight, and ten at most, each drawn from its later half.
func TestBackoffGrows(t *testing.T) {
	t.Parallel()
	for seed := range uint64(200) {
		b := Backoff{Base: time.Minute, Cap: 10 * time.Minute, Seed: seed}
		now := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
		for _, minutes := range []int{1, 2, 4, 8, 10, 10, 10} {
			window := time.Duration(minutes) * time.Minute
			if !b.RecordFailure("p", now) {
				t.Fatal("the failure does not count")
			}
			rest := b.Deadlines(now)["p"].Sub(now)
			if rest < window/2 || rest >= window {
				t.Fatalf("seed %d: rests for %s, want at least half of %s and less than that", seed, rest, window)
			}
			if b.RecordFailure("p", now.Add(rest-1)) || b.Deadlines(now)["p"] != now.Add(rest) {
				t.Fatal("a failure during the rest makes it longer")
			}
			now = now.Add(rest)
			if _, rests := b.Deadlines(now)["p"]; rests {
				t.Fatal("it rests although its time is over")
			}
		}
	}
}

// Disruption 18, FM K21: pools do not wait for each other, and a success makes the next failure a first one.
func TestBackoffEnds(t *testing.T) {
	t.Parallel()
	b := Backoff{Base: time.Minute, Cap: 10 * time.Minute}
	now := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	for range 5 {
		b.RecordFailure("p", now)
		now = now.Add(10 * time.Minute)
	}
	if len(b.Deadlines(now)) != 0 {
		t.Error("something rests after ten minutes")
	}
	b.RecordSuccess("p")
	b.RecordFailure("p", now)
	if rest := b.Deadlines(now)["p"].Sub(now); rest >= time.Minute {
		t.Errorf("rests for %s after a success, want less than a minute", rest)
	}
	if _, rests := b.Deadlines(now)["q"]; rests {
		t.Error("another pool rests")
	}
}

// Different seeds draw different times: clusters do not act together.
func TestBackoffIsSpread(t *testing.T) {
	t.Parallel()
	now, seen := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC), map[time.Time]bool{}
	for seed := range uint64(100) {
		b := Backoff{Base: time.Minute, Cap: 10 * time.Minute, Seed: seed}
		b.RecordFailure("p", now)
		seen[b.Deadlines(now)["p"]] = true
	}
	if len(seen) < 90 {
		t.Errorf("%d different times of 100", len(seen))
	}
}
