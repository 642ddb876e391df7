package ledger_test

import (
	"encoding/json"
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/dovetail-sh/dovetail/internal/inspect"
	"github.com/dovetail-sh/dovetail/internal/ledger"
	_ "github.com/dovetail-sh/dovetail/internal/seed"
)

func noon() time.Time { return time.Date(2026, 11, 19, 12, 0, 0, 0, time.UTC) }

// seen is an observation of one NodePool whose nodes cost a dollar an hour each.
func seen(at time.Time, claims ...string) ledger.Observation {
	o := ledger.Observation{At: at, Pools: []string{"general"}}
	for _, c := range claims {
		o.Nodes = append(o.Nodes, ledger.Node{Claim: c, Pool: "general", Price: 1})
	}
	return o
}

// observe makes an observation every minute for a while.
func observe(b *ledger.Book, from time.Time, minutes int, claims ...string) time.Time {
	for i := range minutes + 1 {
		b.Observe(seen(from.Add(time.Duration(i)*time.Minute), claims...))
	}
	return from.Add(time.Duration(minutes) * time.Minute)
}

func near(t *testing.T, what string, got, want float64) {
	t.Helper()
	if math.Abs(got-want) > 1e-9 {
		t.Errorf("%s is %v, want %v", what, got, want)
	}
}

// What is spent is the price of the nodes times the time that they were observed, day by day in UTC.
func TestLG_02_SpentIsObservedTime(t *testing.T) {
	t.Parallel()
	b := ledger.New(ledger.DefaultLimits())
	evening := time.Date(2026, 11, 19, 23, 0, 0, 0, time.UTC)
	observe(b, evening, 90, "a", "b")
	days := b.Savings(inspect.SavingsQuery{}).Days
	if len(days) != 2 || days[0].Day != "2026-11-19" || days[1].Day != "2026-11-20" {
		t.Fatalf("got %+v, want two days", days)
	}
	near(t, "the first day", days[0].Total.Spent, 2)
	near(t, "its hours", days[0].Hours, 1)
	near(t, "the second day", days[1].Total.Spent, 1)
	near(t, "all of it", b.Total().Total.Spent, 3)
	one := b.Savings(inspect.SavingsQuery{Since: evening.Add(2 * time.Hour)}).Days
	if len(one) != 1 || one[0].Day != "2026-11-20" {
		t.Errorf("since the second day there is %+v", one)
	}
	if none := b.Savings(inspect.SavingsQuery{Until: evening.Add(-24 * time.Hour)}).Days; len(none) != 0 {
		t.Errorf("until the day before there is %+v", none)
	}
}

// No second is counted twice: the time of the API server is only known to some seconds, and that of another leader may be
// earlier. A clock that was wrong for long is not waited for.
func TestLG_02_NoTimeCountsTwice(t *testing.T) {
	t.Parallel()
	b := ledger.New(ledger.DefaultLimits())
	for i := range 601 { // every second, and every other time the clock is six seconds behind
		b.Observe(seen(noon().Add(time.Duration(i-i%2*6)*time.Second), "a"))
	}
	day := b.Savings(inspect.SavingsQuery{}).Days[0]
	near(t, "the hours of ten minutes", day.Hours, 1./6)
	near(t, "what they cost", day.Total.Spent, 1./6)
	observe(b, noon().Add(-time.Hour), 30, "a")
	near(t, "what the time since the clock was set cost too", b.Total().Total.Spent, 1./6+0.5)
}

// A gap of more than ten minutes was not observed. It is not guessed, and it is said.
func TestLG_03_GapsAreSaid(t *testing.T) {
	t.Parallel()
	b := ledger.New(ledger.DefaultLimits())
	at := observe(b, noon(), 30, "a")
	b.Observe(seen(at.Add(9*time.Minute), "a"))
	if notes := b.Savings(inspect.SavingsQuery{}).Notes; len(notes) > 0 {
		t.Errorf("a short gap is said: %q", notes)
	}
	at = at.Add(9*time.Minute + 3*time.Hour)
	observe(b, at, 21, "a")
	s := b.Savings(inspect.SavingsQuery{})
	near(t, "spent", s.Days[0].Total.Spent, 1)
	if want := []string{"2026-11-19: 3h0m0s were not observed, and what the nodes cost meanwhile is not included"}; !cmp.Equal(s.Notes, want) {
		t.Errorf("got %q, want %q", s.Notes, want)
	}
}

