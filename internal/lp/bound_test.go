package lp

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	_ "github.com/dovetail-sh/dovetail/internal/seed" // the same values in every run
)

const plenty = 1 << 30 // a budget that is never spent

func TestBound(t *testing.T) {
	t.Parallel()
	inf := math.Inf(1)
	demand := func(d ...float64) Class { return Class{Demand: d} }
	option := func(cost float64, may uint64, room ...float64) Option {
		return Option{Cost: cost, Room: room, May: []uint64{may}}
	}
	for name, tc := range map[string]struct {
		classes    []Class
		options    []Option
		apart      float64
		want       float64
		wantPrices [][]float64 // where they are unique
	}{
		"nothing at all":                      {wantPrices: [][]float64{}},
		"nothing is wanted":                   {classes: []Class{demand(0)}, options: []Option{option(1, 1, 1)}, wantPrices: [][]float64{{0}}},
		"one class and one option":            {classes: []Class{demand(10)}, options: []Option{option(2, 1, 4)}, want: 5, wantPrices: [][]float64{{0.5}}},
		"two classes share what they may":     {classes: []Class{demand(3, 1), demand(1, 3)}, options: []Option{option(1, 3, 1, 1)}, want: 4},
		"apart they pay for what they waste":  {classes: []Class{demand(3, 1), demand(1, 3)}, options: []Option{option(1, 1, 1, 1), option(1, 2, 1, 1)}, want: 6, wantPrices: [][]float64{{1, 0}, {0, 1}}},
		"the picky class pays more":           {classes: []Class{demand(10), demand(10)}, options: []Option{option(1, 1, 10), option(3, 3, 10)}, want: 4, wantPrices: [][]float64{{0.1}, {0.3}}},
		"waste of one is room for another":    {classes: []Class{demand(10, 0), demand(0, 10)}, options: []Option{option(3, 3, 10, 10), option(2, 2, 0, 10)}, want: 3},
		"nodes are counted":                   {classes: []Class{demand(4)}, options: []Option{option(1, 1, 1), option(2, 1, 4)}, apart: 4, want: 4},
		"nodes are counted beside the demand": {classes: []Class{demand(10)}, options: []Option{option(1, 1, 1), option(4, 1, 10)}, apart: 4, want: 6},
		"nodes are counted though empty":      {classes: []Class{demand(0)}, options: []Option{option(3, 1, 1), option(2, 1, 4)}, apart: 4, want: 8},
		"nodes cost nothing":                  {classes: []Class{demand(1, 1)}, options: []Option{option(0, 1, 1), option(2, 1, 4, 4)}, apart: 4, want: 0.5, wantPrices: [][]float64{{0, 0.5}}},
		"too few rooms are listed":            {classes: []Class{demand(1, 1)}, options: []Option{option(1, 1, 1), option(1, 1, 1, 1)}, want: 1},
		"a class without an option":           {classes: []Class{demand(1), demand(1)}, options: []Option{option(1, 1, 1)}, want: 1, wantPrices: [][]float64{{1}, {0}}},
		"a class that misses one resource":    {classes: []Class{demand(1, 1), demand(1, 0)}, options: []Option{option(1, 3, 1, 0)}, want: 1, wantPrices: [][]float64{{0, 0}, {1, 0}}},
		"an option for no class":              {classes: []Class{demand(1)}, options: []Option{option(1, 0, 9), option(1, 6, 9), option(3, 1, 1), {Cost: 1, Room: []float64{9}}}, want: 3},
		"options that are not offered":        {classes: []Class{demand(1)}, options: []Option{option(inf, 1, 9), option(math.NaN(), 1, 9), option(3, 1, 1)}, want: 3},
		"a free option":                       {classes: []Class{demand(1, 1)}, options: []Option{option(0, 1, 1, 0), option(3, 1, 1, 1)}, want: 3, wantPrices: [][]float64{{0, 3}}},
		"an option without end":               {classes: []Class{demand(1, 1)}, options: []Option{option(1, 1, inf, 0), option(3, 1, 1, 1)}, want: 3, wantPrices: [][]float64{{0, 3}}},
		"rooms that are not rooms":            {classes: []Class{demand(1, 1)}, options: []Option{option(1, 1, math.NaN(), 1), option(1, 1, 1, -1)}, want: 2, wantPrices: [][]float64{{1, 1}}},
		"a demand without end":                {classes: []Class{demand(inf), demand(1)}, options: []Option{option(1, 3, 1)}, want: 1, wantPrices: [][]float64{{0}, {1}}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got, prices := Bound(tc.classes, tc.options, tc.apart, plenty)
			if got > tc.want || got < tc.want*(1-2e-9) {
				t.Errorf("Bound() = %v, want %v", got, tc.want)
			}
			near := cmp.Comparer(func(a, b float64) bool { return math.Abs(a-b) <= 2e-9*max(a, b) })
			if diff := cmp.Diff(tc.wantPrices, prices, near); tc.wantPrices != nil && diff != "" {
				t.Errorf("prices (-want +got):\n%s", diff)
			}
		})
	}
}

