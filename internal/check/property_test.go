package check_test

import (
	"encoding/json"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"pgregory.net/rapid"

	"github.com/dovetail-sh/dovetail/internal/check"
	"github.com/dovetail-sh/dovetail/internal/check/random"
	"github.com/dovetail-sh/dovetail/internal/cluster"
	"github.com/dovetail-sh/dovetail/internal/solve"
)

// drawn lets rapid decide, so that what it finds shrinks.
type drawn struct{ t *rapid.T }

func (d drawn) IntN(n int) int { return rapid.IntRange(0, n-1).Draw(d.t, "n") }

func problems(o random.Options) *rapid.Generator[solve.Problem] {
	return rapid.Custom(func(t *rapid.T) solve.Problem { return random.Problem(drawn{t}, o) })
}

func questions(o random.Options) *rapid.Generator[solve.Question] {
	return rapid.Custom(func(t *rapid.T) solve.Question { return random.Question(drawn{t}, o) })
}

func never() bool          { return false }
func at1st() bool          { return true }
func some() random.Options { return random.Options{} }

// show is a value in a form that can be read and pasted.
func describe(v any) string {
	text, err := json.Marshal(v)
	if err != nil {
		return err.Error()
	}
	return string(text)
}

func mustObey(t *rapid.T, what string, p solve.Problem, plan solve.Plan) {
	t.Helper()
	if found := check.Plan(p, plan); len(found) > 0 {
		t.Fatalf("%s: %v\nplan %s\nproblem %s", what, found, describe(plan), describe(p))
	}
}

// samePlan compares plans, not whether an empty list is nil.
func samePlan(t *rapid.T, what string, p solve.Problem, a, b solve.Plan) {
	t.Helper()
	if diff := cmp.Diff(a, b, cmpopts.EquateEmpty()); diff != "" {
		t.Fatalf("%s (-first +second):\n%s\nproblem %s", what, diff, describe(p))
	}
}

func TestPlansObeyEveryRule(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		p := problems(some()).Draw(t, "problem")
		mustObey(t, "plan", p, solve.Solve(p, never))
		p.Policy.Greedy = true
		mustObey(t, "greedy plan", p, solve.Solve(p, never))
	})
}

func TestInputOrderNeverMatters(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		p := problems(some()).Draw(t, "problem")
		other := shuffled(rapid.Uint64().Draw(t, "order"), p)
		samePlan(t, "two orders, two plans", p, solve.Solve(p, never), solve.Solve(other, never))
	})
}

// shuffled is the same problem with everything in another order for which no order is promised.
func shuffled(seed uint64, p solve.Problem) solve.Problem {
	r := rand.New(rand.NewPCG(seed, 0))
	view := *p.View
	view.Pending, p.Pods = slices.Clone(view.Pending), slices.Clone(p.Pods)
	r.Shuffle(len(view.Pending), func(i, j int) { view.Pending[i], view.Pending[j] = view.Pending[j], view.Pending[i] })
	r.Shuffle(len(p.Pods), func(i, j int) { p.Pods[i], p.Pods[j] = p.Pods[j], p.Pods[i] })
	view.Pools = slices.Clone(view.Pools)
	for i := range view.Pools {
		types := slices.Clone(view.Pools[i].Types)
		r.Shuffle(len(types), func(i, j int) { types[i], types[j] = types[j], types[i] })
		for k := range types {
			offerings := slices.Clone(types[k].Offerings)
			r.Shuffle(len(offerings), func(i, j int) { offerings[i], offerings[j] = offerings[j], offerings[i] })
			types[k].Offerings = offerings
		}
		view.Pools[i].Types = types
	}
	view.Nodes = slices.Clone(view.Nodes)
	for i := range view.Nodes {
		pods := slices.Clone(view.Nodes[i].Pods)
		r.Shuffle(len(pods), func(i, j int) { pods[i], pods[j] = pods[j], pods[i] })
		view.Nodes[i].Pods = pods
	}
	p.View = &view
	return p
}

