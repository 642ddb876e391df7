package cli

import (
	"bytes"
	"context"
	"encoding/csv"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
	"pgregory.net/rapid"

	"github.com/dovetail-sh/dovetail/internal/inspect"
	"github.com/dovetail-sh/dovetail/internal/inspect/api"
	_ "github.com/dovetail-sh/dovetail/internal/seed" // for its effect
	"github.com/dovetail-sh/dovetail/internal/snapshot/snapshottest"
)

// ledger knows what it was made with, and the queries that it was sent.
type ledger struct {
	inspect.Local

	history   inspect.History
	savings   inspect.Savings
	requested chan any // nil: queries are not recorded
}

func (l *ledger) History(_ context.Context, q inspect.HistoryQuery) (inspect.History, error) {
	if l.requested != nil {
		l.requested <- q
	}
	h := l.history
	h.Events = slices.DeleteFunc(slices.Clone(h.Events), func(e inspect.Event) bool {
		return q.Object != (inspect.Subject{}) && !slices.Contains(e.Objects, q.Object.String()) || len(q.Kinds) > 0 && !slices.Contains(q.Kinds, e.Kind)
	})
	return h, nil
}

func (l *ledger) Savings(_ context.Context, q inspect.SavingsQuery) (inspect.Savings, error) {
	if l.requested != nil {
		l.requested <- q
	}
	return l.savings, nil
}

// withLeader adds the address of a leader with a ledger to a call.
func (l *ledger) withLeader(t *testing.T, args ...string) []string {
	t.Helper()
	server := httptest.NewServer(api.Handler(l))
	t.Cleanup(server.Close)
	return append(args, "--controller-address", server.URL)
}

// eventful is a ledger with a node that was launched, and one that was removed.
func eventful() *ledger {
	noon := snapshottest.Now()
	at := func(minute int) time.Time { return noon.Add(time.Duration(minute) * time.Minute) }
	return &ledger{history: inspect.History{
		Events: []inspect.Event{
			{
				At: at(0), Kind: "plan", Source: inspect.SourceLedger, Text: "launches 1 node for 2 pods at $0.0960 an hour: m5.large (on-demand, us-east-1a)", Objects: []string{"node/ip-10-0-0-4.ec2.internal", "nodepool/default"},
				Detail: []byte(`{"pods":2,"price":0.096}`),
			},
			{
				At: at(31), Kind: "command", Source: inspect.SourceLedger, ID: "8f2c11a0", Text: "removes 1 underutilized node: ip-10-0-0-9.ec2.internal (m5.xlarge, on-demand, us-east-1a); 1 pod moves; saves $0.1920 an hour", Saves: 0.192,
				Objects: []string{"node/ip-10-0-0-9.ec2.internal", "nodeclaim/default-x7k2p", "nodepool/default", "pod/shop/web-1"},
				Detail:  []byte(`{"reason":"Underutilized","remove":[{"node":"ip-10-0-0-9.ec2.internal","pods":["shop/web-1"]}],"saves":0.192}`),
			},
			{At: at(33), Kind: "outcome", Source: inspect.SourceLedger, ID: "8f2c11a0", Text: "command 8f2c11a0: done", Objects: []string{"node/ip-10-0-0-9.ec2.internal", "nodeclaim/default-x7k2p"}},
		},
		Costs: []inspect.Cost{{At: at(0), Hourly: 0.288, Bound: 0.192, Nodes: 2, Pods: 3}},
	}}
}

// hostile is an eventful ledger with a text that a spreadsheet would compute, and a note.
func hostile() *ledger {
	l := eventful()
	l.history.Notes = []string{"12 older entries were dropped"}
	l.history.Events = append(l.history.Events, inspect.Event{
		At: snapshottest.Now().Add(40 * time.Minute), Kind: "removal", Source: inspect.SourceLedger, Text: "=HYPERLINK(\"http://example.com\",\"a \"\"quoted\"\", text\")\nof\ttwo lines",
	})
	return l
}

