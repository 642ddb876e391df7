package disrupt

import (
	"time"

	karpv1 "github.com/dovetail-sh/dovetail/api/v1"
)

// stalledAfter is the time without a run from which disruption counts as stalled (disruption 3, step 1).
const stalledAfter = 15 * time.Minute

// MethodRuns is when disruption and its methods last ran. The zero value is ready.
type MethodRuns struct {
	pass    time.Time
	methods map[string]time.Time
}

// LateRun is something that has not run for long.
type LateRun struct {
	Method string // empty: all of disruption
	After  time.Duration
}

// BeginPass records that a pass begins, and reports whether the last one is too long ago. Then no method is late:
// none of them could run.
func (r *MethodRuns) BeginPass(now time.Time) (late LateRun, is bool) {
	last := r.pass
	r.pass = now
	if after := now.Sub(last); !last.IsZero() && after > stalledAfter {
		r.methods = nil
		return LateRun{After: after}, true
	}
	return LateRun{}, false
}

// LateMethods returns the enabled methods that have not run for long, each once per such period. A method that never
// ran counts from the first call.
func (r *MethodRuns) LateMethods(enabled []Method, now time.Time) []LateRun {
	if r.methods == nil {
		r.methods = map[string]time.Time{}
	}
	var late []LateRun
	for _, m := range enabled {
		last, known := r.methods[m.Name]
		if after := now.Sub(last); known && after > stalledAfter {
			late = append(late, LateRun{Method: m.Name, After: after})
		} else if known {
			continue
		}
		r.methods[m.Name] = now
	}
	return late
}

// NextUnreached returns the pools that the next search of consolidation begins with, given those of this one, the method
// that ran last and its decision. A list counts until a search ends in time; other methods do not change it.
func NextUnreached(before []string, last Method, d *Decision) []string {
	if last.Reason != karpv1.ReasonUnderutilized || d.Partial && len(d.Unreached) == 0 {
		return before
	}
	return d.Unreached
}

// Record records that a method runs.
func (r *MethodRuns) Record(method string, now time.Time) {
	if r.methods == nil {
		r.methods = map[string]time.Time{}
	}
	r.methods[method] = now
}
