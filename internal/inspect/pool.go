package inspect

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"

	karpv1 "github.com/dovetail-sh/dovetail/api/v1"
	"github.com/dovetail-sh/dovetail/internal/budget"
	"github.com/dovetail-sh/dovetail/internal/cluster"
	"github.com/dovetail-sh/dovetail/internal/disrupt"
	"github.com/dovetail-sh/dovetail/internal/reason"
	"github.com/dovetail-sh/dovetail/internal/solve"
)

// explainPool says what a NodePool has, and why it launches and removes no more.
func (x *explainer) explainPool(name string) (*PoolExplanation, string, bool) {
	fleet := FleetOf(x.c)
	at := slices.IndexFunc(fleet.Pools, func(p Pool) bool { return p.Name == name })
	if at < 0 || name == "" || !slices.ContainsFunc(x.view.Pools, func(p cluster.Pool) bool { return p.Name == name }) {
		return nil, "", false
	}
	out := &PoolExplanation{Pool: fleet.Pools[at]}
	if pool, known := x.c.View.Pools[name]; known {
		out.Policy, out.Static, out.Replicas = string(pool.Policy), pool.Static, pool.Replicas
		for i := range pool.Budgets {
			out.Budgets = append(out.Budgets, x.budget(&pool.Budgets[i]))
		}
	}
	d := x.decide()
	for _, cause := range []karpv1.DisruptionReason{karpv1.ReasonEmpty, karpv1.ReasonDrifted, karpv1.ReasonUnderutilized, karpv1.ReasonUnhealthy} {
		if cause == karpv1.ReasonUnhealthy && !x.c.View.Methods.Repair {
			continue
		}
		a := Allowance{Reason: string(cause), Allowed: d.Allowed[cause][name], Busy: d.Busy[cause][name]}
		if a.Allowed == budget.Unlimited {
			a.Allowed = -1
		}
		out.Allowed = append(out.Allowed, a)
	}
	waiting := x.addLaunches(out)
	x.addOutcomes(out, d)
	return out, x.poolText(out, waiting), true
}

// budget is a budget as it is in force now.
func (x *explainer) budget(b *cluster.Budget) Budget {
	out := Budget{Nodes: b.Nodes, Reasons: b.Reasons, Schedule: b.Schedule, Duration: b.Duration}
	cause := string(karpv1.ReasonEmpty)
	if len(b.Reasons) > 0 {
		cause = b.Reasons[0]
	}
	most, broken := budget.Limit([]cluster.Budget{*b}, cause, math.MaxInt16, x.c.View.Now)
	if len(broken) > 0 {
		out.Invalid = reason.Join(broken, 0)
	}
	out.Active = len(broken) == 0 && most < budget.Unlimited
	return out
}

// maxShapes is for how many kinds of pods it is found out why a NodePool launches nothing for them.
const maxShapes = 100

// addLaunches adds what a pool launches for pending pods, and why it launches nothing for others. It returns how many pods
// no node can be planned for.
func (x *explainer) addLaunches(out *PoolExplanation) (unplaced int) {
	shapes := map[cluster.PodKey]*cluster.Shape{}
	for i := range x.c.View.PodsToPlace {
		shapes[x.c.View.PodsToPlace[i].Key] = x.c.View.PodsToPlace[i].Shape
	}
	pods := map[*cluster.Shape]int{}
	plan, all := x.plan(func(plan *solve.Plan) []cluster.PodKey {
		var one []cluster.PodKey
		for _, u := range plan.Unplaced {
			shape := shapes[u.Pod]
			if pods[shape]++; pods[shape] == 1 && len(one) < maxShapes {
				one = append(one, u.Pod)
			}
		}
		return one
	})
	for _, l := range launches(plan.Create) {
		if l.Pool == out.Pool.Name {
			out.Launch = append(out.Launch, l)
		}
	}
	at := map[string]int{}
	for _, u := range plan.Unplaced {
		obstacles, known := all[u.Pod]
		if !known {
			continue
		}
		for _, p := range obstacles.Pools {
			if p.Pool != out.Pool.Name || len(p.Why) == 0 {
				continue
			}
			key, known := reason.CodesOf(p.Why), false
			var i int
			if i, known = at[key]; !known {
				i = len(out.Refused)
				at[key] = i
				out.Refused = append(out.Refused, PodFindings{Why: x.poolFindings(p.Pool, p.Why), Pod: u.Pod.String()})
			}
			out.Refused[i].Pods += pods[shapes[u.Pod]]
		}
	}
	slices.SortStableFunc(out.Refused, func(a, b PodFindings) int { return cmp.Compare(b.Pods, a.Pods) })
	return len(plan.Unplaced)
}

