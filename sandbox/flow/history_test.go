package flow_test

import (
	"encoding/csv"
	"encoding/json"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/google/go-cmp/cmp"

	karpv1 "github.com/dovetail-sh/dovetail/api/v1"
)

// whatWasDone is what the commands about the past print of an empty node that was removed: times, ids and zones apart.
const whatWasDone = `history of node/NODE
2 events from TIME to TIME. 1 command was started that saves money: $0.0960 an hour once it is complete.

Events:
  TIME  WHAT  TEXT
  TIME  command  removes 1 empty node: NODE (m5.large, on-demand, ZONE); saves $0.0960 an hour
  TIME  outcome  command ID: done
`

// checkHistory runs the commands about the past, as a user who may query a leader that has removed an empty node: what was decided,
// why, and what that saved. LG-20, LG-21, LG-22, LG-27.
func (f *flow) checkHistory(token string, leader *replica, removed *karpv1.NodeClaim) {
	f.Helper()
	run := func(args ...string) string {
		return f.dovetail(token, append(args, "--controller-address", leader.address)...)
	}
	notes := regexp.MustCompile(`(?m)^note: .*\n`) // of the standard error
	node := "node/" + removed.Status.NodeName
	normal := notes.ReplaceAllString(run("history", node, "--kind", "command,outcome"), "")
	for _, p := range [][2]string{
		{regexp.QuoteMeta(removed.Status.NodeName), "NODE"},
		{`\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ`, "TIME"},
		{`eu-west-1[a-z]`, "ZONE"},
		{`command [0-9a-z]{8,}:`, "command ID:"},
		{`(\S)  +`, "$1  "},
	} {
		normal = regexp.MustCompile(p[0]).ReplaceAllString(normal, p[1])
	}
	if diff := cmp.Diff(whatWasDone, normal); diff != "" {
		f.Errorf("dovetail history (-want +got):\n%s", diff)
	}
	var reasons []string
	for line := range strings.Lines(notes.ReplaceAllString(run("history", node, "--kind", "command", "-o", "jsonl"), "")) {
		var e struct {
			Detail struct {
				Reason string
				Remove []struct{ Node, Claim string }
			}
		}
		if err := json.Unmarshal([]byte(line), &e); err != nil || len(e.Detail.Remove) != 1 || e.Detail.Remove[0].Node != removed.Status.NodeName || e.Detail.Remove[0].Claim != removed.Name {
			f.Errorf("%v: %s", err, line)
		}
		reasons = append(reasons, e.Detail.Reason)
	}
	if !slices.Equal(reasons, []string{"Empty"}) {
		f.Errorf("the reasons are %v, want that the node was empty", reasons)
	}
	report := notes.ReplaceAllString(run("savings", "--by", "nodepool", "-o", "csv"), "")
	records, err := csv.NewReader(strings.NewReader(report)).ReadAll()
	if err != nil {
		f.Fatal(err)
	}
	columns := []string{"day", "name", "hours", "spent", "unconsolidated", "saved", "bound", "boundSpent", "evictions"}
	i := slices.IndexFunc(records, func(r []string) bool { return len(r) == len(columns) && r[1] == f.name })
	if !slices.Equal(records[0], columns) || i < 0 {
		f.Fatalf("dovetail savings prints %q, want columns %q and NodePool %s", records, columns, f.name)
	}
	spent, _ := strconv.ParseFloat(records[i][3], 64)
	saved, err := strconv.ParseFloat(records[i][5], 64)
	if err != nil || spent <= 0 || saved <= 0 {
		f.Errorf("the NodePool has spent %v and saved %v, %v; want more than nothing", spent, saved, err)
	}
	if table := run("savings"); !strings.Contains(table, "Without consolidation they would have cost $") || !strings.Contains(table, "Namespaces:") || !strings.Contains(table, f.namespace) {
		f.Errorf("dovetail savings prints %s", table)
	}
}
