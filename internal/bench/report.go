package main

import (
	"fmt"
	"math"
	"strconv"
	"time"

	"github.com/dovetail-sh/dovetail/internal/columns"
)

type report struct{ pairs []pair }

// text is one table for each mode that was run.
func (r *report) text(compare bool) string {
	provision, consolidate := provisionRow, consolidateRow
	provisionHead := []string{"SCENARIO", "PODS", "PLACED", "NODES", "SETUP MS", "SOLVE MS", "MIB", "$/H", "BOUND", "GAP"}
	consolidateHead := []string{"SCENARIO", "NODES", "AFTER", "$/H", "AFTER", "BOUND", "GAP", "FIRST MS", "LAST MS", "ALL MS", "MOVED", "MIB"}
	if compare {
		provision, consolidate = provisionPair, consolidatePair
		provisionHead = []string{"SCENARIO", "MS", "PEER", "FASTER", "MIB", "PEER", "LESS", "NODES", "PEER", "$/H", "PEER", "CHEAPER"}
		consolidateHead = []string{"SCENARIO", "FIRST MS", "PEER", "FASTER", "ALL MS", "PEER", "FASTER", "MIB", "PEER", "NODES", "PEER", "$/H", "PEER", "CHEAPER"}
	}
	rows, more := [][]string{provisionHead}, [][]string{consolidateHead}
	for i := range r.pairs {
		if p := &r.pairs[i]; p.consolidates {
			more = append(more, consolidate(p))
		} else {
			rows = append(rows, provision(p))
		}
	}
	text := ""
	if len(rows) > 1 {
		text += columns.Text(rows)
	}
	if len(more) > 1 {
		if text != "" {
			text += "\n"
		}
		text += columns.Text(more)
	}
	return text
}

func provisionRow(p *pair) []string {
	f := p.ours
	return []string{
		name(p.file), strconv.Itoa(f.Pods), strconv.Itoa(f.Scheduled), strconv.Itoa(f.NewNodes), ms(f.SetupMs), ms(f.SolveMs),
		whole(f.aboveBase()), money(f.Cost), money(f.Bound), gap(f.Cost, f.Bound),
	}
}

func consolidateRow(p *pair) []string {
	f := p.ours
	return []string{
		name(p.file), strconv.Itoa(f.NodesBefore), strconv.Itoa(f.NodesAfter), money(f.CostBefore), money(f.CostAfter),
		money(f.Bound), gap(f.CostAfter, f.Bound), ms(f.firstLookMs()), ms(f.lastLookMs()), ms(f.planningMs()),
		strconv.Itoa(f.PodsMoved), whole(f.aboveBase()),
	}
}

func provisionPair(p *pair) []string {
	a, b := p.ours, p.theirs
	if cut := millis(b.killedAfter); cut > 0 {
		return []string{name(p.file), ms(a.provisionMs()), atLeast(true, cut), times(cut, a.provisionMs()), whole(a.aboveBase()), "-", "-", strconv.Itoa(a.NewNodes), "-", money(a.Cost), "-", "-"}
	}
	return []string{
		name(p.file), ms(a.provisionMs()), atLeast(b.TimedOut, b.provisionMs()), times(b.provisionMs(), a.provisionMs()),
		whole(a.aboveBase()), whole(b.aboveBase()), times(b.aboveBase(), a.aboveBase()),
		strconv.Itoa(a.NewNodes), strconv.Itoa(b.NewNodes), money(a.Cost), money(b.Cost), saved(a.Cost, b.Cost),
	}
}

func consolidatePair(p *pair) []string {
	a, b := p.ours, p.theirs
	row := []string{name(p.file), ms(a.firstLookMs()), "-", "-", ms(a.planningMs()), "-", "-", whole(a.aboveBase()), "-", strconv.Itoa(a.NodesAfter), "-", money(a.CostAfter), "-", "-"}
	if cut := millis(b.killedAfter); cut > 0 {
		row[5], row[6] = atLeast(true, cut), times(cut, a.planningMs())
		return row
	}
	return []string{
		row[0], row[1], ms(b.firstLookMs()), times(b.firstLookMs(), a.firstLookMs()),
		row[4], atLeast(!b.Done, b.planningMs()), times(b.planningMs(), a.planningMs()), row[7], whole(b.aboveBase()),
		row[9], strconv.Itoa(b.NodesAfter), row[11], money(b.CostAfter), saved(a.CostAfter, b.CostAfter),
	}
}

func millis(d time.Duration) float64 { return float64(d.Milliseconds()) }

func ms(n float64) string {
	if n < 10 {
		return fmt.Sprintf("%.2f", n)
	}
	return whole(n)
}

// atLeast marks a time that would have been longer without the limit.
func atLeast(cut bool, n float64) string {
	if cut {
		return ">" + ms(n)
	}
	return ms(n)
}

func whole(n float64) string { return fmt.Sprintf("%.0f", n) }
func money(n float64) string { return fmt.Sprintf("%.3f", n) }

// gap is how far a cost is above a bound.
func gap(cost, bound float64) string {
	if bound <= 0 {
		return "-"
	}
	above := (cost/bound - 1) * 100
	if math.Abs(above) < 0.005 {
		above = 0 // and not -0.00: a bound above the cost has to stand out
	}
	return fmt.Sprintf("%.2f%%", above)
}

func times(theirs, ours float64) string {
	if ours <= 0 {
		return "-"
	}
	return fmt.Sprintf("%.1fx", theirs/ours)
}

func saved(ours, theirs float64) string {
	if theirs <= 0 {
		return "-"
	}
	return fmt.Sprintf("%.1f%%", (1-ours/theirs)*100)
}
