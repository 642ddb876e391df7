package disrupt

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	karpv1 "github.com/dovetail-sh/dovetail/api/v1"
	"github.com/dovetail-sh/dovetail/internal/budget"
	"github.com/dovetail-sh/dovetail/internal/event"
)

// Next decides what is to be done now. It is total and depends on nothing but the view; stop is polled
// while simulations run, and once it says true what was decided is kept.
func Next(v View, _ func() bool) Decision {
	d := Decision{At: v.Now, Allowed: map[karpv1.DisruptionReason]map[string]int{}, Busy: map[karpv1.DisruptionReason]map[string]int{}, Eligible: map[karpv1.DisruptionReason]int{}}
	d.empty(v)
	return d
}

// empty removes the nodes that hold no pod which would have to move, as many as budgets allow
// (disruption 5, 8, 12).
func (d *Decision) empty(v View) {
	left := d.budgets(v, karpv1.ReasonEmpty)
	var candidates []Node
	for _, n := range v.Nodes {
		pool, known := v.Pools[n.Pool]
		if !known || pool.Static || !n.empty() {
			continue
		}
		if why := blocked(n, pool); why != "" {
			d.Stay = append(d.Stay, News{Node: n.Name, Claim: n.Claim, Event: event.Event{Reason: event.DisruptionBlocked, Text: why}})
			continue
		}
		if pool.Never {
			d.Stay = append(d.Stay, News{Node: n.Name, Claim: n.Claim, Event: event.Event{
				Reason: event.Unconsolidatable, Text: "NodePool " + pool.Name + " has consolidateAfter Never: its nodes are not consolidated",
			}})
			continue
		}
		if n.Consolidatable {
			candidates = append(candidates, n)
		}
	}
	slices.SortStableFunc(candidates, func(a, b Node) int { return cmp.Or(cmp.Compare(b.Price, a.Price), strings.Compare(a.Name, b.Name)) })
	d.Eligible[karpv1.ReasonEmpty] = len(candidates)
	c := Command{Reason: karpv1.ReasonEmpty, Type: "empty", Decision: Delete, Decided: v.Now}
	for _, n := range candidates {
		if left[n.Pool] > 0 {
			left[n.Pool]--
			c.Remove = append(c.Remove, n.candidate())
			c.Saves += n.Price
			c.Cost += n.moveCost()
		}
	}
	if len(c.Remove) > 0 {
		c.ID = c.id()
		d.Commands = append(d.Commands, c)
	}
}

// budgets works out how many nodes of each pool may go (disruption 8, V15-16).
func (d *Decision) budgets(v View, cause karpv1.DisruptionReason) map[string]int {
	total, busy, most := map[string]int{}, map[string]int{}, map[string]int{}
	d.Allowed[cause], d.Busy[cause] = most, busy
	for _, n := range v.Nodes {
		if !n.Initialized || n.Terminating {
			continue
		}
		total[n.Pool]++
		if n.Going || !n.Ready {
			busy[n.Pool]++
		}
	}
	left := map[string]int{}
	for name, pool := range v.Pools {
		allowed, _ := budget.Limit(pool.Budgets, string(cause), total[name], v.Now)
		most[name] = allowed
		left[name] = max(0, allowed-busy[name])
		if allowed == 0 && total[name] > 0 {
			d.Stay = append(d.Stay, News{Pool: name, Event: event.Event{
				Reason: event.DisruptionBlocked, Key: string(cause), Text: fmt.Sprintf("No disruption for reason %s is allowed: a budget of the NodePool says 0", cause),
			}})
		}
	}
	slices.SortFunc(d.Stay, func(a, b News) int { return strings.Compare(a.Pool, b.Pool) })
	return left
}

// empty reports whether no pod would have to move (disruption 10).
func (n *Node) empty() bool {
	return !slices.ContainsFunc(n.Pods, func(p Pod) bool { return p.Moves && p.EvictCost > 0 })
}

// blocked says what keeps a node from being disrupted, in the order of disruption 5 and V15-14.
func blocked(n Node, pool Pool) string {
	switch {
	case n.Going:
		return "The node is already on its way out"
	case !n.Initialized:
		return "The node is not initialized yet"
	case n.Nominated:
		return "A pending pod is expected on the node"
	case n.Protected:
		return "The node carries annotation " + karpv1.AnnotationDoNotDisrupt
	case pool.Protected:
		return "NodePool " + pool.Name + " carries annotation " + karpv1.AnnotationDoNotDisrupt
	case !pool.Known:
		return "The instance types of NodePool " + pool.Name + " cannot be resolved"
	}
	for _, p := range n.Pods {
		if p.Protected {
			return "Pod " + p.Name + " carries annotation " + karpv1.AnnotationDoNotDisrupt
		}
	}
	for _, p := range n.Pods {
		switch {
		case len(p.Budgets) > 1:
			return "Pod " + p.Name + " is selected by more than one PodDisruptionBudget, which the eviction API refuses: " + strings.Join(p.Budgets, ", ")
		case p.Blocked:
			return "PodDisruptionBudget " + strings.Join(p.Budgets, "") + " allows no eviction of pod " + p.Name
		}
	}
	return ""
}
