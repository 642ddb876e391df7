package cli

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/dovetail-sh/dovetail/internal/columns"
)

// provisionTable is the report for people.
func provisionTable(r *provisionResult, withReasons bool) string {
	var b strings.Builder
	if len(r.Explanation.Nodes) > 0 {
		b.WriteString(nodeTable(r.Explanation.Nodes) + r.Explanation.NodesLeftOut.line("", "node", "nodes") + "\n")
	}
	fmt.Fprintf(&b, "%s of %s placed: %d on new nodes, %d on nodes that are there\n",
		strconv.Itoa(r.Scheduled), count(r.Pods, "pod", "pods"), r.Scheduled-r.OnExisting, r.OnExisting)
	fmt.Fprintf(&b, "%s, %s an hour%s\n", count(r.NewNodes, "new node", "new nodes"), dollars(r.HourlyCost), gapText(r.HourlyCost, r.LowerBound))
	fmt.Fprintf(&b, "setup %s, solve %s; %.0f MiB above the base of %.0f MiB\n",
		milliseconds(r.SetupMs), milliseconds(r.SolveMs), max(0, r.PeakRSSMiB-r.BaseRSSMiB), r.BaseRSSMiB)
	if r.TimedOut {
		b.WriteString("the time was up before every pod was tried\n")
	}
	b.WriteString(unplacedText(r.Explanation, withReasons))
	if withReasons && len(r.Explanation.Nodes) > 0 {
		b.WriteString("\n" + nodeReasons(r.Explanation.Nodes) + r.Explanation.NodesLeftOut.line("  ", "node", "nodes"))
	}
	return b.String()
}

// unplacedText says of each kind of pod without a place why, and what can be done.
func unplacedText(e *explanation, withReasons bool) string {
	if len(e.Unplaced) == 0 {
		return ""
	}
	var b strings.Builder
	b.WriteString("\nunschedulable:\n")
	advise := e.Advice.writeOnce()
	for _, u := range e.Unplaced {
		fmt.Fprintf(&b, "  %s: %s\n", count(u.Count, "pod", "pods"), u.Why[0])
		if withReasons {
			for _, more := range u.Why[1:] {
				fmt.Fprintf(&b, "    %s\n", more)
			}
			advise(&b, u.Codes)
			fmt.Fprintf(&b, "    pods: %s\n", u.For)
		}
	}
	b.WriteString(e.UnplacedLeftOut.line("  ", "pod", "pods"))
	return b.String()
}

func nodeTable(kinds []nodeKind) string {
	rows := [][]string{{"NODES", "POOL", "TYPE", "ZONE", "CAPACITY", "EACH", "TOTAL", "PODS", "CPU", "MEMORY"}}
	for _, k := range kinds {
		rows = append(rows, []string{
			strconv.Itoa(k.Count), k.Pool, k.Type, k.Zone, k.CapacityType, dollars(k.Price), dollars(float64(k.Count) * k.Price),
			strconv.Itoa(k.Pods), percent(k.CPUUse), percent(k.MemoryUse),
		})
	}
	return columns.Text(rows)
}

// nodeReasons says of each kind of node which pods it is for and what they left open.
func nodeReasons(kinds []nodeKind) string {
	var b strings.Builder
	b.WriteString("why these nodes:\n")
	for _, k := range kinds {
		fmt.Fprintf(&b, "  %s %s in %s, %s of %s:\n", strconv.Itoa(k.Count)+" ×", k.Type, k.Zone, k.CapacityType, k.Pool)
		fmt.Fprintf(&b, "    for %s\n", k.For)
		fmt.Fprintf(&b, "    the cheapest of %s that hold the pods and satisfy %s\n", count(k.Types, "type", "types"), k.Needs)
		if k.Spread != "" {
			fmt.Fprintf(&b, "    %s\n", k.Spread)
		}
	}
	return b.String()
}

func gapText(cost, bound float64) string {
	if bound <= 0 {
		return "; no lower bound is known"
	}
	if cost/bound < 1.0005 {
		return "; no plan costs less"
	}
	return fmt.Sprintf("; no plan costs less than %s, which this is %s above", dollars(bound), percent(max(0, cost/bound-1)))
}

func count(n int, one, many string) string { return strconv.Itoa(n) + " " + plural(n, one, many) }

func dollars(usd float64) string { return fmt.Sprintf("$%.4f", usd) }

func percent(part float64) string { return fmt.Sprintf("%.1f%%", part*100) }

func milliseconds(ms float64) string {
	if ms < 10 {
		return fmt.Sprintf("%.2f ms", ms)
	}
	return fmt.Sprintf("%.0f ms", ms)
}
