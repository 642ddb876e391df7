package cli

import (
	"bytes"
	"encoding/csv"
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/dovetail-sh/dovetail/internal/inspect"
)

// spent is a ledger of two days, the second of which is not over.
func spent() *ledger {
	return &ledger{savings: inspect.Savings{
		Days: []inspect.DaySavings{
			{
				Day: "2026-10-31", Hours: 24, BoundHours: 24,
				Total: inspect.SavingsRow{Spent: 46.08, Unconsolidated: 57.6, Bound: 41.472, BoundSpent: 46.08, Evictions: 21},
				NodePools: []inspect.SavingsRow{
					{Name: "batch", Spent: 9.216, Unconsolidated: 9.216}, {Name: "default", Spent: 36.864, Unconsolidated: 48.384, Evictions: 21},
				},
				Namespaces: []inspect.SavingsRow{
					{Name: "shop", Spent: 27.648, Unconsolidated: 27.648, Evictions: 17}, {Name: "train", Spent: 9.216, Unconsolidated: 9.216, Evictions: 4}, {Name: inspect.RowIdle, Spent: 9.216, Unconsolidated: 20.736},
				},
			},
			{
				Day: "2026-11-01", Hours: 11.75,
				Total:      inspect.SavingsRow{Spent: 18.05, Unconsolidated: 18.05},
				NodePools:  []inspect.SavingsRow{{Name: "default", Spent: 18.05, Unconsolidated: 18.05}},
				Namespaces: []inspect.SavingsRow{{Name: "shop", Spent: 14, Unconsolidated: 14}, {Name: inspect.RowIdle, Spent: 4.05, Unconsolidated: 4.05}},
			},
		},
		Notes: []string{"what the cluster would have cost without consolidation is an estimate"},
	}}
}

// LG-27, LG-21: what was spent and saved, in every format. Notes are beside lines, and within the rest.
func TestLG_27_SavingsFormats(t *testing.T) {
	t.Parallel()
	for _, format := range listFormats() {
		for _, by := range append(groupings(), "") {
			if by != "" && format != "table" && format != "csv" {
				continue
			}
			name := strings.TrimSuffix("savings-"+format+"-"+by, "-")
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				code, stdout, stderr := run("", spent().withLeader(t, "savings", "-o", format, "--by", by)...)
				golden(t, name+".txt", stdout)
				beside := ""
				if format == "jsonl" || format == "csv" {
					beside = "note: what the cluster would have cost without consolidation is an estimate\n"
				}
				if code != 0 || stderr != beside {
					t.Errorf("exit code %d, stderr %q, want %q", code, stderr, beside)
				}
			})
		}
	}
	empty := &ledger{savings: inspect.Savings{Notes: []string{"the leader has just started"}}}
	if code, stdout, stderr := run("", empty.withLeader(t, "savings")...); code != 0 || stdout != "savings\nNothing is recorded of what the cluster cost.\n\nnote: the leader has just started\n" {
		t.Errorf("exit code %d, got %q, stderr %q", code, stdout, stderr)
	}
}

// LG-27: the days that are requested for are those that the leader is requested for.
func TestLG_27_SavingsPeriod(t *testing.T) {
	t.Parallel()
	l := spent()
	l.requested = make(chan any, 1)
	if code, _, stderr := run("", l.withLeader(t, "savings", "--since", "2026-11-01", "--until", "2026-11-02")...); code != 0 {
		t.Fatalf("exit code %d: %s", code, stderr)
	}
	want := inspect.SavingsQuery{Since: time.Date(2026, 11, 1, 0, 0, 0, 0, time.UTC), Until: time.Date(2026, 11, 2, 0, 0, 0, 0, time.UTC)}
	if diff := cmp.Diff(any(want), <-l.requested); diff != "" {
		t.Error(diff)
	}
}

// LG-22: savings as CSV and JSON lines are read back with the values that were written.
func TestLG_22_SavingsAreReadBack(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		usd := rapid.Float64Range(0, 1e7)
		row := func(name string) inspect.SavingsRow {
			return inspect.SavingsRow{Name: name, Spent: usd.Draw(t, "spent"), Unconsolidated: usd.Draw(t, "unconsolidated"), Evictions: rapid.IntRange(0, 1e6).Draw(t, "evictions")}
		}
		var report inspect.Savings
		for i := range rapid.IntRange(0, 4).Draw(t, "days") {
			d := inspect.DaySavings{Day: fmt.Sprintf("2026-11-%02d", i+1), Hours: rapid.Float64Range(0, 24).Draw(t, "hours"), Total: row("")}
			if rapid.Bool().Draw(t, "bound known") {
				d.Total.Bound, d.Total.BoundSpent = 1+usd.Draw(t, "bound"), usd.Draw(t, "boundSpent")
			}
			for range rapid.IntRange(0, 3).Draw(t, "rows") {
				d.NodePools, d.Namespaces = append(d.NodePools, row(hostileTexts().Draw(t, "pool"))), append(d.Namespaces, row(hostileTexts().Draw(t, "namespace")))
			}
			report.Days = append(report.Days, d)
		}
		by := rapid.SampledFrom(inspect.Groupings()).Draw(t, "by")
		lines := savingsLines(&report, by)
		var out bytes.Buffer
		write := func(format responseFormat) string {
			out.Reset()
			if err := writeSavings(Streams{Out: &out, Err: &out}, listFormat{format}, &report, by); err != nil {
				t.Fatal(err)
			}
			return out.String()
		}
		var read []savingsLine
		for line := range strings.Lines(write(responseLines)) {
			var l savingsLine
			if err := json.Unmarshal([]byte(line), &l); err != nil {
				t.Fatalf("%q: %v", line, err)
			}
			read = append(read, l)
		}
		if diff := cmp.Diff(lines, read); diff != "" {
			t.Fatalf("JSON lines: %s", diff)
		}
		records, err := csv.NewReader(strings.NewReader(write(responseCSV))).ReadAll()
		if err != nil || len(records) != len(lines)+1 {
			t.Fatalf("CSV of %d rows: %d records, %v", len(lines), len(records), err)
		}
		number := func(cell string) float64 {
			if cell == "" {
				return 0
			}
			v, err := strconv.ParseFloat(cell, 64)
			if err != nil {
				t.Fatal(err)
			}
			return v
		}
		for i, r := range records[1:] {
			want := lines[i]
			want.Name = printable(want.Name)
			got := savingsLine{
				Day: r[0], Name: unquoted(r[1]), Hours: number(r[2]), Spent: number(r[3]), Unconsolidated: number(r[4]), Saved: number(r[5]), Bound: number(r[6]), BoundSpent: number(r[7]), Evictions: int(number(r[8])),
			}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Fatalf("CSV: %s", diff)
			}
		}
	})
}

// LG-27: the page shows what the commands print.
func TestLG_27_TheHowToPage(t *testing.T) {
	spent().showsOutput(t, "history-and-savings.md", "savings")
}
