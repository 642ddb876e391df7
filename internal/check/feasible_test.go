package check_test

import (
	"math/rand/v2"
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/dovetail-sh/dovetail/internal/check/random"
	"github.com/dovetail-sh/dovetail/internal/cluster"
	"github.com/dovetail-sh/dovetail/internal/solve"
)

// A single pod that a planner written for nothing but these tests finds a place for, Solve finds one
// for too. With one pod no order of placing can excuse a refusal.
func TestOnePodIsPlacedIfItCanBe(t *testing.T) {
	t.Parallel()
	const problems = 6000
	requested, placed := 0, 0
	for seed := range uint64(problems) {
		p := random.Problem(rand.New(rand.NewPCG(seed, 2)), random.Options{Pods: 1, Nodes: 5, Types: 5})
		p.Policy.ReservedFallback = true
		if len(p.Pods) != 1 || differs(&p) {
			continue
		}
		requested++
		n := newNaive(p)
		n.place(&p.Pods[0])
		plan := solve.Solve(p, never)
		if len(plan.Unplaced) == 0 {
			placed++
		} else if len(n.plan.Unplaced) == 0 {
			t.Fatalf("problem %d: refused %s\nbut there is %s", seed, describe(plan.Unplaced), describe(n.plan))
		}
	}
	if requested < problems/10 || placed == 0 {
		t.Errorf("%d problems solved, %d pods placed: the test says nothing", requested, placed)
	}
}

// differs reports whether the two planners read the problem differently on purpose: spreading over keys
// whose values depend on what is launched, selectors that match nothing, soft taints on nodes.
func differs(p *solve.Problem) bool {
	shape := p.Pods[0].Shape
	odd := func(key string) bool { return key != corev1.LabelHostname && key != corev1.LabelTopologyZone }
	return slices.ContainsFunc(shape.Spread, func(s cluster.Spread) bool { return odd(s.Key) || s.Selector.Is == nil }) ||
		slices.ContainsFunc(slices.Concat(shape.Affinity, shape.AntiAffinity), func(t cluster.PodTerm) bool { return odd(t.Key) }) ||
		slices.ContainsFunc(p.View.Nodes, func(n cluster.Node) bool {
			return slices.ContainsFunc(n.Taints, func(t corev1.Taint) bool { return t.Effect == corev1.TaintEffectPreferNoSchedule })
		})
}
