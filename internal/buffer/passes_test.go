package buffer_test

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/dovetail-sh/dovetail/internal/buffer"
)

// CB-17: passes that fail are repeated with back-off, plans wait half a minute for the first that works, and one is
// requested every 30 s.
func TestCB_17_PassesOfBuffers(t *testing.T) {
	t.Parallel()
	start := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	type pass struct {
		At         time.Duration // since the start
		Poll, GoOn bool
	}
	for name, tc := range map[string]struct {
		fails int // passes
		want  []pass
	}{
		"all work": {want: []pass{{0, true, true}, {30 * time.Second, true, true}, {time.Minute, true, true}}},
		"one fails": {fails: 1, want: []pass{
			{0, true, false}, {2 * time.Second, false, true}, {32 * time.Second, true, true}, {62 * time.Second, true, true},
		}},
		"the API server does not respond": {fails: 6, want: []pass{
			{0, true, false},
			{2 * time.Second, false, false},
			{6 * time.Second, false, false},
			{14 * time.Second, false, false},
			{30 * time.Second, true, true},
			{time.Minute, true, true},
			{90 * time.Second, true, true},
			{2 * time.Minute, true, true},
		}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var passes buffer.Passes
			var got []pass
			at := time.Duration(0)
			for i := range tc.want {
				p := pass{At: at, Poll: passes.Begin(start.Add(at))}
				var next time.Duration
				next, p.GoOn = passes.End(i < tc.fails, start.Add(at))
				got, at = append(got, p), at+next
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("passes (-want +got):\n%s", diff)
			}
		})
	}
	var passes buffer.Passes
	for i := range 5 { // changes in between
		poll := passes.Begin(start.Add(time.Duration(i) * 10 * time.Second))
		if next, _ := passes.End(false, start); poll != (i%3 == 0) || next != buffer.PollInterval {
			t.Errorf("pass %d, each 10 s after the last: poll %v, the next one after %s", i, poll, next)
		}
	}
}
