package disruption

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"k8s.io/klog/v2"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/dovetail-sh/dovetail/internal/disrupt"
)

// logRepairDiagnosis writes what a repair rests on into the log (V15-31).
func logRepairDiagnosis(ctx context.Context, c disrupt.Command) {
	if c.Repair == nil {
		return
	}
	d := c.Repair
	fields := []any{
		"Node", klog.KRef("", c.Remove[0].Node), "condition", d.Condition, "status", d.Status, "reason", d.Reason, "reason-regex", d.Regex,
		"fallback", d.Fallback, "action", string(d.Action), "eligible-at", d.Due.UTC().Format(time.RFC3339),
	}
	if c.Bound != nil {
		fields = append(fields, "termination-grace-period", c.Bound.String(), "termination-grace-period-condition", d.BoundBy)
	}
	log.FromContext(ctx).Info("selected repair policy", fields...)
}

// repairLog logs at debug level which policies nodes match when that changes (V15-31).
// The zero value is ready.
type repairLog struct {
	mu    sync.Mutex
	known map[string]string // what each unhealthy node matched, by name
}

// logPolicyChanges compares the nodes of a view with the last one.
func (l *repairLog) logPolicyChanges(ctx context.Context, v disrupt.View) {
	if !v.Methods.Repair || v.Repairs == nil {
		return
	}
	logger := log.FromContext(ctx).V(1)
	l.mu.Lock()
	defer l.mu.Unlock()
	now := map[string]string{}
	for i := range v.Nodes {
		n := &v.Nodes[i]
		matches := v.Repairs.Matches(n)
		if len(matches) == 0 {
			continue
		}
		if now[n.Name] = matchKey(matches); now[n.Name] == l.known[n.Name] {
			continue
		}
		for _, m := range matches {
			logger.Info("matched repair policy", "Node", klog.KRef("", n.Name), "condition", m.Condition.Type, "status", m.Condition.Status, "reason", m.Condition.Reason,
				"reason-regex", m.Policy.ReasonRegex, "fallback", m.Fallback, "action", m.Policy.Action, "eligible-at", m.Due.UTC().Format(time.RFC3339))
		}
	}
	for _, name := range slices.Sorted(maps.Keys(l.known)) {
		if now[name] == "" {
			logger.Info("no repair policy matches any more", "Node", klog.KRef("", name))
		}
	}
	l.known = now
}

// matchKey distinguishes one list of matches from another, whatever the order of the conditions.
func matchKey(list []disrupt.Match) string {
	lines := make([]string, 0, len(list))
	for _, m := range list {
		lines = append(lines, fmt.Sprintf("%s=%s %s %s %s", m.Condition.Type, m.Condition.Status, m.Condition.Reason, m.Policy.ReasonRegex, m.Due))
	}
	slices.Sort(lines)
	return strings.Join(lines, "\n")
}
