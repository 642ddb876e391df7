package disruption

import (
	"context"
	"sync"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/dovetail-sh/dovetail/internal/controller/loop"
	"github.com/dovetail-sh/dovetail/internal/disrupt"
)

// timeBudgets are the time budgets of one decision.
type timeBudgets struct{ joint, single, whole, validation *timeBudget }

func newTimeBudgets(now func() time.Time) timeBudgets {
	within := func(after time.Duration) *timeBudget { return &timeBudget{after: after, now: now} }
	return timeBudgets{joint: within(disrupt.JointTimeout), single: within(disrupt.SingleTimeout), whole: within(disrupt.DecisionTimeout), validation: within(disrupt.ValidationTimeout)}
}

// reportTimeouts counts and logs the time budgets that were exceeded.
func (e *evaluator) reportTimeouts(ctx context.Context, l timeBudgets, decision disrupt.Decision) {
	logger := log.FromContext(ctx).V(1)
	if l.joint.ranOut() {
		e.metrics.DisruptionTimeouts.WithLabelValues("multi").Inc()
		logger.Info("consolidating all nodes together took too long and was cut off; what was found is used, or a few nodes are tried at a time",
			"limit", disrupt.JointTimeout.String(), "commands", len(decision.Commands))
	}
	if l.single.ranOut() {
		e.metrics.DisruptionTimeouts.WithLabelValues("single").Inc()
		logger.Info("consolidating a few nodes at a time took too long and was cut off; what was found is used, and the next pass begins with these NodePools",
			"limit", disrupt.SingleTimeout.String(), "commands", len(decision.Commands), "NodePools", decision.Unreached)
	}
	if l.whole.ranOut() {
		logger.Info("deciding on disruption took too long and was cut off; what was found is used", "limit", disrupt.DecisionTimeout.String(), "commands", len(decision.Commands))
	}
}

// timeBudget is how long something may take, counted from its first check. It is safe for concurrent use.
type timeBudget struct {
	after time.Duration
	now   func() time.Time

	mu    sync.Mutex
	began time.Time
	over  bool
}

// exceeded reports whether the time is up. Once it is, it stays so.
func (l *timeBudget) exceeded() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.over {
		return true
	}
	now := l.now()
	if l.began.IsZero() {
		l.began = now
	}
	l.over = now.Sub(l.began) > l.after
	return l.over
}

// shouldStop reports whether to stop some work. Each call before the timeout counts as progress for liveness;
// calls after it do not.
func (l *timeBudget) shouldStop(ctx context.Context) bool {
	if ctx.Err() != nil || l.exceeded() {
		return true
	}
	loop.RecordProgress(ctx)
	return false
}

// ranOut reports whether the time ran out, without checking the clock.
func (l *timeBudget) ranOut() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.over
}
