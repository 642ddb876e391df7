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

// FM D12: a loop goes on after a pass that failed or panicked, and ends with its context.
func TestTicker(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		ctx, stop := context.WithCancel(t.Context())
		start, passes := time.Now(), []time.Duration{}
		metrics := metric.New(prometheus.NewRegistry())
		loop := &Ticker{Name: "test", Every: 5 * time.Second, Metrics: metrics, Pass: func(context.Context) error {
			passes = append(passes, time.Since(start))
			switch len(passes) {
			case 1:
				return errors.New("no response")
			case 2:
				panic("bug")
			}
			return nil
		}}
		done := make(chan error)
		go func() { done <- loop.Start(ctx) }()
		time.Sleep(16 * time.Second)
		stop()
		if err := <-done; err != nil {
			t.Errorf("Start() = %v", err)
		}
		if len(passes) != 4 || passes[0] != 0 || passes[3] != 15*time.Second {
			t.Errorf("passes at %v, want one at once and then every 5 s", passes)
		}
		if n := testutil.ToFloat64(metrics.Panics.WithLabelValues("test")); n != 1 {
			t.Errorf("%v panics were counted, want 1", n)
		}
		if !loop.NeedLeaderElection() {
			t.Error("it runs on every replica")
		}
	})
}
