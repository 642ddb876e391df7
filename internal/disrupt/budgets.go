package disrupt

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	karpv1 "github.com/dovetail-sh/dovetail/api/v1"
	"github.com/dovetail-sh/dovetail/internal/budget"
	"github.com/dovetail-sh/dovetail/internal/cluster"
	"github.com/dovetail-sh/dovetail/internal/event"
	"github.com/dovetail-sh/dovetail/internal/reason"
)

const maxBudgetErrors = 3 // fields of budgets that an event names

// disruptionReasons are the reasons for voluntary disruption, in the order in which they are tried.
func disruptionReasons() []karpv1.DisruptionReason {
	return []karpv1.DisruptionReason{karpv1.ReasonUnhealthy, karpv1.ReasonEmpty, karpv1.ReasonDrifted, karpv1.ReasonUnderutilized}
}

// computeBudgets computes how many nodes of each pool may be disrupted for each reason (disruption 8, V15-16).
func (d *Decision) computeBudgets(v *View) {
	total := map[string]int{}
	for i := range v.Nodes {
		if countsTowardBudget(&v.Nodes[i]) {
			total[v.Nodes[i].Pool]++
		}
	}
	for _, cause := range disruptionReasons() {
		d.Allowed[cause], d.Busy[cause] = map[string]int{}, map[string]int{}
		for i := range v.Nodes {
			if n := &v.Nodes[i]; countsTowardBudget(n) && usesBudget(n, cause) {
				d.Busy[cause][n.Pool]++
			}
		}
		for _, name := range slices.Sorted(maps.Keys(v.Pools)) {
			allowed, broken := budget.Limit(v.Pools[name].Budgets, string(cause), total[name], v.Now)
			d.Allowed[cause][name] = allowed
			if allowed == 0 && total[name] > 0 && (cause != karpv1.ReasonUnhealthy || v.Methods.Repair) {
				why := "a budget of the NodePool says 0"
				if len(broken) > 0 {
					why = "correct the budgets of the NodePool: " + reason.Join(broken, maxBudgetErrors)
				}
				d.Events = append(d.Events, ObjectEvent{Pool: name, Event: event.Event{
					Reason: event.DisruptionBlocked, Key: string(cause), Text: fmt.Sprintf("No disruption for reason %s is allowed: %s", cause, why),
				}})
			}
		}
	}
}

// InvalidBudgets returns the pools with budgets that cannot be read, by name, and what is wrong with them. None of their
// nodes is disrupted.
func InvalidBudgets(v *View) (pools []string, text string) {
	var texts []string
	for _, name := range slices.Sorted(maps.Keys(v.Pools)) {
		if _, broken := budget.Limit(v.Pools[name].Budgets, string(karpv1.ReasonEmpty), 0, v.Now); len(broken) > 0 {
			pools, texts = append(pools, name), append(texts, name+": "+reason.Join(broken, len(broken)))
		}
	}
	return pools, strings.Join(texts, "; ")
}

// countsTowardBudget reports whether a node is part of the total that percentages refer to. A rebooting node is,
// although it is not initialized. Other uninitialized nodes are not: a replacement must not raise the budget.
func countsTowardBudget(n *cluster.ManagedNode) bool {
	return (n.Initialized || n.Rebooting) && !n.Terminating
}

// usesBudget reports whether a node already uses the budget of a reason. Nodes that are not ready do, except for
// repair: otherwise many unhealthy nodes would block each other's repair.
func usesBudget(n *cluster.ManagedNode, cause karpv1.DisruptionReason) bool {
	return n.BeingRemoved || n.Commanded || n.Rebooting || !n.Ready && cause != karpv1.ReasonUnhealthy
}

// remainingBudgets returns how many more nodes of each pool may be disrupted for a reason.
func (d *Decision) remainingBudgets(cause karpv1.DisruptionReason) map[string]int {
	left := make(map[string]int, len(d.Allowed[cause]))
	for name, allowed := range d.Allowed[cause] {
		left[name] = max(0, allowed-d.Busy[cause][name])
	}
	return left
}

// Remaining returns how many more nodes of each pool may be disrupted for a reason, on a view newer than the
// decision. Nodes in mine do not count as part of a command.
func Remaining(v View, cause karpv1.DisruptionReason, mine map[string]bool) map[string]int {
	v.Nodes = slices.Clone(v.Nodes)
	for i := range v.Nodes {
		if n := &v.Nodes[i]; mine[n.Claim] {
			n.Commanded = false
		}
	}
	d := Decision{Allowed: map[karpv1.DisruptionReason]map[string]int{}, Busy: map[karpv1.DisruptionReason]map[string]int{}}
	d.computeBudgets(&v)
	return d.remainingBudgets(cause)
}

// OverBudget returns the nodes that exceed the budgets, by index of their command (disruption 16, G5). Commands
// are considered in order. An Empty command only loses the nodes that exceed a budget; any other command is
// rejected as a whole.
func OverBudget(list []Command, fresh View) map[int][]Objection {
	open, now, out := map[string]bool{}, byClaim(fresh.Nodes), map[int][]Objection{}
	for i := range list {
		for j := range list[i].Remove {
			open[list[i].Remove[j].Claim] = true
		}
	}
	for i := range list {
		c := &list[i]
		left := Remaining(fresh, c.Reason, open)
		for _, n := range c.Remove {
			if is := now[n.Claim]; is == nil || !countsTowardBudget(is) { // it uses no budget (V15-16)
				continue
			}
			if left[n.Pool]--; left[n.Pool] < 0 {
				out[i] = append(out[i], Objection{n, Budget, "the budget of NodePool " + n.Pool + " is spent"})
			}
		}
		for _, n := range c.Remove { // disrupted nodes use the budget of later commands
			stays := len(out[i]) > 0 && c.Reason != karpv1.ReasonEmpty
			if !stays && !slices.ContainsFunc(out[i], func(o Objection) bool { return o.Claim == n.Claim }) {
				delete(open, n.Claim)
			}
		}
	}
	return out
}
