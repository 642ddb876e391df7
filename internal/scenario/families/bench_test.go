package families_test

import (
	"testing"
	"time"

	"github.com/dovetail-sh/dovetail/internal/solve"
)

func never() bool { return false }

// BenchmarkCompile is what planning costs before the first decision.
func BenchmarkCompile(b *testing.B) {
	for _, name := range []string{"s1-5000", "s2-5000", "s3-2000", "s5-500"} {
		world := load(b, name).World(time.Unix(0, 0))
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				world.Compile()
			}
		})
	}
}

// BenchmarkSolve is the decision alone.
func BenchmarkSolve(b *testing.B) {
	for _, name := range []string{"s1-5000", "s2-500", "s2-5000", "s3-2000", "s4-1000", "s5-500", "s6-1000", "s7-1000"} {
		view := load(b, name).World(time.Unix(0, 0)).Compile().View
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				solve.Solve(solve.Problem{View: view, Pods: view.Pending, Policy: solve.Policy{Workers: 1}}, never)
			}
		})
	}
}

// BenchmarkConsolidate is one look at a cluster: one with much to gain, one with nothing.
func BenchmarkConsolidate(b *testing.B) {
	for _, name := range []string{"c1-200", "c2-200"} {
		c := load(b, name).World(time.Unix(0, 0)).Compile()
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				solve.Consolidate(solve.Question{View: c.View, Candidates: c.Candidates(), Policy: solve.Policy{Workers: 1}}, never)
			}
		})
	}
}
