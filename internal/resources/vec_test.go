package resources

import (
	"encoding/json"
	"math"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

func TestFits(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		request, available Vec
		want               bool
		wantLane           int
	}{
		"SC-11 nothing fits into nothing":                                    {want: true},
		"SC-11 an exact fit fits":                                            {request: vec(2, 3, 4, 1, 0, 5), available: vec(2, 3, 4, 1, 0, 5), want: true},
		"SC-11 one too much in a fixed lane":                                 {request: vec(2, 4), available: vec(2, 3), wantLane: Memory},
		"SC-11 one too much in an extended lane":                             {request: vec(0, 0, 0, 0, 0, 2), available: vec(9, 9, 9, 9, 0, 1), wantLane: named},
		"SC-11 an extended lane the node lacks":                              {request: vec(0, 0, 0, 0, 0, 0, 1), available: vec(9, 9, 9, 9), wantLane: named + 1},
		"SC-11 a zero request for a lane the node lacks":                     {request: vec(0, 0, 0, 0, 0, 0), available: vec(1), want: true},
		"SC-11 negative available fails although nothing is requested of it": {request: vec(1), available: vec(1, -1), wantLane: Memory},
		"SC-11 negative extended available fails although unused":            {available: vec(1, 1, 1, 1, 0, 0, -1), wantLane: named + 1},
		"SC-11 an unknown resource fits nowhere":                             {request: vec(0, 0, 0, 0, 1), available: vec(9, 9, 9, 9), wantLane: Unknown},
		"extremes are compared, not subtracted":                              {request: vec(math.MinInt64), available: vec(math.MaxInt64), want: true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if got := Fits(&tc.request, &tc.available); got != tc.want {
				t.Errorf("Fits(%v, %v) = %v, want %v", tc.request, tc.available, got, tc.want)
			}
			if lane, found := Short(&tc.request, &tc.available); found == tc.want || lane != tc.wantLane {
				t.Errorf("Short(%v, %v) = %v, %v, want %v, %v", tc.request, tc.available, lane, found, tc.wantLane, !tc.want)
			}
		})
	}
}

func TestArithmeticSaturates(t *testing.T) {
	t.Parallel()
	const least, most = math.MinInt64, math.MaxInt64
	for name, tc := range map[string]struct{ a, b, sum, rest int64 }{
		"ordinary numbers":              {a: 5, b: 7, sum: 12, rest: -2},
		"two large ones":                {a: most, b: most, sum: most, rest: 0},
		"two small ones":                {a: least, b: least, sum: least, rest: 0},
		"large minus small":             {a: most, b: least, sum: -1, rest: most},
		"small minus large":             {a: least, b: most, sum: -1, rest: least},
		"zero minus the smallest":       {a: 0, b: least, sum: least, rest: most},
		"minus one minus the smallest":  {a: -1, b: least, sum: least, rest: most},
		"one beyond the largest":        {a: most, b: 1, sum: most, rest: most - 1},
		"one below the smallest":        {a: least, b: -1, sum: least, rest: least + 1},
		"minus one minus the largest":   {a: -1, b: most, sum: most - 1, rest: least},
		"minus two minus the largest":   {a: -2, b: most, sum: most - 2, rest: least},
		"the smallest plus the largest": {a: least, b: most, sum: -1, rest: least},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			fixedA, fixedB := vec(tc.a), vec(tc.b)
			restA, restB := vec(0, 0, 0, 0, 0, tc.a), vec(0, 0, 0, 0, 0, tc.b)
			if got := [2]int64{Add(fixedA, fixedB).At(CPU), Add(restA, restB).At(named)}; got != [2]int64{tc.sum, tc.sum} {
				t.Errorf("%d + %d = %v, want %d", tc.a, tc.b, got, tc.sum)
			}
			if got := [2]int64{Sub(fixedA, fixedB).At(CPU), Sub(restA, restB).At(named)}; got != [2]int64{tc.rest, tc.rest} {
				t.Errorf("%d - %d = %v, want %d", tc.a, tc.b, got, tc.rest)
			}
		})
	}
}

