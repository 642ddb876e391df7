package controller

import (
	"context"
	"fmt"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/dovetail-sh/dovetail/internal/metric"
)

// ticker runs a pass at once and then again and again, on the leader only. A pass that fails or panics
// is logged, and the next one comes as usual.
type ticker struct {
	name  string // of the controller, for the log
	every time.Duration
	pass  func(context.Context) error

	metrics *metric.Set // counts panics; nil: nobody does
}

// NeedLeaderElection says that only the leader runs it.
func (*ticker) NeedLeaderElection() bool { return true }

// Start runs until the context ends.
func (t *ticker) Start(ctx context.Context) error {
	ctx = log.IntoContext(ctx, log.FromContext(ctx).WithValues("controller", t.name))
	if t.metrics != nil {
		t.metrics.Panics.WithLabelValues(t.name) // shows 0 from the start
	}
	tick := time.NewTicker(t.every)
	defer tick.Stop()
	for {
		if err := t.runOnce(ctx); err != nil && ctx.Err() == nil {
			log.FromContext(ctx).Error(err, "Reconciler error")
		}
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
	}
}

func (t *ticker) runOnce(ctx context.Context) (err error) {
	defer func() {
		if recovered := recover(); recovered != nil {
			err = fmt.Errorf("panic: %v", recovered)
			if t.metrics != nil {
				t.metrics.Panics.WithLabelValues(t.name).Inc()
			}
		}
	}()
	return t.pass(ctx)
}
