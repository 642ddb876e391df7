package cli

import (
	"cmp"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/dovetail-sh/dovetail/internal/columns"
	"github.com/dovetail-sh/dovetail/internal/reason"
	"github.com/dovetail-sh/dovetail/internal/scenario"
	"github.com/dovetail-sh/dovetail/internal/solve"
)

// consolidateResult says how far a cluster can be shrunk, and what it took to find out.
type consolidateResult struct {
	Tool         string  `json:"tool"`
	Scenario     string  `json:"scenario"`
	Concurrency  int     `json:"concurrency"`
	NodesBefore  int     `json:"nodesBefore"`
	NodesAfter   int     `json:"nodesAfter"`
	CostBefore   float64 `json:"costBefore"`
	CostAfter    float64 `json:"costAfter"`
	LowerBound   float64 `json:"lowerBound,omitempty"`
	Done         bool    `json:"done"` // a look found nothing more; false: it was stopped before
	Commands     int     `json:"commands"`
	PodsMoved    int     `json:"podsMoved"`
	Replacements int     `json:"replacements"`
	Invalid      int     `json:"invalidPlacements"`
	Looks        int     `json:"looks"`
	FirstLook    look    `json:"firstLook"`
	LastLook     *look   `json:"lastLook,omitempty"` // the one that found nothing
	StoreMs      float64 `json:"storeMs"`            // before: reading nodes and their pods, which watching keeps up to date
	SetupMs      float64 `json:"setupMs"`
	PlanningMs   float64 `json:"planningMs"` // of all looks
	usage
	Explanation []keptNodes `json:"explanation,omitempty"` // with --explain: why nodes stay, at the last look
	LeftOut     *leftOut    `json:"explanationLeftOut,omitempty"`
	Advice      advice      `json:"advice,omitempty"`
}

// look is one question which nodes could go.
type look struct {
	Candidates int     `json:"candidates"`
	ComputeMs  float64 `json:"computeMs"`
	CPUMs      float64 `json:"cpuMs"`
	Decision   string  `json:"decision"` // delete, replace or no-op
	Removed    int     `json:"removed"`
	Added      int     `json:"added"`
}

// keptNodes are the candidates that stay for the same reason.
type keptNodes struct {
	Count int           `json:"count"`
	Why   string        `json:"why"`
	Codes []reason.Code `json:"codes"` // of the reason and its causes, each once
	Node  string        `json:"node"`  // the first of them
}

// runConsolidate makes moves until a look at the cluster finds none.
func runConsolidate(f *planFlags, sc *scenario.Scenario, out io.Writer) error {
	store, stored := storeOf(sc)
	r := &consolidateResult{Tool: toolName(), Scenario: sc.Name, Concurrency: f.workers, StoreMs: millis(stored)}
	meter := startMeter()
	compiled := store.Compile()
	r.SetupMs = millis(time.Since(meter.start))
	r.NodesBefore, r.CostBefore = compiled.Cost()
	timeUp := f.stop()
	var result solve.Consolidation
	for {
		var seen look
		result, seen = lookOnce(f, compiled)
		r.Looks++
		r.PlanningMs += seen.ComputeMs
		if r.Looks == 1 {
			r.FirstLook, r.LowerBound = seen, result.Bound
		}
		if len(result.Moves) == 0 && !result.Partial {
			r.Done, r.LastLook = true, &seen
			break
		}
		if f.firstLook || len(result.Moves) == 0 || timeUp() {
			break
		}
		if err := r.apply(compiled, result.Moves); err != nil {
			return fmt.Errorf("look %d: %w", r.Looks, err)
		}
	}
	r.usage = meter.stop()
	r.NodesAfter, r.CostAfter = compiled.Cost()
	if f.explain {
		r.explain(result.Kept)
	}
	if !f.asTable(out) {
		return writeLine(out, r)
	}
	_, err := fmt.Fprint(out, consolidateTable(r))
	return err
}