// LG-20, LG-21: what was decided, in every format. Notes are beside lines, and within the rest.
func TestLG_21_HistoryFormats(t *testing.T) {
	t.Parallel()
	for _, format := range listFormats() {
		t.Run(format, func(t *testing.T) {
			t.Parallel()
			code, stdout, stderr := run("", hostile().withLeader(t, "history", "-o", format)...)
			golden(t, "history-"+format+".txt", stdout)
			beside := ""
			if format == "jsonl" || format == "csv" {
				beside = "note: 12 older entries were dropped\n"
			}
			if code != 0 || stderr != beside {
				t.Errorf("exit code %d, stderr %q, want %q", code, stderr, beside)
			}
		})
	}
	empty := &ledger{}
	for format, want := range map[string]string{"table": "history of node/a\nNothing is recorded that matches.\n", "jsonl": "", "csv": "at,kind,text,objects,saves,id,source\n"} {
		if code, stdout, stderr := run("", empty.withLeader(t, "history", "node/a", "-o", format)...); code != 0 || stdout != want || stderr != "" {
			t.Errorf("%s of nothing: exit code %d, got %q, want %q, stderr %q", format, code, stdout, want, stderr)
		}
	}
}

// LG-20: what is requested for is what the leader is requested.
func TestLG_20_HistoryFilters(t *testing.T) {
	t.Parallel()
	day := func(n int) time.Time { return time.Date(2026, 11, n, 0, 0, 0, 0, time.UTC) }
	for name, tc := range map[string]struct {
		args []string
		want inspect.HistoryQuery
	}{
		"nothing":                  {nil, inspect.HistoryQuery{Limit: 100}},
		"a node":                   {[]string{"node", "a"}, inspect.HistoryQuery{Limit: 100, Object: inspect.Subject{Kind: inspect.KindNode, Name: "a"}}},
		"a pod":                    {[]string{"pod/web", "-n", "shop"}, inspect.HistoryQuery{Limit: 100, Object: inspect.Subject{Kind: inspect.KindPod, Namespace: "shop", Name: "web"}}},
		"a pod without namespace":  {[]string{"pod/web"}, inspect.HistoryQuery{Limit: 100, Object: inspect.Subject{Kind: inspect.KindPod, Namespace: "default", Name: "web"}}},
		"dates":                    {[]string{"--since", "2026-11-18", "--until", "2026-11-19"}, inspect.HistoryQuery{Limit: 100, Since: day(18), Until: day(19)}},
		"a time of another zone":   {[]string{"--since", "2026-11-18T01:00:00+01:00"}, inspect.HistoryQuery{Limit: 100, Since: day(18)}},
		"kinds":                    {[]string{"--kind", "command,outcome", "--kind", "Drained"}, inspect.HistoryQuery{Limit: 100, Kinds: []string{"command", "outcome", "Drained"}}},
		"a limit":                  {[]string{"--limit", "7"}, inspect.HistoryQuery{Limit: 7}},
		"no limit: a part at once": {[]string{"--limit", "0"}, inspect.HistoryQuery{Limit: 1000}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			l := &ledger{requested: make(chan any, 1)}
			if code, _, stderr := run("", l.withLeader(t, append([]string{"history"}, tc.args...)...)...); code != 0 {
				t.Fatalf("exit code %d: %s", code, stderr)
			}
			if diff := cmp.Diff(any(tc.want), <-l.requested, cmp.Comparer(time.Time.Equal)); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// LG-20: how long ago is counted from now.
func TestLG_20_Periods(t *testing.T) {
	t.Parallel()
	now := snapshottest.Now()
	for text, want := range map[string]time.Time{"": {}, "24h": now.Add(-24 * time.Hour), "7d": now.AddDate(0, 0, -7), "1h30m": now.Add(-90 * time.Minute), "2026-10-01": time.Date(2026, 10, 1, 0, 0, 0, 0, time.UTC)} {
		since, until, err := (&periodFlags{since: text}).read(now)
		if err != nil || !since.Equal(want) || !until.IsZero() {
			t.Errorf("%q: got %v until %v, %v; want %v", text, since, until, err, want)
		}
	}
}

// LG-23: calls that make no sense say what to write instead.
func TestLG_23_WrongCalls(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		args []string
		want string
	}{
		"a kind alone":              {[]string{"history", "node"}, "name one object, such as pod NAME or node/NAME"},
		"a kind of others":          {[]string{"history", "deployment/web"}, "want pod, node, nodeclaim or nodepool"},
		"no time":                   {[]string{"history", "--since", "yesterday"}, `--since "yesterday" is not a time; want how long ago, such as 24h or 7d`},
		"a time in the future":      {[]string{"history", "--since", "-24h"}, "is not a time"},
		"ages ago":                  {[]string{"savings", "--since", "99999999999999999d"}, "is not a time"},
		"a day that does not exist": {[]string{"savings", "--until", "2026-02-30"}, `--until "2026-02-30" is not a time`},
		"the wrong way round":       {[]string{"history", "--since", "1h", "--until", "2h"}, "--since 1h is not before --until 2h"},
		"a mistyped kind":           {[]string{"history", "--kind", "comand"}, `--kind "comand" is not known; did you mean "command"; want command,`},
		"too many events":           {[]string{"history", "--limit", "1001"}, "want 1 to 1000, or 0 for all"},
		"fewer than none":           {[]string{"history", "--limit", "-1"}, "want 1 to 1000, or 0 for all"},
		"a mistyped format":         {[]string{"history", "-o", "jsonlines"}, "want table, wide, json, yaml, jsonl or csv"},
		"a mistyped flag":           {[]string{"history", "--kinds", "plan"}, "did you mean --kind?"},
		"a file":                    {[]string{"history", "--scenario", "cluster.json"}, "a snapshot does not say what was decided before: leave --scenario out"},
		"a file, for savings":       {[]string{"savings", "--scenario", "cluster.json"}, "a snapshot does not say what was spent and saved: leave --scenario out"},
		"a mistyped grouping":       {[]string{"savings", "--by", "nodepol"}, `did you mean "nodepool"; want day, nodepool, namespace`},
		"an argument":               {[]string{"savings", "node/a"}, "takes no arguments"},
		"lines of an explanation":   {[]string{"explain", "node/a", "-o", "csv"}, "want table, wide, json or yaml"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			code, stdout, stderr := run("", tc.args...)
			if code != 2 || stdout != "" || !strings.Contains(stderr, tc.want) || !strings.Contains(stderr, "--help' for usage.") {
				t.Errorf("exit code %d, want 2 with %q:\n%s%s", code, tc.want, stdout, stderr)
			}
		})
	}
}

// LG-23: shells complete objects, kinds of entries, groupings and formats.
func TestLG_23_Completion(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		args []string
		want string
	}{
		"objects":         {[]string{"history", ""}, "pod\nnode\nnodeclaim\nnodepool\n:4\n"},
		"without cluster": {[]string{"history", "node", ""}, ":4\n"},
		"kinds":           {[]string{"history", "--kind", ""}, strings.Join(entryKinds(), "\n") + "\n:4\n"},
		"formats":         {[]string{"history", "-o", ""}, "table\nwide\njson\nyaml\njsonl\ncsv\n:4\n"},
		"groupings":       {[]string{"savings", "--by", ""}, "day\nnodepool\nnamespace\n:4\n"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if code, stdout, _ := run("", append([]string{"__complete"}, tc.args...)...); code != 0 || stdout != tc.want {
				t.Errorf("exit code %d, got\n%s\nwant\n%s", code, stdout, tc.want)
			}
		})
	}
}