// Nodes without a known price are counted, and said.
func TestLG_03_UnknownPricesAreSaid(t *testing.T) {
	t.Parallel()
	b := ledger.New(ledger.DefaultLimits())
	o := seen(noon(), "a", "b", "c")
	for i := range 2 {
		o.Nodes[i].Price, o.Nodes[i].Unpriced = 0, true
	}
	b.Observe(o)
	b.Observe(seen(noon().Add(time.Minute), "a", "b", "c"))
	o.At = noon().Add(2 * time.Minute)
	b.Observe(o)
	b.Observe(seen(noon().Add(3*time.Minute), "a", "b", "c"))
	near(t, "spent, with the last known prices", b.Total().Total.Spent, (1.0+3+3)/60)
	notes := strings.Join(b.Savings(inspect.SavingsQuery{}).Notes, "\n")
	if !strings.Contains(notes, "the prices of up to 2 nodes were not known") {
		t.Errorf("got %q", notes)
	}
}

// What consolidation removed counts once it is gone, less what its replacements cost, until later pods would have used it.
func TestLG_04_Unconsolidated(t *testing.T) {
	t.Parallel()
	hour := func(b *ledger.Book) (spent, unconsolidated float64) {
		before := b.Total().Total
		observe(b, b.Until(), 60, "kept")
		after := b.Total().Total
		return after.Spent - before.Spent, after.Unconsolidated - before.Unconsolidated
	}
	cheap := func(b *ledger.Book, at time.Time, price float64) {
		o := seen(at, "kept", "old-1", "old-2")
		o.Nodes = append(o.Nodes, ledger.Node{Claim: "new", Pool: "general", Price: price})
		b.Observe(o)
	}
	remove := func(b *ledger.Book, replacements ...string) {
		for _, claim := range []string{"old-1", "old-2"} {
			b.Removed(ledger.Removal{Command: "c", Claim: claim, Pool: "general", Price: 1, All: 2, Replacements: replacements, Planned: 0.5})
		}
	}
	for name, tc := range map[string]struct {
		do   func(b *ledger.Book)
		want float64 // of an hour in which a node of a dollar runs
	}{
		"nothing is consolidated": {func(*ledger.Book) {}, 1},
		"two nodes are removed":   {func(b *ledger.Book) { remove(b) }, 3},
		"they have a replacement": {func(b *ledger.Book) {
			cheap(b, noon(), 0.25)
			remove(b, "new")
		}, 2.75},
		"its price is not seen, so the plan counts": {func(b *ledger.Book) { remove(b, "unseen") }, 2.5},
		"it costs more than they did":               {func(b *ledger.Book) { cheap(b, noon(), 9); remove(b, "new") }, 1},
		"later pods use one of them": {func(b *ledger.Book) {
			remove(b)
			b.Observe(seen(noon().Add(time.Minute), "kept"))
			b.Launched("later", noon().Add(2*time.Minute))
			b.Observe(seen(noon().Add(3*time.Minute), "kept", "later"))
		}, 2},
		"later pods use more than there was": {func(b *ledger.Book) {
			remove(b)
			b.Observe(seen(noon().Add(time.Minute), "kept"))
			for _, claim := range []string{"x", "y", "z"} {
				b.Launched(claim, noon().Add(2*time.Minute))
			}
			b.Observe(seen(noon().Add(3*time.Minute), "kept", "x", "y", "z"))
		}, 1},
		"the node pool is deleted": {func(b *ledger.Book) {
			remove(b)
			b.Observe(seen(noon().Add(time.Minute), "kept"))
			o := seen(noon().Add(2 * time.Minute))
			o.Pools = nil
			b.Observe(o)
		}, 1},
		"a month passes": {func(b *ledger.Book) {
			remove(b)
			b.Observe(seen(noon().Add(time.Minute), "kept"))
			b.Observe(seen(noon().Add(32*24*time.Hour), "kept"))
		}, 1},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := ledger.New(ledger.DefaultLimits())
			b.Observe(seen(noon(), "kept", "old-1", "old-2"))
			tc.do(b)
			b.Observe(seen(b.Until().Add(time.Minute), "kept"))
			spent, unconsolidated := hour(b)
			near(t, "spent", spent, 1)
			near(t, "unconsolidated", unconsolidated, tc.want)
		})
	}
}

