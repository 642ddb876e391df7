package disrupt

import (
	"cmp"
	"slices"
	"strconv"
	"strings"
	"time"

	karpv1 "github.com/dovetail-sh/dovetail/api/v1"
	"github.com/dovetail-sh/dovetail/internal/cloud"
	"github.com/dovetail-sh/dovetail/internal/cluster"
	"github.com/dovetail-sh/dovetail/internal/event"
	"github.com/dovetail-sh/dovetail/internal/reason"
)

// maxReboots is per 24 hours. After that many reboots the node is replaced instead (V15-30).
const maxReboots = 2

// Diagnosis is the cause of a repair, for the log and the condition of the claim.
type Diagnosis struct {
	Condition string             `json:"condition"`
	Status    string             `json:"status"`
	Reason    string             `json:"reason,omitempty"`
	Regex     string             `json:"regex,omitempty"`
	Fallback  bool               `json:"fallback,omitempty"`
	Action    cloud.RepairAction `json:"action"` // as decided, after escalation
	Due       time.Time          `json:"due"`
	BoundBy   string             `json:"boundBy,omitempty"` // condition that set the bound of the drain
}

// repairCandidate is a node that is due for repair.
type repairCandidate struct {
	*cluster.ManagedNode
	repairVerdict
	escalated bool
}

// relocateFunc finds where the pods of a node could run instead. With slot, the slot of the node in its capacity
// reservation is free.
type relocateFunc func(n *cluster.ManagedNode, slot bool) relocation

// repairUnhealthy selects the most urgent unhealthy node and its repair action (V15-22 to V15-30). All of its
// pods must be schedulable elsewhere, including those that cannot be evicted now: repair forces them to leave.
func (d *Decision) repairUnhealthy(v *View, g *planningState) {
	if !v.Methods.Repair || v.Repairs == nil {
		return
	}
	d.startRepair(v, g.stop, func(n *cluster.ManagedNode, slot bool) relocation {
		if slot {
			return g.relocateAfterTermination(n, true)
		}
		return g.relocatePods(n, true)
	})
}

// startRepair adds at most one command.
func (d *Decision) startRepair(v *View, stop func() bool, find relocateFunc) {
	list := d.repairCandidates(v)
	d.Eligible[karpv1.ReasonUnhealthy] = len(list)
	if len(list) == 0 {
		return
	}
	left, b := d.remainingBudgets(karpv1.ReasonUnhealthy), newBreaker(v)
	for i := range list {
		p := &list[i]
		why := b.blockedReason(p.Pool)
		switch {
		case stop():
			return
		case why != "":
			d.addEvent(p.ManagedNode, event.NodeRepairBlocked, "", "Node "+p.Name+" is not repaired: "+why)
			d.Events = append(d.Events, ObjectEvent{Pool: p.Pool, Event: event.Event{Reason: event.NodeRepairBlocked, Text: "No node is repaired: " + why}})
		case p.Initialized && left[p.Pool] <= 0: // one that is not uses no budget (V15-16)
			d.refuseOverBudget(p.ManagedNode, karpv1.ReasonUnhealthy)
		case d.planRepair(v, p, find):
			return
		}
	}
}

// repairCandidates returns the nodes that are due and may be repaired, the most urgent first (V15-22).
func (d *Decision) repairCandidates(v *View) []repairCandidate {
	var list []repairCandidate
	for i := range v.Nodes {
		n := &v.Nodes[i]
		is, due := v.Repairs.mergeDueMatches(n, v.Now)
		if !due || n.Commanded {
			continue
		}
		if why := unrepairable(v, n, is); why != nil {
			d.reportBlocked(n, Refused{Reason: karpv1.ReasonUnhealthy, Why: *why})
			continue
		}
		p := repairCandidate{ManagedNode: n, repairVerdict: is}
		if is.action == cloud.RebootNode && n.Reboots >= maxReboots {
			p.action, p.escalated = cloud.ReplaceNode, true
		}
		list = append(list, p)
	}
	slices.SortStableFunc(list, func(a, b repairCandidate) int {
		return cmp.Or(cmp.Compare(b.score, a.score), cmp.Compare(repairCost(a.ManagedNode, v.Now), repairCost(b.ManagedNode, v.Now)), strings.Compare(a.Name, b.Name))
	})
	return list
}

// unrepairable returns what blocks the repair of a node that is due; nil if nothing does.
func unrepairable(v *View, n *cluster.ManagedNode, is repairVerdict) *reason.Reason {
	why := blocked(v, n, repairing)
	switch {
	case n.Pool == "":
		return &reason.Reason{Code: reason.PoolAbsent}
	case why != nil:
		return why
	case n.DoNotRepair: // V15-23
		return &reason.Reason{Code: reason.DoNotRepair}
	}
	if held := podBlockingDrain(n); held != nil && is.bound == nil && !n.Bounded { // V15-24
		return &reason.Reason{Code: reason.DrainUnbounded, Because: []reason.Reason{*held}}
	}
	return nil
}

