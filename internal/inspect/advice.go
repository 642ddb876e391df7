package inspect

import (
	"cmp"
	"slices"
	"strings"
	"time"

	"github.com/dovetail-sh/dovetail/internal/cluster"
	"github.com/dovetail-sh/dovetail/internal/solve"
)

// AdviceCode names a kind of advice.
type AdviceCode string

// Kinds of advice.
const (
	RequirementCosts   AdviceCode = "RequirementCosts"   // a NodePool excludes what would be cheaper
	RequestStrands     AdviceCode = "RequestStrands"     // a slightly smaller request would let one more pod fit on a node
	ProtectionCosts    AdviceCode = "ProtectionCosts"    // do-not-disrupt keeps nodes that are worth removing
	BudgetNeverAllows  AdviceCode = "BudgetNeverAllows"  // a PodDisruptionBudget allows no eviction ever
	LimitKeepsPending  AdviceCode = "LimitKeepsPending"  // a limit of a NodePool keeps pods pending
	PodsWithoutRequest AdviceCode = "PodsWithoutRequest" // pods request no CPU or no memory
)

// Advice is what could be changed about a cluster.
type Advice struct {
	At       time.Time `json:"at"`
	Hourly   float64   `json:"hourly"`            // USD, of the nodes there are
	After    float64   `json:"after"`             // USD an hour, once Dovetail has done what it would do: advice saves on top of that
	Advised  []Advised `json:"advised"`           // what saves most first
	Partial  bool      `json:"partial,omitempty"` // not everything was tried
	Notes    []string  `json:"notes,omitempty"`   // what the response lacks
	Searches int       `json:"searches"`          // plans that were made for it
}

// Advised is one piece of advice.
type Advised struct {
	Code   AdviceCode `json:"code"`
	Object string     `json:"object"`          // in the form of Subject.String
	Saves  float64    `json:"saves,omitempty"` // USD an hour; what several save does not add up
	Bound  float64    `json:"bound,omitempty"` // USD an hour by which the lower bound falls
	Nodes  int        `json:"nodes,omitempty"` // that it is about
	Pods   int        `json:"pods,omitempty"`
	Text   string     `json:"text"`
	Change string     `json:"change"` // what would have to be changed
}

// maxSearches bounds how many plans are made for advice.
const maxSearches = 48

// leastShare is the least saving worth a change, as a share of what is compared. Plans are no closer to the best than that.
const leastShare = 0.005

// adviser looks at a cluster in which everything is done that would be done without advice.
type adviser struct {
	c    *Cluster
	s    *simulation
	view *cluster.Snapshot
	stop func() bool
	out  *Advice
}

// Advise says what could be changed about a cluster so that it costs less, and what keeps Dovetail from its work. Every
// amount is the difference of two plans. Nothing else is decided here.
func Advise(c *Cluster, stop func() bool) Advice {
	if stop == nil {
		stop = func() bool { return false }
	}
	out := Advice{At: c.View.Now, Advised: []Advised{}}
	if c.View.Cluster == nil {
		out.Partial, out.Notes = true, []string{"the cluster has not been read yet; try again in a moment"}
		return out
	}
	changes := Changes{}
	a := &adviser{c: c, s: simulate(c, maxPasses, stop, &changes), stop: stop, out: &out}
	a.view = a.s.view.Cluster
	out.Hourly, out.After, out.Partial = totalsOf(c.View.Cluster).Hourly, totalsOf(a.view).Hourly, changes.Partial
	for _, pool := range a.pools() {
		a.requirements(pool)
		a.requests(pool)
	}
	a.blockers()
	a.limits(&changes)
	a.withoutRequests()
	slices.SortStableFunc(out.Advised, func(x, y Advised) int {
		return cmp.Or(cmp.Compare(y.Saves, x.Saves), cmp.Compare(x.Code, y.Code), cmp.Compare(x.Object, y.Object), cmp.Compare(x.Text, y.Text))
	})
	if out.Partial {
		out.Notes = append(out.Notes, "not everything was tried, to give a response in time: what is listed holds, and there may be more")
	}
	if len(changes.Remove) > 0 {
		out.Notes = append(out.Notes, "amounts are what remains to be saved once Dovetail has made the changes that `dovetail plan` shows")
	}
	return out
}

// fresh is the pods of a NodePool, planned anew without its nodes.
type fresh struct {
	pool  string
	price float64           // USD an hour of its nodes; 0 if that of one is not known
	view  *cluster.Snapshot // without them
	pods  []cluster.Pod
	plan  solve.Plan
}

// pools plans the pods of each NodePool anew, the most expensive ones first.
func (a *adviser) pools() []*fresh {
	nodes, prices, unpriced := map[string][]string{}, map[string]float64{}, map[string]bool{}
	for i := range a.view.Nodes {
		if n := &a.view.Nodes[i]; n.Pool != "" && !n.Deleting {
			nodes[n.Pool] = append(nodes[n.Pool], n.Name)
			prices[n.Pool] += n.Price
			unpriced[n.Pool] = unpriced[n.Pool] || !n.Priced()
		}
	}
	var out []*fresh
	for i := range a.view.Pools {
		p := &a.view.Pools[i]
		if p.Closed || len(p.Types) == 0 || len(nodes[p.Name]) == 0 {
			continue
		}
		f := &fresh{pool: p.Name, price: prices[p.Name]}
		if unpriced[p.Name] {
			f.price = 0
		}
		f.view, f.pods = a.view.Without(nodes[p.Name]...)
		out = append(out, f)
	}
	slices.SortStableFunc(out, func(x, y *fresh) int { return cmp.Or(cmp.Compare(y.price, x.price), strings.Compare(x.pool, y.pool)) })
	return slices.DeleteFunc(out, func(f *fresh) bool {
		var made bool
		f.plan, made = a.solve(f.view, f.pods)
		return !made || len(f.plan.Create) == 0
	})
}

// solve makes a plan for pods of nodes that would be removed. It reports false if there is no time for it.
func (a *adviser) solve(view *cluster.Snapshot, pods []cluster.Pod) (solve.Plan, bool) {
	return a.search(solve.Problem{View: view, Moved: pods})
}

func (a *adviser) search(p solve.Problem) (solve.Plan, bool) {
	if a.out.Searches >= maxSearches || a.stop() {
		a.out.Partial = true
		return solve.Plan{}, false
	}
	a.out.Searches++
	p.Policy = a.s.view.Policy
	plan := solve.Solve(p, a.stop)
	a.out.Partial = a.out.Partial || plan.Partial
	return plan, !plan.Partial
}

// cost is what the pods need, USD an hour: the nodes that there are, or new ones if those are cheaper. Another requirement
// or request is compared with that, so that it gets no credit for what is out of place today.
func (f *fresh) cost() float64 {
	if f.price > 0 {
		return min(f.price, f.plan.Cost)
	}
	return f.plan.Cost
}

// saving is what a plan saves, USD an hour; 0 if it is not worth a change or leaves more pods out.
func (f *fresh) saving(plan *solve.Plan) float64 {
	saves := f.cost() - plan.Cost
	if len(plan.Unplaced) != len(f.plan.Unplaced) || saves < max(leastShown, leastShare*f.cost()) {
		return 0
	}
	return saves
}

// withPool is a view in which a pool is another.
func withPool(view *cluster.Snapshot, name string, change func(*cluster.Pool)) *cluster.Snapshot {
	out := *view
	out.Pools = slices.Clone(view.Pools)
	for i := range out.Pools {
		if out.Pools[i].Name == name {
			change(&out.Pools[i])
		}
	}
	return &out
}
