package disrupt

import (
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
	repairing                        // neither pods, which V15-24 looks at, nor do-not-disrupt, nor that it is not initialized
)

// blocked returns what blocks the disruption of a node, in the order of V15-14; nil if nothing does.
func blocked(v *View, n *cluster.ManagedNode, c disruptionClass) *reason.Reason {
	why := func(code reason.Code, have, want string) *reason.Reason {
		return &reason.Reason{Code: code, Subject: "node/" + n.Name, Have: have, Want: want}
	}
	pool, known := v.Pools[n.Pool]
	switch {
	case n.Commanded:
		return why(reason.NodeCommanded, "", "")
	case c == repairing && n.Pool == "":
		return why(reason.PoolLabelAbsent, "", karpv1.LabelNodePool)
	case n.Rebooting:
		return why(reason.NodeRebooting, "", "")
	case n.BeingRemoved || n.Terminating:
		return why(reason.NodeDeleting, "", "")
	case !n.Initialized && !n.Registered:
		return why(reason.NodeStarting, "registered", "")
	case !n.Initialized && c != repairing:
		return why(reason.NodeStarting, "initialized", "")
	case n.Nominated && n.Initialized, n.ExpectsDisplaced && n.Initialized && c != repairing:
		return why(reason.NodeNominated, "", "")
	case n.ProtectedBy != "" && c != repairing:
		return why(reason.DoNotDisrupt, "the node", n.ProtectedBy)
	case pool.ProtectedBy != "" && c != repairing:
		return why(reason.DoNotDisrupt, "NodePool "+pool.Name, pool.ProtectedBy)
	case n.Leading && c != repairing:
		return why(reason.LeaderAlone, "", "")
	case n.Pool == "":
		return why(reason.PoolLabelAbsent, "", karpv1.LabelNodePool)
	case !known || len(pool.Types) == 0:
		return why(reason.PoolUnresolved, n.Pool, "")
	}
	if c == graceful || c == eventual && !n.Bounded {
		if held := podBlockingDrain(n); held != nil {
			return held
		}
	}
	if n.BackingOff && c != repairing || n.RepairBackingOff {
		return why(reason.NodeRests, "", "")
	}
	return nil
}

// podBlockingDrain returns the pod that prevents draining a node now (disruption 5, rules 10 and 11).
func podBlockingDrain(n *cluster.ManagedNode) *reason.Reason {
	for i := range n.Pods {
		if p := &n.Pods[i]; p.ProtectedBy != "" {
			return &reason.Reason{Code: reason.DoNotDisrupt, Subject: "node/" + n.Name, Have: "pod " + p.Key.String(), Want: p.ProtectedBy}
		}
	}
	for i := range n.Pods {
		p := &n.Pods[i]
		var code reason.Code
		switch {
		case len(p.Budgets) > 1:
			code = reason.EvictionAmbiguous
		case p.Impossible:
			code = reason.EvictionImpossible
		case p.Blocked:
			code = reason.EvictionForbidden
		default:
			continue
		}
		return &reason.Reason{Code: code, Subject: "node/" + n.Name, Have: strings.Join(p.Budgets, ", "), Want: p.Key.String()}
	}
	return nil
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
		case why.Code != reason.NodeDeleting && len(passing) < maxRefused/4: // keep space for what methods find, also in records that keep fewer
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

func (d *Decision) addRefusal(r Refused) {
	if len(d.Refused)-d.Kept < maxRefused {
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
