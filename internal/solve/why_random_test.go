package solve_test

import (
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/dovetail-sh/dovetail/internal/check/random"
	"github.com/dovetail-sh/dovetail/internal/reason"
	"github.com/dovetail-sh/dovetail/internal/solve"
)

// Explanations call the functions that place pods. So for any problem, they never find a node for a pod that planning
// found none for, and every unschedulable pod gets a reason.
func TestExplanationsAgreeWithPlans(t *testing.T) {
	t.Parallel()
	for seed := range uint64(400) {
		from := rand.New(rand.NewPCG(seed, 1))
		p := random.Problem(from, random.Options{})
		p.Policy.Greedy = seed%2 == 0
		for _, u := range solve.Solve(p, stopIf(false)).Unplaced {
			bounded(t, u.Why)
			if slices.ContainsFunc(u.Why, func(r reason.Reason) bool { return r.Code == reason.OutOfTime }) {
				t.Errorf("seed %d: pod %s has a place after all: %s", seed, u.Pod, reason.Join(u.Why, 0))
			}
		}
	}
}