func TestInPlaceFormsNeverWriteToTheirSource(t *testing.T) {
	t.Parallel()
	for name, op := range map[string]func(dst, v *Vec){"AddTo": AddTo, "SubFrom": SubFrom, "MaxTo": MaxTo, "MinTo": MinTo} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			source := vec(1, 2, 3, 4, 0, 5, 6)
			spare := vec(1, 1, 1, 1, 1, 1, 1)
			dst := Vec{rest: spare.rest[:1]} // grows, but not into memory that spare owns
			op(&dst, &source)
			if want := vec(1, 2, 3, 4, 0, 5, 6); !source.Equal(want) {
				t.Errorf("source became %v", source)
			}
			if want := vec(1, 1, 1, 1, 1, 1, 1); !spare.Equal(want) {
				t.Errorf("neighbour became %v", spare)
			}
		})
	}
}

func TestMinTo(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct{ a, b, want Vec }{
		"lane by lane":                   {vec(4, 8, 0, 58, 0, 2), vec(2, 9, 7, 58, 0, 1), vec(2, 8, 0, 58, 0, 1)},
		"a lane that the other lacks":    {vec(4, 0, 0, 0, 0, 2), vec(4), vec(4)},
		"a lane that only the other has": {vec(4), vec(4, 0, 0, 0, 0, 2), vec(4)},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if MinTo(&tc.a, &tc.b); !tc.a.Equal(tc.want) {
				t.Errorf("MinTo() = %v, want %v", tc.a, tc.want)
			}
		})
	}
}

func TestFill(t *testing.T) {
	t.Parallel()
	got := Fill(vec(0, 2, 0, 110, 0, 0, 0, -3), vec(4, 8, 9, 58, 0, 1))
	if want := vec(4, 2, 9, 110, 0, 1, 0, -3); !got.Equal(want) {
		t.Errorf("Fill() = %v, want %v", got, want)
	}
	got = Fill(vec(1), vec(0, 0, 0, 0, 0, 7))
	if want := vec(1, 0, 0, 0, 0, 7); !got.Equal(want) {
		t.Errorf("Fill() = %v, want %v", got, want)
	}
}

func TestHotPathsDoNotAllocate(t *testing.T) {
	table := NewTable("nvidia.com/gpu", "vpc.amazonaws.com/pod-eni")
	request := vec(100, 1<<20, 0, 1, 0, 1)
	for name, dst := range map[string]Vec{"sized by the table": table.Zero(), "sized by a clone": vec(1, 1, 1, 1, 1, 1, 1).Clone()} {
		for op, run := range map[string]func(){
			"Fits":    func() { Fits(&request, &dst) },
			"AddTo":   func() { AddTo(&dst, &request) },
			"SubFrom": func() { SubFrom(&dst, &request) },
			"MaxTo":   func() { MaxTo(&dst, &request) },
			"MinTo":   func() { MinTo(&dst, &request) },
		} {
			if n := testing.AllocsPerRun(100, run); n != 0 {
				t.Errorf("%s, %s: %v allocations, want none", op, name, n)
			}
		}
	}
	small, sum := vec(1, 2, 3, 4), Vec{}
	if n := testing.AllocsPerRun(100, func() { sum = Add(small, small) }); n != 0 {
		t.Errorf("Add without extended lanes: %v allocations, want none", n)
	}
	if want := vec(2, 4, 6, 8); !sum.Equal(want) {
		t.Errorf("Add() = %v, want %v", sum, want)
	}
}

// A slow model: vectors as plain slices of one length.
func TestVecAgreesWithPlainSlices(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		lanes := rapid.SliceOfN(rapid.Int64Range(-9, 9), 0, 8)
		a, b := lanes.Draw(t, "a"), lanes.Draw(t, "b")
		av, bv := vec(a...), vec(b...)
		sum, rest, larger, full := Add(av, bv), Sub(av, bv), Max(av, bv), Fill(av, bv)
		fits, equal, zero := true, true, true
		for lane := range 10 {
			x, y := at(a, lane), at(b, lane)
			filled := x
			if filled == 0 {
				filled = y
			}
			got := [4]int64{sum.At(lane), rest.At(lane), larger.At(lane), full.At(lane)}
			if want := [4]int64{x + y, x - y, max(x, y), filled}; got != want {
				t.Fatalf("lane %d: sum, rest, max, fill = %v, want %v", lane, got, want)
			}
			fits = fits && y >= 0 && x <= y
			equal = equal && x == y
			zero = zero && x == 0
		}
		if Fits(&av, &bv) != fits || av.Equal(bv) != equal || av.IsZero() != zero {
			t.Fatalf("fits, equal, zero = %v, %v, %v, want %v, %v, %v", Fits(&av, &bv), av.Equal(bv), av.IsZero(), fits, equal, zero)
		}
		if _, found := Short(&av, &bv); found == fits {
			t.Fatalf("Short found %v, Fits %v", found, fits)
		}
	})
}

