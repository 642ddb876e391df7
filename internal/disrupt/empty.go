package disrupt

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	karpv1 "github.com/dovetail-sh/dovetail/api/v1"
	"github.com/dovetail-sh/dovetail/internal/budget"
	"github.com/dovetail-sh/dovetail/internal/event"
)

// Node is what disruption knows of a node that is managed.
type Node struct {
	Name, Claim, Pool string
	Price             float64
	Ready             bool // as its kubelet says
	Initialized       bool
	Terminating       bool // its instance is on its way out
	Going             bool // being deleted, or marked for it by a running command
	Nominated         bool // a pending pod is expected
	Protected         bool // carries do-not-disrupt
	Consolidatable    bool
	Pods              []Pod // that have not ended
}

// Pod is what disruption knows of a pod on a node.
type Pod struct {
	Name      string // namespace/name
	Moves     bool   // needs another place when the node goes
	Protected bool   // do-not-disrupt is in force
	Budgets   []string
	Blocked   bool // its budgets allow no eviction now
	EvictCost float64
}

// Pool is what disruption knows of a pool.
type Pool struct {
	Name      string
	Static    bool
	Never     bool // consolidateAfter
	Protected bool // carries do-not-disrupt (L-15)
	Known     bool // it is clear what it could buy
	Budgets   []budget.Budget
}

// View is what one decision rests on.
type View struct {
	Now   time.Time
	Nodes []Node // by name
	Pools map[string]Pool
}

// Decision is which nodes go, and what is to be said about those that stay.
type Decision struct {
	Remove  []Node // in the order in which they are worth it
	Stay    []News
	Allowed map[string]int // budgets of the pools, before what already goes is taken off
	Busy    map[string]int // nodes that use up budgets
}

// News is something to tell about a node and its claim, or about a pool.
type News struct {
	Node, Claim, Pool string
	Event             event.Event
}

// Empty picks the nodes that hold no pod which would have to move, as many as budgets allow
// (disruption 5, 8, 12).
func Empty(v View) Decision {
	d := Decision{Allowed: map[string]int{}, Busy: map[string]int{}}
	left := d.budgets(v, string(karpv1.ReasonEmpty))
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
	for _, n := range candidates {
		if left[n.Pool] > 0 {
			left[n.Pool]--
			d.Remove = append(d.Remove, n)
		}
	}
	return d
}

// budgets works out how many nodes of each pool may go (disruption 8, V15-16).
func (d *Decision) budgets(v View, cause string) map[string]int {
	total := map[string]int{}
	for _, n := range v.Nodes {
		if !n.Initialized || n.Terminating {
			continue
		}
		total[n.Pool]++
		if n.Going || !n.Ready {
			d.Busy[n.Pool]++
		}
	}
	left := map[string]int{}
	for name, pool := range v.Pools {
		allowed, _ := budget.Limit(pool.Budgets, cause, total[name], v.Now)
		d.Allowed[name] = allowed
		left[name] = max(0, allowed-d.Busy[name])
		if allowed == 0 && total[name] > 0 {
			d.Stay = append(d.Stay, News{Pool: name, Event: event.Event{
				Reason: event.DisruptionBlocked, Key: cause, Text: fmt.Sprintf("No disruption for reason %s is allowed: a budget of the NodePool says 0", cause),
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
