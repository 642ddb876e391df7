package inspect

import (
	"fmt"
	"slices"
	"strings"

	"github.com/dovetail-sh/dovetail/internal/cluster"
	"github.com/dovetail-sh/dovetail/internal/disrupt"
	"github.com/dovetail-sh/dovetail/internal/reason"
	"github.com/dovetail-sh/dovetail/internal/solve"
)

// explainPod says why a pod is where it is, and where it goes.
func (x *explainer) explainPod(key cluster.PodKey) (*PodExplanation, string, bool) {
	is := func(p cluster.Pod) bool { return p.Key == key && !p.Virtual }
	if i := slices.IndexFunc(x.c.Ignored, is); i >= 0 {
		out := x.podFacts(&x.c.Ignored[i], PodIgnored)
		out.Why = findings(x.c.Ignored[i].Shape.Invalid, "pod/"+key.String())
		return out, "No node is planned for it: " + first(out.Why), true
	}
	if i := slices.IndexFunc(x.view.Pending, is); i >= 0 {
		out := x.podFacts(&x.view.Pending[i], PodPending)
		x.placePod(out, key)
		return out, x.placeText(out), true
	}
	for i := range x.view.Nodes {
		n := &x.view.Nodes[i]
		at := slices.IndexFunc(n.Pods, is)
		if at < 0 {
			continue
		}
		out := x.podFacts(&n.Pods[at], PodRunning)
		out.Node = x.node(n)
		if out.Node.State == Removing && !n.Pods[at].Stays {
			out.State = PodLeaving
			x.placePod(out, key)
		}
		return out, x.runningText(out, n, key), true
	}
	return nil, "", false
}

func (x *explainer) podFacts(p *cluster.Pod, state PodState) *PodExplanation {
	return &PodExplanation{State: state, Created: p.Created, Requests: x.amountsOf(p.Shape.Requests), Daemon: p.Daemon}
}

// placePod finds where a pod without a place goes, and what rules out all other places.
func (x *explainer) placePod(out *PodExplanation, key cluster.PodKey) {
	plan, all := x.plan(func(*solve.Plan) []cluster.PodKey { return []cluster.PodKey{key} })
	for _, b := range plan.Bind {
		if n := x.view.Node(b.Node); b.Pod == key && n != nil {
			out.Expected = x.node(n)
		}
	}
	for i := range plan.Create {
		if slices.Contains(plan.Create[i].Pods, key) {
			out.Launch = &launches(plan.Create[i : i+1])[0]
		}
	}
	for _, u := range plan.Unplaced {
		if u.Pod == key {
			out.Why = x.unplacedFindings(u.Why)
		}
	}
	obstacles := all[key]
	for _, p := range obstacles.Pools {
		out.Pools = append(out.Pools, PoolFindings{Pool: p.Pool, Why: x.poolFindings(p.Pool, p.Why)})
	}
	for _, n := range obstacles.Nodes {
		out.Nodes = append(out.Nodes, x.nodeFindings(n.Why, n.Node, n.Nodes))
	}
	x.addDeletingNodes(out)
}

// unplacedFindings are the reasons of an unschedulable pod. A NodePool whose instance types are not known is reported as such.
func (x *explainer) unplacedFindings(list []reason.Reason) []Finding {
	out := findings(list, "")
	for i, r := range list {
		for _, pool := range resourceNames(x.c.Untyped) {
			if r.Code == reason.PoolFiltered && r.Subject == "nodepool/"+pool {
				out[i] = x.poolFindings(pool, list[i:i+1])[0]
			}
		}
	}
	return out
}

// nodeFindings are some nodes of which the same is true, one of them under the name that its Node has.
func (x *explainer) nodeFindings(why reason.Reason, node string, nodes int) NodeFindings {
	if why.Subject == "node/"+node {
		why.Subject = ""
	}
	if n := x.view.Node(node); n != nil && x.nodeName(n) != "" {
		node = x.nodeName(n)
	}
	return NodeFindings{Why: FindingOf(why), Nodes: nodes, Node: node}
}

// addDeletingNodes adds the nodes that planning leaves out, because they are removed.
func (x *explainer) addDeletingNodes(out *PodExplanation) {
	nodes, one := 0, ""
	for i := range x.view.Nodes {
		if n := &x.view.Nodes[i]; n.Deleting {
			if nodes++; one == "" {
				one = n.Name
			}
		}
	}
	if nodes > 0 && (len(out.Nodes) > 0 || len(out.Pools) > 0) {
		out.Nodes = append(out.Nodes, x.nodeFindings(reason.Reason{Code: reason.NodeDeleting}, one, nodes))
	}
}

