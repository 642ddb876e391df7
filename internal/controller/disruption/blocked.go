package disruption

import (
	"github.com/dovetail-sh/dovetail/internal/disrupt"
	"github.com/dovetail-sh/dovetail/internal/metric"
)

// setBlockedMetrics sets the gauge of nodes whose disruption is blocked. Causes without nodes have no series
// (FM N03).
func (r *reporter) setBlockedMetrics(view disrupt.View) {
	r.metrics.DisruptionBlockedNodes.Reset()
	// any order: each has a series of its own
	for pool, codes := range disrupt.Blocked(view) {
		// any order: each has a series of its own
		for code, n := range codes {
			r.metrics.DisruptionBlockedNodes.WithLabelValues(pool, metric.SnakeCase(string(code))).Set(float64(n))
		}
	}
}