// addOutcomes adds what would be done with the nodes of a pool, counted by reason.
func (x *explainer) addOutcomes(out *PoolExplanation, d *disrupt.Decision) {
	removed, kept := map[string]*disrupt.Command{}, map[string]reason.Reason{}
	for i := range d.Commands {
		for j := range d.Commands[i].Remove {
			removed[d.Commands[i].Remove[j].Node] = &d.Commands[i]
		}
	}
	for i := range d.Refused {
		for _, name := range d.Refused[i].Nodes {
			if _, known := kept[name]; !known {
				kept[name] = d.Refused[i].Why
			}
		}
	}
	at := map[string]int{}
	for i := range x.view.Nodes {
		n := &x.view.Nodes[i]
		if n.Pool != out.Pool.Name {
			continue
		}
		name := cmp.Or(x.nodeName(n), n.Name)
		why := outcomeOf(x.manages(n), removed[name], kept, len(d.Commands) > 0)
		key := cmp.Or(string(why.Code), why.Text)
		k, known := at[key]
		if !known {
			k = len(out.Nodes)
			at[key] = k
			out.Nodes = append(out.Nodes, NodeFindings{Why: why, Node: name})
		}
		out.Nodes[k].Nodes++
	}
	slices.SortStableFunc(out.Nodes, func(a, b NodeFindings) int { return cmp.Compare(b.Nodes, a.Nodes) })
}

// wouldGo stands for the code of nodes that would be removed, which is no refusal.
const wouldGo reason.Code = ""

// outcomeOf is why a node is removed or kept: c removes it, kept has what keeps nodes, and others says whether any are removed.
func outcomeOf(m *cluster.ManagedNode, c *disrupt.Command, kept map[string]reason.Reason, others bool) Finding {
	switch {
	case m == nil:
		return FindingOf(reason.Reason{Code: reason.NodeStarting, Have: "registered"})
	case c != nil:
		return Finding{Code: wouldGo, Text: fmt.Sprintf("would be removed now (%s, %s)", c.Reason, c.Decision)}
	case m.Commanded:
		return FindingOf(reason.Reason{Code: reason.NodeCommanded})
	case m.BeingRemoved || m.Terminating:
		return FindingOf(reason.Reason{Code: reason.NodeDeleting})
	}
	why, known := kept[m.Name]
	switch {
	case known:
		return findings([]reason.Reason{why}, "node/"+m.Name)[0]
	case m.Settling:
		return FindingOf(reason.Reason{Code: reason.NodeSettling})
	case others:
		return Finding{Code: reason.MoveOutdated, Text: "other nodes are removed first; it is checked again afterwards"}
	}
	return Finding{Code: reason.NothingCheaper, Text: "nothing was found that is cheaper"}
}

// poolText is what a pool has and does, in a few sentences.
func (x *explainer) poolText(out *PoolExplanation, unplaced int) string {
	t := &out.Pool.Totals
	texts := []string{"It has no nodes."}
	if t.Nodes > 0 {
		texts[0] = fmt.Sprintf("It has %s for %s an hour (%s a month) with %s.", count(t.Nodes, "node", "nodes"), money(t.Hourly), monthly(t.Hourly), count(t.Pods, "pod", "pods"))
	}
	pods := 0
	for i := range out.Launch {
		pods += len(out.Launch[i].Pods)
	}
	switch {
	case out.Pool.Closed != "":
		texts = append(texts, "Nothing is launched from it: "+out.Pool.Closed+".")
	case len(out.Launch) > 0:
		texts = append(texts, fmt.Sprintf("It would launch %s for %s.", count(len(out.Launch), "node", "nodes"), count(pods, "pending pod", "pending pods")))
	}
	if len(out.Refused) > 0 && out.Pool.Closed == "" {
		why := &out.Refused[0]
		texts = append(texts, fmt.Sprintf("%s, for example %s, %s no node from it: %s.", upper(count(unplaced, "pending pod", "pending pods")), why.Pod, plural(unplaced, "gets", "get"), why.Why[0].Text))
	}
	for i := range out.Nodes {
		if n := &out.Nodes[i]; n.isKept() {
			of := fmt.Sprintf("%d of its %d nodes stay", n.Nodes, t.Nodes)
			if n.Nodes == 1 {
				of = "Node " + n.Node + " stays"
			}
			texts = append(texts, of+": "+n.Why.Text+".")
			break
		}
	}
	return strings.Join(texts, " ")
}

// isKept reports whether the nodes are kept, as opposed to those that come and go.
func (n *NodeFindings) isKept() bool {
	switch n.Why.Code {
	case wouldGo, reason.NodeStarting, reason.NodeCommanded, reason.NodeDeleting:
		return false
	default:
		return true
	}
}

func plural(n int, one, many string) string {
	if n == 1 {
		return one
	}
	return many
}
