package script

import (
	"slices"
	"strings"

	"github.com/dovetail-sh/dovetail/internal/check"
	"github.com/dovetail-sh/dovetail/internal/cluster"
	"github.com/dovetail-sh/dovetail/internal/reason"
	"github.com/dovetail-sh/dovetail/internal/solve"
)

func never() bool { return false }

// runSolve performs `solve`.
func runSolve(w *World, l *Line) string {
	r := w.rendering(l)
	if l.fault != nil {
		return ""
	}
	p := solve.Problem{View: r.view, Pods: r.pending, Policy: w.policy}
	plan := solve.Solve(p, never)
	return r.plan(plan) + renderViolations(check.Plan(p, plan))
}

func (w *World) plan(r *rendering) solve.Plan {
	return solve.Solve(solve.Problem{View: r.view, Pods: r.pending, Policy: w.policy}, never)
}

// renderViolations shows what an independent judge says against a result: a script with such a line is wrong,
// whatever it expects.
func renderViolations(found []check.Violation) string {
	var b strings.Builder
	for _, v := range found {
		b.WriteString("VIOLATES " + v.String() + "\n")
	}
	return b.String()
}

// runExplain performs `explain`.
func runExplain(w *World, l *Line) string {
	r, wanted := w.rendering(l), l.Text("pod")
	if l.fault != nil {
		return ""
	}
	var b strings.Builder
	for _, u := range w.plan(r).Unplaced {
		if name := podName(u.Pod); wanted == "" || name == wanted || r.groups[u.Pod] == wanted {
			b.WriteString(name + ": " + reason.Join(u.Why, 0) + "\n")
		}
	}
	return b.String()
}

// runConsolidate performs `consolidate`.
func runConsolidate(w *World, l *Line) string {
	r := w.rendering(l)
	candidates := l.List("candidates")
	if candidates == nil {
		for i := range r.view.Nodes {
			if n := &r.view.Nodes[i]; n.Pool != "" && n.Initialized && !n.Deleting {
				candidates = append(candidates, n.Name)
			}
		}
	}
	for _, name := range candidates {
		if !slices.ContainsFunc(r.view.Nodes, func(n cluster.Node) bool { return n.Name == name }) {
			l.Failf("there is no node %s; candidates= names nodes", name)
		}
	}
	if l.fault != nil {
		return ""
	}
	q := solve.Question{View: r.view, Candidates: candidates, Policy: w.policy}
	result := solve.Consolidate(q, never)
	return r.consolidation(result) + renderViolations(check.Consolidation(q, result))
}
