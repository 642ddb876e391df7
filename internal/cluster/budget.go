package cluster

import karpv1 "github.com/dovetail-sh/dovetail/api/v1"

// Budget is one entry of spec.disruption.budgets, as written. Empty texts and lists are absent ones. What it allows
// is decided by internal/budget.
type Budget struct {
	Nodes    string   // "0%" to "100%", or a number
	Reasons  []string // such as Empty or Unhealthy; none means all
	Schedule string   // cron, UTC; none means always
	Duration string   // how long a cron hit lasts; none means always
}

// Budgets reads the budgets of a pool.
func Budgets(list []karpv1.Budget) []Budget {
	out := make([]Budget, 0, len(list))
	for _, b := range list {
		entry := Budget{Nodes: b.Nodes.String()}
		for _, r := range b.Reasons {
			entry.Reasons = append(entry.Reasons, string(r))
		}
		if b.Schedule != nil {
			entry.Schedule = *b.Schedule
		}
		if b.Duration != nil {
			entry.Duration = string(*b.Duration)
		}
		out = append(out, entry)
	}
	return out
}
