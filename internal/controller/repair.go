package controller

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/klog/v2"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	karpv1 "github.com/dovetail-sh/dovetail/api/v1"
	disruption "github.com/dovetail-sh/dovetail/internal/disrupt"
	"github.com/dovetail-sh/dovetail/internal/lifecycle"
	"github.com/dovetail-sh/dovetail/internal/metric"
	"github.com/dovetail-sh/dovetail/internal/reboot"
)

// Commit carries out a command that reboots a node: it only writes the request down, Reconcile does the
// rest (V15-34). A claim that goes or reboots already is left alone; what was decided rests on an old
// view then, and the error is a conflict, as it is if somebody writes the claim meanwhile.
func (r *Reboots) Commit(ctx context.Context, c disruption.Command) error {
	n := c.Remove[0]
	claim := &karpv1.NodeClaim{}
	if err := r.Client.Get(ctx, client.ObjectKey{Name: n.Claim}, claim); err != nil {
		return client.IgnoreNotFound(err)
	}
	want, ok := reboot.Request(claim, c.Bound, c.Cause(), r.Now())
	if !ok {
		return apierrors.NewConflict(schema.GroupResource{Group: karpv1.Group, Resource: "nodeclaims"}, n.Claim, errors.New("it goes or reboots already"))
	}
	// The bound first: a request without it would drain for ever.
	after, err := r.write(ctx, claim, want, false)
	if err != nil {
		return fmt.Errorf("request a reboot: %w", err)
	}
	r.Store.Rebooted(claim.UID)
	countRepaired(r.Metrics, after, c, c.Bound)
	log.FromContext(ctx).Info("committed node reboot", "Node", klog.KRef("", n.Node), "NodeClaim", klog.KRef("", n.Claim), "cause", c.Cause())
	return nil
}

// countRepaired counts a claim that repair removes, or hands over to a reboot (V15-32). How hard it is follows from
// the bound of its drain, and without one from the claim.
func countRepaired(m *metric.Set, claim *karpv1.NodeClaim, c disruption.Command, bound *time.Duration) {
	mode := lifecycle.TerminationMode(claim)
	switch {
	case bound == nil:
	case *bound <= 0:
		mode = "forceful"
	default:
		mode = "eventual"
	}
	m.NodeClaimsUnhealthyDisrupted.WithLabelValues(unhealthyConditionOf(c), claim.Labels[karpv1.LabelNodePool], claim.Labels[karpv1.LabelCapacityType], claim.Status.ImageID, mode).Inc()
}

// unhealthyConditionOf is the condition that a node is repaired for, as metrics name it.
func unhealthyConditionOf(c disruption.Command) string {
	if c.Repair != nil {
		return snake(c.Repair.Condition)
	}
	return snake(c.Because)
}

// logRepairDiagnosis writes what a repair rests on into the log (V15-31).
func logRepairDiagnosis(ctx context.Context, c disruption.Command) {
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

// repairLog tells, for those who look closely, which policies nodes match when that changes (V15-31).
// The zero value is ready.
type repairLog struct {
	mu    sync.Mutex
	known map[string]string // what each unhealthy node matched, by name
}

// logPolicyChanges compares the nodes of a view with the last one.
func (l *repairLog) logPolicyChanges(ctx context.Context, v disruption.View) {
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

// matchKey tells one list of matches from another, whatever the order of the conditions.
func matchKey(list []disruption.Match) string {
	lines := make([]string, 0, len(list))
	for _, m := range list {
		lines = append(lines, fmt.Sprintf("%s=%s %s %s %s", m.Condition.Type, m.Condition.Status, m.Condition.Reason, m.Policy.ReasonRegex, m.Due))
	}
	slices.Sort(lines)
	return strings.Join(lines, "\n")
}
