package top

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/dovetail-sh/dovetail/internal/inspect"
)

// hidden is the rank of columns that are not displayed. Rows can be filtered by them.
const hidden = 100

// ageWidth is the width of the longest age, such as 2y364d.
const ageWidth = 6

// bars are the resources whose requests are drawn as bars, most important first.
type bars []string

// barsOf puts the resources of a fleet in order: CPU and memory, then devices and the like, then the others.
func barsOf(t *inspect.Totals) bars {
	weight := func(name string) int {
		switch {
		case name == cpu:
			return 0
		case name == memory:
			return 1
		case strings.Contains(name, "/"):
			return 2
		}
		return 3
	}
	return slices.SortedFunc(maps.Keys(t.Use), func(a, b string) int { return cmp.Or(weight(a)-weight(b), strings.Compare(a, b)) })
}

// rotate makes the next resource the most important.
func (b bars) rotate(by int) bars {
	if len(b) == 0 {
		return b
	}
	by %= len(b)
	return slices.Concat(b[by:], b[:by])
}

// barRank is the rank of the bar of a resource. Two are displayed, and on wide terminals a third about devices.
func barRank(i int, name string) int {
	switch {
	case i == 0:
		return 1
	case i == 1:
		return 4
	case i == 2 && strings.Contains(name, "/"):
		return 11
	}
	return hidden
}

// barColumns has one column per resource, in a fixed order, so that a table stays sorted by the same one.
func barColumns[T any](order bars, use func(*T) map[string]inspect.Use) []column[T] {
	fixed := slices.Sorted(slices.Values(order))
	slices.SortStableFunc(fixed, func(a, b string) int { return min(1, barFirst(a)) - min(1, barFirst(b)) })
	out := make([]column[T], 0, len(fixed))
	for _, name := range fixed {
		share := func(row *T) float64 { return use(row)[name].Share() }
		out = append(out, column[T]{
			key: name, title: resourceTitle(name), rank: barRank(slices.Index(order, name), name), bar: true, falling: true,
			text: func(row *T) string {
				if u, ok := use(row)[name]; !ok || u.Allocatable <= 0 {
					return unknown
				}
				return percent(share(row))
			},
			share:   share,
			compare: func(a, b *T) int { return cmp.Compare(share(a), share(b)) },
		})
	}
	return out
}

// barFirst puts CPU and memory before all others.
func barFirst(name string) int {
	return 1 - strings.Count(" cpu memory ", " "+name+" ")
}

// nodeRow is a node at the time of the response.
type nodeRow struct {
	inspect.Node
	at time.Time
}

func (r *nodeRow) age() string {
	if r.Created == nil {
		return unknown
	}
	return age(r.at.Sub(*r.Created))
}

// state is what is most important about a node, in one or two words.
func (r *nodeRow) state() string {
	switch {
	case r.State == inspect.Removing && len(r.Moving) > 0:
		return fmt.Sprintf("Removing (%d)", len(r.Moving))
	case r.State != inspect.Ready:
		return string(r.State)
	case r.Drift != "" && r.Blocked != nil:
		return "Drifted, blocked"
	case r.Drift != "":
		return "Drifted"
	case r.Blocked != nil:
		return "Blocked"
	}
	return string(inspect.Ready)
}

// detail says what drift and blocked mean for this node.
func (r *nodeRow) detail() string {
	text := ""
	if r.Drift != "" {
		text = "Drifted: " + r.Drift
	}
	if r.Blocked != nil {
		text = joined("; ", text, "Blocked: "+r.Blocked.Text)
	}
	return text
}

func (r *nodeRow) rowStyle() style {
	switch {
	case r.State == inspect.NotReady:
		return bad
	case r.State == inspect.Removing, r.State == inspect.Ready && (r.Drift != "" || r.Blocked != nil):
		return warn
	case r.State == inspect.Launching, r.State == inspect.Initializing:
		return good
	}
	return dim
}

func (r *nodeRow) subject() (inspect.Subject, bool) {
	if r.State == inspect.Launching && r.Claim != "" { // it has no Node yet
		return inspect.Subject{Kind: inspect.KindNodeClaim, Name: r.Claim}, true
	}
	return inspect.Subject{Kind: inspect.KindNode, Name: r.Name}, true
}

