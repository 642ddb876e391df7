package check_test

import (
	"slices"
	"testing"

	"github.com/dovetail-sh/dovetail/internal/check"
	"github.com/dovetail-sh/dovetail/internal/cluster"
	"github.com/dovetail-sh/dovetail/internal/solve"
)

// What no cluster has still gets a plan that obeys the rules.
func TestOddProblems(t *testing.T) {
	t.Parallel()
	for name, change := range map[string]func(w *world){
		"no view":              func(w *world) { w.View = nil },
		"nothing at all":       func(w *world) { w.View, w.Pods = &cluster.Snapshot{}, nil },
		"no pools":             func(w *world) { w.View.Pools = nil },
		"no types":             func(w *world) { w.pool().Types = nil },
		"nothing is offered":   func(w *world) { w.pool().Types[0].Offerings = nil; w.pool().Types = w.pool().Types[:1] },
		"no nodes":             func(w *world) { w.View.Nodes = nil },
		"no pods":              func(w *world) { w.Pods = nil },
		"a pod twice":          func(w *world) { w.Pods = append(w.Pods, w.Pods[0]) },
		"a pod without shape":  func(w *world) { w.Pods = append(w.Pods, cluster.Pod{Key: key("bare")}) },
		"a type twice":         func(w *world) { w.pool().Types = append(slices.Clone(w.pool().Types), w.pool().Types[0]) },
		"a pool twice":         func(w *world) { w.View.Pools = append(w.View.Pools, w.View.Pools[0]) },
		"a node full of air":   func(w *world) { w.View.Nodes[0].Allocatable = vec(0, 0) },
		"every pool is closed": func(w *world) { w.pool().Closed = true },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld()
			w.node("n1", "a", pod("old", shape("web", nil)))
			w.Pods = several(30, "p", shape("web", nil))
			change(w)
			for _, greedy := range []bool{false, true} {
				w.Policy.Greedy = greedy
				if found := check.Plan(w.Problem, solve.Solve(w.Problem, never)); len(found) > 0 {
					t.Errorf("greedy %v: %v", greedy, found)
				}
			}
			q := solve.Question{View: w.View, Candidates: []string{"n1", "nobody"}}
			solve.Consolidate(q, never)
		})
	}
}