// LG-20, LG-27: as a plugin of kubectl, both are called as its users call them.
func TestLG_20_Plugin(t *testing.T) {
	t.Parallel()
	for _, command := range []string{"history", "savings"} {
		var out bytes.Buffer
		code := Run([]string{command, "--help"}, Streams{Name: "/usr/local/bin/kubectl-dovetail", Out: &out, Err: &out, LookupEnv: func(string) (string, bool) { return "", false }})
		if help := out.String(); code != 0 || !strings.Contains(help, "\n  kubectl dovetail "+command+" --since ") || strings.Contains(help, "  dovetail ") {
			t.Errorf("exit code %d, the help names dovetail instead of kubectl dovetail:\n%s", code, help)
		}
	}
}

// hostileTexts are what objects, messages and attackers come up with.
func hostileTexts() *rapid.Generator[string] {
	return rapid.OneOf(rapid.String(), rapid.SampledFrom([]string{"", "=1+1", "+1", "-1", "@SUM(A1)", "'quoted", " =1+1", "\t=1+1", "a,b", `say "no"`, "two\nlines", "\r\n", ";"}))
}

// unquoted takes the apostrophe away that a cell got.
func unquoted(cell string) string { return strings.TrimPrefix(cell, "'") }

// LG-22: CSV and JSON lines are read back with the values that were written, and no cell is a formula.
func TestLG_22_LinesAreReadBack(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		var h inspect.History
		for range rapid.IntRange(0, 5).Draw(t, "events") {
			e := inspect.Event{
				At: time.Unix(rapid.Int64Range(0, 4e9).Draw(t, "second"), rapid.Int64Range(0, 999999999).Draw(t, "nanosecond")).UTC(), Kind: hostileTexts().Draw(t, "kind"), Text: hostileTexts().Draw(t, "text"),
				Source: inspect.SourceLedger, ID: hostileTexts().Draw(t, "id"), Saves: rapid.Float64Range(-1e6, 1e6).Draw(t, "saves"), Detail: json.RawMessage(`{"a":[1,"b"]}`),
			}
			if rapid.Bool().Draw(t, "objects") {
				e.Objects = []string{"node/a", "pod/default/" + rapid.StringMatching("[a-z]{1,5}").Draw(t, "pod")}
			}
			h.Events = append(h.Events, e)
		}
		var out bytes.Buffer
		write := func(format responseFormat) string {
			out.Reset()
			if err := writeHistory(Streams{Out: &out, Err: &out}, listFormat{format}, &h, &inspect.HistoryQuery{}); err != nil {
				t.Fatal(err)
			}
			return out.String()
		}
		var read []inspect.Event
		for line := range strings.Lines(write(responseLines)) {
			var e inspect.Event
			if err := json.Unmarshal([]byte(line), &e); err != nil {
				t.Fatalf("%q: %v", line, err)
			}
			read = append(read, e)
		}
		if diff := cmp.Diff(h.Events, read); diff != "" {
			t.Fatalf("JSON lines: %s", diff)
		}
		records, err := csv.NewReader(strings.NewReader(write(responseCSV))).ReadAll()
		if err != nil || len(records) != len(h.Events)+1 {
			t.Fatalf("CSV of %d events: %d records, %v", len(h.Events), len(records), err)
		}
		for i, record := range records[1:] {
			e := &h.Events[i]
			want := []string{e.At.Format(time.RFC3339Nano), printable(e.Kind), printable(e.Text), strings.Join(e.Objects, " "), record[4], printable(e.ID), e.Source}
			var got []string
			for column, cell := range record {
				if column != 4 && strings.IndexAny(strings.TrimSpace(cell), "=+-@") == 0 {
					t.Fatalf("a spreadsheet computes %q", cell)
				}
				got = append(got, unquoted(cell))
			}
			if saves, err := strconv.ParseFloat("0"+strings.TrimPrefix(record[4], "-"), 64); err != nil || saves != max(e.Saves, -e.Saves) {
				t.Fatalf("savings %q of %v", record[4], e.Saves)
			}
			want[4] = got[4]
			if diff := cmp.Diff(want, got); diff != "" {
				t.Fatalf("CSV: %s", diff)
			}
		}
	})
}

