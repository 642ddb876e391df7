package solve

import (
	"cmp"
	"slices"

	"github.com/dovetail-sh/dovetail/internal/reason"
)

// Solve places the pods of a problem. It is total: bad input becomes a Reason. stop is polled while
// the problem is read and between placements, from more than one goroutine if there are several workers; once it says true, what was
// decided is kept and the Plan is Partial.
//
// Two ways are tried: pod by pod as the rules say, and as numbers packed by price. The better plan
// wins: more pods placed, then cheaper. So a plan never costs more than the first way's.
func Solve(p Problem, stop func() bool) Plan {
	ways := []func(*state, []int){
		func(s *state, left []int) { s.greedy(left) },
		func(s *state, left []int) {
			s.avoidDearer = true
			s.fast(left)
			s.greedy(left)
		},
	}
	if p.Policy.Greedy {
		ways = ways[:1]
	}
	states, rests := make([]*state, len(ways)), make([][]int, len(ways))
	compiled := compile(p, nil, stop)
	if compiled == nil {
		return timedOutPlan(p)
	}
	models := []*model{compiled}
	for range ways[1:] {
		models = append(models, models[0].fork())
	}
	each(len(ways), p.Policy.Workers, func(i int) {
		states[i], rests[i] = newState(models[i], stop), models[i].remaining()
		states[i].placePlannedPods(rests[i])
		ways[i](states[i], rests[i])
	})
	best := len(ways) - 1
	// Quotas hold only if all of them were placed; limits or a stop may have prevented that.
	if best > 0 && (sum(rests[best]) > 0 && states[best].skewed() ||
		cmp.Or(cmp.Compare(sum(rests[0]), sum(rests[best])), cmp.Compare(states[0].comparisonCost(), states[best].comparisonCost())) < 0) {
		best = 0
	}
	var plan Plan
	var least float64
	judge := states[len(ways)-1-best] // the other one, if there are two: each asks its own model
	tasks := []func(){
		func() {
			var over leftover
			plan, over = states[best].plan()
			plan.Unplaced = states[best].explainUnplaced(over, rests[best])
		},
		func() { least = judge.m.bound(rests[best]) },
	}
	workers := p.Policy.Workers
	if judge == states[best] {
		workers = 1
	}
	each(len(tasks), workers, func(i int) { tasks[i]() })
	plan.Bound = least
	return plan
}

// timedOutPlan is the plan of a problem that could not even be read in time.
func timedOutPlan(p Problem) Plan {
	plan := Plan{Partial: true}
	if p.View != nil {
		plan.Version = p.View.Version
	}
	for _, pod := range slices.Concat(p.Pods, p.Moved) {
		plan.Unplaced = append(plan.Unplaced, Unplaced{Pod: pod.Key, Why: []reason.Reason{{Code: reason.OutOfTime}}})
	}
	slices.SortFunc(plan.Unplaced, func(a, b Unplaced) int { return a.Pod.Compare(b.Pod) })
	return plan
}
