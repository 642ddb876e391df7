package disrupt

import (
	"cmp"
	"slices"
	"strconv"
	"strings"
	"time"

	karpv1 "github.com/dovetail-sh/dovetail/api/v1"
	"github.com/dovetail-sh/dovetail/internal/reason"
	"github.com/dovetail-sh/dovetail/internal/solve"
)

// Why a node is removed before its replacement is there, as the metric names it (V15-50).
const (
	NoReservedCapacity = "no-reserved-capacity"
	StaticAtLimit      = "static-at-limit"
)

// mostTried is for how many nodes a place for their pods is looked for in one pass, half of them those
// that drifted first.
const mostTried = 50

// drift replaces one node of a dynamic pool that is not what is wanted now (disruption 18).
func (d *Decision) drift(v *View, g *ground) {
	candidates := drifted(v, false)
	d.Eligible[karpv1.ReasonDrifted] += len(candidates)
	left := d.left(karpv1.ReasonDrifted)
	candidates = slices.DeleteFunc(candidates, func(n *Node) bool { return d.waits(v, n, left) })
	for _, n := range inTurn(candidates, v.Now) {
		if !g.stop() && g.expects(n.Name) { // it would take along pods that are somebody else's to place
			d.blockedBy(n, Refused{Reason: karpv1.ReasonDrifted, Why: reason.Reason{Code: reason.NodeNominated}})
			continue
		}
		if g.stop() || d.replace(n, g, karpv1.ReasonDrifted, v.Methods.TerminateFirstDrift) {
			return
		}
	}
}

// waits reports whether a drifted node has to wait: for the budget of its pool, or because replacing
// nodes of its pool failed lately.
func (d *Decision) waits(v *View, n *Node, left map[string]int) bool {
	until := v.Resting[n.Pool]
	switch {
	case left[n.Pool] == 0:
		d.limited(n, karpv1.ReasonDrifted)
	case v.Now.Before(until):
		d.refuse(Refused{Reason: karpv1.ReasonDrifted, Nodes: []string{n.Name}, Why: reason.Reason{
			Code: reason.DriftRests, Subject: "node/" + n.Name, Have: n.Pool, Want: until.UTC().Format(time.RFC3339),
		}})
	default:
		return false
	}
	return true
}

// inTurn picks the nodes to try. If there are too many and the first ones always fail, the others must
// have their turn as well: which of them follows from the time.
func inTurn(nodes []*Node, now time.Time) []*Node {
	if len(nodes) <= mostTried {
		return nodes
	}
	const first = mostTried / 2
	rest := nodes[first:]
	turn := int(now.Unix()/10) % len(rest) * (mostTried - first) % len(rest)
	out := slices.Clone(nodes[:first])
	for i := range mostTried - first {
		out = append(out, rest[(turn+i)%len(rest)])
	}
	return out
}

// drifted returns the nodes that drift may take, of static pools or of others: those without pods that
// move first, then those that drifted first.
func drifted(v *View, static bool) []*Node {
	var out []*Node
	for i := range v.Nodes {
		if n := &v.Nodes[i]; n.Drift != "" && v.Pools[n.Pool].Static == static && blocked(v, n, eventual) == nil {
			out = append(out, n)
		}
	}
	slices.SortStableFunc(out, func(a, b *Node) int {
		return cmp.Or(cmp.Compare(min(a.moving(), 1), min(b.moving(), 1)), a.DriftedAt.Compare(b.DriftedAt), strings.Compare(a.Name, b.Name))
	})
	return out
}

// replace starts a command that removes one node once its pods have a place elsewhere, on as many new
// nodes as that takes. If they have none and first is set, a node on reserved capacity goes before its
// replacement comes (V15-47). It reports whether a command was started.
func (d *Decision) replace(n *Node, g *ground, cause karpv1.DisruptionReason, first bool) bool {
	c := Command{Reason: cause, Decision: Delete, Remove: []Candidate{n.candidate()}}
	h := g.renewed(n)
	switch {
	case g.on() == nil && n.moving() == 0:
		c.Saves = n.Price
	case h.ok():
		c.Create, c.Bind, c.Saves = h.Create, h.Bind, n.Price-h.Cost
		if len(c.Create) > 0 {
			c.Decision = Replace
		}
	case !h.Known:
		return false
	default:
		again := home{}
		if first && n.CapacityType == karpv1.CapacityTypeReserved {
			again = g.vacated(n, false)
		}
		if !again.ok() {
			d.blockedBy(n, Refused{Reason: cause, Why: stranded(h.Lost)})
			return false
		}
		c.Decision, c.Because, c.Bind, c.Saves = TerminateFirst, NoReservedCapacity, again.Bind, n.Price-again.Cost
	}
	d.start(c)
	return true
}

// stranded says why pods have no other place, those with the same reason together.
func stranded(lost []solve.Unplaced) reason.Reason {
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
