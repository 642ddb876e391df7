package controller

import (
	"context"
	"sync"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/log"

	disruption "github.com/dovetail-sh/dovetail/internal/disrupt"
)

// How long deciding may take (disruption 13 and 14, decision 0025). What was found until then is used.
const (
	longestJoint    = time.Minute      // consolidating all nodes together
	longestSingle   = 3 * time.Minute  // consolidating a few nodes at a time, and saying why nodes stay
	longestDecision = 15 * time.Minute // all methods; a decision that goes on after that is stuck
	longestLook     = time.Minute      // judging moves again on what is true by then
)

// limits are the times of one decision.
type limits struct{ joint, single, whole, look *limit }

func (d *Disruption) limits() limits {
	within := func(after time.Duration) *limit { return &limit{after: after, now: d.Now} }
	return limits{joint: within(longestJoint), single: within(longestSingle), whole: within(longestDecision), look: within(longestLook)}
}

// timedOut counts and tells what ran out of time.
func (d *Disruption) timedOut(ctx context.Context, l limits, decision disruption.Decision) {
	logger := log.FromContext(ctx).V(1)
	if l.joint.ran() {
		d.Metrics.DisruptionTimeouts.WithLabelValues("multi").Inc()
		logger.Info("consolidating all nodes together took too long and was cut off; what was found is used, or a few nodes are tried at a time",
			"limit", longestJoint.String(), "commands", len(decision.Commands))
	}
	if l.single.ran() {
		d.Metrics.DisruptionTimeouts.WithLabelValues("single").Inc()
		logger.Info("consolidating a few nodes at a time took too long and was cut off; what was found is used, and the next pass begins with these NodePools",
			"limit", longestSingle.String(), "commands", len(decision.Commands), "NodePools", decision.Unreached)
	}
	if l.whole.ran() {
		logger.Info("deciding on disruption took too long and was cut off; what was found is used", "limit", longestDecision.String(), "commands", len(decision.Commands))
	}
}

// limit is how long something may take, counted from when it is first asked about. It is safe for concurrent use.
type limit struct {
	after time.Duration
	now   func() time.Time

	mu    sync.Mutex
	began time.Time
	over  bool
}

// up reports whether time is up. Once it is it stays so.
func (l *limit) up() bool {
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

// stop reports whether to end some work. It is asked again and again meanwhile, which shows that the work advances; being
// asked after time was up shows nothing.
func (l *limit) stop(ctx context.Context) bool {
	if ctx.Err() != nil || l.up() {
		return true
	}
	beat(ctx)
	return false
}

// ran reports whether time ran out.
func (l *limit) ran() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.over
}