// With budget enough it is the optimum that a textbook method finds on the program as written; with
// less it is smaller and still proved by its prices.
func TestBoundIsTheOptimum(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		classes, options, apart := drawMarket(t)
		value, prices := Bound(classes, options, apart, plenty)
		supported(t, classes, options, apart, value, prices)
		if want := textbook(classes, options, apart); value > want || value < want*(1-1e-8) {
			t.Fatalf("Bound() = %v, want %v", value, want)
		}
		less, prices := Bound(classes, options, apart, rapid.IntRange(-1, 10).Draw(t, "budget"))
		supported(t, classes, options, apart, less, prices)
		if less > value*(1+1e-9) {
			t.Fatalf("a small budget gives %v, a large one %v", less, value)
		}
	})
}

// Neither the order of options nor that of classes matters, beyond rounding.
func TestBoundIgnoresOrder(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		classes, options, apart := drawMarket(t)
		want, _ := Bound(classes, options, apart, plenty)
		place := rapid.Permutation(indices(len(classes))).Draw(t, "classes")
		moved := make([]Class, len(classes))
		for k, at := range place {
			moved[at] = classes[k]
		}
		var shuffled []Option
		for _, o := range rapid.Permutation(options).Draw(t, "options") {
			may := uint64(0)
			for k, at := range place {
				may |= o.May[0] >> k & 1 << at
			}
			shuffled = append(shuffled, Option{Cost: o.Cost, Room: o.Room, May: []uint64{may}})
		}
		if got, _ := Bound(moved, shuffled, apart, plenty); math.Abs(got-want) > 1e-8*want {
			t.Fatalf("Bound() = %v, in another order %v", got, want)
		}
	})
}

// No packing of whole pods on whole nodes is cheaper.
func TestBoundIsBelowPackings(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		rnd := rand.New(rand.NewPCG(rapid.Uint64().Draw(t, "seed"), 2))
		classes, options := tenants(rnd, 1+rnd.IntN(8), 1+rnd.IntN(10), 1+rnd.IntN(20))
		apart, cost := pack(rnd, classes, options, 1+rnd.IntN(120))
		value, prices := Bound(classes, options, apart, rapid.SampledFrom([]int{0, 5, 50, plenty}).Draw(t, "budget"))
		supported(t, classes, options, apart, value, prices)
		if value > cost {
			t.Fatalf("bound %v, but there is a packing for %v", value, cost)
		}
		if value <= 0 {
			t.Fatalf("bound %v", value)
		}
	})
}

// On programs too large for the textbook the cost of the last basis, which is feasible, shows that the
// bound is the optimum.
func TestBoundMeetsItsBasis(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		rnd := rand.New(rand.NewPCG(rapid.Uint64().Draw(t, "seed"), 5))
		classes, options := tenants(rnd, 1+rnd.IntN(60), 1+rnd.IntN(40), 1+rnd.IntN(60))
		apart, _ := pack(rnd, classes, options, 1+rnd.IntN(1000))
		if rnd.IntN(2) == 0 {
			apart = 0
		}
		for _, p := range newMarket(classes, options, 3, apart).parts() {
			b := newBasis(p.goal, p.width)
			used := b.solve(p, plenty)
			if cost := b.cost(); b.bound > cost || b.bound < cost*(1-1e-9) {
				t.Fatalf("bound %v, basis %v after %d pivots with %d rows", b.bound, cost, used, b.m)
			}
			if used > 20*(b.m+5) {
				t.Fatalf("%d pivots for %d rows", used, b.m)
			}
		}
	})
}

