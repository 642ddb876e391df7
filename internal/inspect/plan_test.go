package inspect_test

import (
	"encoding/json"
	"math"
	"strings"
	"testing"

	awsv1 "github.com/dovetail-sh/dovetail/api/aws/v1"
	"github.com/dovetail-sh/dovetail/internal/inspect"
	"github.com/dovetail-sh/dovetail/internal/reason"
	"github.com/dovetail-sh/dovetail/internal/snapshot"
	"github.com/dovetail-sh/dovetail/internal/snapshot/snapshottest"
)

// failer is a test, or a check of rapid.
type failer interface {
	Helper()
	Errorf(format string, args ...any)
	Fatal(args ...any)
}

func planOf(t *testing.T, f *snapshot.File) inspect.Changes {
	t.Helper()
	c, err := f.Cluster(awsv1.Vocabulary())
	if err != nil {
		t.Fatal(err)
	}
	return inspect.PlanOf(c, nil)
}

func encoded(t failer, v any) string {
	t.Helper()
	data, err := json.MarshalIndent(v, "", " ")
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}

// checkTotals holds a plan to what it says it comes to.
func checkTotals(t failer, p *inspect.Changes) {
	t.Helper()
	want, nodes := p.Before.Hourly-p.Leaving.Hourly, p.Before.Nodes-p.Leaving.Nodes
	for _, r := range p.Remove {
		want -= r.Price
		nodes--
	}
	for _, l := range p.Launch {
		want += l.Price
		nodes++
	}
	if math.Abs(want-p.After.Hourly) > 1e-9 || nodes != p.After.Nodes {
		t.Errorf("the plan ends with %d nodes for $%v, its parts come to %d for $%v", p.After.Nodes, p.After.Hourly, nodes, want)
	}
	if p.Bound > p.After.Hourly+1e-9 || p.Before.Bound > p.Before.Hourly+1e-9 {
		t.Errorf("a bound is above the cost: %v of %v, before %v of %v", p.Bound, p.After.Hourly, p.Before.Bound, p.Before.Hourly)
	}
}

// The document is shown by the terminal, the terminal view and the page: how to see the rest is for each of them to say.
func TestWI_50_LongTablesCountTheRest(t *testing.T) {
	t.Parallel()
	p := inspect.Changes{Before: inspect.Totals{Bound: 1}, Bound: 1.5}
	for range 45 {
		p.Remove = append(p.Remove, inspect.Removal{Node: "node", Reason: "Empty"})
	}
	d := p.Document()
	if s := d.Sections[0]; len(s.Rows) != 40 || s.Omitted != "5 more nodes" || len(s.Lines) != 0 {
		t.Errorf("%d rows, omitted %q, lines %q; want 40 and 5 more nodes", len(s.Rows), s.Omitted, s.Lines)
	}
	if text := encoded(t, d); strings.Contains(text, "-o json") {
		t.Errorf("the document names a flag of the command line: %s", text)
	}
	const want = "no cluster that holds these pods costs less than $1.50 an hour ($1.00 for those that run now)"
	if !strings.Contains(d.Answer, want) {
		t.Errorf("got %q, want %q", d.Answer, want)
	}
}

func TestWI_40_PlanOfHalfEmptyNodes(t *testing.T) {
	t.Parallel()
	p := planOf(t, snapshottest.New(snapshottest.Options{Nodes: 6, Pending: 3, Huge: 1}))
	checkTotals(t, &p)
	if len(p.Remove) == 0 || len(p.Launch) == 0 || len(p.Moves) == 0 || len(p.Binds) == 0 || len(p.Kept) == 0 || p.After.Hourly >= p.Before.Hourly || !p.Later {
		t.Errorf("too little is planned: %s", encoded(t, p))
	}
	if len(p.Unplaced) != 1 || p.Unplaced[0].Pod != "default/huge-0000" || p.Unplaced[0].Why[0].Code != reason.NoTypeFits {
		t.Errorf("unplaced pods are %+v, want the huge one with its reason", p.Unplaced)
	}
	if d := p.Document(); !strings.HasPrefix(d.Answer, "Dovetail would remove ") || len(d.Sections) < 4 {
		t.Errorf("the document is %+v", d)
	}
}
