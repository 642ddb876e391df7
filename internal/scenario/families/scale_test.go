package families_test

import (
	"testing"
	"time"

	"github.com/dovetail-sh/dovetail/internal/check"
	"github.com/dovetail-sh/dovetail/internal/solve"
)

// The sizes that the planner must cope with: decisions about them are whole and right. How long they take on real control
// planes, `make sandbox-bench` and `make bench-controller` measure.
func TestScaleTargets(t *testing.T) {
	t.Parallel()
	t.Run("S-022 S-023 10,000 pods and 100 NodePools", func(t *testing.T) {
		t.Parallel()
		s := load(t, "s4-10000")
		view := s.World(time.Unix(0, 0)).Compile().View
		if len(s.NodePools) < 100 || len(view.Pending) < 10000 {
			t.Fatalf("%d NodePools, %d pods", len(s.NodePools), len(view.Pending))
		}
		problem := solve.Problem{View: view, Pods: view.Pending, Policy: solve.Policy{Workers: 1}}
		plan := solve.Solve(problem, never)
		if wrong := check.Plan(problem, plan); len(wrong) > 0 {
			t.Errorf("%d faults, such as %v", len(wrong), wrong[0])
		}
		if len(plan.Unplaced) > 0 || len(plan.Create) < 100 {
			t.Errorf("%d pods have no place, and %d nodes are launched", len(plan.Unplaced), len(plan.Create))
		}
	})
	t.Run("S-021 S-022 1,000 nodes with 10,000 pods", func(t *testing.T) {
		t.Parallel()
		c := load(t, "c2-1000").World(time.Unix(0, 0)).Compile()
		pods := 0
		for i := range c.View.Nodes {
			pods += len(c.View.Nodes[i].Pods)
		}
		if len(c.Candidates()) < 1000 || pods < 10000 {
			t.Fatalf("%d nodes with %d pods", len(c.Candidates()), pods)
		}
		if found := solve.Consolidate(solve.Question{View: c.View, Candidates: c.Candidates(), Policy: solve.Policy{Workers: 1}}, never); len(found.Moves) > 0 {
			t.Errorf("there is nothing to gain, and yet %d moves", len(found.Moves))
		}
	})
}
