package consolidate

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/dovetail-sh/dovetail/internal/catalog"
	"github.com/dovetail-sh/dovetail/internal/cluster"
	"github.com/dovetail-sh/dovetail/internal/solve/model"
	"github.com/dovetail-sh/dovetail/internal/solve/parallel"
)

const (
	// descendUpTo is the number of candidates up to which every strategy is followed to its end before one is chosen.
	// followUpTo is the same for strategies that take all steps at once: those of one step at a time take as many
	// rounds as there are nodes.
	descendUpTo, followUpTo = 16, 40
	// simpleUpTo is the number of candidates up to which steps of several nodes, and unstable steps, are tried.
	simpleUpTo = 200
	// muchMore is the factor by which steps must save more than other moves to be made instead of them.
	muchMore = 1.5
	// mostSteps limits how many rounds a strategy is followed.
	mostSteps = 60
)

// searchStrategies lists the orders in which steps are tried. Which of them ends cheapest is not predictable, so the
// best of several is used.
func searchStrategies(candidates int) []searchStrategy {
	list := []searchStrategy{{}, {small: true, single: true}, {fresh: true}, {small: true, single: true, fresh: true}, {small: true, single: true, loose: true}}
	if candidates > descendUpTo {
		list = slices.DeleteFunc(list, func(m searchStrategy) bool { return m.single })
	}
	return list
}

// strategyResult is the moves of one strategy.
type strategyResult struct {
	moves            []Move
	simple           bool // they are steps: each depends on those before it
	limited, stopped bool
	unreached        []string // pools that the search had no time for
}

// compareWithSteps compares moves with the step search, and returns what saves more. With few nodes, strategies are
// followed to the end: so no cluster ends more expensive than steps would have left it. With many, steps are searched
// once there are no other moves and no swaps.
func (g *compiledCluster) compareWithSteps(q Question, moves []Move, stop func() bool) strategyResult {
	limited := false
	followed := len(q.Candidates) <= descendUpTo || len(q.Candidates) <= followUpTo && !q.Policy.Eager
	if followed {
		best := g.chooseStrategy(q, moves, stop)
		if len(best.moves) > 0 || best.stopped {
			return best
		}
		limited = best.limited
	} else if len(moves) > 0 && len(q.Candidates) <= simpleUpTo {
		w := g.searchSteps(searchStrategy{}, stop)
		if totalSaved(w.steps) > muchMore*totalSaved(moves) {
			return w.result(false)
		}
		return strategyResult{moves: moves, stopped: w.state.Stopped, unreached: w.unreached}
	}
	if len(moves) > 0 || q.Policy.Eager {
		return strategyResult{moves: moves}
	}
	best := g.findSwap(stop)
	best.limited = best.limited || limited
	if len(best.moves) > 0 || best.stopped || followed {
		return best
	}
	limited = best.limited
	w := g.searchSteps(searchStrategy{}, stop)
	if w.droppedUnstable && len(w.steps) == 0 && !w.state.Stopped && len(q.Candidates) <= simpleUpTo {
		w = g.searchSteps(searchStrategy{loose: true}, stop)
	}
	return w.result(limited)
}

// result returns the steps found so far.
func (w *stepper) result(limited bool) strategyResult {
	return strategyResult{w.steps, true, limited || w.trimmed, w.state.Stopped, w.unreached}
}

// chooseStrategy follows each strategy to its end and returns the first moves of the one that ends cheapest.
func (g *compiledCluster) chooseStrategy(q Question, moves []Move, stop func() bool) strategyResult {
	ways := searchStrategies(len(q.Candidates))
	probe := g.searchStableSteps(ways[0], stop)
	switch {
	case probe.state.Stopped && totalSaved(moves) >= totalSaved(probe.steps):
		return strategyResult{moves, false, probe.trimmed, true, probe.unreached}
	case probe.state.Stopped || len(probe.steps) == 0 && len(moves) == 0:
		return probe.result(false)
	}
	totals, firsts := make([]float64, len(ways)+1), make([][]Move, len(ways)+1)
	parallel.Each(len(totals), q.Policy.Workers, func(i int) {
		switch {
		case i == 0 && len(moves) > 0:
			totals[i], firsts[i] = g.followStrategy(q, ways[0], moves, stop)
		case i == 1 && len(probe.steps) > 0:
			totals[i], firsts[i] = g.followStrategy(q, ways[0], probe.steps, stop)
			totals[i] -= probe.risk
		case i > 1:
			totals[i], firsts[i] = g.followStrategy(q, ways[i-1], nil, stop)
		}
	})
	const noise = 1e-9 // rounding error of sums of prices in another order
	best := 0
	for i := range totals {
		if len(firsts[i]) > 0 && (len(firsts[best]) == 0 && totals[i] > 0 || totals[i] > totals[best]+noise) {
			best = i
		}
	}
	if len(firsts[best]) == 0 { // time was up before any strategy was followed again
		return strategyResult{probe.steps, true, probe.trimmed, true, nil}
	}
	return strategyResult{firsts[best], best > 0, probe.trimmed, stop(), nil}
}

