package ledger

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"time"

	"github.com/dovetail-sh/dovetail/internal/inspect"
)

const usualLimit = 100

// estimated is said of savings.
const estimated = "what the cluster would have cost without consolidation is an estimate"

// History returns events, and what the cluster cost meanwhile: the latest of every five minutes of the last day, and of every
// hour before.
func (b *Book) History(q inspect.HistoryQuery) inspect.History {
	h := inspect.History{Events: []inspect.Event{}}
	object := q.Object.String()
	collect := func(e *inspect.Event) {
		if isWithin(e.At, q.Since, q.Until) && (len(q.Kinds) == 0 || slices.Contains(q.Kinds, e.Kind)) && (q.Object == (inspect.Subject{}) || slices.Contains(e.Objects, object)) {
			h.Events = append(h.Events, *e)
		}
	}
	b.actions.each(collect)
	b.context.each(collect)
	slices.SortFunc(h.Events, func(x, y inspect.Event) int { return order(&x, &y) })
	if limit := cmp.Or(q.Limit, usualLimit); limit > 0 && len(h.Events) > limit {
		h.Events = slices.Clone(h.Events[len(h.Events)-limit:])
		h.Notes = append(h.Notes, "only the latest "+strconv.Itoa(limit)+" events are shown")
	}
	if n := b.actions.dropped + b.context.dropped; n > 0 {
		h.Notes = append(h.Notes, strconv.Itoa(n)+" older events were dropped to bound the ledger")
	}
	if q.Object == (inspect.Subject{}) {
		h.Notes = append(h.Notes, b.unread...)
		h.Costs = b.accounts.costs(&q)
	}
	return h
}

func isWithin(at, since, until time.Time) bool {
	return (since.IsZero() || !at.Before(since)) && (until.IsZero() || at.Before(until))
}

func (a *accounts) costs(q *inspect.HistoryQuery) []inspect.Cost {
	fine := slices.Sorted(maps.Keys(a.fine))
	var out []inspect.Cost
	for _, at := range slices.Sorted(maps.Keys(a.coarse)) {
		if len(fine) > 0 && at+int64(coarseSlot/time.Second) > fine[0] {
			break
		}
		out = append(out, a.coarse[at])
	}
	for _, at := range fine {
		out = append(out, a.fine[at])
	}
	return slices.DeleteFunc(out, func(c inspect.Cost) bool { return !isWithin(c.At, q.Since, q.Until) })
}

// Savings returns what the cluster cost by day, NodePool and namespace.
func (b *Book) Savings(q inspect.SavingsQuery) inspect.Savings {
	a := &b.accounts
	out := inspect.Savings{Days: []inspect.DaySavings{}}
	for _, key := range slices.Sorted(maps.Keys(a.days)) {
		begin, err := time.Parse(dayFormat, key)
		if err != nil || !q.Since.IsZero() && !begin.Add(day).After(q.Since) || !q.Until.IsZero() && !begin.Before(q.Until) {
			continue
		}
		d := a.days[key].report()
		d.Day = key
		out.Days = append(out.Days, d)
		if missing := a.unobserved(begin); missing >= time.Minute {
			out.Notes = append(out.Notes, fmt.Sprintf("%s: %s were not observed, and what the nodes cost meanwhile is not included", key, missing.Round(time.Minute)))
		}
		if n := a.days[key].Unpriced; n > 0 {
			out.Notes = append(out.Notes, fmt.Sprintf("%s: the prices of up to %s were not known, and they are not included", key, count(n, "node")))
		}
	}
	if slices.ContainsFunc(out.Days, func(d inspect.DaySavings) bool { return d.Total.Unconsolidated > d.Total.Spent }) {
		out.Notes = append(out.Notes, estimated)
	}
	if a.dropped > 0 {
		out.Notes = append(out.Notes, count(a.dropped, "older day")+" had to make room")
	}
	out.Notes = append(out.Notes, b.unread...)
	return out
}

// unobserved is how much of a day was not observed, from the first observation of all to the last.
func (a *accounts) unobserved(begin time.Time) time.Duration {
	from, to := begin, begin.Add(day)
	if a.Since.After(from) {
		from = a.Since
	}
	if a.Until.Before(to) {
		to = a.Until
	}
	return to.Sub(from) - time.Duration(a.days[begin.Format(dayFormat)].Seconds*float64(time.Second))
}

// Total is what the cluster has cost since the first observation. It has no day, and never decreases.
func (b *Book) Total() inspect.DaySavings { return b.accounts.Total.report() }

// report is a bucket as users read it.
func (k *bucket) report() inspect.DaySavings {
	d := inspect.DaySavings{Hours: k.Seconds / time.Hour.Seconds(), BoundHours: k.BoundSeconds / time.Hour.Seconds(), NodePools: rowsOf(k.Pools), Namespaces: rowsOf(k.Namespaces)}
	for i := range d.NodePools {
		r := &d.NodePools[i]
		d.Total.Spent += r.Spent
		d.Total.Unconsolidated += r.Unconsolidated
		d.Total.Evictions += r.Evictions
	}
	d.Total.Bound, d.Total.BoundSpent = k.Bound, k.BoundSpent
	return d
}

// rowsOf lists rows by name, those of no object last.
func rowsOf(rows map[string]row) []inspect.SavingsRow {
	out := make([]inspect.SavingsRow, 0, len(rows))
	for _, name := range slices.SortedFunc(maps.Keys(rows), func(a, b string) int {
		return cmp.Or(cmp.Compare(rank(a), rank(b)), cmp.Compare(a, b))
	}) {
		r := rows[name]
		out = append(out, inspect.SavingsRow{Name: name, Spent: r.Spent, Unconsolidated: r.Spent + r.Saved, Evictions: r.Evictions})
	}
	return out
}

func rank(name string) int {
	if name == inspect.RowIdle || name == inspect.RowOther {
		return 1
	}
	return 0
}
