package disrupt

import (
	"cmp"
	"slices"
	"strconv"
	"strings"
	"time"

	karpv1 "github.com/dovetail-sh/dovetail/api/v1"
	"github.com/dovetail-sh/dovetail/internal/cluster"
	"github.com/dovetail-sh/dovetail/internal/reason"
	"github.com/dovetail-sh/dovetail/internal/solve"
)

// Why a node is terminated before its replacement exists, as the metric names it (V15-50).
const (
	NoReservedCapacity = "no-reserved-capacity"
	StaticAtLimit      = "static-at-limit"
)

// maxDriftTried is for how many nodes one pass simulates the relocation of their pods. Half of them are those
// that drifted first.
const maxDriftTried = 50

// replaceDrifted replaces one drifted node of a dynamic pool (disruption 18).
func (d *Decision) replaceDrifted(v *View, g *planningState) {
	candidates := drifted(v, false)
	d.Eligible[karpv1.ReasonDrifted] += len(candidates)
	left := d.remainingBudgets(karpv1.ReasonDrifted)
	candidates = slices.DeleteFunc(candidates, func(n *cluster.ManagedNode) bool { return d.deferDrift(v, n, left) })
	for _, n := range selectDriftCandidates(candidates, v.Now) {
		if !g.stop() && g.expectsPods(n.Name) { // pending pods are expected on it
			d.reportBlocked(n, Refused{Reason: karpv1.ReasonDrifted, Why: reason.Reason{Code: reason.NodeNominated}})
			continue
		}
		if g.stop() || d.replaceDriftedNode(n, g, karpv1.ReasonDrifted, v.Methods.TerminateFirstDrift) {
			return
		}
	}
}

// deferDrift reports whether a drifted node has to wait for the budget of its pool, or for the back-off after a
// failed replacement in its pool.
func (d *Decision) deferDrift(v *View, n *cluster.ManagedNode, left map[string]int) bool {
	until := v.DriftBackoff[n.Pool]
	switch {
	case left[n.Pool] == 0:
		d.refuseOverBudget(n, karpv1.ReasonDrifted)
	case v.Now.Before(until):
		d.addRefusal(Refused{Reason: karpv1.ReasonDrifted, Nodes: []string{n.Name}, Why: reason.Reason{
			Code: reason.DriftRests, Subject: "node/" + n.Name, Have: n.Pool, Want: until.UTC().Format(time.RFC3339),
		}})
	default:
		return false
	}
	return true
}

// selectDriftCandidates picks the nodes to try. If there are too many, half of the tries rotate with the time
// through the later nodes, so that failing ones at the front do not starve them.
func selectDriftCandidates(nodes []*cluster.ManagedNode, now time.Time) []*cluster.ManagedNode {
	if len(nodes) <= maxDriftTried {
		return nodes
	}
	const first = maxDriftTried / 2
	rest := nodes[first:]
	turn := int(now.Unix()/10) % len(rest) * (maxDriftTried - first) % len(rest)
	out := slices.Clone(nodes[:first])
	for i := range maxDriftTried - first {
		out = append(out, rest[(turn+i)%len(rest)])
	}
	return out
}

// drifted returns the nodes that drift may take, of static pools or of others: those without pods that
// move first, then those that drifted first.
func drifted(v *View, static bool) []*cluster.ManagedNode {
	var out []*cluster.ManagedNode
	for i := range v.Nodes {
		if n := &v.Nodes[i]; n.Drift != "" && v.Pools[n.Pool].Static == static && blocked(v, n, eventual) == nil {
			out = append(out, n)
		}
	}
	slices.SortStableFunc(out, func(a, b *cluster.ManagedNode) int {
		return cmp.Or(cmp.Compare(min(countMovingPods(a), 1), min(countMovingPods(b), 1)), a.DriftedAt.Compare(b.DriftedAt), strings.Compare(a.Name, b.Name))
	})
	return out
}

// replaceDriftedNode starts a command that removes one node once its pods can be scheduled elsewhere, on as many new
// nodes as necessary. If they cannot and first is set, a node on reserved capacity is terminated before its
// replacement is launched (V15-47). It reports whether a command was started.
func (d *Decision) replaceDriftedNode(n *cluster.ManagedNode, g *planningState, cause karpv1.DisruptionReason, first bool) bool {
	c := Command{Reason: cause, Decision: Delete, Remove: []Candidate{candidateOf(n)}}
	h := g.relocateFromDrifted(n)
	switch {
	case g.snapshot() == nil && countMovingPods(n) == 0:
		c.Saves = n.Price
	case h.allPlaced():
		c.Create, c.Bind, c.Saves = h.Create, h.Bind, n.Price-h.Cost
		if len(c.Create) > 0 {
			c.Decision = Replace
		}
	case !h.Known:
		return false
	default:
		again := relocation{}
		if first && n.CapacityType == karpv1.CapacityTypeReserved {
			again = g.relocateAfterTermination(n, false)
		}
		if !again.allPlaced() {
			d.reportBlocked(n, Refused{Reason: cause, Why: strandedReason(h.Unplaced)})
			return false
		}
		c.Decision, c.Because, c.Bind, c.Saves = TerminateFirst, NoReservedCapacity, again.Bind, n.Price-again.Cost
	}
	d.addCommand(c)
	return true
}

// strandedReason says why pods have no other place, those with the same reason together.
func strandedReason(lost []solve.Unplaced) reason.Reason {
	why := reason.Reason{Code: reason.PodsStranded, Have: strconv.Itoa(len(lost))}
	at, first, count := map[string]int{}, []string(nil), []int(nil)
	for i := range lost {
		cause := reason.Reason{Code: reason.PodUnreadable}
		if len(lost[i].Why) > 0 {
			cause = lost[i].Why[0]
		}
		text := cause.Text()
		k, known := at[text]
		if !known {
			k = len(why.Because)
			at[text] = k
			why.Because, first, count = append(why.Because, cause), append(first, "pod/"+lost[i].Pod.String()), append(count, 0)
		}
		count[k]++
	}
	for k := range why.Because {
		subject := first[k]
		if count[k] > 1 {
			subject += " and " + strconv.Itoa(count[k]-1) + " more"
		}
		why.Because[k].Subject = strings.TrimSuffix(subject+", "+why.Because[k].Subject, ", ")
	}
	const shown = 5
	why.Because = why.Because[:min(len(why.Because), shown)]
	return why
}
