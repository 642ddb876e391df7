package solve

import (
	"slices"

	"github.com/dovetail-sh/dovetail/internal/cluster"
)

// PlanAwaitingReplacement is Solve when some pods run on nodes that wait for replacements. These pods keep their
// capacity on existing and launching nodes, but no node is launched for them: if the replacements fail, their
// nodes are kept, and otherwise the replacements take them (disruption 17, G8). It also returns the problem that
// the plan solves, without the awaiting pods that it could not place.
func PlanAwaitingReplacement(p Problem, awaiting map[cluster.PodKey]bool, stop func() bool) (Problem, Plan) {
	plan := Solve(p, stop)
	unplaced := unboundPods(p.Pods, awaiting, plan)
	if len(unplaced) > 0 {
		p.Pods = without(p.Pods, unplaced)
		plan = Solve(p, stop)
		unplaced = unboundPods(p.Pods, awaiting, plan)
	}
	if len(unplaced) > 0 { // leaving them out displaced other awaiting pods
		p.Pods = without(p.Pods, awaiting)
		plan = Solve(p, stop)
	}
	return p, plan
}

// unboundPods returns which of some pods a plan does not bind to an existing node.
func unboundPods(pods []cluster.Pod, some map[cluster.PodKey]bool, plan Plan) map[cluster.PodKey]bool {
	out := map[cluster.PodKey]bool{}
	for i := range pods {
		if key := pods[i].Key; some[key] {
			out[key] = true
		}
	}
	for _, b := range plan.Bind {
		delete(out, b.Pod)
	}
	return out
}

func without(pods []cluster.Pod, some map[cluster.PodKey]bool) []cluster.Pod {
	return slices.DeleteFunc(slices.Clone(pods), func(p cluster.Pod) bool { return some[p.Key] })
}
