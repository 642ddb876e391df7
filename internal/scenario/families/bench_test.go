package families_test

import (
	"testing"
	"time"

	"github.com/dovetail-sh/dovetail/internal/check"
	"github.com/dovetail-sh/dovetail/internal/solve"
)

func never() bool { return false }

// asInstalled is the policy that a user has who changes nothing, with one worker: cores differ between machines.
func asInstalled() solve.Policy {
	return solve.Policy{NodeFee: 0.02, SpotShare: 0.25, SpotCost: 0.03, Workers: 1}
}

// BenchmarkStore is what it costs to read all nodes of a cluster and their pods.
func BenchmarkStore(b *testing.B) {
	for _, name := range []string{"s5-500", "c1-1000"} {
		world := load(b, name).World(time.Unix(0, 0))
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				world.Store()
			}
		})
	}
}

// BenchmarkCompile is what planning costs before the first decision, none of the waiting pods known.
func BenchmarkCompile(b *testing.B) {
	for _, name := range []string{"s1-5000", "s2-5000", "s3-2000"} {
		world := load(b, name).World(time.Unix(0, 0))
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				b.StopTimer()
				store := world.Store()
				b.StartTimer()
				store.Compile()
			}
		})
	}
}

// BenchmarkCut is the same for clusters that run already, with everything known.
func BenchmarkCut(b *testing.B) {
	for _, name := range []string{"s5-500", "c1-1000"} {
		store := load(b, name).World(time.Unix(0, 0)).Store()
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				store.Compile()
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
				solve.Solve(solve.Problem{View: view, Pods: view.Pending, Policy: asInstalled()}, never)
			}
		})
	}
}

// BenchmarkCheck is what judging a plan costs, which is done before anything is launched.
func BenchmarkCheck(b *testing.B) {
	for _, name := range []string{"s1-5000", "s2-5000", "s3-2000", "s7-1000"} {
		view := load(b, name).World(time.Unix(0, 0)).Compile().View
		problem := solve.Problem{View: view, Pods: view.Pending, Policy: asInstalled()}
		plan := solve.Solve(problem, never)
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				check.Plan(problem, plan)
			}
			b.ReportMetric(float64(len(plan.Create)), "nodes")
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
				solve.Consolidate(solve.Question{View: c.View, Candidates: c.Candidates(), Policy: asInstalled()}, never)
			}
		})
	}
}
