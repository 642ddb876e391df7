package lp

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"

	"pgregory.net/rapid"
)

func TestCover(t *testing.T) {
	t.Parallel()
	inf := math.Inf(1)
	for name, tc := range map[string]struct {
		cost, columns, demand []float64
		want                  float64
		fails                 bool
	}{
		"one column":                            {cost: []float64{2}, columns: []float64{4}, demand: []float64{10}, want: 5},
		"the cheaper of two":                    {cost: []float64{2, 3}, columns: []float64{4, 8}, demand: []float64{8}, want: 3},
		"two rows share a column":               {cost: []float64{1}, columns: []float64{1, 2}, demand: []float64{3, 4}, want: 3},
		"a mix beats each alone":                {cost: []float64{1, 1, 1}, columns: []float64{4, 1, 1, 4, 2, 2}, demand: []float64{10, 10}, want: 4},
		"a row no column provides":              {cost: []float64{1}, columns: []float64{1, 0}, demand: []float64{1, 1}, fails: true},
		"a row neither provided nor wanted":     {cost: []float64{1}, columns: []float64{1, 0}, demand: []float64{1, 0}, want: 1},
		"nothing is wanted":                     {cost: []float64{1}, columns: []float64{1, 1}, demand: []float64{0, 0}},
		"nothing is wanted and nothing there":   {demand: []float64{0, 0}},
		"something is wanted and nothing there": {demand: []float64{0, 1}, fails: true},
		"a free column":                         {cost: []float64{0, 1}, columns: []float64{1, 0, 1, 1}, demand: []float64{7, 3}, want: 3},
		"everything is free":                    {cost: []float64{0, 1}, columns: []float64{1, 2, 1, 1}, demand: []float64{7, 3}},
		"a cost below zero counts as zero":      {cost: []float64{-1}, columns: []float64{1}, demand: []float64{7}},
		"a column that is not offered":          {cost: []float64{inf, math.NaN(), 1}, columns: []float64{9, 9, 1}, demand: []float64{7}, want: 7},
		"entries below zero count as zero":      {cost: []float64{1, 1}, columns: []float64{1, -5, 0, 1}, demand: []float64{2, 2}, want: 4},
		"an infinite demand":                    {cost: []float64{1}, columns: []float64{1}, demand: []float64{inf}, fails: true},
		"units far apart":                       {cost: []float64{1, 1}, columns: []float64{4, 8e9, 2, 16e9}, demand: []float64{4000, 16e12}, want: 4000.0 / 3},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got := Cover(tc.cost, tc.columns, len(tc.demand), tc.demand)
			if got.OK == tc.fails || math.Abs(got.Value-tc.want) > 1e-9*tc.want {
				t.Errorf("Cover() = %+v, want %v", got, tc.want)
			}
		})
	}
}

// The value is what enumerating every vertex finds, and the solution proves itself.
func TestCoverIsOptimal(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		m, n := rapid.IntRange(1, 3).Draw(t, "rows"), rapid.IntRange(1, 6).Draw(t, "columns")
		// Small whole numbers make ties and dependent columns likely.
		number := rapid.OneOf(rapid.Map(rapid.IntRange(0, 4), toFloat), rapid.Float64Range(0.01, 1e3))
		cost := rapid.SliceOfN(number, n, n).Draw(t, "cost")
		columns := rapid.SliceOfN(number, n*m, n*m).Draw(t, "entries")
		demand := rapid.SliceOfN(number, m, m).Draw(t, "demand")
		got, want := Cover(cost, columns, m, demand), vertices(cost, columns, m, demand)
		if got.OK != !math.IsInf(want, 1) {
			t.Fatalf("Cover() = %+v, want %v", got, want)
		}
		if !got.OK {
			return
		}
		if math.Abs(got.Value-want) > 1e-7*(1+want) {
			t.Fatalf("Cover() = %+v, want %v", got, want)
		}
		proves(t, got, cost, columns, m, demand)
	})
}

// Larger programs, where only the proof can be checked.
func TestCoverProvesItself(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		m, n := rapid.IntRange(1, 12).Draw(t, "rows"), rapid.IntRange(1, 300).Draw(t, "columns")
		cost, columns, demand := catalogue(rapid.Uint64().Draw(t, "seed"), n, m)
		got := Cover(cost, columns, m, demand)
		if !got.OK {
			t.Fatal("infeasible")
		}
		proves(t, got, cost, columns, m, demand)
	})
}

