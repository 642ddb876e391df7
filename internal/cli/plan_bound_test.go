package cli

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/dovetail-sh/dovetail/internal/cluster"
	"github.com/dovetail-sh/dovetail/internal/reason"
	"github.com/dovetail-sh/dovetail/internal/solve"
)

// However different pods and nodes are, the report can be read: the largest groups, and a count.
func TestExplanationIsBounded(t *testing.T) {
	t.Parallel()
	compiled, plan := tinyPlan(t)
	plan.Unplaced = nil
	for i := range 3000 {
		why := reason.Reason{Code: reason.NoTypeFits, Want: fmt.Sprintf("cpu:%d", 1000+i), Have: "8"}
		for k := range 1 + i/2999 { // the last kind has two pods
			key := cluster.PodKey{Namespace: "default", Name: fmt.Sprintf("pods-%d-%d", i, k)}
			plan.Unplaced = append(plan.Unplaced, solve.Unplaced{Pod: key, Why: []reason.Reason{why}})
		}
	}
	node := plan.Create[0]
	plan.Create = nil
	for i := range 100 {
		node.Pool = fmt.Sprintf("pool-%d", i)
		plan.Create = append(plan.Create, node, node)
	}
	result := summarize(compiled.World.Scenario, plan, usage{}, 0)
	result.Explanation = explain(compiled, plan)
	text := provisionTable(result, true)
	if lines := strings.Count(text, "\n"); lines > 200 {
		t.Errorf("%d lines", lines)
	}
	fix, _ := reason.Lookup(reason.NoTypeFits)
	for want, times := range map[string]int{
		"  and 2980 more kinds of pods (2980 pods)\n": 1,
		"and 70 more kinds of nodes (140 nodes)\n":    2, // below the table and below the reasons
		"unschedulable:\n  2 pods: ":                  1,
		fix.Fix:                                       1,
	} {
		if got := strings.Count(text, want); got != times {
			t.Errorf("%q appears %d times, want %d:\n%s", want, got, times, text)
		}
	}
	line, err := json.Marshal(result)
	if err != nil {
		t.Fatal(err)
	}
	if len(line) > 20_000 || !strings.Contains(string(line), `"unplacedLeftOut":{"kinds":2980,"count":2980}`) ||
		!strings.Contains(string(line), `"nodesLeftOut":{"kinds":70,"count":140}`) || !strings.Contains(string(line), `"advice":{"NoTypeFits":"Lower`) {
		t.Errorf("%d bytes of JSON: %s", len(line), line)
	}
}

func TestKeptNodesAreBounded(t *testing.T) {
	t.Parallel()
	var verdicts []solve.Verdict
	for i := range 100 {
		verdicts = append(verdicts, solve.Verdict{Node: fmt.Sprint(i), Why: reason.Reason{Code: reason.NothingCheaper, Have: fmt.Sprintf("$%d", i), Want: "$1"}})
	}
	r := &consolidateResult{}
	r.explain(verdicts)
	text := consolidateTable(r)
	if !strings.HasSuffix(text, "  and 70 more kinds of nodes (70 nodes)\n") || strings.Count(text, "such as") != 30 {
		t.Errorf("the report is\n%s", text)
	}
}

// Causes have advice too, and none is given twice.
func TestAdviceCoversCauses(t *testing.T) {
	t.Parallel()
	why := []reason.Reason{
		{Code: reason.NoTypeSuits, Because: []reason.Reason{{Code: reason.NoTypeFits}, {Code: reason.NoOffering}}},
		{Code: reason.NoTypeFits},
	}
	a := advice{}
	a.add(codes(why))
	var b strings.Builder
	advise := a.writeOnce()
	advise(&b, codes(why))
	advise(&b, codes(why))
	if strings.Count(b.String(), "\n") != 3 {
		t.Errorf("advice:\n%s", b.String())
	}
}
