package app

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"
)

func TestStopEndsInTime(t *testing.T) {
	t.Parallel()
	broken := errors.New("broken")
	for name, tc := range map[string]struct {
		start func(context.Context) error
		took  time.Duration // after the signal, which comes after a minute
		want  string
	}{
		"it ends by itself":     {start: func(context.Context) error { return broken }, took: -time.Minute, want: "broken"},
		"it ends when told":     {start: func(ctx context.Context) error { <-ctx.Done(); return nil }},
		"it ends a while later": {start: func(ctx context.Context) error { <-ctx.Done(); time.Sleep(time.Second); return broken }, took: time.Second, want: "broken"},
		"it does not listen": {
			start: func(ctx context.Context) error { time.Sleep(time.Hour); return ctx.Err() }, took: stopTimeout,
			want: "the controllers did not stop within 35s; the API server may be away: the process ends without waiting for them",
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
				defer cancel()
				began := time.Now()
				err := runWithStopTimeout(ctx, stopTimeout, tc.start)
				if took := time.Since(began) - time.Minute; took != tc.took {
					t.Errorf("returned %s after the signal, want %s", took, tc.took)
				}
				if text := errorText(err); text != tc.want {
					t.Errorf("error %q, want %q", text, tc.want)
				}
				time.Sleep(2 * time.Hour) // the goroutine of the one that does not listen must end with the bubble
			})
		})
	}
}

func errorText(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}