// placeText is where a pod goes, in a sentence or two.
func (x *explainer) placeText(p *PodExplanation) string {
	switch {
	case p.Expected != nil:
		return expectedText(p.Expected)
	case p.Launch != nil:
		return x.launchText(p)
	}
	text := "No node can be launched for it"
	if len(x.view.Nodes) > 0 {
		text += ", and no existing node takes it"
	}
	return text + ": " + nearestText(p)
}

func expectedText(n *Node) string {
	switch n.State {
	case Launching:
		return fmt.Sprintf("It is expected on NodeClaim %s, which is being launched%s.", n.Name, inWords(n))
	case Initializing, NotReady:
		return fmt.Sprintf("It is expected on node %s, which is not ready yet%s.", n.Name, inWords(n))
	default:
		return fmt.Sprintf("Node %s has room for it: kube-scheduler can bind it without a new node.", n.Name)
	}
}

// inWords is what kind of node a node is, as an insertion.
func inWords(n *Node) string {
	if n.InstanceType == "" {
		return ""
	}
	return " (" + joined(n.InstanceType, n.CapacityType, n.Zone) + ")"
}

// kindOfNode is an instance type with what is known of its offering.
func kindOfNode(instanceType, market, zone string) string {
	if more := joined(market, zone); more != "" {
		return instanceType + " (" + more + ")"
	}
	return instanceType
}

// joined joins the texts that are not empty.
func joined(texts ...string) string {
	return strings.Join(slices.DeleteFunc(texts, func(t string) bool { return t == "" }), ", ")
}

func (x *explainer) launchText(p *PodExplanation) string {
	l := p.Launch
	text := ""
	if len(x.view.Nodes) > 0 {
		text = "No existing node takes it. "
	}
	text += fmt.Sprintf("NodePool %s would launch %s for it", l.Pool, kindOfNode(l.Type, l.Market, l.Zone))
	if others := len(l.Pods) - 1; others > 0 {
		text += " and " + count(others, "other pod", "other pods")
	}
	return text + ", at " + hourly(l.Price) + " an hour."
}

// nearestText is the nearest miss of a pod without a place, and what to do about it.
func nearestText(p *PodExplanation) string {
	if len(p.Why) == 0 {
		return first(nil)
	}
	for _, pool := range p.Pools { // the instance type that comes nearest says more than the largest one
		if n := len(pool.Why); n > 0 && pool.Why[0].Code == p.Why[0].Code && pool.Why[n-1].Code == reason.NearestType {
			return fmt.Sprintf("in NodePool %s, it %s. %s", pool.Pool, pool.Why[n-1].Text, pool.Why[n-1].Fix)
		}
	}
	return first(p.Why)
}

// runningText is where a pod runs, and whether it can be evicted.
func (x *explainer) runningText(out *PodExplanation, n *cluster.Node, key cluster.PodKey) string {
	where := fmt.Sprintf("It runs on node %s%s", out.Node.Name, inWords(out.Node))
	m := x.manages(n)
	if m == nil {
		if n.Claim == "" {
			return where + ", which Dovetail does not manage and never drains."
		}
		return fmt.Sprintf("It is expected on NodeClaim %s%s.", n.Claim, inWords(out.Node))
	}
	at := slices.IndexFunc(m.Pods, func(p cluster.ManagedPod) bool { return p.Key == key })
	if at < 0 {
		return where + "."
	}
	p := &m.Pods[at]
	out.Moves, out.Blockers = p.Moves, findings(disrupt.PodBlockers(m, p), "node/"+m.Name)
	switch {
	case out.State == PodLeaving && len(out.Blockers) > 0:
		return fmt.Sprintf("It has to leave node %s, which is being removed, and cannot be evicted: %s.", out.Node.Name, out.Blockers[0].Text)
	case out.State == PodLeaving:
		return fmt.Sprintf("It has to leave node %s, which is being removed. %s", out.Node.Name, x.placeText(out))
	case len(out.Blockers) > 0:
		return where + ", and cannot be evicted: " + out.Blockers[0].Text + "."
	case !p.Moves:
		return where + ". It does not keep the node: it needs no other place once the node is removed."
	}
	if out.Proposal = x.proposal(x.decide(), m.Name, key.String()); out.Proposal != nil {
		return where + ". " + out.Proposal.text(m.Name)
	}
	return where + ", and can be evicted."
}

// first is the first finding as the end of a sentence, with what to do about it.
func first(list []Finding) string {
	if len(list) == 0 {
		return "the reason is not known."
	}
	text := list[0].Text + "."
	if list[0].Fix != "" {
		text += " " + list[0].Fix
	}
	return text
}