// As long as a removed node drains, it costs what it did and saves nothing.
func TestLG_04_DrainingNodesSaveNothing(t *testing.T) {
	t.Parallel()
	b := ledger.New(ledger.DefaultLimits())
	b.Observe(seen(noon(), "kept", "old"))
	b.Removed(ledger.Removal{Command: "c", Claim: "old", Pool: "general", Price: 1, All: 1})
	at := observe(b, noon(), 60, "kept", "old")
	near(t, "unconsolidated", b.Total().Total.Unconsolidated, 2)
	observe(b, at, 60, "kept")
	near(t, "unconsolidated", b.Total().Total.Unconsolidated, 4)
	near(t, "spent", b.Total().Total.Spent, 3)
	if notes := b.Savings(inspect.SavingsQuery{}).Notes; !slices.Equal(notes, []string{"what the cluster would have cost without consolidation is an estimate"}) {
		t.Errorf("got %q", notes)
	}
}

// The bound counts only while it is known, and is compared with what was spent meanwhile.
func TestLG_05_BoundWhileKnown(t *testing.T) {
	t.Parallel()
	b := ledger.New(ledger.DefaultLimits())
	o := seen(noon(), "a", "b")
	o.Bound = 1.5
	b.Observe(o)
	o = seen(noon().Add(10*time.Minute), "a", "b")
	o.Unchanged = true
	b.Observe(o)
	b.Observe(seen(noon().Add(15*time.Minute), "a", "b"))
	b.Observe(seen(noon().Add(20*time.Minute), "a", "b"))
	d := b.Savings(inspect.SavingsQuery{}).Days[0]
	near(t, "bound", d.Total.Bound, 1.5/4)
	near(t, "spent in that time", d.Total.BoundSpent, 2.0/4)
	near(t, "hours of it", d.BoundHours, 1.0/4)
	near(t, "spent", d.Total.Spent, 2.0/3)
	for _, r := range slices.Concat(d.NodePools, d.Namespaces) {
		if r.Bound != 0 || r.BoundSpent != 0 {
			t.Errorf("%s has a bound of its own", r.Name)
		}
	}
}

// Evictions are counted for the NodePool and the namespace.
func TestLG_06_Evictions(t *testing.T) {
	t.Parallel()
	b := ledger.New(ledger.DefaultLimits())
	observe(b, noon(), 10, "a")
	for range 3 {
		b.Evicted(b.Until(), "general", "web")
	}
	b.Evicted(b.Until(), "", "")
	d := b.Savings(inspect.SavingsQuery{}).Days[0]
	count := map[string]int{"total": d.Total.Evictions}
	for _, r := range d.NodePools {
		count["pool "+r.Name] = r.Evictions
	}
	for _, r := range d.Namespaces {
		count["namespace "+r.Name] = r.Evictions
	}
	want := map[string]int{"total": 4, "pool general": 3, "pool (other)": 1, "namespace web": 3, "namespace (other)": 1, "namespace (idle)": 0}
	if diff := cmp.Diff(want, count); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	costs := b.History(inspect.HistoryQuery{}).Costs
	if n := costs[len(costs)-1].Evictions; n != 4 {
		t.Errorf("the chart has %d evictions, want 4", n)
	}
}

// LG-07: an eviction says nothing of what the nodes cost then. Until the next observation they cost what they did, and where
// nothing was observed there is no cost of zero.
func TestLG_07_EvictionsAreNoCostOfZero(t *testing.T) {
	t.Parallel()
	b := ledger.New(ledger.DefaultLimits())
	b.Evicted(noon().Add(-time.Hour), "general", "web")
	b.Observe(seen(noon(), "a", "b"))
	b.Evicted(noon().Add(6*time.Minute), "general", "web")
	b.Evicted(noon().Add(3*time.Hour), "general", "web")
	evictions := 0
	for _, c := range b.History(inspect.HistoryQuery{}).Costs {
		if evictions += c.Evictions; c.Hourly != 2 || c.Nodes != 2 {
			t.Errorf("at %s %d nodes cost %v an hour, want 2", c.At.Format(time.TimeOnly), c.Nodes, c.Hourly)
		}
	}
	if evictions != 1 {
		t.Errorf("%d evictions beside costs, want the one of which the cost is known", evictions)
	}
	if total := b.Total().Total.Evictions; total != 3 {
		t.Errorf("%d evictions in all, want 3", total)
	}
}

