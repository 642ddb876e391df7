package solve_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/dovetail-sh/dovetail/internal/cluster"
	"github.com/dovetail-sh/dovetail/internal/reqs"
	"github.com/dovetail-sh/dovetail/internal/resources"
	"github.com/dovetail-sh/dovetail/internal/solve"
)

// Disruption 17, G8: pods of a node that waits for its replacements keep their reserved capacity, also when one of
// them has lost it, and no node is launched for them.
func TestPlanAwaitingReplacement(t *testing.T) {
	t.Parallel()
	size := func(cpu, pods int64) resources.Vec {
		return resources.NewTable().Requests(corev1.ResourceList{
			corev1.ResourceCPU: *resource.NewQuantity(cpu, resource.DecimalSI), corev1.ResourcePods: *resource.NewQuantity(pods, resource.DecimalSI),
		})
	}
	shape := func(cpu int64) *cluster.Shape {
		return &cluster.Shape{Key: "web" + string(rune('0'+cpu)), Namespace: "default", Requests: size(cpu, 1), Required: []reqs.Set{{}}}
	}
	key := func(name string) cluster.PodKey { return cluster.PodKey{Namespace: "default", Name: name} }
	for name, tc := range map[string]struct {
		pods      map[string]int64 // cpu, by name
		settled   []string
		bind      map[string]string
		requested []string // pods of the problem that was solved in the end
	}{
		"all of them fit": {
			pods: map[string]int64{"a": 2, "b": 2}, settled: []string{"a", "b"},
			bind: map[string]string{"a": "replacement", "b": "replacement"}, requested: []string{"a", "b"},
		},
		"one has lost its capacity, and the other one keeps it before a pending pod": {
			pods: map[string]int64{"a": 4, "lost": 3, "waits": 4}, settled: []string{"a", "lost"},
			bind: map[string]string{"a": "replacement"}, requested: []string{"a", "waits"},
		},
		"none fits": {
			pods: map[string]int64{"lost": 5, "waits": 4}, settled: []string{"lost"},
			bind: map[string]string{"waits": "replacement"}, requested: []string{"waits"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			problem := solve.Problem{View: &cluster.Snapshot{Words: reqs.CoreVocabulary(), Nodes: []cluster.Node{{
				Name: "replacement", Initialized: true, Capacity: size(4, 10), Allocatable: size(4, 10), Labels: map[string]string{corev1.LabelHostname: "replacement"},
			}}}, Policy: solve.Policy{Workers: 1}}
			settled := map[cluster.PodKey]bool{}
			for _, pod := range tc.settled {
				settled[key(pod)] = true
			}
			for _, pod := range []string{"a", "b", "lost", "waits"} {
				if cpu, is := tc.pods[pod]; is {
					problem.Pods = append(problem.Pods, cluster.Pod{Key: key(pod), Shape: shape(cpu)})
				}
				if settled[key(pod)] && pod != "lost" {
					problem.PlannedBinds = append(problem.PlannedBinds, solve.Bind{Pod: key(pod), Node: "replacement"})
				}
			}
			problem.View.Pending = problem.Pods
			solved, plan := solve.PlanAwaitingReplacement(problem, settled, func() bool { return false })
			bind, requested := map[string]string{}, []string{}
			for _, b := range plan.Bind {
				bind[b.Pod.Name] = b.Node
			}
			for i := range solved.Pods {
				requested = append(requested, solved.Pods[i].Key.Name)
			}
			if diff := cmp.Diff(tc.bind, bind) + cmp.Diff(tc.requested, requested); diff != "" {
				t.Error(diff)
			}
			for _, n := range plan.Create {
				t.Errorf("a node is launched for %v", n.Pods)
			}
		})
	}
}
