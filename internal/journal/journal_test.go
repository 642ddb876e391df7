package journal_test

import (
	"encoding/json"
	"fmt"
	"math"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	karpv1 "github.com/dovetail-sh/dovetail/api/v1"
	"github.com/dovetail-sh/dovetail/internal/cluster"
	"github.com/dovetail-sh/dovetail/internal/disrupt"
	"github.com/dovetail-sh/dovetail/internal/drain"
	"github.com/dovetail-sh/dovetail/internal/journal"
	"github.com/dovetail-sh/dovetail/internal/reason"
	"github.com/dovetail-sh/dovetail/internal/solve"
)

var noon = time.Date(2026, 11, 1, 12, 0, 0, 0, time.UTC)

func roomy() *journal.Journal {
	return journal.New(journal.Limits{Entries: 100, Bytes: 1 << 20}, at(noon))
}

// removal is a decision that removes nodes.
func removal(at time.Time, id string, nodes ...string) disrupt.Decision {
	c := disrupt.Command{ID: id, Reason: karpv1.ReasonEmpty, Decision: disrupt.Delete, Saves: 1, Score: math.Inf(1)}
	for _, n := range nodes {
		c.Remove = append(c.Remove, disrupt.Candidate{Node: n, Claim: "claim-" + n, Pool: "general"})
	}
	return disrupt.Decision{At: at, Commands: []disrupt.Command{c}}
}

// refusal is a decision that leaves a node where it is.
func refusal(at time.Time, node string, code reason.Code) disrupt.Decision {
	return disrupt.Decision{At: at, Refused: []disrupt.Refused{{Reason: karpv1.ReasonUnderutilized, Nodes: []string{node}, Why: reason.Reason{Code: code, Subject: "node/" + node}}}}
}

func at(t time.Time) func() time.Time { return func() time.Time { return t } }

func kinds(page journal.Page) (out []string) {
	for _, e := range page.Entries {
		out = append(out, fmt.Sprintf("%d %s", e.Seq, e.Kind))
	}
	return out
}

func value(t *testing.T, e journal.Entry) map[string]any {
	t.Helper()
	out := map[string]any{}
	if err := json.Unmarshal(e.Value, &out); err != nil {
		t.Fatalf("entry %d is no JSON: %v", e.Seq, err)
	}
	return out
}

// A command is kept however often it comes; what a pass found beyond it is kept when it is news.
func TestDecided(t *testing.T) {
	t.Parallel()
	j := roomy()
	j.Decided(refusal(noon, "a", "X"))
	j.Decided(refusal(noon.Add(10*time.Second), "a", "X")) // the same but for the time
	j.Decided(removal(noon, "1", "b"))
	j.Decided(removal(noon, "1", "b"))
	j.Outcome("1", "done", noon)
	want := []string{"1 decision", "2 command", "3 decision", "4 command", "5 decision", "6 outcome"}
	if diff := cmp.Diff(want, kinds(j.Read(journal.Query{}))); diff != "" {
		t.Errorf("entries (-want +got):\n%s", diff)
	}
	command := value(t, j.Read(journal.Query{Kind: journal.Command}).Entries[0])
	if command["id"] != "1" || command["score"] != math.MaxFloat64 {
		t.Errorf("command %v, want id 1 and a score that JSON can say", command)
	}
}

// What keeps a node is shown with the time since when, until it no longer does.
func TestBlockedSince(t *testing.T) {
	t.Parallel()
	j := roomy()
	for i := range 5 {
		j.Decided(refusal(noon.Add(time.Duration(i)*time.Minute), "a", "X"))
	}
	j.Decided(refusal(noon.Add(5*time.Minute), "b", "Y"))
	got := j.Read(journal.Query{}).Blocked
	if len(got) != 2 || got[0].Nodes[0] != "a" || !got[0].Since.Equal(noon) || !got[1].Since.Equal(noon.Add(5*time.Minute)) {
		t.Fatalf("blocked %+v, want a since noon, then b", got)
	}
	if only := j.Read(journal.Query{Node: "b"}).Blocked; len(only) != 1 || only[0].Nodes[0] != "b" {
		t.Errorf("requested b: %+v", only)
	}
	j.Decided(refusal(noon.Add(70*time.Minute), "b", "Y")) // nothing was looked at for an hour
	if got := j.Read(journal.Query{}); got.Total != 2 {
		t.Errorf("one pass without it, and it is dropped: %+v", got.Blocked)
	}
	for range 13 {
		j.Decided(refusal(noon.Add(73*time.Minute), "b", "Y"))
	}
	if got := j.Read(journal.Query{}); got.Total != 1 {
		t.Errorf("still blocked: %+v", got.Blocked)
	}
	j.Decided(refusal(noon.Add(80*time.Minute), "a", "X"))
	if got := j.Read(journal.Query{Node: "a"}).Blocked; len(got) != 1 || !got[0].Since.Equal(noon.Add(80*time.Minute)) {
		t.Errorf("blocked again: %+v, want since then", got)
	}
}

