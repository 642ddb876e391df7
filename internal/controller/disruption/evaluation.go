package disruption

import (
	"context"
	"strings"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/dovetail-sh/dovetail/internal/disrupt"
	"github.com/dovetail-sh/dovetail/internal/metric"
)

// evaluator decides, measures how long that takes, and logs what does not run.
type evaluator struct {
	next    func(v disrupt.View, stop func() bool) disrupt.Decision
	metrics *metric.Set
	now     func() time.Time

	runs      disrupt.MethodRuns
	unreached []string // pools that consolidation did not reach in time
}

// decide evaluates a view. It measures each method that runs, and logs those that have not run for long
// (disruption 3, step 1).
func (e *evaluator) decide(ctx context.Context, view disrupt.View) disrupt.Decision {
	e.logLateMethods(ctx, view)
	var method disrupt.Method
	var began time.Time
	end := func(kind string) {
		if method.Name != "" {
			e.metrics.DisruptionEvaluationDuration.WithLabelValues(strings.ToLower(string(method.Reason)), kind).Observe(e.now().Sub(began).Seconds())
		}
	}
	view.OnMethod = func(m disrupt.Method) {
		end(method.Type)
		method, began = m, e.now()
		e.runs.Record(m.Name, began)
	}
	limits := newTimeBudgets(e.now)
	view.First, view.Joint, view.Single = e.unreached, limits.joint.exceeded, limits.single.exceeded
	decision := e.next(view, func() bool { return limits.whole.shouldStop(ctx) })
	kind := method.Type
	if len(decision.Commands) > 0 {
		kind = decision.Commands[0].Type
	}
	end(kind)
	e.reportTimeouts(ctx, limits, decision)
	e.unreached = disrupt.NextUnreached(e.unreached, method, &decision)
	return decision
}

// logLateMethods logs the methods that have not run for long.
func (e *evaluator) logLateMethods(ctx context.Context, view disrupt.View) {
	for _, late := range e.runs.LateMethods(disrupt.EnabledMethods(view.Methods), e.now()) {
		log.FromContext(ctx).V(1).Info("abnormal time between runs of disruption", "method", late.Method, "duration", late.After.Round(time.Second).String())
	}
}

// beginPass logs if the last pass is too long ago.
func (e *evaluator) beginPass(ctx context.Context) {
	if late, is := e.runs.BeginPass(e.now()); is {
		log.FromContext(ctx).V(1).Info("abnormal time between runs of disruption", "duration", late.After.Round(time.Second).String())
	}
}
