package lp

import (
	"math"
	"math/rand/v2"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

func TestOneSize(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		bins   []Bin
		n      int
		want   float64
		counts []int
	}{
		"no pods":                             {bins: []Bin{{1, 1}}, counts: []int{0}},
		"no bins":                             {n: 1, want: math.Inf(1)},
		"no bins and no pods":                 {counts: []int{}},
		"a bin too small for one pod":         {bins: []Bin{{0, 1}}, n: 1, want: math.Inf(1)},
		"an exact fit":                        {bins: []Bin{{4, 2}}, n: 8, want: 4, counts: []int{2}},
		"one more pod":                        {bins: []Bin{{4, 2}}, n: 9, want: 6, counts: []int{3}},
		"a small bin for the rest":            {bins: []Bin{{1, 1}, {4, 2}}, n: 9, want: 5, counts: []int{1, 2}},
		"the most efficient is not enough":    {bins: []Bin{{10, 10}, {7, 7.1}}, n: 14, want: 14.2, counts: []int{0, 2}},
		"far beyond the largest":              {bins: []Bin{{3, 2.9}, {10, 9}}, n: 1_000_003, want: 900_002.9, counts: []int{1, 100_000}},
		"equally efficient":                   {bins: []Bin{{4, 4}, {6, 6}}, n: 100_002, want: 100_002, counts: []int{0, 16_667}},
		"a cost below zero counts as zero":    {bins: []Bin{{4, -1}, {5, 1}}, n: 8, want: 0, counts: []int{2, 0}},
		"not offered":                         {bins: []Bin{{9, math.Inf(1)}, {9, math.NaN()}, {1, 1}}, n: 2, want: 2, counts: []int{0, 0, 2}},
		"the first of equal bins":             {bins: []Bin{{2, 1}, {2, 1}}, n: 2, want: 1, counts: []int{1, 0}},
		"larger for less makes smaller vain":  {bins: []Bin{{2, 1}, {3, 1}}, n: 4, want: 2, counts: []int{0, 2}},
		"a bin with more room than there are": {bins: []Bin{{math.MaxInt, 1}}, n: 4, want: 1, counts: []int{1}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			cost, counts := OneSize(tc.bins, tc.n)
			if diff := cmp.Diff(tc.counts, counts); diff != "" || cost != tc.want && math.Abs(cost-tc.want) > 1e-9*tc.want {
				t.Errorf("OneSize() = %v, want %v, counts (-want +got):\n%s", cost, tc.want, diff)
			}
		})
	}
}

// The shortcuts change nothing: the cost is that of dynamic programming over all bins and pods, and
// the counts are a solution of that cost.
func TestOneSizeIsExact(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		bins := rapid.OneOf(
			rapid.SliceOfN(rapid.Custom(func(t *rapid.T) Bin {
				pods := rapid.IntRange(0, 30).Draw(t, "pods")
				cost := rapid.OneOf(rapid.Map(rapid.IntRange(0, 40), toFloat), rapid.Float64Range(0.9*float64(pods), 1.1*float64(pods)+1))
				return Bin{Pods: pods, Cost: cost.Draw(t, "cost")}
			}), 1, 40),
			rapid.Custom(func(t *rapid.T) []Bin { // so alike that most are of use
				rnd := rand.New(rand.NewPCG(rapid.Uint64().Draw(t, "seed"), 6))
				bins, spread := make([]Bin, 60), []float64{0.1, 1, 3}[rnd.IntN(3)]
				for i := range bins {
					bins[i].Pods = 40 + rnd.IntN(100)
					bins[i].Cost = float64(bins[i].Pods) + spread*rnd.Float64()
				}
				return bins
			})).Draw(t, "bins")
		n := rapid.IntRange(0, 3000).Draw(t, "n")
		want := make([]float64, n+1)
		for m := 1; m <= n; m++ {
			want[m] = math.Inf(1)
			for _, b := range bins {
				if b.Pods > 0 {
					want[m] = min(want[m], want[max(0, m-b.Pods)]+b.Cost)
				}
			}
		}
		cost, counts := OneSize(bins, n)
		if cost != want[n] && !(math.Abs(cost-want[n]) <= 1e-9*want[n]) {
			t.Fatalf("OneSize() = %v, want %v", cost, want[n])
		}
		if math.IsInf(cost, 1) {
			return
		}
		room, sum := 0, 0.0
		for i, count := range counts {
			room, sum = room+count*bins[i].Pods, sum+float64(count)*bins[i].Cost
		}
		if room < n || math.Abs(sum-cost) > 1e-9*cost {
			t.Fatalf("counts %v hold %d of %d for %v, not %v", counts, room, n, sum, cost)
		}
	})
}

// types are bins of a catalogue for pods of one core, and wild ones that nothing rules out early.
func types(count int, wild bool) []Bin {
	rnd, bins := rand.New(rand.NewPCG(7, 7)), make([]Bin, count)
	for i := range bins {
		pods := 1 + rnd.IntN(737)
		bins[i] = Bin{Pods: pods, Cost: float64(pods+1) * 0.04 * (1 + 0.3*rnd.Float64())}
		if wild {
			bins[i] = Bin{Pods: 337 + i, Cost: 337 + float64(i) + 1e-3*rnd.Float64()}
		}
	}
	return bins
}

func BenchmarkOneSize(b *testing.B) {
	for name, bins := range map[string][]Bin{"catalogue": types(400, false), "wild": types(400, true)} {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				OneSize(bins, 100_000)
			}
		})
	}
}
