package inspect

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/dovetail-sh/dovetail/internal/cluster"
	"github.com/dovetail-sh/dovetail/internal/disrupt"
	"github.com/dovetail-sh/dovetail/internal/solve"
)

// proposal is the command of a decision that removes a node, with the moves of some pods, namespace/name; nil if there is
// none.
func (x *explainer) proposal(d *disrupt.Decision, node string, pods ...string) *Proposal {
	for i := range d.Commands {
		c := &d.Commands[i]
		if !slices.ContainsFunc(c.Remove, func(n disrupt.Candidate) bool { return n.Node == node }) {
			continue
		}
		out := &Proposal{ID: c.ID, Reason: string(c.Reason), Action: c.Decision, Saves: c.Saves, Launch: launches(c.Create)}
		for j := range c.Remove {
			out.Nodes = append(out.Nodes, c.Remove[j].Node)
		}
		for j, l := range out.Launch {
			for _, pod := range l.Pods {
				if slices.Contains(pods, pod) {
					out.Moves = append(out.Moves, PodMove{Pod: pod, From: node, To: launchNumber(j)})
				}
			}
		}
		for _, b := range c.Bind {
			if pod := b.Pod.String(); slices.Contains(pods, pod) {
				to := b.Node
				if n := x.view.Node(to); n != nil && x.nodeName(n) != "" {
					to = x.nodeName(n)
				}
				out.Moves = append(out.Moves, PodMove{Pod: pod, From: node, To: to})
			}
		}
		slices.SortFunc(out.Moves, func(a, b PodMove) int { return strings.Compare(a.Pod, b.Pod) })
		return out
	}
	return nil
}

// launchNumber names a planned node, which has no name yet.
func launchNumber(i int) string { return fmt.Sprintf("launch %d", i+1) }

// text is what a proposal does with a node, as a sentence.
func (p *Proposal) text(node string) string {
	what := "delete"
	switch {
	case p.Action == disrupt.Reboot:
		what = "reboot"
	case len(p.Launch) > 0:
		what = "replace"
	}
	text := fmt.Sprintf("Dovetail would %s node %s now (%s)", what, node, p.Reason)
	if others := len(p.Nodes) - 1; others > 0 {
		text += " with " + count(others, "other", "others")
	}
	if len(p.Launch) > 0 {
		var kinds []string
		for _, l := range p.Launch {
			kinds = append(kinds, kindOfNode(l.Type, l.Market, l.Zone))
		}
		text += " by " + some(kinds)
	}
	switch {
	case p.Saves > 0:
		text += ", which saves " + hourly(p.Saves) + " an hour (" + monthly(p.Saves) + " a month)"
	case p.Saves < 0:
		text += ", which costs " + hourly(-p.Saves) + " an hour more"
	}
	return text + "."
}

// maxAlternatives is how many alternatives of a node are listed.
const maxAlternatives = 5

// maxPools is of how many NodePools alternatives are looked for.
const maxPools = 20

// alternatives are what would hold the pods of a node if it were launched now, cheapest first: existing nodes take none of
// them. Each NodePool is solved separately, because the solver chooses only one.
func (x *explainer) alternatives(n *cluster.Node) []Alternative {
	pods := x.movingPods(n)
	if len(pods) == 0 {
		return nil
	}
	rest, _ := x.view.Without(n.Name)
	full := make(map[string]bool, len(rest.Nodes))
	for i := range rest.Nodes {
		full[rest.Nodes[i].Name] = true
	}
	rest = rest.WithSettling(full)
	pools := slices.DeleteFunc(slices.Clone(rest.Pools), func(p cluster.Pool) bool { return p.Closed || len(p.Types) == 0 })
	var out []Alternative
	for i := range pools[:min(len(pools), maxPools)] {
		rest.Pools = pools[i : i+1]
		plan := solve.Solve(solve.Problem{View: rest, Moved: pods, Policy: x.c.View.Policy}, func() bool { return false })
		switch {
		case len(plan.Unplaced) > 0 || len(plan.Create) == 0:
		case len(plan.Create) == 1:
			out = append(out, alternativeTypes(&pools[i], &plan.Create[0])...)
		default:
			out = append(out, Alternative{Price: plan.Cost, Launch: launches(plan.Create)})
		}
	}
	slices.SortStableFunc(out, func(a, b Alternative) int {
		return cmp.Or(cmp.Compare(a.Price, b.Price), strings.Compare(a.Launch[0].Type, b.Launch[0].Type))
	})
	return out[:min(len(out), maxAlternatives)]
}

// movingPods are the pods of a node that need another one once it is removed, also those that cannot be evicted now, and
// those that are expected on it.
func (x *explainer) movingPods(n *cluster.Node) []cluster.Pod {
	var out []cluster.Pod
	m := x.manages(n)
	for i := range n.Pods {
		p := n.Pods[i]
		moves := !p.Stays
		if m != nil {
			moves = slices.ContainsFunc(m.Pods, func(o cluster.ManagedPod) bool { return o.Key == p.Key && o.Moves })
		}
		if p.Stays = false; moves && !p.Virtual {
			out = append(out, p)
		}
	}
	for _, b := range x.c.View.PlannedBinds {
		if b.Node != n.Name {
			continue
		}
		if i := slices.IndexFunc(x.c.View.PodsToPlace, func(p cluster.Pod) bool { return p.Key == b.Pod && !p.Virtual }); i >= 0 {
			out = append(out, x.c.View.PodsToPlace[i])
		}
	}
	return out
}

// alternativeTypes are the instance types that a planned node of a pool could be launched as, each at the cheapest offering
// left open.
func alternativeTypes(pool *cluster.Pool, n *solve.NewNode) []Alternative {
	plain := launches([]solve.NewNode{*n})[0]
	plain.Types = nil
	var out []Alternative
	for i := range pool.Types {
		t := &pool.Types[i]
		if !slices.Contains(n.Types, t.Name) {
			continue
		}
		if offer, found := cheapestOffer(t, n.Needs); found {
			l := plain
			l.Type, l.Zone, l.Market, l.Price = t.Name, offer.Zone, offer.CapacityType, offer.Price
			out = append(out, Alternative{Price: offer.Price, Launch: []Launch{l}})
		}
	}
	return out
}