// followStrategy takes steps until there are none, and returns what they save in total, and the first of them. Moves
// that were found in another way come before them.
func (g *compiledCluster) followStrategy(q Question, how searchStrategy, before []Move, stop func() bool) (total float64, first []Move) {
	total, first = totalSaved(before), before
	if len(before) > 0 {
		q = q.afterMoves(before, 0)
		g = compileCluster(q, g.model, stop)
	}
	for round := 1; round < mostSteps && g != nil; round++ {
		w := g.searchStableSteps(how, stop)
		if len(w.steps) == 0 {
			break
		}
		if len(first) == 0 {
			first = w.steps
		}
		total += totalSaved(w.steps) - w.risk
		q = q.afterMoves(w.steps, round)
		g = compileCluster(q, g.model, stop)
	}
	return total, first
}

// searchStableSteps searches for steps that last, or if there are none for those that save even if they do not.
func (g *compiledCluster) searchStableSteps(how searchStrategy, stop func() bool) *stepper {
	w := g.searchSteps(how, stop)
	if how.loose = true; w.droppedUnstable && len(w.steps) == 0 && !w.state.Stopped {
		w = g.searchSteps(how, stop)
	}
	return w
}

// afterMoves is the question after moves: new nodes have the type and price that was planned, and are candidates
// again.
func (q Question) afterMoves(moves []Move, round int) Question {
	view := q.View
	names := slices.Clone(q.Candidates)
	for i := range moves {
		m := &moves[i]
		rest, pods := view.Without(m.Remove...)
		for j := range m.Create {
			if id := m.Create[j].Offer.Reservation; id != "" {
				rest = rest.WithTakenSlot(id)
			}
		}
		rest.Pools = slices.Clone(rest.Pools)
		at := make(map[cluster.PodKey]string, len(pods))
		for _, b := range m.Bind {
			at[b.Pod] = b.Node
		}
		for j := range m.Create {
			n := launchedNode(rest, &m.Create[j], fmt.Sprintf("new-%04d-%04d-%04d", round, i, j))
			rest.Nodes = append(rest.Nodes, n)
			names = append(names, n.Name)
			for _, pod := range m.Create[j].Pods {
				at[pod] = n.Name
			}
		}
		slices.SortFunc(rest.Nodes, func(a, b cluster.Node) int { return strings.Compare(a.Name, b.Name) })
		names = slices.DeleteFunc(names, func(name string) bool { return slices.Contains(m.Remove, name) })
		view = rest.With(pods, at)
	}
	q.View, q.Candidates = view, names
	return q
}

// launchedNode is a new node of the type and price that was planned. It counts in the limits of its pool.
func launchedNode(view *cluster.Snapshot, c *model.NewNode, name string) cluster.Node {
	at := slices.IndexFunc(view.Pools, func(p cluster.Pool) bool { return p.Name == c.Pool })
	pool := &view.Pools[at]
	t := &pool.Types[slices.IndexFunc(pool.Types, func(t catalog.InstanceType) bool { return t.Name == c.Offer.Type })]
	labels := map[string]string{}
	// any order: keys are independent
	for key, r := range c.Needs {
		if len(r.Values) > 0 && !r.Not {
			labels[key] = r.Values[0]
		}
	}
	// any order: keys are independent
	for key, r := range t.Labels {
		delete(labels, key)
		if len(r.Values) == 1 {
			labels[key] = r.Values[0]
		}
	}
	for _, o := range t.Offerings {
		if o.Zone == c.Offer.Zone && o.CapacityType == c.Offer.CapacityType && o.Reservation == c.Offer.Reservation {
			for _, l := range model.OfferingLabels(&o) {
				labels[l.Key] = l.Value
			}
			maps.Copy(labels, o.Labels)
		}
	}
	pool.Limits = slices.Clone(pool.Limits)
	for i := range pool.Limits {
		lane, _ := view.Resources.Lane(pool.Limits[i].Resource)
		pool.Limits[i].Remaining -= t.Capacity.At(lane)
	}
	if pool.NodeLimit != nil {
		left := *pool.NodeLimit - 1
		pool.NodeLimit = &left
	}
	return cluster.Node{
		Name: name, Claim: name, Pool: c.Pool, Labels: labels, Taints: pool.Taints, Capacity: t.Capacity, Allocatable: t.Allocatable(),
		VolumeLimits: t.VolumeLimits, InstanceType: t.Name, Zone: c.Offer.Zone, CapacityType: c.Offer.CapacityType, Price: c.Offer.Price, Initialized: true,
	}
}