// Programs too large for memory are relaxed: the bound is lower and still proved.
func TestBoundPoolsWhatIsTooLarge(t *testing.T) {
	t.Parallel()
	rnd := rand.New(rand.NewPCG(3, 3))
	classes, options := tenants(rnd, 40, 40, 20)
	pack(rnd, classes, options, 2000)
	want, _ := Bound(classes, options, 0, plenty)
	for _, limit := range []int{3, 10, 60, 119} {
		m := newMarket(classes, options, 3, 0)
		m.bundles = pool(m.bundles, limit)
		rows := 0
		for _, p := range m.parts() {
			rows += len(p.unit)
		}
		if rows > limit {
			t.Errorf("%d rows, want at most %d", rows, limit)
		}
		value, prices := m.solve(len(classes), plenty)
		supported(t, classes, options, 0, value, prices)
		if value > want || value < want/2 {
			t.Errorf("with %d rows the bound is %v, with all it is %v", limit, value, want)
		}
	}
}

// supported checks that the prices prove the bound, as the comment of Bound says.
func supported(t rapid.TB, classes []Class, options []Option, apart, value float64, prices [][]float64) {
	t.Helper()
	node := value
	for k, c := range classes {
		for r, d := range c.Demand {
			if !(prices[k][r] >= 0) {
				t.Fatalf("prices %v", prices)
			}
			node -= d * prices[k][r]
		}
	}
	if apart > 0 {
		node /= apart
	}
	if math.Abs(node) < 1e-12*value {
		node = 0
	}
	if node < 0 || apart == 0 && node != 0 {
		t.Fatalf("prices add up to %v less than %v", node, value)
	}
	for j, o := range options {
		worth := node
		for r, room := range o.Room {
			most := 0.0
			for k := range classes {
				if o.May[k/64]>>(k%64)&1 == 1 {
					most = max(most, prices[k][r])
				}
			}
			worth += room * most
		}
		if o.May[0] != 0 && worth > o.Cost*(1-1e-10)+1e-12*value {
			t.Fatalf("option %d costs %v and is worth %v", j, o.Cost, worth)
		}
	}
}

// drawMarket draws a small market in which every class has an option with everything.
func drawMarket(t *rapid.T) (classes []Class, options []Option, apart float64) {
	resources := rapid.IntRange(1, 3).Draw(t, "resources")
	number := rapid.OneOf(rapid.Map(rapid.IntRange(0, 4), toFloat), rapid.Float64Range(0.01, 100))
	classes = rapid.SliceOfN(rapid.Custom(func(t *rapid.T) Class {
		return Class{Demand: rapid.SliceOfN(number, resources, resources).Draw(t, "demand")}
	}), 1, 5).Draw(t, "classes")
	all := uint64(1)<<len(classes) - 1
	options = rapid.SliceOfN(rapid.Custom(func(t *rapid.T) Option {
		return Option{
			Cost: number.Draw(t, "cost"), Room: rapid.SliceOfN(number, resources, resources).Draw(t, "room"),
			May: []uint64{rapid.Uint64Range(0, all).Draw(t, "may")},
		}
	}), 0, 12).Draw(t, "options")
	last := Option{Cost: 50, May: []uint64{all}}
	for range resources {
		last.Room = append(last.Room, 1)
	}
	return classes, append(options, last), number.Draw(t, "apart")
}

func indices(n int) []int {
	out := make([]int, n)
	for i := range out {
		out[i] = i
	}
	return out
}

func BenchmarkBound(b *testing.B) {
	for _, size := range []struct {
		classes, pools, types int
		apart                 float64
	}{{1, 1, 376, 0}, {11, 1, 376, 100}, {7, 3, 300, 0}, {101, 100, 200, 0}, {101, 100, 200, 500}} {
		b.Run(fmt.Sprintf("%dclasses%doptions%gapart", size.classes, size.pools*size.types, size.apart), func(b *testing.B) {
			rnd := rand.New(rand.NewPCG(4, 4))
			classes, options := tenants(rnd, size.classes, size.pools, size.types)
			pack(rnd, classes, options, 100*size.classes)
			b.ReportAllocs()
			for b.Loop() {
				Bound(classes, options, size.apart, 10_000)
			}
		})
	}
}