// lookOnce searches once, to the end: a limit of time stops further looks, so that the first is always
// measured whole.
func lookOnce(f *planFlags, compiled *scenario.Compiled) (solve.Consolidation, look) {
	start, cpu := time.Now(), cpuTime()
	question := solve.Question{View: compiled.View, Candidates: compiled.Candidates(), Policy: f.policy()}
	result := solve.Consolidate(question, func() bool { return false })
	seen := look{
		Candidates: len(question.Candidates), ComputeMs: millis(time.Since(start)), CPUMs: millis(cpuTime() - cpu), Decision: "no-op",
	}
	for i := range result.Moves {
		seen.Removed += len(result.Moves[i].Remove)
		seen.Added += len(result.Moves[i].Create)
	}
	switch {
	case seen.Added > 0:
		seen.Decision = "replace"
	case seen.Removed > 0:
		seen.Decision = "delete"
	}
	return result, seen
}

// apply makes the moves of one look. Each look must leave a cheaper cluster, or one of fewer nodes at
// the same cost; otherwise looking would never end.
func (r *consolidateResult) apply(compiled *scenario.Compiled, moves []solve.Move) error {
	const noise = 1e-9 // of sums of prices in another order
	nodesBefore, costBefore := compiled.Cost()
	applied, err := compiled.Apply(moves)
	if err != nil {
		return err
	}
	r.Commands += len(moves)
	r.PodsMoved += applied.Moved
	r.Replacements += applied.Added
	r.Invalid += applied.Invalid
	if nodes, cost := compiled.Cost(); cost > costBefore+noise || cost > costBefore-noise && nodes >= nodesBefore {
		return fmt.Errorf("%s changed %s for %s to %s for %s: nothing is gained, and this is a bug", count(len(moves), "move", "moves"),
			count(nodesBefore, "node", "nodes"), dollars(costBefore), count(nodes, "node", "nodes"), dollars(cost))
	}
	return nil
}

func (r *consolidateResult) explain(verdicts []solve.Verdict) {
	r.Explanation, r.LeftOut = keepFirst(kept(verdicts), shownNodes, func(k *keptNodes) int { return k.Count })
	r.Advice = advice{}
	for i := range r.Explanation {
		r.Advice.add(r.Explanation[i].Codes)
	}
}

// kept folds verdicts by reason, the most common first.
func kept(verdicts []solve.Verdict) []keptNodes {
	var all []keptNodes
	at := map[string]int{}
	for _, v := range verdicts {
		why := v.Why
		why.Subject = "" // names the node, which would keep equal reasons apart
		text := why.Text()
		k, found := at[text]
		if !found {
			k = len(all)
			at[text] = k
			all = append(all, keptNodes{Why: text, Codes: codes([]reason.Reason{why}), Node: v.Node})
		}
		all[k].Count++
	}
	slices.SortStableFunc(all, func(a, b keptNodes) int { return cmp.Compare(b.Count, a.Count) })
	return all
}

func consolidateTable(r *consolidateResult) string {
	rows := [][]string{
		{"", "NODES", "AN HOUR"},
		{"before", fmt.Sprint(r.NodesBefore), dollars(r.CostBefore)},
		{"after", fmt.Sprint(r.NodesAfter), dollars(r.CostAfter)},
	}
	var b strings.Builder
	b.WriteString(columns.Text(rows) + "\n")
	fmt.Fprintf(&b, "%s moved %s; %s came up\n", count(r.Commands, "command", "commands"), count(r.PodsMoved, "pod", "pods"), count(r.Replacements, "new node", "new nodes"))
	if r.LowerBound > 0 {
		fmt.Fprintf(&b, "no cluster that holds these pods costs less than %s an hour\n", dollars(r.LowerBound))
	}
	fmt.Fprintf(&b, "%s took %s; the first, over %s, %s\n",
		count(r.Looks, "look", "looks"), milliseconds(r.PlanningMs), count(r.FirstLook.Candidates, "candidate", "candidates"), milliseconds(r.FirstLook.ComputeMs))
	if !r.Done {
		b.WriteString("stopped before a look found nothing more\n")
	}
	if r.Invalid > 0 {
		fmt.Fprintf(&b, "%s cannot hold the pods that were moved there: this is a bug\n", count(r.Invalid, "node", "nodes"))
	}
	advise := r.Advice.writeOnce()
	for i, k := range r.Explanation {
		if i == 0 {
			b.WriteString("\nnodes that stay:\n")
		}
		fmt.Fprintf(&b, "  %s, such as %s: %s\n", count(k.Count, "node", "nodes"), k.Node, k.Why)
		advise(&b, k.Codes)
	}
	b.WriteString(r.LeftOut.line("  ", "node", "nodes"))
	return b.String()
}