// Refusals that hold since the same time are listed in one order, also those whose first nodes are the same and
// that show no others.
func TestBlockedAreInOrder(t *testing.T) {
	t.Parallel()
	var shared []string
	for i := range 200 {
		shared = append(shared, fmt.Sprintf("node-%03d", i))
	}
	var first string
	for range 30 {
		j, d := roomy(), disrupt.Decision{At: noon}
		for _, last := range []string{"z", "x", "y", "w"} {
			d.Refused = append(d.Refused, disrupt.Refused{
				Reason: karpv1.ReasonUnderutilized, Nodes: append(slices.Clone(shared), last), Why: reason.Reason{Code: "X", Want: last},
			})
		}
		j.Decided(d)
		text := ""
		for _, r := range j.Read(journal.Query{}).Blocked {
			text += r.Why.Want
		}
		if first == "" {
			first = text
		}
		if text != first {
			t.Fatalf("refusals in the order %s, and once in the order %s", text, first)
		}
	}
}

func TestRead(t *testing.T) {
	t.Parallel()
	j := roomy()
	for i := range 5 {
		j.Decided(removal(noon, fmt.Sprint(i), fmt.Sprint("n", i)))
	}
	j.Outcome("3", "rolled back", noon)
	for name, tc := range map[string]struct {
		query journal.Query
		want  []string
		more  bool
	}{
		"the latest, oldest of them first":       {journal.Query{Limit: 2}, []string{"10 decision", "11 outcome"}, true},
		"since an entry, the next ones":          {journal.Query{Since: 3, Limit: 2}, []string{"4 decision", "5 command"}, true},
		"of one kind":                            {journal.Query{Kind: journal.Command, Since: 6}, []string{"7 command", "9 command"}, false},
		"about a node, with what became of it":   {journal.Query{Node: "n3"}, []string{"7 command", "8 decision", "11 outcome"}, false},
		"about a claim":                          {journal.Query{Node: "claim-n4", Kind: journal.Command}, []string{"9 command"}, false},
		"about an unknown node":                  {journal.Query{Node: "n9"}, nil, false},
		"only what keeps nodes: no entries then": {journal.Query{Kind: journal.Blocked}, nil, false},
		"past the end":                           {journal.Query{Since: 99}, nil, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			page := j.Read(tc.query)
			if diff := cmp.Diff(tc.want, kinds(page)); diff != "" || page.More != tc.more || page.Last != 11 {
				t.Errorf("more %v, last %d, entries (-want +got):\n%s", page.More, page.Last, diff)
			}
		})
	}
}

// Neither many entries nor large ones take more than their room, and one kind leaves the others theirs.
func TestBounds(t *testing.T) {
	t.Parallel()
	const room = 64 << 10
	j := journal.New(journal.Limits{Entries: 10, Bytes: room}, at(noon))
	j.Decided(removal(noon, "first", "a"))
	for i := range 1000 {
		j.Decided(refusal(noon, fmt.Sprint("n", i), reason.Code(strings.Repeat("x", 5000))))
	}
	page := j.Read(journal.Query{Limit: 1000})
	bytes, count := 0, map[journal.Kind]int{}
	for _, e := range page.Entries {
		bytes += len(e.Value)
		count[e.Kind]++
	}
	if bytes > 2*room || count[journal.Decision] > 10 || count[journal.Decision] < 2 || count[journal.Command] != 1 || page.Dropped == 0 {
		t.Errorf("%d bytes, %v entries, %d dropped", bytes, count, page.Dropped)
	}
	large := removal(noon, "large", "a")
	for range 100 {
		large.Commands[0].Remove = append(large.Commands[0].Remove, disrupt.Candidate{Node: strings.Repeat("n", 250), Pods: make([]string, 100)})
	}
	j.Decided(large)
	got := j.Read(journal.Query{Kind: journal.Command}).Entries
	if last := value(t, got[len(got)-1]); last["cut"] != true || last["bytes"] == nil {
		t.Errorf("a value too large for the room is %v", last)
	}
}

