package inspect

import (
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"

	karpv1 "github.com/dovetail-sh/dovetail/api/v1"
	"github.com/dovetail-sh/dovetail/internal/catalog"
	"github.com/dovetail-sh/dovetail/internal/cluster"
	"github.com/dovetail-sh/dovetail/internal/disrupt"
	"github.com/dovetail-sh/dovetail/internal/reason"
	"github.com/dovetail-sh/dovetail/internal/reqs"
)

// explainNode says why a node exists, and what would be done with it.
func (x *explainer) explainNode(about Subject) (*NodeExplanation, string, bool) {
	at := slices.IndexFunc(x.view.Nodes, func(n cluster.Node) bool {
		if about.Kind == KindNodeClaim {
			return n.Claim == about.Name
		}
		return x.nodeName(&n) == about.Name
	})
	if at < 0 {
		return nil, "", false
	}
	n := &x.view.Nodes[at]
	out := &NodeExplanation{Node: *x.node(n), Pods: x.podsOn(n)}
	m := x.manages(n)
	switch {
	case n.Claim == "":
		return out, nodeText(&out.Node) + " Dovetail does not manage it: it belongs to no NodeClaim, and is neither consolidated nor replaced.", true
	case m == nil:
		out.Alternatives = x.alternatives(n)
		return out, nodeText(&out.Node) + " " + x.launchingText(out), true
	}
	if !m.DriftedAt.IsZero() {
		out.DriftedAt = &m.DriftedAt
	}
	if m.ExpireAfter > 0 {
		out.Expires = new(m.Created.Add(m.ExpireAfter))
	}
	out.Blockers = findings(disrupt.Blockers(&x.c.View, m), "node/"+m.Name)
	if out.Node.State == Removing {
		out.Blockers = slices.DeleteFunc(out.Blockers, func(f Finding) bool { return f.Code == reason.NodeDeleting || f.Code == reason.NodeCommanded })
		return out, nodeText(&out.Node) + " " + removingText(out), true
	}
	out.Alternatives = x.alternatives(n)
	x.evaluateNode(out, m)
	if m.SettledAt.After(x.c.View.Now) {
		out.Settled = &m.SettledAt
		sayWhenSettled(out.Blockers, m.SettledAt, x.c.View.Now)
		sayWhenSettled(out.Stays, m.SettledAt, x.c.View.Now)
	}
	return out, nodeText(&out.Node) + " " + x.outcomeText(out), true
}

// sayWhenSettled adds when consolidateAfter ends to the finding that it has not.
func sayWhenSettled(list []Finding, at, now time.Time) {
	for i := range list {
		if list[i].Code == reason.NodeSettling {
			list[i].Text += ", at " + at.UTC().Format(time.RFC3339) + ", in " + age(now, at)
		}
	}
}

// evaluateNode adds what would be done with a node, or why nothing is.
func (x *explainer) evaluateNode(out *NodeExplanation, m *cluster.ManagedNode) {
	pods := make([]string, 0, len(out.Pods))
	for i := range out.Pods {
		pods = append(pods, out.Pods[i].Pod)
	}
	d := x.decide()
	if out.Proposal = x.proposal(d, m.Name, pods...); out.Proposal != nil {
		return
	}
	subject := "node/" + m.Name
	if out.Stays = findings(refusals(d, m.Name), subject); len(out.Stays) > 0 {
		return
	}
	if x.c.View.Pools[m.Pool].Static {
		out.Stays = []Finding{{Code: reason.PoolClosed, Text: "NodePool " + m.Pool + " is static: its nodes are replaced when they drift, and removed when spec.replicas is lowered"}}
		return
	}
	if len(d.Commands) > 0 { // while others are removed, a decision says little about those that stay
		alone := x.decideAlone(m.Name)
		out.Stays = findings(refusals(alone, m.Name), subject)
		if p := x.proposal(alone, m.Name); p != nil && len(out.Stays) == 0 {
			out.Stays = []Finding{FindingOf(reason.Reason{Code: reason.MoveOutdated})}
		}
	}
}

// refusals are why a decision keeps a node.
func refusals(d *disrupt.Decision, node string) []reason.Reason {
	var out []reason.Reason
	for i := range d.Refused {
		if r := &d.Refused[i]; slices.Contains(r.Nodes, node) && !slices.ContainsFunc(out, func(o reason.Reason) bool { return o.Code == r.Why.Code && o.Text() == r.Why.Text() }) {
			out = append(out, r.Why)
		}
	}
	return out
}

