package api_test

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/dovetail-sh/dovetail/internal/inspect"
	"github.com/dovetail-sh/dovetail/internal/snapshot/snapshottest"
)

// books are events and savings that are known.
type books struct {
	events    []inspect.Event
	savings   inspect.Savings
	requested chan any // queries; nil: they are not recorded
}

func (b books) History(_ context.Context, q inspect.HistoryQuery) (inspect.History, error) {
	if b.requested != nil {
		b.requested <- q
	}
	h := inspect.History{Events: []inspect.Event{}, Notes: []string{"older ones were dropped"}}
	for _, e := range b.events {
		if q.Until.IsZero() || e.At.Before(q.Until) {
			h.Events = append(h.Events, e)
		}
	}
	if over := len(h.Events) - q.Limit; q.Limit > 0 && over > 0 {
		h.Events = h.Events[over:]
		h.Notes = append(h.Notes, "only the latest are shown")
	}
	return h, nil
}

func (b books) Savings(_ context.Context, q inspect.SavingsQuery) (inspect.Savings, error) {
	if b.requested != nil {
		b.requested <- q
	}
	return b.savings, nil
}

// LG-25: the leader is requested for savings, and the answer is what its ledger says.
func TestLG_25_SavingsOverTheWire(t *testing.T) {
	t.Parallel()
	noon := snapshottest.Now()
	b := books{requested: make(chan any, 1), savings: inspect.Savings{
		Days: []inspect.DaySavings{{
			Day: "2026-11-18", Hours: 24, Total: inspect.SavingsRow{Spent: 10, Unconsolidated: 12, Evictions: 3}, NodePools: []inspect.SavingsRow{{Name: "default", Spent: 10, Unconsolidated: 12}},
			Namespaces: []inspect.SavingsRow{{Name: inspect.RowIdle, Spent: 10, Unconsolidated: 12}},
		}},
		Notes: []string{"estimated"},
	}}
	c := newController(snapshottest.Options{Nodes: 1})
	c.past = b
	client := connect(t, c.server(t), "")
	for name, q := range map[string]inspect.SavingsQuery{"all": {}, "some": {Since: noon.Add(-time.Hour), Until: noon.Add(time.Nanosecond)}} {
		got, err := client.Savings(t.Context(), q)
		if diff := cmp.Diff(b.savings, got); err != nil || diff != "" {
			t.Errorf("%s: %v %s", name, err, diff)
		}
		if diff := cmp.Diff(any(q), <-b.requested); diff != "" {
			t.Errorf("%s: another query arrived: %s", name, diff)
		}
	}
	c.past = nil
	if _, err := connect(t, c.server(t), "").Savings(t.Context(), inspect.SavingsQuery{}); err == nil || !strings.Contains(err.Error(), "ask a live cluster whose nodes Dovetail manages") {
		t.Errorf("of a controller that knows nothing: %v", err)
	}
}

// eventsEvery are events at one distance in time; as many as at once happen together.
func eventsEvery(n, atOnce int) (events []inspect.Event) {
	for i := range n {
		events = append(events, inspect.Event{At: snapshottest.Now().Add(time.Duration(i/atOnce) * time.Second), Kind: "removal", Text: fmt.Sprintf("node %d", i), Source: inspect.SourceLedger})
	}
	return events
}

// LG-26: a response has a bounded number of events; a client that wants all gets them in parts, each once and in order.
func TestLG_26_TheWholeHistoryComesInParts(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		events, atOnce, requests int
		err                      string
	}{
		"none":                           {0, 1, 1, ""},
		"a few":                          {12, 1, 1, ""},
		"just one part":                  {1000, 1, 2, ""},
		"three parts":                    {2500, 1, 3, ""},
		"several at once":                {2500, 7, 3, ""},
		"too many at once for one part":  {2500, 1200, 3, "more than 1000 events happened at"},
		"a part that begins at a moment": {2000, 500, 4, ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := books{events: eventsEvery(tc.events, tc.atOnce), requested: make(chan any, 10)}
			c := newController(snapshottest.Options{Nodes: 1})
			c.past = b
			h, err := connect(t, c.server(t), "").History(t.Context(), inspect.HistoryQuery{Limit: inspect.AllEvents})
			if n := len(b.requested); n != tc.requests {
				t.Errorf("%d requests, want %d", n, tc.requests)
			}
			if tc.err != "" {
				if err == nil || !strings.Contains(err.Error(), tc.err) || !strings.Contains(err.Error(), "--until") {
					t.Errorf("got %v, want %q and what to do", err, tc.err)
				}
				return
			}
			if err != nil || len(h.Events) != tc.events {
				t.Fatalf("got %d events, %v", len(h.Events), err)
			}
			for i := range h.Events {
				if h.Events[i].Text != b.events[i].Text {
					t.Fatalf("event %d is %q, want %q", i, h.Events[i].Text, b.events[i].Text)
				}
			}
			if diff := cmp.Diff([]string{"older ones were dropped"}, h.Notes); diff != "" {
				t.Errorf("nothing was cut, and the notes say: %s", diff)
			}
		})
	}
	c := newController(snapshottest.Options{Nodes: 1})
	c.past = books{events: eventsEvery(300, 1)}
	h, err := connect(t, c.server(t), "").History(t.Context(), inspect.HistoryQuery{Limit: 200})
	if err != nil || len(h.Events) != 200 || h.Events[0].Text != "node 100" || !strings.Contains(strings.Join(h.Notes, " "), "only the latest") {
		t.Errorf("with a limit: %d events, notes %q, %v; want the latest 200, and that others are left out", len(h.Events), h.Notes, err)
	}
	if w := send(c.server(t), http.MethodGet, "/debug/inspect/history?limit=-1", ""); w.Code != http.StatusBadRequest {
		t.Errorf("a request for everything at once: %d, want 400", w.Code)
	}
}