func dollars(price *float64) string {
	if price == nil {
		return unknown
	}
	return fmt.Sprintf("%.4f", *price)
}

func comparePrices(a, b *float64) int {
	if a == nil || b == nil { // unknown prices come before known ones
		return cmp.Compare(boolToInt(a != nil), boolToInt(b != nil))
	}
	return cmp.Compare(*a, *b)
}

func boolToInt(b bool) int {
	if b {
		return 1
	}
	return 0
}

// textColumn is a column that is sorted by its text.
func textColumn[T any](key string, rank, least, most int, text func(*T) string) column[T] {
	return column[T]{
		key: key, title: strings.ToUpper(key), rank: rank, least: least, most: most, text: text,
		compare: func(a, b *T) int { return strings.Compare(text(a), text(b)) },
	}
}

// brief is the name of a node without its domain.
func brief(name string) string {
	host, _, _ := strings.Cut(name, ".")
	return host
}

func newNodes(order bars) *table[nodeRow] {
	name := textColumn("name", 0, 20, 0, func(r *nodeRow) string { return r.Name })
	name.brief = func(r *nodeRow) string { return brief(r.Name) }
	columns := []column[nodeRow]{
		name,
		textColumn("pool", 7, 12, 24, func(r *nodeRow) string { return orUnknown(r.Pool) }),
		textColumn("type", 5, 0, 20, func(r *nodeRow) string { return orUnknown(r.InstanceType) }),
		textColumn("zone", 10, 0, 16, func(r *nodeRow) string { return orUnknown(r.Zone) }),
		textColumn("capacity", 8, 0, 12, func(r *nodeRow) string { return orUnknown(r.CapacityType) }),
		{
			key: "age", title: "AGE", rank: 6, least: ageWidth, most: ageWidth, text: (*nodeRow).age, falling: true,
			compare: func(a, b *nodeRow) int { return compareTimes(b.Created, a.Created) },
		},
		{
			key: "pods", title: "PODS", rank: 9, least: 6, most: 6, right: true, falling: true,
			text: func(r *nodeRow) string { return grouped(int64(r.Pods)) }, compare: func(a, b *nodeRow) int { return cmp.Compare(a.Pods, b.Pods) },
		},
	}
	columns = append(columns, barColumns(order, func(r *nodeRow) map[string]inspect.Use { return r.Use })...)
	state := textColumn("state", 3, 0, 16, (*nodeRow).state)
	state.rowStyle = (*nodeRow).rowStyle
	columns = append(columns, column[nodeRow]{
		key: "price", title: "$/HOUR", rank: 2, least: 8, most: 8, right: true, falling: true,
		text: func(r *nodeRow) string { return dollars(r.Price) }, compare: func(a, b *nodeRow) int { return comparePrices(a.Price, b.Price) },
	}, state)
	return &table[nodeRow]{
		name: "node", columns: columns, id: func(r *nodeRow) string { return r.Name }, about: (*nodeRow).subject, detail: (*nodeRow).detail, details: 1,
		empty: "There are no nodes.",
	}
}

// compareTimes orders times; unknown ones come last.
func compareTimes(a, b *time.Time) int {
	if a == nil || b == nil {
		return cmp.Compare(boolToInt(a == nil), boolToInt(b == nil))
	}
	return a.Compare(*b)
}

