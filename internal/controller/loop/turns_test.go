package loop

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"

	"github.com/dovetail-sh/dovetail/internal/metric"
)

// A turn comes when the one before says so, after ten seconds if that failed, and within a second of
// being requested.
func TestTurnsFollowEachOther(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		ctx, stop := context.WithCancel(t.Context())
		began, at := time.Now(), []time.Duration{}
		metrics, wake := metric.New(prometheus.NewRegistry()), make(chan struct{}, 1)
		loop := &Turns{Name: "test", Metrics: metrics, Every: 10 * time.Second, Wake: wake, Soon: time.Second, Turn: func(context.Context) (time.Duration, error) {
			at = append(at, time.Since(began))
			switch len(at) {
			case 1:
				return 0, nil
			case 2:
				return 3 * time.Second, nil
			case 3:
				return 10 * time.Second, errors.New("no response")
			case 4:
				panic("bug")
			}
			return time.Hour, nil
		}}
		done := make(chan error)
		go func() { done <- loop.Start(ctx) }()
		time.Sleep(30 * time.Second)
		Wake(wake)
		Wake(wake)
		time.Sleep(30 * time.Second)
		stop()
		if err := <-done; err != nil {
			t.Errorf("Start() = %v", err)
		}
		want := []time.Duration{0, 0, 3 * time.Second, 13 * time.Second, 23 * time.Second, 31 * time.Second}
		if len(at) != len(want) {
			t.Fatalf("turns at %v, want %v", at, want)
		}
		for i := range want {
			if at[i] != want[i] {
				t.Errorf("turn %d at %s, want %s", i, at[i], want[i])
			}
		}
		if n := testutil.ToFloat64(metrics.Panics.WithLabelValues("test")); n != 1 || !loop.NeedLeaderElection() {
			t.Errorf("%v panics were counted, leader only: %v", n, loop.NeedLeaderElection())
		}
	})
}