// repairCost is the eviction cost of a repair, reduced for a node that would soon expire anyway.
func repairCost(n *cluster.ManagedNode, now time.Time) float64 {
	sum := 0.0
	for i := range n.Pods {
		if n.Pods[i].Moves {
			sum += n.Pods[i].EvictCost
		}
	}
	if n.ExpireAfter <= 0 {
		return sum
	}
	left := n.ExpireAfter - now.Sub(n.Created)
	return sum * min(1, max(0, float64(left)/float64(n.ExpireAfter)))
}

// planRepair adds the command that repairs a node. It reports whether the pass is over: a command was added, or
// time was up.
func (d *Decision) planRepair(v *View, p *repairCandidate, find relocateFunc) bool {
	c := Command{
		Reason: karpv1.ReasonUnhealthy, Decision: Reboot, Remove: []Candidate{candidateOf(p.ManagedNode)},
		Bound: p.drainBound(), Because: string(p.drives.Condition.Type), Repair: p.diagnosis(),
	}
	c.Remove[0].Escalated = p.escalated
	switch {
	case p.action == cloud.RebootNode:
		d.addCommand(c)
		return true
	case v.Pools[p.Pool].Static:
		return d.replaceStaticNode(v, p, c)
	case countMovingPods(p.ManagedNode) == 0:
		c.Decision, c.Saves = Delete, p.Price
		d.addCommand(c)
		return true
	}
	h := find(p.ManagedNode, false)
	switch {
	case !h.Known:
		return true
	case h.allPlaced():
		c.Decision, c.Create, c.Bind, c.Saves = Delete, h.Create, h.Bind, p.Price-h.Cost
		if len(h.Create) > 0 {
			c.Decision = Replace
		}
	default:
		freed := relocation{}
		if v.Methods.TerminateFirstRepair && p.CapacityType == karpv1.CapacityTypeReserved { // V15-47
			freed = find(p.ManagedNode, true)
		}
		if !freed.allPlaced() {
			d.reportBlocked(p.ManagedNode, Refused{Reason: karpv1.ReasonUnhealthy, Why: strandedReason(h.Unplaced)})
			return false
		}
		c.Decision, c.Because, c.Bind, c.Saves = TerminateFirst, NoReservedCapacity, freed.Bind, p.Price-freed.Cost
	}
	d.addCommand(c)
	return true
}

// replaceStaticNode replaces a node of a static pool one for one (V15-28, V15-48, V15-49). It reports whether a
// command was started.
func (d *Decision) replaceStaticNode(v *View, p *repairCandidate, c Command) bool {
	pool, first := v.Pools[p.Pool], v.Methods.TerminateFirstRepair
	stays := func(why reason.Reason) bool {
		d.reportBlocked(p.ManagedNode, Refused{Reason: karpv1.ReasonUnhealthy, Why: why})
		return false
	}
	offered, full := reservationsFull(&pool.Pool)
	have := pool.Running + countCommandedNodes(v, pool.Name)
	switch {
	case !v.Methods.Static: // no controller maintains the size of the pool
		return stays(reason.Reason{Code: reason.PoolClosed, Subject: "nodepool/" + pool.Name, Have: "it is static, and the feature gate StaticCapacity is off"})
	case have > pool.Replicas: // an earlier exchange or a scale-down is under way
		d.addRefusal(Refused{Reason: karpv1.ReasonUnhealthy, Nodes: []string{p.Name}, Why: reason.Reason{
			Code: reason.StaticSurplus, Subject: "node/" + p.Name, Have: strconv.FormatInt(have, 10), Want: strconv.FormatInt(pool.Replicas, 10),
		}})
		return false
	case !pool.Ready:
		return stays(reason.Reason{Code: reason.PoolClosed, Subject: "nodepool/" + pool.Name, Have: cluster.NotReady})
	case full && first && !offered[p.Reservation]:
		return stays(reason.Reason{Code: reason.ReservationsFull, Have: pool.Name})
	case full && first:
		c.Decision, c.Because = TerminateFirst, NoReservedCapacity
	case pool.MaxNodes < 0 || pool.Claims < pool.MaxNodes:
		c.Decision, c.Template = Replace, []string{pool.Name}
	case first:
		c.Decision, c.Because = TerminateFirst, StaticAtLimit
	default:
		return stays(reason.Reason{Code: reason.StaticAtLimit, Have: strconv.FormatInt(pool.Claims, 10) + " of " + strconv.FormatInt(pool.MaxNodes, 10), Want: pool.Name})
	}
	d.addCommand(c)
	return true
}

// drainBound is the maximum duration of the drain (V15-26); nil: only that of the claim applies.
func (p *repairCandidate) drainBound() *time.Duration {
	switch {
	case p.bound == nil:
		return nil
	case p.Bounded:
		return new(min(*p.bound.Policy.Bound, p.Bound))
	default:
		return new(*p.bound.Policy.Bound)
	}
}

// diagnosis returns the verdict for the log.
func (p *repairCandidate) diagnosis() *Diagnosis {
	m := p.drives
	out := &Diagnosis{
		Condition: string(m.Condition.Type), Status: string(m.Condition.Status), Reason: m.Condition.Reason,
		Regex: m.Policy.ReasonRegex, Fallback: m.Fallback, Action: p.action, Due: m.Due,
	}
	if p.bound != nil {
		out.BoundBy = string(p.bound.Condition.Type)
	}
	return out
}