func newPools(order bars) *table[inspect.Pool] {
	type pool = inspect.Pool
	number := func(key string, rank int, value func(*pool) int) column[pool] {
		return column[pool]{
			key: key, title: strings.ToUpper(key), rank: rank, least: 7, most: 7, right: true, falling: true,
			text: func(p *pool) string { return grouped(int64(value(p))) }, compare: func(a, b *pool) int { return cmp.Compare(value(a), value(b)) },
		}
	}
	byCost := func(a, b *pool) int { return cmp.Compare(a.Totals.Hourly, b.Totals.Hourly) }
	columns := []column[pool]{
		textColumn("pool", 0, 12, 40, func(p *pool) string { return cmp.Or(p.Name, "(none)") }),
		number("nodes", 3, func(p *pool) int { return p.Totals.Nodes }),
		number("pods", 8, func(p *pool) int { return p.Totals.Pods }),
	}
	columns = append(columns, barColumns(order, func(p *pool) map[string]inspect.Use { return p.Totals.Use })...)
	status := textColumn("status", 6, 8, 0, poolStatus)
	status.rowStyle = func(p *pool) style {
		if p.Closed != "" {
			return warn
		}
		return dim
	}
	columns = append(columns,
		column[pool]{key: "hour", title: "$/HOUR", rank: 2, least: 11, most: 11, right: true, falling: true, compare: byCost, text: func(p *pool) string { return poolCost(&p.Totals, fmt.Sprintf("%.2f", p.Totals.Hourly)) }},
		column[pool]{key: "month", title: "$/MONTH", rank: 5, least: 11, most: 11, right: true, falling: true, compare: byCost, text: func(p *pool) string { return poolCost(&p.Totals, grouped(perMonth(p.Totals.Hourly))) }},
		number("weight", 9, func(p *pool) int { return int(p.Weight) }),
		textColumn("left", 7, 0, 40, limitsLeft), status)
	return &table[pool]{
		name: "NodePool", columns: columns, id: func(p *pool) string { return p.Name }, empty: "There are no NodePools.",
		about: func(p *pool) (inspect.Subject, bool) {
			return inspect.Subject{Kind: inspect.KindNodePool, Name: p.Name}, p.Name != ""
		},
	}
}

func poolStatus(p *inspect.Pool) string {
	switch {
	case p.Closed != "":
		return p.Closed
	case p.Name == "":
		return unknown
	}
	return "open"
}

// poolCost is what a pool costs, or a lower limit of it.
func poolCost(t *inspect.Totals, text string) string {
	switch {
	case t.Nodes > 0 && t.Unpriced == t.Nodes:
		return unknown
	case t.Unpriced > 0:
		return "≥ " + text
	}
	return text
}

// limitsLeft is what remains of the limits of a pool.
func limitsLeft(p *inspect.Pool) string {
	if len(p.Limits) == 0 {
		return "no limit"
	}
	var out []string
	for _, l := range p.Limits {
		out = append(out, l.Resource+" "+quantity(l.Resource, l.Remaining))
	}
	return strings.Join(out, ", ")
}

// pendingRow is a pending pod at the time of the response.
type pendingRow struct {
	inspect.Pending
	at      time.Time
	planned bool // a plan has been made that knows of it
}

func newPending() *table[pendingRow] {
	why := textColumn("why", 1, 20, 0, (*pendingRow).why)
	why.rowStyle = func(r *pendingRow) style {
		if r.Planned == "" && len(r.Why) > 0 {
			return warn
		}
		return dim
	}
	columns := []column[pendingRow]{
		textColumn("pod", 0, 24, 0, func(r *pendingRow) string { return r.Pod }),
		{
			key: "age", title: "AGE", rank: 2, least: ageWidth, most: ageWidth, falling: true, text: func(r *pendingRow) string { return age(r.at.Sub(r.Since)) },
			compare: func(a, b *pendingRow) int { return b.Since.Compare(a.Since) },
		},
		why,
	}
	return &table[pendingRow]{
		name: "pending pod", columns: columns, id: func(r *pendingRow) string { return r.Pod }, empty: "No pod is pending.", detail: (*pendingRow).detail, details: 3,
		about: func(r *pendingRow) (inspect.Subject, bool) { return splitPod(r.Pod), true },
	}
}

// why is the first reason, with the number of the others.
func (r *pendingRow) why() string {
	switch {
	case len(r.Why) > 1:
		return fmt.Sprintf("%s (and %d more)", r.Why[0].Text, len(r.Why)-1)
	case len(r.Why) == 1:
		return r.Why[0].Text
	case r.Planned != "":
		return "planned on " + r.Planned
	case !r.planned:
		return "no plan yet"
	}
	return "no reason is known; press enter"
}

// detail has all reasons.
func (r *pendingRow) detail() string {
	var out []string
	for i := range r.Why {
		out = append(out, joined(". ", r.Why[i].Text, strings.TrimSuffix(r.Why[i].Fix, "."))+".")
	}
	return strings.Join(out, " ")
}
