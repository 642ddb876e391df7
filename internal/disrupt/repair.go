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

// mostReboots in 24 hours: after so many a reboot does not help, and the node is replaced (V15-30).
const mostReboots = 2

// Diagnosis is what a repair rests on, for the log and the condition of the claim.
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

// patient is a node that something is to be done about.
type patient struct {
	*Node
	verdict
	escalated bool
}

// resettle finds out where the pods of a node would live without it. With slot, the place that the node
// has in its reservation is free then.
type resettle func(n *Node, slot bool) home

// repair picks the one sick node that is in most need, and what helps it (V15-22 to V15-30). All of its
// pods have to find a place, also those that are held now: they are made to leave.
func (d *Decision) repair(v *View, g *ground) {
	if !v.Methods.Repair || v.Repairs == nil {
		return
	}
	d.cure(v, g.stop, func(n *Node, slot bool) home {
		if slot {
			return g.vacated(n, true)
		}
		return g.without(n, true)
	})
}

// cure starts one command at most.
func (d *Decision) cure(v *View, stop func() bool, find resettle) {
	list := d.patients(v)
	d.Eligible[karpv1.ReasonUnhealthy] = len(list)
	if len(list) == 0 {
		return
	}
	left, b := d.left(karpv1.ReasonUnhealthy), newBreaker(v)
	for i := range list {
		p := &list[i]
		why := b.stops(p.Pool)
		switch {
		case stop():
			return
		case why != "":
			d.say(p.Node, event.NodeRepairBlocked, "", "Node "+p.Name+" is not repaired: "+why)
			d.Stay = append(d.Stay, News{Pool: p.Pool, Event: event.Event{Reason: event.NodeRepairBlocked, Text: "No node is repaired: " + why}})
		case p.Initialized && left[p.Pool] <= 0: // one that is not uses no budget (V15-16)
			d.limited(p.Node, karpv1.ReasonUnhealthy)
		case d.treat(v, p, find):
			return
		}
	}
}

// patients are the nodes that are due and may be repaired, those in most need first (V15-22).
func (d *Decision) patients(v *View) []patient {
	var list []patient
	for i := range v.Nodes {
		n := &v.Nodes[i]
		is, due := v.Repairs.judge(n, v.Now)
		if !due || n.Commanded {
			continue
		}
		if why := unrepairable(v, n, is); why != nil {
			d.blockedBy(n, Refused{Reason: karpv1.ReasonUnhealthy, Why: *why})
			continue
		}
		p := patient{Node: n, verdict: is}
		if is.action == cloud.RebootNode && n.Reboots >= mostReboots {
			p.action, p.escalated = cloud.ReplaceNode, true
		}
		list = append(list, p)
	}
	slices.SortStableFunc(list, func(a, b patient) int {
		return cmp.Or(cmp.Compare(b.score, a.score), cmp.Compare(a.toll(v.Now), b.toll(v.Now)), strings.Compare(a.Name, b.Name))
	})
	return list
}

// unrepairable says what keeps a node that is due from being repaired; nil if nothing does.
func unrepairable(v *View, n *Node, is verdict) *reason.Reason {
	why := blocked(v, n, repairing)
	switch {
	case n.Pool == "":
		return &reason.Reason{Code: reason.PoolAbsent}
	case why != nil:
		return why
	case n.Unrepaired: // V15-23
		return &reason.Reason{Code: reason.DoNotRepair}
	}
	if held := holding(n); held != nil && is.bound == nil && !n.Bounded { // V15-24
		return &reason.Reason{Code: reason.DrainUnbounded, Because: []reason.Reason{*held}}
	}
	return nil
}

