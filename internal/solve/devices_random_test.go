package solve_test

import (
	"fmt"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/dovetail-sh/dovetail/internal/check"
	_ "github.com/dovetail-sh/dovetail/internal/seed"
	"github.com/dovetail-sh/dovetail/internal/solve"
)

// drawDevices draws a cluster with nodes that have devices, some of them held, and pods with claims, some shared.
func drawDevices(t *rapid.T) *deviceWorld {
	w := newDeviceWorld()
	models := []string{"", `device.attributes["` + gpuDriver + `"].model == "a"`, `device.attributes["` + gpuDriver + `"].model == "b"`}
	number := func(what string, from, to int) int { return rapid.IntRange(from, to).Draw(t, what) }
	for i := range number("nodes", 0, 3) {
		name := fmt.Sprint("n", i)
		if number("kind", 0, 1) == 0 {
			w.node(name, "g1", 4, gpus(1, "a"))
		} else {
			w.node(name, "g4", 16, gpus(4, "b"))
		}
		w.view.Nodes[i].Initialized = number("initialized", 0, 3) > 0
		w.view.Nodes[i].Price = 3
		for j := range number("held", 0, 1) {
			claim := fmt.Sprint("held", i, j)
			w.claim(claim, 1, "")
			w.running(name, "r"+claim, int64(number("cpu", 1, 2)), claim)
		}
	}
	claims := number("claims", 1, 6)
	for i := range claims {
		w.claim(fmt.Sprint("c", i), int64(number("count", 1, 5)), models[number("model", 0, 2)])
	}
	for i := range number("pods", 1, 10) {
		var uses []string
		for range number("uses", 0, 2) {
			uses = append(uses, fmt.Sprint("c", number("claim", 0, claims-1)))
		}
		slices.Sort(uses)
		w.pod(fmt.Sprint("p", i), int64(number("cpu", 1, 4)), slices.Compact(uses)...)
	}
	return w
}

// DR-05, DR-07, DR-09: no plan breaks a rule about devices, and the order of the input changes nothing.
func TestRapidPlansWithDevices(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		w := drawDevices(t)
		first := w.solve()
		if wrong := check.Plan(w.problem(), first); len(wrong) > 0 {
			t.Fatalf("the plan breaks rules: %v\n%v", wrong, outcome(first))
		}
		slices.Reverse(w.pods)
		second := w.solve()
		if diff := cmp.Diff(outcome(first), outcome(second)); diff != "" {
			t.Fatalf("the order of the pods matters: first - second +\n%s", diff)
		}
	})
}

// DR-12: no move breaks a rule about devices.
func TestRapidMovesWithDevices(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		w := drawDevices(t)
		q := solve.Question{View: &w.view, Policy: solve.Policy{Workers: 1, AnySaving: true}}
		for _, n := range w.view.Nodes {
			if n.Initialized {
				q.Candidates = append(q.Candidates, n.Name)
			}
		}
		if wrong := check.Consolidation(q, solve.Consolidate(q, nil)); len(wrong) > 0 {
			t.Fatalf("moves break rules: %v", wrong)
		}
	})
}