// kubeconfigOf is the kubeconfig of an API server.
func kubeconfigOf(t *testing.T, address string) string {
	t.Helper()
	config := clientcmdapi.NewConfig()
	config.Clusters["c"] = &clientcmdapi.Cluster{Server: address}
	config.AuthInfos["u"] = &clientcmdapi.AuthInfo{Token: "token"}
	config.Contexts["c"] = &clientcmdapi.Context{Cluster: "c", AuthInfo: "u"}
	config.CurrentContext = "c"
	path := filepath.Join(t.TempDir(), "kubeconfig")
	if err := clientcmd.WriteToFile(*config, path); err != nil {
		t.Fatal(err)
	}
	return path
}

// withoutLeader is an API server of a cluster that has events, and no controller that can be found.
func withoutLeader(t *testing.T) string {
	t.Helper()
	at := metav1.NewTime(snapshottest.Now())
	event := corev1.Event{InvolvedObject: corev1.ObjectReference{Kind: "Node", Name: "a"}, Reason: "DisruptionTerminating", Message: "Disrupting Node: Empty", LastTimestamp: at}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		if strings.HasSuffix(req.URL.Path, "/events") {
			_ = json.NewEncoder(w).Encode(corev1.EventList{Items: []corev1.Event{event}})
			return
		}
		w.WriteHeader(http.StatusNotFound)
		_ = json.NewEncoder(w).Encode(metav1.Status{Status: metav1.StatusFailure, Code: http.StatusNotFound, Reason: metav1.StatusReasonNotFound})
	}))
	t.Cleanup(server.Close)
	return kubeconfigOf(t, server.URL)
}

