package solve_test

import (
	"fmt"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/dovetail-sh/dovetail/internal/cluster"
	"github.com/dovetail-sh/dovetail/internal/reqs"
	"github.com/dovetail-sh/dovetail/internal/resources"
	"github.com/dovetail-sh/dovetail/internal/solve"
)

// plannedProblem is a problem in which an earlier plan bound all pods, ten to each node. Pods spread over three
// zones, and nodes of one zone follow each other: no node can be filled before those of the other zones.
func plannedProblem(nodes int) solve.Problem {
	size := func(milli, pods int64) resources.Vec {
		return resources.NewTable().Requests(corev1.ResourceList{
			corev1.ResourceCPU: *resource.NewMilliQuantity(milli, resource.DecimalSI), corev1.ResourcePods: *resource.NewQuantity(pods, resource.DecimalSI),
		})
	}
	shape := &cluster.Shape{
		Key: "web", Namespace: "default", Labels: map[string]string{"app": "web"}, Requests: size(100, 1), Required: []reqs.Set{{}},
		Spread: []cluster.Spread{{
			Key: corev1.LabelTopologyZone, MaxSkew: 1, Selector: cluster.Selector{Text: "app=web", Is: labels.SelectorFromSet(labels.Set{"app": "web"})},
		}},
	}
	problem := solve.Problem{View: &cluster.Snapshot{Words: reqs.CoreVocabulary()}, Policy: solve.Policy{Workers: 1}}
	for n := range nodes {
		name := fmt.Sprintf("node-%04d", n)
		problem.View.Nodes = append(problem.View.Nodes, cluster.Node{
			Name: name, Initialized: true, Capacity: size(1000, 10), Allocatable: size(1000, 10),
			Labels: map[string]string{corev1.LabelTopologyZone: []string{"a", "b", "c"}[3*n/nodes], corev1.LabelHostname: name},
		})
		for i := range 10 {
			key := cluster.PodKey{Namespace: "default", Name: fmt.Sprintf("%s-%d", name, i)}
			problem.Pods = append(problem.Pods, cluster.Pod{Key: key, Shape: shape})
			problem.PlannedBinds = append(problem.PlannedBinds, solve.Bind{Pod: key, Node: name})
		}
	}
	problem.View.Pending = problem.Pods
	return problem
}

func TestPlannedBindsOfSpreadPodsAreKept(t *testing.T) {
	t.Parallel()
	plan := solve.Solve(plannedProblem(30), func() bool { return false })
	if len(plan.Bind) != 300 || len(plan.Unplaced) != 0 {
		t.Errorf("%d pods keep their node, %d have none", len(plan.Bind), len(plan.Unplaced))
	}
}

// G8: equal pods do not swap nodes. Otherwise a recorded bind would name a node that a later plan gave to another
// pod.
func TestEachPodKeepsItsPlannedBind(t *testing.T) {
	t.Parallel()
	problem := plannedProblem(30)
	want := map[cluster.PodKey]string{}
	var kept []solve.Bind
	for i, b := range problem.PlannedBinds {
		if i%7 == 0 {
			continue // such pods take the remaining capacity
		}
		b.Node = problem.PlannedBinds[len(problem.PlannedBinds)-1-i].Node // in another order than that of the pods
		want[b.Pod] = b.Node
		kept = append(kept, b)
	}
	problem.PlannedBinds = kept
	plan := solve.Solve(problem, func() bool { return false })
	if len(plan.Bind) != 300 {
		t.Fatalf("%d of 300 pods have a place", len(plan.Bind))
	}
	seen, moved := map[cluster.PodKey]bool{}, 0
	for _, b := range plan.Bind {
		if seen[b.Pod] {
			t.Errorf("%s has two places", b.Pod)
		}
		seen[b.Pod] = true
		if node, planned := want[b.Pod]; planned && node != b.Node {
			moved++
		}
	}
	if moved > 0 {
		t.Errorf("%d pods lost the node that was planned for them to another pod like them", moved)
	}
}

// BenchmarkPlannedBinds: the time for one pod must not grow with the number of nodes.
func BenchmarkPlannedBinds(b *testing.B) {
	for _, nodes := range []int{99, 999} {
		problem := plannedProblem(nodes)
		b.Run(fmt.Sprint(nodes), func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				solve.Solve(problem, func() bool { return false })
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N*nodes*10), "ns/pod")
		})
	}
}
