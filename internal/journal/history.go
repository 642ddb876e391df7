package journal

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"slices"
	"strconv"
	"time"

	"github.com/dovetail-sh/dovetail/internal/inspect"
)

// History implements inspect.Historian with what is kept. What a pass found beyond its commands is only returned if it is
// requested by kind: the view of the present state is more precise.
func (j *Journal) History(_ context.Context, q inspect.HistoryQuery) (inspect.History, error) {
	entries, dropped := j.matching(&q)
	h := inspect.History{Events: []inspect.Event{}}
	limit := cmp.Or(q.Limit, usualLimit)
	for i := range slices.Backward(entries) {
		if len(h.Events) == limit {
			h.Notes = append(h.Notes, "only the latest "+strconv.Itoa(limit)+" events are shown")
			break
		}
		if e := entries[i].Event(); q.Object == (inspect.Subject{}) || slices.Contains(e.Objects, q.Object.String()) {
			h.Events = append(h.Events, e)
		}
	}
	slices.Reverse(h.Events)
	if dropped > 0 {
		h.Notes = append(h.Notes, strconv.FormatUint(dropped, 10)+" older entries were dropped to bound memory")
	}
	return h, nil
}

// matching returns the entries that a query may mean, oldest first, and how many were dropped.
func (j *Journal) matching(q *inspect.HistoryQuery) (entries []Entry, dropped uint64) {
	j.mu.Lock()
	defer j.mu.Unlock()
	name := []byte(q.Object.Name)
	for kind, r := range j.rings {
		if len(q.Kinds) > 0 && !slices.Contains(q.Kinds, string(kind)) || len(q.Kinds) == 0 && kind == Decision {
			continue
		}
		for i := range r.entries {
			e := &r.entries[i]
			if isWithin(e.At, q.Since, q.Until) && (bytes.Contains(e.Value, name) || slices.Contains(e.nodes, q.Object.Name)) {
				entries = append(entries, *e)
			}
		}
	}
	slices.SortFunc(entries, func(a, b Entry) int { return cmp.Compare(a.Seq, b.Seq) })
	return entries, j.dropped
}

func isWithin(at, since, until time.Time) bool {
	return (since.IsZero() || !at.Before(since)) && (until.IsZero() || at.Before(until))
}

// Event is the entry as users read it.
func (e *Entry) Event() inspect.Event {
	out := inspect.Event{At: e.At, Kind: string(e.Kind), Source: inspect.SourceLedger, ID: e.id, Detail: e.Value}
	var s summary
	switch e.Kind {
	case Command:
		s = read[shownCommand](e.Value).summarize()
	case Outcome:
		o := read[outcome](e.Value)
		s = summary{text: "command " + o.ID + ": " + o.Text}
	case Removal:
		s = read[removal](e.Value).summarize()
	case Plan:
		s = read[shownPlan](e.Value).summarize()
	case Draining:
		s = read[Drain](e.Value).summarize()
	case Decision:
		s = read[decision](e.Value).summarize()
	case Blocked: // the state of things, of which there is no entry
	}
	if s.text == "" {
		s.text = string(e.Kind) + ": the entry was too large to be kept"
	}
	for i, name := range e.nodes {
		switch {
		case e.Kind == Plan || e.Kind == Decision || (e.Kind == Command || e.Kind == Outcome) && i%2 == 0:
			s.objects = append(s.objects, subject(inspect.KindNode, name))
		case e.Kind == Command || e.Kind == Outcome: // a node and its claim in turn
			s.objects = append(s.objects, subject(inspect.KindNodeClaim, name))
		}
	}
	slices.Sort(s.objects)
	out.Text, out.Objects, out.Saves = s.text, slices.DeleteFunc(slices.Compact(s.objects), func(o string) bool { return o == "" }), s.saves
	return out
}

// read reads a value back. One that was left out has no fields.
func read[T any](value json.RawMessage) *T {
	var v T
	_ = json.Unmarshal(value, &v) // it was written by this process; what is odd is empty
	return &v
}

func subject(kind inspect.Kind, name string) string {
	if name == "" {
		return ""
	}
	return string(kind) + "/" + name
}