func TestVecAlgebra(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		moderate := rapid.SliceOfN(rapid.Int64Range(-1<<40, 1<<40), 0, 8)
		a, b := vec(moderate.Draw(t, "a")...), vec(moderate.Draw(t, "b")...)
		if got := Sub(Add(a, b), b); !got.Equal(a) {
			t.Fatalf("a + b - b = %v, want %v", got, a)
		}
		if x, y := Add(a, b), Add(b, a); !x.Equal(y) {
			t.Fatalf("a + b = %v, b + a = %v", x, y)
		}
		dst := a.Clone()
		AddTo(&dst, &b)
		SubFrom(&dst, &b)
		if !dst.Equal(a) {
			t.Fatalf("in place: a + b - b = %v, want %v", dst, a)
		}
		var back Vec
		text, err := json.Marshal(a)
		if err == nil {
			err = json.Unmarshal(text, &back)
		}
		if diff := cmp.Diff(a, back); diff != "" || err != nil {
			t.Fatalf("JSON (-want +got) %v:\n%s", err, diff)
		}
	})
}

// Requesting less, or offering more, never turns a fit into a failure; a fit leaves nothing negative.
func TestFitsIsMonotone(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		anything := rapid.SliceOfN(rapid.Int64(), 0, 8)
		atLeastZero := rapid.SliceOfN(rapid.Int64Range(0, math.MaxInt64), 0, 8)
		available := vec(anything.Draw(t, "available")...)
		smaller, more := vec(atLeastZero.Draw(t, "request")...), vec(atLeastZero.Draw(t, "more")...)
		larger := Add(smaller, more)
		if Fits(&larger, &available) && !Fits(&smaller, &available) {
			t.Fatal("a smaller request does not fit")
		}
		roomier := Add(available, more)
		if Fits(&smaller, &available) && !Fits(&smaller, &roomier) {
			t.Fatal("a larger node does not fit")
		}
		left := Sub(available, smaller)
		nothing := Vec{}
		if Fits(&smaller, &available) && !Fits(&nothing, &left) {
			t.Fatalf("a fit left %v", left)
		}
	})
}

func BenchmarkFits(b *testing.B) {
	types := make([]Vec, 800)
	for i := range types {
		n := int64(i)
		types[i] = vec(1000*n, n<<30, n<<30, 110)
		if i%8 == 0 {
			types[i] = vec(1000*n, n<<30, n<<30, 110, 0, 8)
		}
	}
	request := vec(400_000, 1<<30, 0, 1)
	b.ReportAllocs()
	fitting := 0
	for b.Loop() {
		for i := range types {
			if Fits(&request, &types[i]) {
				fitting++
			}
		}
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N*len(types)), "ns/test")
}

func BenchmarkAddTo(b *testing.B) {
	table := NewTable("nvidia.com/gpu")
	for name, v := range map[string]Vec{"fixed": vec(1, 2, 3, 4), "extended": vec(1, 2, 3, 4, 0, 5)} {
		b.Run(name, func(b *testing.B) {
			dst := table.Zero()
			b.ReportAllocs()
			for b.Loop() {
				AddTo(&dst, &v)
			}
		})
	}
}

// vec builds a vector from its lanes.
func vec(lanes ...int64) Vec {
	var v Vec
	if n := copy(v.base[:], lanes); n < len(lanes) {
		v.rest = append(v.rest, lanes[n:]...)
	}
	return v
}

func at(lanes []int64, i int) int64 {
	if i < len(lanes) {
		return lanes[i]
	}
	return 0
}