// podsOn lists the pods of a node, and those that are expected on it.
func (x *explainer) podsOn(n *cluster.Node) []PodOnNode {
	var out []PodOnNode
	add := func(p *cluster.Pod) *PodOnNode {
		out = append(out, PodOnNode{Pod: p.Key.String(), Requests: x.amountsOf(p.Shape.Requests), Daemon: p.Daemon, Leaving: p.Terminating, Moves: !p.Stays})
		return &out[len(out)-1]
	}
	m := x.manages(n)
	for i := range n.Pods {
		p := &n.Pods[i]
		if p.Virtual {
			continue
		}
		row := add(p)
		if m == nil {
			continue
		}
		if at := slices.IndexFunc(m.Pods, func(o cluster.ManagedPod) bool { return o.Key == p.Key }); at >= 0 {
			held := &m.Pods[at]
			row.Moves, row.Bare, row.Blockers = held.Moves, held.Bare, findings(disrupt.PodBlockers(m, held), "node/"+m.Name)
		}
	}
	expected := map[cluster.PodKey]bool{}
	for _, b := range x.c.View.PlannedBinds {
		expected[b.Pod] = b.Node == n.Name
	}
	for i := range x.view.Pending {
		if p := &x.view.Pending[i]; expected[p.Key] {
			add(p).Expected = true
		}
	}
	slices.SortFunc(out, func(a, b PodOnNode) int { return strings.Compare(a.Pod, b.Pod) })
	return out
}

// cheapestOffer is the cheapest way to launch an instance type within some requirements.
func cheapestOffer(t *catalog.InstanceType, needs reqs.Set) (best catalog.Offering, found bool) {
	for i := range t.Offerings {
		o := &t.Offerings[i]
		allowed := o.Launchable() && (o.Price > 0 || o.Free) && needs.Allows(corev1.LabelTopologyZone, o.Zone) && needs.Allows(karpv1.LabelCapacityType, o.CapacityType)
		// any order: all must hold
		for key, value := range o.Labels {
			allowed = allowed && needs.Allows(key, value)
		}
		if allowed && (!found || o.Price < best.Price) {
			best, found = *o, true
		}
	}
	return best, found
}

// nodeText is what a node is and costs.
func nodeText(n *Node) string {
	text := "A node of an unknown instance type"
	if n.InstanceType != "" {
		text = joined(n.InstanceType, n.CapacityType, n.Zone)
	}
	if n.Pool != "" {
		text += " of NodePool " + n.Pool
	}
	if n.Price != nil {
		text += fmt.Sprintf(" for %s an hour (%s a month)", hourly(*n.Price), monthly(*n.Price))
	}
	if n.Pods == 0 {
		return text + ", without pods."
	}
	cpu, memory := n.Use[string(corev1.ResourceCPU)], n.Use[string(corev1.ResourceMemory)]
	return fmt.Sprintf("%s; %s %s %s of its CPU and %s of its memory.",
		text, count(n.Pods, "pod", "pods"), plural(n.Pods, "requests", "request"), percentage(cpu.Share()), percentage(memory.Share()))
}

// launchingText is about a NodeClaim without a Node.
func (x *explainer) launchingText(out *NodeExplanation) string {
	pods := 0
	for i := range out.Pods {
		if out.Pods[i].Expected {
			pods++
		}
	}
	if out.Node.State == Removing {
		return "It is being removed before its node has joined."
	}
	if pods == 0 {
		return "Its node has not joined yet, and no pending pod is expected on it."
	}
	return "Its node has not joined yet; " + count(pods, "pending pod is", "pending pods are") + " expected on it."
}

// removingText is what a node that is removed waits for.
func removingText(out *NodeExplanation) string {
	left, held := 0, []string{}
	for i := range out.Pods {
		p := &out.Pods[i]
		if p.Moves {
			left++
		}
		if len(p.Blockers) > 0 && p.Moves {
			held = append(held, p.Pod)
		}
	}
	switch {
	case left == 0:
		return "It is being removed, and no pod has to leave it any more."
	case len(held) == 0:
		return "It is being removed; " + count(left, "pod still has", "pods still have") + " to leave."
	}
	return fmt.Sprintf("It is being removed, and waits for %s, which cannot be evicted.", some(held))
}

// outcomeText is what would be done with a node, or why nothing is.
func (x *explainer) outcomeText(out *NodeExplanation) string {
	switch {
	case out.Proposal != nil:
		return out.Proposal.text(out.Node.Name)
	case len(out.Stays) > 0:
		return "It stays: " + out.Stays[0].Text + "."
	case len(out.Blockers) > 0:
		return "It stays: " + out.Blockers[0].Text + "."
	case x.c.View.Unpriced:
		return "It stays: prices are not known yet, and without them nothing is consolidated."
	}
	return "It stays: nothing was found that is cheaper."
}
