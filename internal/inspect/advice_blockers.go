package inspect

import (
	"cmp"
	"fmt"
	"maps"
	"slices"

	"github.com/dovetail-sh/dovetail/internal/cluster"
	"github.com/dovetail-sh/dovetail/internal/resources"
	"github.com/dovetail-sh/dovetail/internal/solve"
)

const (
	maxBlockers = 6   // of each kind that are priced, the most expensive ones
	leastFreed  = 0.1 // share of the price of nodes that replacing them has to save
)

// blocker is something that users wrote and that keeps nodes.
type blocker struct {
	code   AdviceCode
	object string
	nodes  []string // that it alone keeps
	all    int      // that it keeps
	pods   []string
	price  float64 // USD an hour, of nodes
}

// blockers finds what keeps nodes from being removed until a user changes it.
func (a *adviser) blockers() {
	by := map[string]*blocker{}
	for i := range a.s.view.Nodes {
		n := &a.s.view.Nodes[i]
		if n.BeingRemoved || n.Terminating || n.Commanded || n.Pool == "" || a.s.view.Pools[n.Pool].Static {
			continue
		}
		found := a.blockersOf(n, by)
		for _, b := range found {
			if b.all++; len(found) == 1 {
				b.nodes = append(b.nodes, a.s.placeOf(n))
				b.price += n.Price
			}
		}
	}
	list := slices.SortedFunc(maps.Values(by), func(x, y *blocker) int { return cmp.Or(cmp.Compare(y.price, x.price), cmp.Compare(x.object, y.object)) })
	tried := map[AdviceCode]int{}
	for _, b := range list {
		saves, text := 0.0, ""
		if tried[b.code]++; len(b.nodes) > 0 && tried[b.code] <= maxBlockers {
			saves, text = a.without(b)
		}
		if b.code == ProtectionCosts && saves == 0 {
			continue
		}
		advised := Advised{Code: b.code, Object: b.object, Saves: saves, Nodes: b.all, Pods: len(b.pods)}
		switch b.code {
		case BudgetNeverAllows:
			advised.Text = fmt.Sprintf("it allows no eviction, whatever happens: it keeps %s with %s (%s)", count(b.all, "node", "nodes"), count(len(b.pods), "pod", "pods"), some(b.pods)) + text
			advised.Change = "raise maxUnavailable above 0, lower minAvailable below the number of replicas, or run one replica more"
		default:
			what := "do-not-disrupt keeps "
			advised.Text = what + count(b.all, "node", "nodes")
			if len(b.pods) > 0 {
				advised.Text += fmt.Sprintf(" with %s (%s)", count(len(b.pods), "pod", "pods"), some(b.pods))
			}
			advised.Text += text
			advised.Change = "drop annotation karpenter.sh/do-not-disrupt, give it an end such as \"4h\", or run such pods on a NodePool of their own"
		}
		a.out.Advised = append(a.out.Advised, advised)
	}
}

// blockersOf lists what keeps a node.
func (a *adviser) blockersOf(n *cluster.ManagedNode, by map[string]*blocker) []*blocker {
	var found []*blocker
	note := func(code AdviceCode, object, pod string) {
		b := by[object]
		if b == nil {
			b = &blocker{code: code, object: object}
			by[object] = b
		}
		if !slices.Contains(found, b) {
			found = append(found, b)
		}
		if pod != "" {
			b.pods = append(b.pods, pod)
		}
	}
	if n.ProtectedBy != "" {
		note(ProtectionCosts, "node/"+n.Name, "")
	}
	for i := range n.Pods {
		p := &n.Pods[i]
		if p.ProtectedBy != "" {
			note(ProtectionCosts, "namespace/"+p.Key.Namespace, p.Key.String())
		}
		if p.Impossible {
			for _, budget := range p.Budgets {
				note(BudgetNeverAllows, "poddisruptionbudget/"+budget, p.Key.String())
			}
		}
	}
	return found
}