func TestWorkersNeverMatter(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		p := problems(some()).Draw(t, "problem")
		p.Policy.Workers = 1
		alone := solve.Solve(p, never)
		p.Policy.Workers = 8
		samePlan(t, "one worker and eight", p, alone, solve.Solve(p, never))
	})
}

// Packing 3: never more expensive than the greedy baseline, and no pod is left out that it would place. The
// objective has a fee per node, so with one it is price and fee together that may not rise.
func TestNeverWorseThanGreedy(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		p := problems(some()).Draw(t, "problem")
		plan := solve.Solve(p, never)
		p.Policy.Greedy = true
		greedy := solve.Solve(p, never)
		if len(plan.Unplaced) > len(greedy.Unplaced) {
			t.Fatalf("%d pods without a place, greedy leaves %d\nproblem %s", len(plan.Unplaced), len(greedy.Unplaced), describe(p))
		}
		total := func(plan solve.Plan) float64 { return plan.Cost + p.Policy.NodeFee*float64(len(plan.Create)) }
		if len(plan.Unplaced) == len(greedy.Unplaced) && total(plan) > total(greedy)+1e-9 {
			t.Fatalf("costs %v with fees, greedy %v\nproblem %s", total(plan), total(greedy), describe(p))
		}
	})
}

func TestStoppedPlansObeyToo(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		p := problems(some()).Draw(t, "problem")
		plan := solve.Solve(p, at1st)
		mustObey(t, "stopped plan", p, plan)
		toDo := slices.ContainsFunc(p.Pods, func(pod cluster.Pod) bool { return len(pod.Shape.Invalid) == 0 && !pod.Shape.Refuses })
		if toDo && len(plan.Unplaced) > 0 && len(plan.Bind)+len(plan.Create) == 0 && !plan.Partial {
			t.Fatalf("stopped at once, and the plan does not say so\nproblem %s", describe(p))
		}
		after := rapid.IntRange(1, 40).Draw(t, "polls")
		mustObey(t, "plan stopped later", p, solve.Solve(p, func() bool { after--; return after < 0 }))
	})
}

// A recorded problem gives the recorded plan: what explain replays is what happened.
func TestProblemsAndPlansSurviveJSON(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		p := problems(some()).Draw(t, "problem")
		text := describe(p)
		var again solve.Problem
		if err := json.Unmarshal([]byte(text), &again); err != nil {
			t.Fatalf("%v\nproblem %s", err, text)
		}
		again.View.Intern(again.Pods, again.Moved) // pods that shared a shape share one again
		if diff := cmp.Diff(text, describe(again)); diff != "" {
			t.Fatalf("the problem changed (-before +after):\n%s", diff)
		}
		plan := solve.Solve(p, never)
		samePlan(t, "the recorded problem gives another plan", p, plan, solve.Solve(again, never))
		var read solve.Plan
		if err := json.Unmarshal([]byte(describe(plan)), &read); err != nil {
			t.Fatal(err)
		}
		samePlan(t, "the plan changed", p, plan, read)
	})
}

// Solve and the checker are total: nonsense gives a plan or violations, never a panic.
func TestWildProblemsAreNoPanic(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		p := rapid.Custom(func(t *rapid.T) solve.Problem { return random.Wild(drawn{t}, some()) }).Draw(t, "problem")
		plan := solve.Solve(p, never)
		for _, v := range check.Plan(p, plan) {
			if slices.Contains([]check.Code{check.PodLost, check.PodTwice, check.PodUnknown, check.NodeUnknown, check.PoolUnknown, check.ReasonMissing}, v.Code) {
				t.Fatalf("%v\nproblem %s", v, describe(p))
			}
		}
	})
}

func FuzzWild(f *testing.F) {
	f.Add(uint64(1), uint64(2))
	f.Fuzz(func(_ *testing.T, a, b uint64) {
		p := random.Wild(rand.New(rand.NewPCG(a, b)), some())
		check.Plan(p, solve.Solve(p, never))
	})
}
