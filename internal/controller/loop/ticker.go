package loop

import (
	"context"
	"fmt"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/dovetail-sh/dovetail/internal/metric"
)

// Ticker runs a pass at once and then again and again, on the leader only. A pass that fails or panics
// is logged, and the next one comes as usual.
type Ticker struct {
	Name  string // of the controller, for the log
	Every time.Duration
	Pass  func(context.Context) error

	Metrics *metric.Set // counts panics; nil: they are not counted
}

// NeedLeaderElection says that only the leader runs it.
func (*Ticker) NeedLeaderElection() bool { return true }

// Start runs until the context ends.
func (t *Ticker) Start(ctx context.Context) error {
	ctx = log.IntoContext(ctx, log.FromContext(ctx).WithValues("controller", t.Name))
	if t.Metrics != nil {
		t.Metrics.Panics.WithLabelValues(t.Name) // shows 0 from the start
	}
	tick := time.NewTicker(t.Every)
	defer tick.Stop()
	for {
		if err := t.RunOnce(ctx); err != nil && ctx.Err() == nil {
			log.FromContext(ctx).Error(err, "Reconciler error")
		}
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
	}
}

// RunOnce makes one pass. A panic is counted and returned as an error.
func (t *Ticker) RunOnce(ctx context.Context) (err error) {
	defer func() {
		if recovered := recover(); recovered != nil {
			err = fmt.Errorf("panic: %v", recovered)
			if t.Metrics != nil {
				t.Metrics.Panics.WithLabelValues(t.Name).Inc()
			}
		}
	}()
	return t.Pass(ctx)
}
