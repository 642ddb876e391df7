package disrupt

import (
	"cmp"
	"fmt"
	"strings"
	"time"

	karpv1 "github.com/dovetail-sh/dovetail/api/v1"
	"github.com/dovetail-sh/dovetail/internal/cluster"
	"github.com/dovetail-sh/dovetail/internal/event"
	"github.com/dovetail-sh/dovetail/internal/reason"
	"github.com/dovetail-sh/dovetail/internal/resources"
)

// disruptionClass is what a disruption has to respect (disruption 1, V15-15).
type disruptionClass int

const (
	graceful  disruptionClass = iota // whatever objects
	eventual                         // pods only if the node has no terminationGracePeriod
	repairing                        // neither pods, which V15-24 considers, nor do-not-disrupt, nor that it is not initialized
)

// blocked returns what blocks the disruption of a node, in the order of V15-14; nil if nothing does.
func blocked(v *View, n *cluster.ManagedNode, c disruptionClass) (first *reason.Reason) {
	eachBlock(v, n, c, func(r reason.Reason) bool {
		first = &r
		return false
	})
	return first
}

// eachBlock yields all that blocks the disruption of a node, in the order of V15-14, until that is enough.
func eachBlock(v *View, n *cluster.ManagedNode, c disruptionClass, yield func(reason.Reason) bool) {
	pool, known := v.Pools[n.Pool]
	more := true
	block := func(applies bool, code reason.Code, have, want string) {
		if applies && more {
			more = yield(reason.Reason{Code: code, Subject: "node/" + n.Name, Have: have, Want: want})
		}
	}
	labelled, repair := n.Pool != "", c == repairing
	block(n.Commanded, reason.NodeCommanded, "", "")
	block(!labelled && repair, reason.PoolLabelAbsent, "", karpv1.LabelNodePool)
	block(n.Rebooting, reason.NodeRebooting, "", "")
	block(n.BeingRemoved || n.Terminating, reason.NodeDeleting, "", "")
	block(!n.Initialized && !n.Registered, reason.NodeStarting, "registered", "")
	block(!n.Initialized && n.Registered && !repair, reason.NodeStarting, "initialized", "")
	block(n.Initialized && (n.Nominated || n.ExpectsDisplaced && !repair), reason.NodeNominated, "", "")
	block(n.ProtectedBy != "" && !repair, reason.DoNotDisrupt, "the node", n.ProtectedBy)
	block(pool.ProtectedBy != "" && !repair, reason.DoNotDisrupt, "NodePool "+pool.Name, pool.ProtectedBy)
	block(n.Leading && !repair, reason.LeaderAlone, "", "")
	block(!labelled && !repair, reason.PoolLabelAbsent, "", karpv1.LabelNodePool)
	block(labelled && (!known || len(pool.Types) == 0), reason.PoolUnresolved, n.Pool, "")
	if more && (c == graceful || c == eventual && !n.Bounded) {
		more = eachPodBlock(n, yield)
	}
	block(n.BackingOff && !repair || n.RepairBackingOff, reason.NodeRests, "", "")
}

// eachPodBlock yields what prevents draining a node now (disruption 5, rules 10 and 11): annotations of pods, then
// budgets. It reports whether more is wanted.
func eachPodBlock(n *cluster.ManagedNode, yield func(reason.Reason) bool) bool {
	for i := range n.Pods {
		if why, held := heldByAnnotation(n, &n.Pods[i]); held && !yield(why) {
			return false
		}
	}
	for i := range n.Pods {
		if why, held := heldByBudget(n, &n.Pods[i]); held && !yield(why) {
			return false
		}
	}
	return true
}

// podBlockingDrain returns the first that eachPodBlock yields, or nil.
func podBlockingDrain(n *cluster.ManagedNode) (first *reason.Reason) {
	eachPodBlock(n, func(r reason.Reason) bool {
		first = &r
		return false
	})
	return first
}

func heldByAnnotation(n *cluster.ManagedNode, p *cluster.ManagedPod) (why reason.Reason, held bool) {
	if p.ProtectedBy == "" { // most pods: no text is built for them
		return why, false
	}
	return reason.Reason{Code: reason.DoNotDisrupt, Subject: "node/" + n.Name, Have: "pod " + p.Key.String(), Want: p.ProtectedBy}, true
}

func heldByBudget(n *cluster.ManagedNode, p *cluster.ManagedPod) (why reason.Reason, held bool) {
	switch {
	case len(p.Budgets) > 1:
		why.Code = reason.EvictionAmbiguous
	case p.Impossible:
		why.Code = reason.EvictionImpossible
	case p.Blocked:
		why.Code = reason.EvictionForbidden
	default:
		return why, false
	}
	why.Subject, why.Have, why.Want = "node/"+n.Name, strings.Join(p.Budgets, ", "), p.Key.String()
	return why, true
}

