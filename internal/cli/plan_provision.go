package cli

import (
	"encoding/json"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"github.com/dovetail-sh/dovetail/internal/check"
	"github.com/dovetail-sh/dovetail/internal/scenario"
	"github.com/dovetail-sh/dovetail/internal/solve"
)

// provisionResult has the names that every tool for scenarios uses.
type provisionResult struct {
	Tool          string         `json:"tool"`
	Scenario      string         `json:"scenario"`
	Concurrency   int            `json:"concurrency"`
	Pods          int            `json:"pods"`
	Scheduled     int            `json:"scheduled"`
	Unschedulable int            `json:"unschedulable"`
	OnExisting    int            `json:"onExistingNodes"`
	NewNodes      int            `json:"newNodes"`
	NewByCapacity map[string]int `json:"newNodesByCapacityType"`
	HourlyCost    float64        `json:"hourlyCost"`
	LowerBound    float64        `json:"lowerBound,omitempty"`
	StoreMs       float64        `json:"storeMs"` // before: reading nodes and their pods, which watching keeps up to date
	SetupMs       float64        `json:"setupMs"`
	SolveMs       float64        `json:"solveMs"`
	PodsPerSec    float64        `json:"podsPerSec"`
	TimedOut      bool           `json:"timedOut"`
	usage
	Explanation *explanation `json:"explanation,omitempty"` // with --explain
}

func runProvision(f *planFlags, sc *scenario.Scenario, out io.Writer) error {
	store, stored := storeOf(sc)
	meter := startMeter()
	compiled := store.Compile()
	ready := time.Now()
	problem := solve.Problem{View: compiled.View, Pods: compiled.View.Pending, Policy: f.policy()}
	plan := solve.Solve(problem, f.stop())
	solved := time.Since(ready)
	used := meter.stop()

	if err := verify(problem, plan); err != nil {
		return err
	}
	if f.out != "" {
		text, err := json.Marshal(sc.File(toolName(), &plan))
		if err != nil {
			return err
		}
		if err := os.WriteFile(f.out, append(text, '\n'), 0o644); err != nil {
			return err
		}
	}
	result := summarize(sc, &plan, used, solved)
	result.Concurrency, result.StoreMs = f.workers, millis(stored)
	if f.explain || f.asTable(out) {
		result.Explanation = explain(compiled, &plan)
	}
	if !f.asTable(out) {
		return writeLine(out, result)
	}
	_, err := fmt.Fprint(out, provisionTable(result, f.explain))
	return err
}

// storeOf makes what a controller has before it is requested anything, and says how long that took once
// the Kubernetes objects were there.
func storeOf(sc *scenario.Scenario) (*scenario.Store, time.Duration) {
	world := sc.World(time.Now())
	start := time.Now()
	store := world.Store()
	return store, time.Since(start)
}

// verify has the plan judged by rules that were written down a second time, independently of the
// solver: nothing is reported, or written, that breaks one.
func verify(problem solve.Problem, plan solve.Plan) error {
	found := check.Plan(problem, plan)
	if len(found) == 0 {
		return nil
	}
	const shown = 5
	list := make([]string, 0, shown)
	for _, v := range found[:min(shown, len(found))] {
		list = append(list, v.String())
	}
	return fmt.Errorf("the plan breaks %d rules, which is a defect of Dovetail; please report the scenario. First: %s", len(found), strings.Join(list, "; "))
}

func summarize(sc *scenario.Scenario, plan *solve.Plan, used usage, solved time.Duration) *provisionResult {
	r := &provisionResult{
		Tool: toolName(), Scenario: sc.Name, Pods: sc.Waiting(), OnExisting: len(plan.Bind),
		NewNodes: len(plan.Create), NewByCapacity: map[string]int{}, HourlyCost: plan.Cost, LowerBound: plan.Bound,
		SolveMs: millis(solved), TimedOut: plan.Partial, usage: used,
	}
	r.SetupMs = max(0, used.WallMs-r.SolveMs)
	r.Scheduled = len(plan.Bind)
	for i := range plan.Create {
		r.Scheduled += len(plan.Create[i].Pods)
		r.NewByCapacity[plan.Create[i].Offer.CapacityType]++
	}
	r.Unschedulable = r.Pods - r.Scheduled
	if solved > 0 {
		r.PodsPerSec = float64(r.Pods) / solved.Seconds()
	}
	return r
}
