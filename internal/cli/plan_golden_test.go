package cli

import (
	"bytes"
	"flag"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/dovetail-sh/dovetail/internal/cluster"
	"github.com/dovetail-sh/dovetail/internal/reason"
	"github.com/dovetail-sh/dovetail/internal/reqs"
	"github.com/dovetail-sh/dovetail/internal/scenario"
	"github.com/dovetail-sh/dovetail/internal/solve"
)

var rewrite = flag.Bool("rewrite", false, "write the golden files anew")

func golden(t *testing.T, name, got string) {
	t.Helper()
	path := filepath.Join("testdata", name)
	if *rewrite {
		if err := os.WriteFile(path, []byte(got), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(string(want), got); d != "" {
		t.Errorf("%s (-want +got):\n%s", path, d)
	}
}

func TestPlanHelp(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer
	if code := Run([]string{"plan", "--help"}, Streams{Out: &out, Err: &out}); code != 0 {
		t.Fatalf("exit code %d", code)
	}
	golden(t, "plan-help.txt", out.String())
}

// tinyPlan is a plan made by hand, so that the report is tested and not the solver: one pod on the node
// that is there, the rest of the small ones on two nodes of one kind, the others without a place.
func tinyPlan(t *testing.T) (*scenario.Compiled, *solve.Plan) {
	t.Helper()
	text, err := os.ReadFile("../scenario/testdata/tiny.json")
	if err != nil {
		t.Fatal(err)
	}
	sc, err := scenario.Load(text, cloudWords())
	if err != nil {
		t.Fatal(err)
	}
	compiled := sc.World(time.Unix(0, 0)).Compile()
	pending := compiled.View.Pending
	node := func(pod cluster.Pod) solve.NewNode {
		return solve.NewNode{
			Pool: "default", Needs: reqs.Set{"team": {Values: []string{"web"}}}, Types: []string{"small", "gpu"},
			Requests: pod.Shape.Requests, Pods: []cluster.PodKey{pod.Key},
			Offer: solve.Offer{Type: "small", Zone: "b", CapacityType: "on-demand", Price: 0.1},
		}
	}
	plan := &solve.Plan{
		Bind:   []solve.Bind{{Pod: pending[0].Key, Node: "node-1"}},
		Create: []solve.NewNode{node(pending[1]), node(pending[2])},
		Cost:   0.2, Bound: 0.16,
	}
	for i, p := range pending[3:] {
		why := []reason.Reason{{Code: reason.TaintMalformed, Subject: "nodepool/default", Have: "one", Want: "another"}}
		if i > 0 {
			why = []reason.Reason{
				{Code: reason.FieldInvalid, Subject: "nodepool/default", Have: "cpu:64", Want: "cpu:8 or less"},
				{Code: reason.FieldRequired, Subject: "nodepool/other", Want: "something"},
			}
		}
		plan.Unplaced = append(plan.Unplaced, solve.Unplaced{Pod: p.Key, Why: why})
	}
	return compiled, plan
}

func TestPlanTable(t *testing.T) {
	t.Parallel()
	compiled, plan := tinyPlan(t)
	result := summarize(compiled.World.Scenario, plan, usage{WallMs: 20, BaseRSSMiB: 40, PeakRSSMiB: 47}, 12*time.Millisecond)
	result.Explanation = explain(compiled, plan)
	golden(t, "plan-table.txt", provisionTable(result, false))
	golden(t, "plan-explain.txt", provisionTable(result, true))
}

func TestConsolidateTable(t *testing.T) {
	t.Parallel()
	r := &consolidateResult{
		NodesBefore: 200, NodesAfter: 60, CostBefore: 69.052, CostAfter: 19.5, LowerBound: 18.9, Commands: 41, PodsMoved: 900, Replacements: 3,
		Looks: 4, PlanningMs: 31, FirstLook: look{Candidates: 200, ComputeMs: 9.5}, Invalid: 1,
	}
	r.explain([]solve.Verdict{
		{Node: "node-1", Why: reason.Reason{Code: reason.FieldRequired, Want: "a price"}},
		{Node: "node-2", Why: reason.Reason{Code: reason.FieldInvalid, Subject: "node/node-2", Have: "cpu:1", Want: "cpu:2"}},
		{Node: "node-3", Why: reason.Reason{Code: reason.FieldInvalid, Subject: "node/node-3", Have: "cpu:1", Want: "cpu:2"}},
		{Node: "node-4", Why: reason.Reason{Code: reason.FieldRequired, Want: "another price"}},
	})
	golden(t, "plan-consolidate.txt", consolidateTable(r))
}