// Long lists are cut, and the value says so.
func TestLongListsAreCut(t *testing.T) {
	t.Parallel()
	d := removal(noon, "1", "a")
	for i := range 100 {
		d.Commands[0].Remove[0].Pods = append(d.Commands[0].Remove[0].Pods, fmt.Sprint("default/p", i))
	}
	j := roomy()
	j.Decided(d)
	got := value(t, j.Read(journal.Query{Kind: journal.Command}).Entries[0])
	pods := got["remove"].([]any)[0].(map[string]any)["pods"].([]any)
	if len(pods) != 30 || got["cut"] != true {
		t.Errorf("%d pods, cut %v", len(pods), got["cut"])
	}
	if len(d.Commands[0].Remove[0].Pods) != 100 {
		t.Error("the decision itself was changed")
	}
}

func TestPlanned(t *testing.T) {
	t.Parallel()
	refused := solve.Plan{Unplaced: []solve.Unplaced{
		{Pod: cluster.PodKey{Namespace: "default", Name: "p"}, Why: []reason.Reason{{Code: "X", Subject: "nodepool/a"}}},
		{Pod: cluster.PodKey{Namespace: "default", Name: "q"}, Deferred: true},
	}}
	buys := solve.Plan{Cost: 2, Bound: 1.5, Create: []solve.NewNode{{Pool: "general", Types: []string{"a", "b"}, Pods: make([]cluster.PodKey, 3)}}}
	j := roomy()
	j.Planned(solve.Plan{}, noon)
	j.Planned(refused, noon)
	j.Planned(refused, noon.Add(time.Minute))
	j.Planned(buys, noon)
	j.Planned(buys, noon)
	page := j.Read(journal.Query{})
	if diff := cmp.Diff([]string{"1 plan", "2 plan", "3 plan"}, kinds(page)); diff != "" {
		t.Fatalf("entries (-want +got):\n%s", diff)
	}
	first, second := value(t, page.Entries[0]), value(t, page.Entries[1])
	if why := first["unplaced"].([]any)[1].(map[string]any)["why"]; why != "waits for reserved capacity" || first["unplacedCount"] != 2.0 {
		t.Errorf("refused: %v", first)
	}
	if second["price"] != 2.0 || second["bound"] != 1.5 || second["pods"] != 3.0 || second["nodeCount"] != 1.0 {
		t.Errorf("plan: %v", second)
	}
}

// A journal that is switched off takes everything and keeps nothing.
func TestNoJournal(t *testing.T) {
	t.Parallel()
	var j *journal.Journal
	j.Decided(removal(noon, "1", "a"))
	j.Outcome("1", "done", noon)
	j.Planned(solve.Plan{Create: make([]solve.NewNode, 1)}, noon)
	j.Draining("a", "b", nil, noon)
}

// What a terminating node waits for is shown as long as it waits, and is an entry when it is news.
func TestDraining(t *testing.T) {
	t.Parallel()
	now := noon
	j := journal.New(journal.Limits{Entries: 100, Bytes: 1 << 20}, func() time.Time { return now })
	held := drain.Wait{Cause: drain.Annotated, Object: "annotation x", Names: []string{"default/p"}, Count: 1, Since: noon}
	for range 3 {
		j.Draining("n", "c", []drain.Wait{held}, noon)
	}
	j.Draining("n", "c", []drain.Wait{{Cause: drain.SpentBudget, Object: "PodDisruptionBudget default/web", Since: noon}, held}, noon)
	j.Draining("m", "d", []drain.Wait{held}, noon.Add(-time.Hour)) // and then never again
	if page := j.Read(journal.Query{Node: "c"}); len(page.Entries) != 2 || len(page.Drains) != 1 || len(page.Drains[0].Waits) != 2 {
		t.Errorf("requested the claim: %+v", page)
	}
	if page := j.Read(journal.Query{Kind: journal.Draining}); len(page.Entries) != 3 || len(page.Drains) != 1 {
		t.Errorf("requested drains: %+v", page)
	}
	j.Draining("n", "c", nil, noon)
	j.Draining("n", "c", nil, noon)
	if page := j.Read(journal.Query{Node: "n"}); len(page.Drains) != 0 || len(page.Entries) != 3 {
		t.Errorf("it waits no longer: %+v", page)
	}
}

func TestManyAtOnce(t *testing.T) {
	t.Parallel()
	j := roomy()
	var all sync.WaitGroup
	for i := range 8 {
		all.Go(func() {
			for k := range 50 {
				j.Decided(removal(noon, fmt.Sprint(i, k), "a"))
				j.Read(journal.Query{Node: "a"})
			}
		})
	}
	all.Wait()
	if page := j.Read(journal.Query{Kind: journal.Command, Limit: 1000}); len(page.Entries) != 100 || page.Last != 800 {
		t.Errorf("%d entries, last %d", len(page.Entries), page.Last)
	}
}