// Costs are kept for every five minutes of a day and every hour of a month. What is shown was so at one time.
func TestLG_07_Costs(t *testing.T) {
	t.Parallel()
	b := ledger.New(ledger.DefaultLimits())
	for i := range 40 * 24 * 12 {
		o := seen(noon().Add(time.Duration(i)*5*time.Minute), "a")
		o.Bound, o.Pods = 0.5, i
		b.Observe(o)
	}
	costs := b.History(inspect.HistoryQuery{}).Costs
	if n := len(costs); n < 29*24+280 || n > 31*24+300 {
		t.Errorf("%d costs are kept", n)
	}
	for i, c := range costs {
		if c.Hourly != 1 || c.Bound != 0.5 || c.Nodes != 1 {
			t.Fatalf("got %+v", c)
		}
		if i > 0 && !costs[i-1].At.Before(c.At) {
			t.Fatalf("%v is not before %v", costs[i-1].At, c.At)
		}
	}
	last := b.Until()
	recent := b.History(inspect.HistoryQuery{Since: last.Add(-time.Hour)}).Costs
	if n := len(recent); n != 13 {
		t.Errorf("%d costs of the last hour, want 13", n)
	}
	if of := b.History(inspect.HistoryQuery{Object: inspect.Subject{Kind: inspect.KindNode, Name: "a"}}).Costs; len(of) != 0 {
		t.Errorf("the history of a node has costs of the cluster: %v", of)
	}
}

func event(at time.Time, kind, text string, objects ...string) ledger.Entry {
	return ledger.Entry{Event: inspect.Event{At: at, Kind: kind, Text: text, Source: inspect.SourceLedger, Objects: objects}}
}

// Events are found by object, time and kind, latest first to be kept, and the outcome of a command that another process
// decided on is about its objects.
func TestLG_08_History(t *testing.T) {
	t.Parallel()
	b := ledger.New(ledger.DefaultLimits())
	command := event(noon(), "command", "removes 1 node", "node/a", "nodeclaim/claim-a")
	command.ID = "c1"
	outcome := event(noon().Add(time.Minute), "outcome", "done")
	outcome.ID = "c1"
	for range 2 { // the second time changes nothing
		b.Record(command)
		b.Record(outcome)
		b.Record(event(noon().Add(2*time.Minute), "removal", "interrupted", "node/b"))
	}
	texts := func(q inspect.HistoryQuery) (out []string) {
		for _, e := range b.History(q).Events {
			out = append(out, e.Text)
		}
		return out
	}
	for name, tc := range map[string]struct {
		q    inspect.HistoryQuery
		want []string
	}{
		"all":        {inspect.HistoryQuery{}, []string{"removes 1 node", "done", "interrupted"}},
		"a node":     {inspect.HistoryQuery{Object: inspect.Subject{Kind: inspect.KindNode, Name: "a"}}, []string{"removes 1 node", "done"}},
		"another":    {inspect.HistoryQuery{Object: inspect.Subject{Kind: inspect.KindNode, Name: "z"}}, nil},
		"since":      {inspect.HistoryQuery{Since: noon().Add(time.Minute)}, []string{"done", "interrupted"}},
		"until":      {inspect.HistoryQuery{Until: noon().Add(time.Minute)}, []string{"removes 1 node"}},
		"kinds":      {inspect.HistoryQuery{Kinds: []string{"outcome", "removal"}}, []string{"done", "interrupted"}},
		"the latest": {inspect.HistoryQuery{Limit: 1}, []string{"interrupted"}},
	} {
		if diff := cmp.Diff(tc.want, texts(tc.q)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}

// LG-26: by default the latest 100 events are returned, which is said, and all on demand.
func TestLG_26_AllEvents(t *testing.T) {
	t.Parallel()
	b := ledger.New(ledger.DefaultLimits())
	for i := range 150 {
		b.Record(event(noon().Add(time.Duration(i)*time.Second), "removal", "interrupted", fmt.Sprintf("node/%d", i)))
	}
	if h := b.History(inspect.HistoryQuery{}); len(h.Events) != 100 || len(h.Notes) != 1 {
		t.Errorf("%d events, notes %q; want the latest 100, and a note", len(h.Events), h.Notes)
	}
	if h := b.History(inspect.HistoryQuery{Limit: inspect.AllEvents}); len(h.Events) != 150 || len(h.Notes) != 0 {
		t.Errorf("%d events, notes %q; want 150, and no note", len(h.Events), h.Notes)
	}
}

// Many events of less weight do not push commands out, and what made room is said.
func TestLG_09_MinorEventsPushNothingOut(t *testing.T) {
	t.Parallel()
	b := ledger.New(ledger.Limits{Recent: 2 << 10, Raw: 8 << 10, Segment: 8 << 10})
	b.Record(event(noon(), "command", "the only command", "node/a"))
	for i := range 2000 {
		e := event(noon().Add(time.Duration(i)*time.Second), "draining", fmt.Sprintf("node %d waits", i), "node/b")
		e.Minor = true
		b.Record(e)
	}
	h := b.History(inspect.HistoryQuery{Object: inspect.Subject{Kind: inspect.KindNode, Name: "a"}})
	if len(h.Events) != 1 {
		t.Errorf("the command is gone")
	}
	if notes := strings.Join(h.Notes, "\n"); !strings.Contains(notes, "older events were dropped to bound the ledger") {
		t.Errorf("got %q", notes)
	}
}

// Rows of NodePools and of namespaces add up to the total, and nothing costs less than it did.
func TestLG_06_RowsAddUp(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		b := history(t, noon(), "")
		for _, d := range append(b.Savings(inspect.SavingsQuery{}).Days, b.Total()) {
			for _, rows := range [][]inspect.SavingsRow{d.NodePools, d.Namespaces} {
				var sum inspect.SavingsRow
				for _, r := range rows {
					sum.Spent += r.Spent
					sum.Unconsolidated += r.Unconsolidated
					sum.Evictions += r.Evictions
					if r.Unconsolidated < r.Spent || r.Spent < 0 {
						t.Fatalf("%s: %+v", d.Day, r)
					}
				}
				if !same(sum.Spent, d.Total.Spent) || !same(sum.Unconsolidated, d.Total.Unconsolidated) || sum.Evictions != d.Total.Evictions {
					t.Fatalf("%s: rows add up to %+v, the total is %+v", d.Day, sum, d.Total)
				}
			}
			if d.Total.Bound > d.Total.BoundSpent+1e-9 || d.Total.BoundSpent > d.Total.Spent+1e-9 || d.BoundHours > d.Hours+1e-9 {
				t.Fatalf("%s: %+v", d.Day, d)
			}
		}
	})
}

