package solve_test

import (
	"maps"
	"slices"
	"testing"

	"github.com/dovetail-sh/dovetail/internal/check"
	"github.com/dovetail-sh/dovetail/internal/solve"
)

// SC-45: where no label says which reservation a node is for, a node keeps only those that its zones
// and types say exactly, so that it cannot be launched into one that another node holds.
func TestReservationsWithoutLabels(t *testing.T) {
	t.Parallel()
	p := problem(t, `
type name=c3 cpu=4 price=1 reserved=cr-3b:1@b,cr-3c:1@c
type name=c5 cpu=4 price=1 reserved=cr-5c:1@c
pool name=default
pod name=first cpu=3 requires="zone in c; type in c3"
pod name=second cpu=2
`)
	for i := range p.View.Pools[0].Types {
		for j := range p.View.Pools[0].Types[i].Offerings {
			p.View.Pools[0].Types[i].Offerings[j].Labels = nil
		}
	}
	plan := solve.Solve(p, stopIf(false))
	if found := check.Plan(p, plan); len(found) > 0 {
		t.Errorf("%v", found)
	}
	ids := map[string]bool{}
	for i := range plan.Create {
		ids[plan.Create[i].Offer.Reservation] = true
	}
	if got := slices.Sorted(maps.Keys(ids)); len(plan.Create) != 2 || len(got) != 2 {
		t.Errorf("%d nodes in reservations %v, want 2 in 2", len(plan.Create), got)
	}
}