// toll is what a repair costs the workloads: little for a node that would soon expire anyway.
func (n *Node) toll(now time.Time) float64 {
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

// treat does what helps a node. It reports whether the pass is over: a command was started, or there
// was no time to find one.
func (d *Decision) treat(v *View, p *patient, find resettle) bool {
	c := Command{
		Reason: karpv1.ReasonUnhealthy, Decision: Reboot, Remove: []Candidate{p.candidate()},
		Bound: p.applied(), Because: string(p.drives.Condition.Type), Repair: p.diagnosis(),
	}
	c.Remove[0].Escalated = p.escalated
	switch {
	case p.action == cloud.RebootNode:
		d.start(c)
		return true
	case v.Pools[p.Pool].Static:
		return d.exchange(v, p, c)
	case p.moving() == 0:
		c.Decision, c.Saves = Delete, p.Price
		d.start(c)
		return true
	}
	h := find(p.Node, false)
	switch {
	case !h.Known:
		return true
	case h.ok():
		c.Decision, c.Create, c.Bind, c.Saves = Delete, h.Create, h.Bind, p.Price-h.Cost
		if len(h.Create) > 0 {
			c.Decision = Replace
		}
	default:
		freed := home{}
		if v.Methods.TerminateFirstRepair && p.CapacityType == karpv1.CapacityTypeReserved { // V15-47
			freed = find(p.Node, true)
		}
		if !freed.ok() {
			d.blockedBy(p.Node, Refused{Reason: karpv1.ReasonUnhealthy, Why: stranded(h.Lost)})
			return false
		}
		c.Decision, c.Because, c.Bind, c.Saves = TerminateFirst, NoReservedCapacity, freed.Bind, p.Price-freed.Cost
	}
	d.start(c)
	return true
}

// exchange replaces a node of a static pool one for one (V15-28, V15-48, V15-49). It reports whether a
// command was started.
func (d *Decision) exchange(v *View, p *patient, c Command) bool {
	pool, first := v.Pools[p.Pool], v.Methods.TerminateFirstRepair
	stays := func(why reason.Reason) bool {
		d.blockedBy(p.Node, Refused{Reason: karpv1.ReasonUnhealthy, Why: why})
		return false
	}
	offered, full := reservationsFull(v.Cluster, pool.Name)
	have := pool.Running + pending(v, pool.Name)
	switch {
	case !v.Methods.Static: // nobody looks after the size of the pool
		return stays(reason.Reason{Code: reason.PoolClosed, Subject: "nodepool/" + pool.Name, Have: "it is static, and the feature gate StaticCapacity is off"})
	case have > pool.Replicas: // an earlier exchange or a scale-down is under way
		d.refuse(Refused{Reason: karpv1.ReasonUnhealthy, Nodes: []string{p.Name}, Why: reason.Reason{
			Code: reason.StaticSurplus, Subject: "node/" + p.Name, Have: strconv.FormatInt(have, 10), Want: strconv.FormatInt(pool.Replicas, 10),
		}})
		return false
	case !pool.Ready:
		return stays(reason.Reason{Code: reason.PoolClosed, Subject: "nodepool/" + pool.Name, Have: cluster.NotReady})
	case full && first && !offered[p.Reservation]:
		return stays(reason.Reason{Code: reason.ReservationsFull, Have: pool.Name})
	case full && first:
		c.Decision, c.Because = TerminateFirst, NoReservedCapacity
	case pool.NodeLimit < 0 || pool.Claims < pool.NodeLimit:
		c.Decision, c.Template = Replace, []string{pool.Name}
	case first:
		c.Decision, c.Because = TerminateFirst, StaticAtLimit
	default:
		return stays(reason.Reason{Code: reason.StaticAtLimit, Have: strconv.FormatInt(pool.Claims, 10) + " of " + strconv.FormatInt(pool.NodeLimit, 10), Want: pool.Name})
	}
	d.start(c)
	return true
}

// applied is the bound of the drain (V15-26); nil: nothing but what the claim says.
func (p *patient) applied() *time.Duration {
	switch {
	case p.bound == nil:
		return nil
	case p.Bounded:
		return new(min(*p.bound.Policy.Bound, p.Bound))
	default:
		return new(*p.bound.Policy.Bound)
	}
}

// diagnosis is the verdict in words.
func (p *patient) diagnosis() *Diagnosis {
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
