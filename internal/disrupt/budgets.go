package disrupt

import (
	"fmt"
	"maps"
	"slices"

	karpv1 "github.com/dovetail-sh/dovetail/api/v1"
	"github.com/dovetail-sh/dovetail/internal/budget"
	"github.com/dovetail-sh/dovetail/internal/event"
)

// causes are the reasons for which nodes go, in the order in which they have their turn.
func causes() []karpv1.DisruptionReason {
	return []karpv1.DisruptionReason{karpv1.ReasonUnhealthy, karpv1.ReasonEmpty, karpv1.ReasonDrifted, karpv1.ReasonUnderutilized}
}

// budgets works out how many nodes of each pool may go for each reason (disruption 8, V15-16).
func (d *Decision) budgets(v *View) {
	total := map[string]int{}
	for i := range v.Nodes {
		if v.Nodes[i].counts() {
			total[v.Nodes[i].Pool]++
		}
	}
	for _, cause := range causes() {
		d.Allowed[cause], d.Busy[cause] = map[string]int{}, map[string]int{}
		for i := range v.Nodes {
			if n := &v.Nodes[i]; n.counts() && n.busy(cause) {
				d.Busy[cause][n.Pool]++
			}
		}
		for _, name := range slices.Sorted(maps.Keys(v.Pools)) {
			allowed, _ := budget.Limit(v.Pools[name].Budgets, string(cause), total[name], v.Now)
			d.Allowed[cause][name] = allowed
			if allowed == 0 && total[name] > 0 && (cause != karpv1.ReasonUnhealthy || v.Methods.Repair) {
				d.Stay = append(d.Stay, News{Pool: name, Event: event.Event{
					Reason: event.DisruptionBlocked, Key: string(cause), Text: fmt.Sprintf("No disruption for reason %s is allowed: a budget of the NodePool says 0", cause),
				}})
			}
		}
	}
}

// counts reports whether a node is part of what budgets are a share of. One that reboots is, although
// it is not initialized meanwhile; others that are not are not: a replacement must not inflate a share.
func (n *Node) counts() bool { return (n.Initialized || n.Rebooting) && !n.Terminating }

// busy reports whether a node uses a budget up. Nodes that are not ready do, except for repair: else
// many sick nodes would keep each other from being repaired.
func (n *Node) busy(cause karpv1.DisruptionReason) bool {
	return n.Going || n.Commanded || n.Rebooting || !n.Ready && cause != karpv1.ReasonUnhealthy
}

// left returns how many more nodes of each pool may go for a reason.
func (d *Decision) left(cause karpv1.DisruptionReason) map[string]int {
	left := make(map[string]int, len(d.Allowed[cause]))
	for name, allowed := range d.Allowed[cause] {
		left[name] = max(0, allowed-d.Busy[cause][name])
	}
	return left
}
