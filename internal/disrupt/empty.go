package disrupt

import (
	"cmp"
	"slices"
	"strings"

	karpv1 "github.com/dovetail-sh/dovetail/api/v1"
	"github.com/dovetail-sh/dovetail/internal/cluster"
	"github.com/dovetail-sh/dovetail/internal/event"
	"github.com/dovetail-sh/dovetail/internal/reason"
)

// removeEmpty removes the nodes without pods that would have to move, as many as budgets allow (disruption 5, 8,
// 12). A node on which pending pods were placed does not count as empty.
func (d *Decision) removeEmpty(v *View, g *planningState) {
	var candidates []*cluster.ManagedNode
	for i := range v.Nodes {
		n := &v.Nodes[i]
		pool := v.Pools[n.Pool]
		if pool.Static || !isEmpty(n) || blocked(v, n, graceful) != nil {
			continue
		}
		switch {
		case pool.NeverConsolidate:
			d.reportUnconsolidatable(n, karpv1.ReasonEmpty, reason.Reason{Code: reason.ConsolidationOff, Have: pool.Name}, "")
		case n.Settling:
		case g.heldByBuffer(n.Name):
			d.reportUnconsolidatable(n, karpv1.ReasonEmpty, reason.Reason{Code: reason.BufferHeld}, "")
		case g.expectsPods(n.Name):
			d.addRefusal(Refused{Reason: karpv1.ReasonEmpty, Nodes: []string{n.Name}, Why: reason.Reason{Code: reason.NodeNominated, Subject: "node/" + n.Name}})
		default:
			candidates = append(candidates, n)
		}
	}
	d.Eligible[karpv1.ReasonEmpty] = len(candidates)
	sortBySavingPerMoveCost(candidates)
	left := d.remainingBudgets(karpv1.ReasonEmpty)
	c := Command{Reason: karpv1.ReasonEmpty, Type: "empty", Decision: Delete}
	for _, n := range candidates {
		if left[n.Pool] == 0 {
			d.refuseOverBudget(n, karpv1.ReasonEmpty)
			continue
		}
		left[n.Pool]--
		c.Remove = append(c.Remove, candidateOf(n))
		c.Saves += n.Price
		c.Frees += n.Frees
	}
	if len(c.Remove) > 0 {
		d.addCommand(c)
	}
}

// sortBySavingPerMoveCost sorts nodes by saving per cost of moving their pods, highest first (disruption 10).
func sortBySavingPerMoveCost(nodes []*cluster.ManagedNode) {
	slices.SortStableFunc(nodes, func(a, b *cluster.ManagedNode) int {
		return cmp.Or(cmp.Compare(b.Price/moveCost(b), a.Price/moveCost(a)), strings.Compare(a.Name, b.Name))
	})
}

// refuseOverBudget records that a budget prevents the disruption of a node.
func (d *Decision) refuseOverBudget(n *cluster.ManagedNode, cause karpv1.DisruptionReason) {
	d.Limited = true
	d.addRefusal(Refused{Reason: cause, Nodes: []string{n.Name}, Why: reason.Reason{Code: reason.BudgetSpent, Subject: "node/" + n.Name, Have: n.Pool, Want: string(cause)}})
}

// reportUnconsolidatable records that a node cannot be consolidated, and why.
func (d *Decision) reportUnconsolidatable(n *cluster.ManagedNode, cause karpv1.DisruptionReason, why reason.Reason, use string) {
	why.Subject = "node/" + n.Name
	d.addEvent(n, event.Unconsolidatable, why.Code, why.Text()+use)
	d.addRefusal(Refused{Reason: cause, Nodes: []string{n.Name}, Why: why})
}