// reportBlockedNodes records for every node what blocks its disruption. Claims without a Node are left out: their
// condition Registered already says so.
func (d *Decision) reportBlockedNodes(v *View) {
	d.Nodes = make([]string, 0, len(v.Nodes))
	var passing []Refused
	for i := range v.Nodes {
		n := &v.Nodes[i]
		if !n.BeingRemoved && !n.Terminating {
			d.Nodes = append(d.Nodes, n.Name)
		}
		why := blocked(v, n, graceful)
		if why == nil || why.Code == reason.NodeCommanded {
			continue
		}
		stands, cause := isPersistent(why.Code), reason.Code("")
		if stands {
			cause = why.Code // the others come one after another while a node starts: the first will do
		}
		if shouldReport(v, n, why.Code) {
			d.addEvent(n, event.DisruptionBlocked, cause, why.Text())
		}
		switch r := (Refused{Reason: causeOf(n), Nodes: []string{n.Name}, Why: *why}); {
		case stands:
			d.Refused = append(d.Refused, r)
		case why.Code != reason.NodeDeleting && len(passing) < d.refusals()/4: // keep space for what methods find, also in records that keep fewer
			passing = append(passing, r)
		}
	}
	d.Kept = len(d.Refused)
	d.Refused = append(d.Refused, passing...)
}

// reportDelay is the age below which it is not reported that a node is blocked because it is starting, or
// because its first pods are expected.
const reportDelay = 2 * time.Minute

// shouldReport reports whether a block needs an event. Deletion and back-off were reported when they began, and a
// node that has just started needs no explanation.
func shouldReport(v *View, n *cluster.ManagedNode, code reason.Code) bool {
	switch code {
	case reason.NodeDeleting, reason.NodeRests:
		return false
	case reason.NodeStarting, reason.NodeNominated:
		return v.Now.Sub(n.Created) >= reportDelay
	default:
		return true
	}
}

// causeOf is the reason for which a node would be disrupted.
func causeOf(n *cluster.ManagedNode) karpv1.DisruptionReason {
	switch {
	case isEmpty(n):
		return karpv1.ReasonEmpty
	case n.Drift != "":
		return karpv1.ReasonDrifted
	}
	return karpv1.ReasonUnderutilized
}

// addEvent adds an event about a node and its claim.
func (d *Decision) addEvent(n *cluster.ManagedNode, what event.Reason, cause reason.Code, text string) {
	d.Events = append(d.Events, ObjectEvent{Node: n.Name, Claim: n.Claim, Event: event.Event{Reason: what, Text: text, Key: string(cause)}})
}

// maxRefused bounds the refusals that a decision keeps, without the persistent ones.
const maxRefused = 200

// refusals is maxRefused, unless the view sets another bound.
func (d *Decision) refusals() int { return cmp.Or(d.MaxRefused, maxRefused) }

func (d *Decision) addRefusal(r Refused) {
	if len(d.Refused)-d.Kept < d.refusals() {
		d.Refused = append(d.Refused, r)
	}
}

// utilizationText is the utilization of a node by requests, which users check decisions by (disruption 5).
func (g *planningState) utilizationText(name string) string {
	if g.view.Cluster == nil {
		return ""
	}
	n := g.view.Cluster.Node(name)
	if n == nil {
		return ""
	}
	return fmt.Sprintf("; its pods request %d %% of its CPU and %d %% of its memory", n.RequestedPercent(resources.CPU), n.RequestedPercent(resources.Memory))
}

// countMovingPods counts the pods that need another node if this one is removed.
func countMovingPods(n *cluster.ManagedNode) int {
	count := 0
	for i := range n.Pods {
		if n.Pods[i].Moves {
			count++
		}
	}
	return count
}

// isEmpty reports whether no pod would have to move (disruption 10).
func isEmpty(n *cluster.ManagedNode) bool {
	for i := range n.Pods {
		if n.Pods[i].Moves && n.Pods[i].EvictCost > 0 {
			return false
		}
	}
	return true
}

// Blocked counts the nodes whose disruption is blocked, by pool and reason. Nodes that are being deleted or are
// part of a command are left out.
func Blocked(v View) map[string]map[reason.Code]int {
	out := map[string]map[reason.Code]int{}
	for i := range v.Nodes {
		n := &v.Nodes[i]
		why := blocked(&v, n, graceful)
		if why == nil || why.Code == reason.NodeCommanded || why.Code == reason.NodeDeleting {
			continue
		}
		if out[n.Pool] == nil {
			out[n.Pool] = map[reason.Code]int{}
		}
		out[n.Pool][why.Code]++
	}
	return out
}