func same(a, b float64) bool { return math.Abs(a-b) <= 1e-9*max(1, math.Abs(a), math.Abs(b)) }

// history is a Book into which all kinds of things came.
func history(t *rapid.T, at time.Time, mark string) *ledger.Book {
	b := ledger.New(ledger.Limits{Recent: 4 << 10, Raw: 1 << 20, Segment: 1 << 20})
	extend(t, b, at, mark)
	return b
}

// extend adds to a Book.
func extend(t *rapid.T, b *ledger.Book, at time.Time, mark string) {
	name := rapid.SampledFrom([]string{"a", "b", "c", "größe", "<&>", strings.Repeat("long", 90), "bad\xff"})
	for i := range rapid.IntRange(1, 30).Draw(t, "steps") {
		at = at.Add(time.Duration(rapid.IntRange(1, 900).Draw(t, "seconds")) * time.Second)
		switch rapid.SampledFrom([]string{"observe", "observe", "observe", "record", "evict", "remove", "launch"}).Draw(t, "what") {
		case "observe":
			b.Observe(observation(t, at, name))
		case "record":
			e := event(at, rapid.SampledFrom([]string{"command", "outcome", "plan"}).Draw(t, "kind"), fmt.Sprint(mark, i, name.Draw(t, "text")), "node/"+name.Draw(t, "object"))
			e.Minor, e.Detail, e.Saves = rapid.Bool().Draw(t, "minor"), json.RawMessage(`{"a": "<b>"}`), rapid.Float64().Draw(t, "saves")
			b.Record(e)
		case "evict":
			b.Evicted(at, name.Draw(t, "pool"), name.Draw(t, "namespace"))
		case "remove":
			b.Removed(ledger.Removal{Command: mark, Claim: name.Draw(t, "claim"), Pool: name.Draw(t, "pool"), Price: price(t), All: price(t)})
		case "launch":
			b.Launched(name.Draw(t, "claim"), at)
		}
	}
}

func price(t *rapid.T) float64 { return rapid.SampledFrom([]float64{0, 0.1, 1, 3.7}).Draw(t, "price") }

func observation(t *rapid.T, at time.Time, name *rapid.Generator[string]) ledger.Observation {
	o := ledger.Observation{At: at, Pools: []string{"a", "b"}, Namespaces: map[string]float64{}, Bound: price(t), Pods: rapid.IntRange(0, 9).Draw(t, "pods"), Unchanged: rapid.Bool().Draw(t, "unchanged")}
	for range rapid.IntRange(0, 5).Draw(t, "nodes") {
		o.Nodes = append(o.Nodes, ledger.Node{Claim: name.Draw(t, "claim"), Pool: name.Draw(t, "pool"), Price: price(t)})
	}
	for range rapid.IntRange(0, 3).Draw(t, "namespaces") {
		o.Namespaces[name.Draw(t, "namespace")] = price(t)
	}
	return o
}
