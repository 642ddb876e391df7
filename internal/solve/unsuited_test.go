package solve_test

import (
	"testing"

	"github.com/dovetail-sh/dovetail/internal/catalog"
	"github.com/dovetail-sh/dovetail/internal/cluster"
	"github.com/dovetail-sh/dovetail/internal/solve"
)

// A pool whose node class can launch no type says so; insufficient capacity is another reason.
func TestTrust_B03_PoolWhoseClassSuitsNoType(t *testing.T) {
	t.Parallel()
	pool := func(types ...catalog.InstanceType) *cluster.Pool { return &cluster.Pool{Name: "p", Types: types} }
	offer := []catalog.Offering{{Zone: "a", CapacityType: "spot", Out: true}}
	why, empty := solve.NoTypes(pool(catalog.InstanceType{Name: "m5", Unsuited: "no image", Offerings: offer}), solve.Policy{})
	if want := "nodepool/p: its node class can launch no suitable instance type (m5: no image)"; !empty || why.Text() != want {
		t.Errorf("got %v %q, want %q", empty, why.Text(), want)
	}
	if why, empty = solve.NoTypes(pool(catalog.InstanceType{Name: "m5", Offerings: offer}), solve.Policy{}); empty {
		t.Errorf("a pool that is out of capacity is said to have no types: %s", why.Text())
	}
}