// proves checks that the solution is feasible, that its duals are, and that both cost the same.
func proves(t *rapid.T, s Solution, cost, columns []float64, m int, demand []float64) {
	t.Helper()
	total, met, value := 0.0, make([]float64, m), 0.0
	last := -1
	for _, e := range s.X {
		if e.Column <= last || !(e.Amount >= 0) {
			t.Fatalf("entries %v", s.X)
		}
		last = e.Column
		total += cost[e.Column] * e.Amount
		for r := range met {
			met[r] += columns[e.Column*m+r] * e.Amount
		}
	}
	for r, d := range demand {
		if met[r] < d*(1-1e-8) {
			t.Fatalf("row %d has %v of %v", r, met[r], d)
		}
		if !(s.Duals[r] >= 0) {
			t.Fatalf("duals %v", s.Duals)
		}
		value += s.Duals[r] * d
	}
	for j, c := range cost {
		sum := 0.0
		for r := range m {
			sum += columns[j*m+r] * s.Duals[r]
		}
		if sum > c*(1+1e-12) {
			t.Fatalf("column %d costs %v and is worth %v", j, c, sum)
		}
	}
	if math.Abs(value-s.Value) > 1e-9*value || math.Abs(total-s.Value) > 1e-8*total {
		t.Fatalf("value %v, by duals %v, by amounts %v", s.Value, value, total)
	}
}

// vertices is the optimum by trying every basis, infinite if there is none.
func vertices(cost, columns []float64, m int, demand []float64) float64 {
	n, best := len(cost), math.Inf(1)
	entry := func(j, r int) float64 {
		switch {
		case j < n:
			return columns[j*m+r]
		case j-n == r:
			return -1
		default:
			return 0
		}
	}
	chosen := make([]int, m)
	var try func(at, from int)
	try = func(at, from int) {
		if at < m {
			for j := from; j < n+m; j++ {
				chosen[at] = j
				try(at+1, j+1)
			}
			return
		}
		a := make([][]float64, m)
		for r := range a {
			for _, j := range chosen {
				a[r] = append(a[r], entry(j, r))
			}
			a[r] = append(a[r], demand[r])
		}
		x, ok := eliminate(a)
		if !ok {
			return
		}
		sum := 0.0
		for i, j := range chosen {
			if x[i] < -1e-9 {
				return
			}
			if j < n {
				sum += cost[j] * x[i]
			}
		}
		best = min(best, sum)
	}
	try(0, 0)
	return best
}

// eliminate solves the square system whose last column is the right-hand side.
func eliminate(a [][]float64) ([]float64, bool) {
	m := len(a)
	for k := range m {
		p := k
		for i := k; i < m; i++ {
			if math.Abs(a[i][k]) > math.Abs(a[p][k]) {
				p = i
			}
		}
		if math.Abs(a[p][k]) < 1e-10 {
			return nil, false
		}
		a[k], a[p] = a[p], a[k]
		for i := range m {
			if f := a[i][k] / a[k][k]; i != k && f != 0 {
				for c := k; c <= m; c++ {
					a[i][c] -= f * a[k][c]
				}
			}
		}
	}
	x := make([]float64, m)
	for k := range x {
		x[k] = a[k][m] / a[k][k]
	}
	return x, true
}

// catalogue makes columns like instance types: sizes in steps, shapes and prices of families, and
// rows from the third on that few columns provide.
func catalogue(seed uint64, n, m int) (cost, columns, demand []float64) {
	rnd := rand.New(rand.NewPCG(seed, 1))
	cost, columns, demand = make([]float64, n), make([]float64, n*m), make([]float64, m)
	for j := range n {
		size := float64(int(1) << rnd.IntN(8))
		cost[j] = 0.04 * size * (0.9 + 0.2*rnd.Float64())
		for r := range m {
			switch {
			case r == 0:
				columns[j*m] = size - 0.08
			case r < 3 || j < m || rnd.IntN(4) == 0:
				columns[j*m+r] = size * float64(int(1)<<rnd.IntN(4)) * math.Pow(10, float64(r%4*3))
			}
		}
	}
	for r := range demand {
		if rnd.IntN(6) > 0 {
			demand[r] = 1000 * rnd.Float64() * math.Pow(10, float64(r%4*3))
		}
		for j := range n { // a bin provides it
			if columns[j*m+r] > 0 {
				break
			}
			if j == n-1 {
				demand[r] = 0
			}
		}
	}
	return cost, columns, demand
}

func toFloat(i int) float64 { return float64(i) }

func BenchmarkCover(b *testing.B) {
	for _, size := range []struct{ m, n int }{{3, 376}, {4, 1000}, {4, 5000}, {12, 1000}} {
		b.Run(fmt.Sprintf("%dx%d", size.m, size.n), func(b *testing.B) {
			cost, columns, demand := catalogue(1, size.n, size.m)
			b.ReportAllocs()
			for b.Loop() {
				Cover(cost, columns, size.m, demand)
			}
		})
	}
}