// LG-24: without a leader that can be requested, events are the history, and the notes say so.
func TestLG_24_EventsInsteadOfTheLedger(t *testing.T) {
	t.Parallel()
	path := withoutLeader(t)
	code, stdout, stderr := run("", "history", "node/a", "--kubeconfig", path)
	golden(t, "history-events.txt", stdout)
	if code != 0 || stderr != "" {
		t.Errorf("exit code %d: %s", code, stderr)
	}
	_, stdout, stderr = run("", "history", "--kind", "command", "--kubeconfig", path, "-o", "csv")
	if stdout != "at,kind,text,objects,saves,id,source\n" || !strings.Contains(stderr, "note: based on objects and events of the cluster, because the controller was not found") || !strings.Contains(stderr, "note: events have no such kinds as command, but reasons: leave --kind out to see them") {
		t.Errorf("got\n%s%s\nwant no event, and why", stdout, stderr)
	}
	code, stdout, stderr = run("", "savings", "--kubeconfig", path)
	if code != 1 || stdout != "" || !strings.Contains(stderr, "was not found") || !strings.Contains(stderr, "only the leader of Dovetail records it; dovetail plan --live shows what Dovetail would save from now on") {
		t.Errorf("savings: exit code %d\n%s%s\nwant why they are not known, and the next step", code, stdout, stderr)
	}
}

// showsOutput checks that a page shows what commands print about a ledger; go test ./internal/cli -run HowToPage -rewrite
func (l *ledger) showsOutput(t *testing.T, page, command string) {
	t.Helper()
	page = filepath.Join("..", "..", "docs", "how-to", page)
	data, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	blocks := 0
	block := regexp.MustCompile("(?s)```console\n\\$ dovetail (" + command + "[^\n]*)\n(.*?)```")
	got := block.ReplaceAllStringFunc(string(data), func(shown string) string {
		blocks++
		typed := block.FindStringSubmatch(shown)[1]
		code, stdout, stderr := run("", l.withLeader(t, strings.Fields(typed)...)...)
		if code != 0 {
			t.Errorf("dovetail %s: exit code %d: %s", typed, code, stderr)
		}
		return "```console\n$ dovetail " + typed + "\n" + stdout + "```"
	})
	if blocks < 2 {
		t.Errorf("%s has %d commands, want 2 or more", page, blocks)
	}
	if *rewrite {
		if err := os.WriteFile(page, []byte(got), 0o600); err != nil {
			t.Fatal(err)
		}
		return
	}
	if d := cmp.Diff(string(data), got); d != "" {
		t.Errorf("%s (-page +commands):\n%s", page, d)
	}
}

// LG-20: the page shows what the commands print.
func TestLG_20_TheHowToPage(t *testing.T) {
	eventful().showsOutput(t, "history-and-savings.md", "history")
}
