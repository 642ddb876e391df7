package solve

import (
	"cmp"
	"slices"

	"github.com/dovetail-sh/dovetail/internal/cluster"
	"github.com/dovetail-sh/dovetail/internal/reason"
	"github.com/dovetail-sh/dovetail/internal/solve/bound"
	"github.com/dovetail-sh/dovetail/internal/solve/exact"
	"github.com/dovetail-sh/dovetail/internal/solve/explain"
	"github.com/dovetail-sh/dovetail/internal/solve/model"
	"github.com/dovetail-sh/dovetail/internal/solve/pack"
	"github.com/dovetail-sh/dovetail/internal/solve/parallel"
	"github.com/dovetail-sh/dovetail/internal/solve/spread"
)

// Solve places the pods of a problem. It is total: invalid input becomes a Reason. stop is polled while the problem
// is read and between placements, from more than one goroutine if there are several workers. Once it returns true,
// placements made so far are kept and the Plan is Partial.
//
// Two algorithms run: pod by pod exactly by the rules, and as counts packed by price. The better plan wins: more pods
// placed, then cheaper. So a plan never costs more than that of the first.
func Solve(p Problem, stop func() bool) Plan { return search(p, stop, nil) }

// Explain is Solve, and all that rules out places for some of the pods: also for those that the plan places, and then on
// the cluster with the plan carried out. about chooses them, knowing the plan.
func Explain(p Problem, about func(*Plan) []cluster.PodKey, stop func() bool) (Plan, map[cluster.PodKey]Obstacles) {
	out := map[cluster.PodKey]Obstacles{}
	plan := search(p, stop, func(s *exact.State, plan *Plan) {
		chosen := map[cluster.PodKey]bool{}
		for _, key := range about(plan) {
			chosen[key] = true
		}
		for k := range s.Model.Classes {
			var found *Obstacles
			for _, at := range s.Model.Classes[k].Pods {
				if key := s.Model.Pods[at].Key; chosen[key] {
					if found == nil { // once for all equal pods
						found = new(explain.Obstacles(s, k))
					}
					out[key] = *found
				}
			}
		}
	})
	return plan, out
}

// search is Solve. look is called with the final state of planning, and with the plan; it may be nil.
func search(p Problem, stop func() bool, look func(*exact.State, *Plan)) Plan {
	ways := []func(*exact.State, []int){
		func(s *exact.State, left []int) { s.PlaceAll(left) },
		func(s *exact.State, left []int) {
			s.KeepPrices = true
			pack.Place(s, left)
			s.PlaceAll(left)
		},
	}
	if p.Policy.Greedy {
		ways = ways[:1]
	}
	states, rests := make([]*exact.State, len(ways)), make([][]int, len(ways))
	compiled := model.Compile(p, nil, stop)
	if compiled == nil {
		return timedOutPlan(p)
	}
	models := []*model.Model{compiled}
	for range ways[1:] {
		models = append(models, models[0].Fork())
	}
	parallel.Each(len(ways), p.Policy.Workers, func(i int) {
		states[i], rests[i] = exact.NewState(models[i], stop), models[i].PodCounts()
		states[i].PlacePlannedPods(rests[i])
		ways[i](states[i], rests[i])
	})
	best := len(ways) - 1
	// Quotas hold only if all of them were placed; limits or a stop may have prevented that.
	if best > 0 && (model.SumCounts(rests[best]) > 0 && states[best].ViolatesSpread() ||
		cmp.Or(cmp.Compare(model.SumCounts(rests[0]), model.SumCounts(rests[best])), cmp.Compare(states[0].ComparisonCost(), states[best].ComparisonCost())) < 0) {
		best = 0
	}
	var plan Plan
	var least float64
	judge := states[len(ways)-1-best] // the other one, if there are two: each uses its own model
	tasks := []func(){
		func() {
			var over exact.Leftover
			plan, over = states[best].WritePlan()
			spread.Plan(states[best], &plan)
			plan.Unplaced = explain.Unplaced(states[best], over, rests[best])
			if look != nil {
				look(states[best], &plan)
			}
		},
		func() { least = bound.Of(judge.Model, rests[best]) },
	}
	workers := p.Policy.Workers
	if judge == states[best] {
		workers = 1
	}
	parallel.Each(len(tasks), workers, func(i int) { tasks[i]() })
	plan.Bound = least
	return plan
}

// timedOutPlan is the plan of a problem that could not be read in time.
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
