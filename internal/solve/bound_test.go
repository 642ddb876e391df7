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
	if plan := solve.Solve(p, stopIf(false)); plan.Cost != 1 || plan.Bound > plan.Cost {
		t.Errorf("costs %v, at least %v; want 1, and no more", plan.Cost, plan.Bound)
	}
}

// SC-23: which DaemonSets run on a node depends on its zone; nodes of one type may differ in free capacity.
func TestBoundKnowsDaemonSetsOfZones(t *testing.T) {
	t.Parallel()
	p := problem(t, `
type name=m cpu=4 pods=4 price=1 zones=a,b
pool name=default
daemon name=logs requires="zone in a"
node name=n1 pool=default type=m zone=a
node name=n2 pool=default type=m zone=b
bound name=web count=3 node=n1
bound name=db node=n2
`)
	result := solve.Consolidate(solve.Question{View: p.View, Candidates: []string{"n1", "n2"}}, stopIf(false))
	if result.After != 1 || result.Bound > 1 {
		t.Errorf("costs %v, at least %v; want 1, and no more", result.After, result.Bound)
	}
}
