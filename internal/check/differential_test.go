package check_test

import (
	"math/rand/v2"
	"testing"

	"github.com/dovetail-sh/dovetail/internal/check"
	"github.com/dovetail-sh/dovetail/internal/check/random"
	"github.com/dovetail-sh/dovetail/internal/solve"
)

// The fast way against the exact one, on thousands of small problems: it places as many pods, costs no
// more, and its plans obey every rule. One in three has no topology, so that packing is most of it.
func TestFastAgainstExact(t *testing.T) {
	t.Parallel()
	const problems = 3000
	cheaper := 0
	for seed := range uint64(problems) {
		p := random.Problem(rand.New(rand.NewPCG(seed, 1)), random.Options{Plain: seed%3 == 0})
		fast := solve.Solve(p, never)
		if found := check.Plan(p, fast); len(found) > 0 {
			t.Fatalf("problem %d: %v\nplan %s", seed, found, describe(fast))
		}
		p.Policy.Greedy = true
		exact := solve.Solve(p, never)
		if found := check.Plan(p, exact); len(found) > 0 {
			t.Fatalf("problem %d, exact: %v\nplan %s", seed, found, describe(exact))
		}
		if len(fast.Unplaced) > len(exact.Unplaced) {
			t.Fatalf("problem %d: %d pods without a place, %d the exact way", seed, len(fast.Unplaced), len(exact.Unplaced))
		}
		fee := p.Policy.NodeFee
		price, base := fast.Cost+fee*float64(len(fast.Create)), exact.Cost+fee*float64(len(exact.Create))
		if len(fast.Unplaced) == len(exact.Unplaced) && price > base+1e-9 {
			t.Fatalf("problem %d: costs %v with fees, %v the exact way", seed, price, base)
		}
		if price < base-1e-9 {
			cheaper++
		}
	}
	if cheaper == 0 {
		t.Errorf("the fast way was never cheaper: it is probably never tried")
	}
	t.Logf("%d of %d problems were planned cheaper than the exact way", cheaper, problems)
}
