package solve

import (
	"slices"

	"github.com/dovetail-sh/dovetail/internal/cluster"
)

// SolveAwaitingReplacement is Solve when some of the pods are settled: they run on nodes that wait for replacements. They keep
// the room that they have on nodes that exist or are on their way, but nothing is bought for them: if the
// replacements fail their nodes stay, and if not, the pods go there (disruption 17, G8). It returns the
// problem that the plan is for too: without the settled pods that it has no place for.
func SolveAwaitingReplacement(p Problem, awaiting map[cluster.PodKey]bool, stop func() bool) (Problem, Plan) {
	plan := Solve(p, stop)
	unplaced := unboundPods(p.Pods, awaiting, plan)
	if len(unplaced) > 0 {
		p.Pods = without(p.Pods, unplaced)
		plan = Solve(p, stop)
		unplaced = unboundPods(p.Pods, awaiting, plan)
	}
	if len(unplaced) > 0 { // others have lost their places by that
		p.Pods = without(p.Pods, awaiting)
		plan = Solve(p, stop)
	}
	return p, plan
}

// unboundPods are those of some pods that a plan has no place for on nodes that exist.
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
