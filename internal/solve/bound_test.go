package solve_test

import (
	"testing"

	"github.com/dovetail-sh/dovetail/internal/solve"
)

// V15-57: a claim that pods share takes one attachment, so they need no second node for it.
func TestBoundKnowsSharedClaims(t *testing.T) {
	t.Parallel()
	p := problem(t, `
type name=m cpu=8 price=1 volumes=ebs:1
type name=l cpu=8 price=2
pool name=default
pod name=web count=3 cpu=1 volumes=ebs/shared
`)
	if plan := solve.Solve(p, told(false)); plan.Cost != 1 || plan.Bound > plan.Cost {
		t.Errorf("costs %v, at least %v; want 1, and no more", plan.Cost, plan.Bound)
	}
}