// without is what could be saved if a blocker kept no node: its pods would run elsewhere.
func (a *adviser) without(b *blocker) (saves float64, text string) {
	rest, _ := a.view.Without(b.nodes...)
	var pods []cluster.Pod
	for i := range a.s.view.Nodes {
		n := &a.s.view.Nodes[i]
		if !slices.Contains(b.nodes, a.s.placeOf(n)) {
			continue
		}
		for j := range n.Pods {
			if p := n.Pods[j].Pod; n.Pods[j].Moves && !p.Daemon {
				p.Stays = false
				pods = append(pods, p)
			}
		}
	}
	plan, made := a.solve(rest, pods)
	saves = b.price - plan.Cost
	if !made || len(plan.Unplaced) > 0 || saves < leastShown || len(plan.Create) > 0 && saves < leastFreed*b.price {
		return 0, ""
	}
	text = fmt.Sprintf(". %s %s an hour; their pods would fit on other nodes", count(len(b.nodes), "node that nothing else keeps costs", "nodes that nothing else keeps cost"), money(b.price))
	if len(plan.Create) > 0 {
		text += fmt.Sprintf(" and %s for %s", count(len(plan.Create), "new one", "new ones"), money(plan.Cost))
	}
	return saves, text
}

// limits finds limits of NodePools that keep pods pending.
func (a *adviser) limits(changes *Changes) {
	unplaced := map[string]bool{}
	for i := range changes.Unplaced {
		unplaced[changes.Unplaced[i].Pod] = true
	}
	var pods []cluster.Pod
	for _, p := range a.c.View.PodsToPlace {
		if unplaced[p.Key.String()] && !p.Virtual {
			pods = append(pods, p)
		}
	}
	for i := range a.view.Pools {
		p := &a.view.Pools[i]
		if len(pods) == 0 || p.Closed || len(p.Limits) == 0 && p.NodeLimit == nil {
			continue
		}
		plan, made := a.search(solve.Problem{View: withPool(a.view, p.Name, func(p *cluster.Pool) { p.Limits, p.NodeLimit = nil, nil }), Pods: pods})
		placed := len(pods) - len(plan.Unplaced)
		if !made || placed == 0 {
			continue
		}
		var left []string
		for _, l := range limitsOf(p) {
			left = append(left, Amount(l.Resource, max(0, l.Remaining))+" "+resourceWord(l.Resource))
		}
		a.out.Advised = append(a.out.Advised, Advised{
			Code: LimitKeepsPending, Object: "nodepool/" + p.Name, Pods: placed, Nodes: len(plan.Create),
			Text:   fmt.Sprintf("its limits keep %s pending; they leave %s. Without them, %s for %s an hour would be launched", count(placed, "pod", "pods"), sentence(left), count(len(plan.Create), "node", "nodes"), money(plan.Cost)),
			Change: "raise spec.limits of the NodePool",
		})
	}
}

// withoutRequests finds pods that request no CPU or no memory: planning takes them for nothing.
func (a *adviser) withoutRequests() {
	type found struct{ pods, noCPU, noMemory []string }
	by := map[string]*found{}
	look := func(p *cluster.Pod) {
		noCPU, noMemory := p.Shape.Requests.At(resources.CPU) == 0, p.Shape.Requests.At(resources.Memory) == 0
		if !noCPU && !noMemory {
			return
		}
		f := by[p.Key.Namespace]
		if f == nil {
			f = &found{}
			by[p.Key.Namespace] = f
		}
		name := p.Key.String()
		f.pods = append(f.pods, name)
		if noCPU {
			f.noCPU = append(f.noCPU, name)
		}
		if noMemory {
			f.noMemory = append(f.noMemory, name)
		}
	}
	for i := range a.c.View.Nodes {
		for j := range a.c.View.Nodes[i].Pods {
			if p := &a.c.View.Nodes[i].Pods[j]; p.Moves && !p.Daemon && p.Shape != nil {
				look(&p.Pod)
			}
		}
	}
	for i := range a.c.View.Cluster.Pending {
		look(&a.c.View.Cluster.Pending[i])
	}
	for _, namespace := range slices.Sorted(maps.Keys(by)) {
		f := by[namespace]
		slices.Sort(f.pods)
		a.out.Advised = append(a.out.Advised, Advised{
			Code: PodsWithoutRequest, Object: "namespace/" + namespace, Pods: len(f.pods),
			Text: fmt.Sprintf("%s without a request for CPU (%d) or memory (%d), such as %s: nodes are chosen as if they used nothing, and they are the first to be evicted when a node runs out",
				count(len(f.pods), "pod is", "pods are"), len(f.noCPU), len(f.noMemory), f.pods[0]),
			Change: "set requests, or a LimitRange with defaultRequest in the namespace",
		})
	}
}
