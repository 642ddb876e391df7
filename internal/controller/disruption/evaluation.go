package disruption

import (
	"context"
	"strings"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/log"

	karpv1 "github.com/dovetail-sh/dovetail/api/v1"
	"github.com/dovetail-sh/dovetail/internal/disrupt"
)

// decide evaluates a view. It measures each method that runs, and logs those that have not run for long
// (disruption 3, step 1).
func (d *Disruption) decide(ctx context.Context, view disrupt.View) disrupt.Decision {
	d.logLateMethods(ctx, view)
	var method disrupt.Method
	var began time.Time
	end := func(kind string) {
		if method.Name != "" {
			d.Metrics.DisruptionEvaluationDuration.WithLabelValues(strings.ToLower(string(method.Reason)), kind).Observe(d.Now().Sub(began).Seconds())
		}
	}
	view.OnMethod = func(m disrupt.Method) {
		end(method.Type)
		method, began = m, d.Now()
		d.lastRuns[m.Name] = began
	}
	limits := d.limits()
	view.First, view.Joint, view.Single = d.unreached, limits.joint.exceeded, limits.single.exceeded
	decision := d.Decide(view, func() bool { return limits.whole.shouldStop(ctx) })
	kind := method.Type
	if len(decision.Commands) > 0 {
		kind = decision.Commands[0].Type
	}
	end(kind)
	d.reportTimeouts(ctx, limits, decision)
	if method.Reason == karpv1.ReasonUnderutilized && (len(decision.Unreached) > 0 || !decision.Partial) {
		d.unreached = decision.Unreached // until a search ends in time
	}
	return decision
}

// logLateMethods logs the methods that have not run for long, once per such period. A method that never ran
// counts from the first pass.
func (d *Disruption) logLateMethods(ctx context.Context, view disrupt.View) {
	now := d.Now()
	if d.lastRuns == nil {
		d.lastRuns = map[string]time.Time{}
	}
	for _, m := range disrupt.EnabledMethods(view.Methods) {
		last, known := d.lastRuns[m.Name]
		if late := now.Sub(last); known && late > stalled {
			log.FromContext(ctx).V(1).Info("abnormal time between runs of disruption", "method", m.Name, "duration", late.Round(time.Second).String())
		} else if known {
			continue
		}
		d.lastRuns[m.Name] = now
	}
}
