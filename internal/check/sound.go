package check

import (
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/dovetail-sh/dovetail/internal/cluster"
	"github.com/dovetail-sh/dovetail/internal/reason"
	"github.com/dovetail-sh/dovetail/internal/solve"
)

// Verified is a plan that was verified.
type Verified struct {
	Plan     solve.Plan
	Sound    bool          // the plan obeys every rule; otherwise it places no pod
	Rejected [][]Violation // violations of the plans before it
}

// mostRounds bounds how often pods are taken out: each round takes out at least one.
const mostRounds = 10

// Sound makes a plan that obeys every rule. An invalid plan is made again with the baseline algorithm. If that is
// invalid too, the pods that violate rules are left out, with a reason, and the rest is planned for: a pod that the
// planner gets wrong must not block all others.
func Sound(p solve.Problem, plan func(solve.Problem) (solve.Problem, solve.Plan), judge func(solve.Problem, solve.Plan) []Violation) Verified {
	var result Verified
	pods, left := p.Pods, map[cluster.PodKey]Violation{}
	for range mostRounds {
		var blamed map[cluster.PodKey]Violation
		for _, greedy := range []bool{false, true} {
			p.Policy.Greedy = greedy
			problem, made := plan(p)
			found := judge(problem, made)
			if len(found) == 0 {
				result.Plan, result.Sound = made, true
				result.Plan.Unplaced = append(result.Plan.Unplaced, leftOut(left)...)
				slices.SortFunc(result.Plan.Unplaced, func(a, b solve.Unplaced) int { return a.Pod.Compare(b.Pod) })
				return result
			}
			result.Rejected = append(result.Rejected, found)
			blamed = podsToBlame(made, found)
		}
		maps.DeleteFunc(blamed, func(key cluster.PodKey, _ Violation) bool {
			return !slices.ContainsFunc(p.Pods, func(pod cluster.Pod) bool { return pod.Key == key })
		})
		if len(blamed) == 0 {
			break
		}
		maps.Copy(left, blamed)
		p.Pods = slices.DeleteFunc(slices.Clone(p.Pods), func(pod cluster.Pod) bool {
			_, is := blamed[pod.Key]
			return is
		})
	}
	last := result.Rejected[len(result.Rejected)-1][0]
	for i := range pods {
		if _, known := left[pods[i].Key]; !known {
			left[pods[i].Key] = last
		}
	}
	result.Plan = solve.Plan{Unplaced: leftOut(left)}
	if p.View != nil {
		result.Plan.Version = p.View.Version
	}
	return result
}

// podsToBlame finds the pods by which a plan breaks rules, each with the first rule. Every pod on a node that breaks
// one has a part in it.
func podsToBlame(plan solve.Plan, found []Violation) map[cluster.PodKey]Violation {
	on := map[string][]cluster.PodKey{}
	for _, b := range plan.Bind {
		on["node/"+b.Node] = append(on["node/"+b.Node], b.Pod)
	}
	for i := range plan.Create {
		on["create["+strconv.Itoa(i)+"]"] = plan.Create[i].Pods
	}
	out := map[cluster.PodKey]Violation{}
	for _, v := range found {
		subject, _, _ := strings.Cut(v.Subject, " ")
		keys := on[subject]
		if name, is := strings.CutPrefix(subject, "pod/"); is {
			namespace, name, _ := strings.Cut(name, "/")
			keys = []cluster.PodKey{{Namespace: namespace, Name: name}}
		}
		for _, key := range keys {
			if _, known := out[key]; !known {
				out[key] = v
			}
		}
	}
	return out
}

// leftOut are pods that were taken out, by pod.
func leftOut(pods map[cluster.PodKey]Violation) []solve.Unplaced {
	var list []solve.Unplaced
	for _, key := range slices.SortedFunc(maps.Keys(pods), cluster.PodKey.Compare) {
		list = append(list, solve.Unplaced{Pod: key, Why: []reason.Reason{{Code: reason.PlanRejected, Have: pods[key].String()}}})
	}
	return list
}
