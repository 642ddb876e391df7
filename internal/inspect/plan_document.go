package inspect

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
)

// shownRows is how many rows a table of a Document has at most. The JSON form has all.
const shownRows = 40

// Document lays Changes out for reading, without their notes.
func (c *Changes) Document() Document {
	d := Document{Title: "plan", Answer: c.summary()}
	for _, s := range []Section{c.removals(), c.launches(), c.moves(), c.unplaced(), c.kept()} {
		if len(s.Lines)+len(s.Rows) > 0 {
			d.Sections = append(d.Sections, s)
		}
	}
	return d
}

// summary sums up the plan in a few sentences.
func (c *Changes) summary() string {
	var does []string
	if n := len(c.Remove); n > 0 {
		does = append(does, "remove "+count(n, "node", "nodes"))
	}
	if n := len(c.Launch); n > 0 {
		does = append(does, "launch "+strconv.Itoa(n))
		if len(c.Remove) == 0 {
			does[0] = "launch " + count(n, "node", "nodes")
		}
	}
	var parts []string
	switch {
	case len(does) > 0:
		parts = append(parts, "Dovetail would "+strings.Join(does, " and ")+": "+c.difference())
	case c.Partial:
		parts = append(parts, "Nothing to change was found in the time given")
	default:
		parts = append(parts, "Nothing to change: "+count(c.After.Nodes, "node", "nodes")+" for "+money(c.After.Hourly)+" an hour"+c.unpriced())
	}
	if n := len(c.Moves); n > 0 {
		parts = append(parts, count(n, "pod moves", "pods move"))
	}
	if n := c.Evictions - len(c.Moves); n > 0 && len(c.Remove) > 0 {
		parts = append(parts, count(c.Evictions, "eviction", "evictions"))
	}
	if n := len(c.Unplaced); n > 0 {
		parts = append(parts, count(n, "pending pod fits", "pending pods fit")+" no node")
	}
	if c.Bound > 0 {
		bound := "no cluster that holds these pods costs less than " + money(c.Bound) + " an hour"
		if now := c.Before.Bound; now > 0 && math.Abs(c.Bound-now) > leastShown {
			bound += " (" + money(now) + " for those that run now)"
		}
		parts = append(parts, bound)
	}
	text := strings.Join(parts, "; ") + "."
	if n := c.begins(); c.Later && n < len(c.Remove) {
		text += fmt.Sprintf(" %d of %d removals may begin now, the others follow.", n, len(c.Remove))
	}
	return text
}

// difference is what the plan changes about the cost.
func (c *Changes) difference() string {
	before := c.Before.Hourly - c.Leaving.Hourly // nodes that leave in any case are no saving
	change := c.After.Hourly - before
	text := fmt.Sprintf("%s an hour instead of %s", money(c.After.Hourly), money(before))
	switch {
	case change < -leastShown:
		text = fmt.Sprintf("%s an hour less, %s a month (%s)", money(-change), monthly(-change), text)
	case change > leastShown:
		text = fmt.Sprintf("%s an hour more, %s a month (%s)", money(change), monthly(change), text)
	}
	return text + c.unpriced()
}

// unpriced says of sums that nodes are missing in them.
func (c *Changes) unpriced() string {
	if unknown := max(c.Before.Unpriced, c.After.Unpriced); unknown > 0 {
		return ", without " + count(unknown, "node", "nodes") + " of unknown price"
	}
	return ""
}

// begins counts the removals that may begin now.
func (c *Changes) begins() int {
	n := 0
	for i := range c.Remove {
		if c.Remove[i].Now {
			n++
		}
	}
	return n
}

func (c *Changes) removals() Section {
	s := Section{
		Title: "Nodes to remove", Columns: []string{"NODE", "REASON", "TYPE", "ZONE", "CAPACITY", "AN HOUR", "PODS", "WHEN", "NODEPOOL", "COMMAND", "SAVES"}, Wide: 3,
	}
	for i := range c.Remove {
		r, when := &c.Remove[i], "later"
		if r.Now {
			when = "now"
		}
		s.Rows = append(s.Rows, []string{r.Node, r.Reason, r.Type, r.Zone, r.Market, price(r.Price), strconv.Itoa(len(r.Pods)), when, r.Pool, r.Command, money(r.Saves)})
	}
	s.shorten("nodes")
	return s
}

func (c *Changes) launches() Section {
	s := Section{Title: "Nodes to launch", Columns: []string{"LAUNCH", "NODEPOOL", "TYPE", "ZONE", "CAPACITY", "AN HOUR", "PODS", "FOR", "TYPES", "COMMAND"}, Wide: 2}
	for i := range c.Launch {
		l, reason := &c.Launch[i], "pending pods"
		if l.Command != "" {
			reason = "replacement"
		}
		s.Rows = append(s.Rows, []string{
			strconv.Itoa(i + 1), l.Pool, l.Type, l.Zone, l.Market, price(l.Price), strconv.Itoa(len(l.Pods)), reason, strconv.Itoa(len(l.Types)), l.Command,
		})
	}
	s.shorten("nodes")
	return s
}

func (c *Changes) moves() Section {
	s := Section{Title: "Pods to move", Columns: []string{"POD", "FROM", "TO"}}
	for _, m := range c.Moves {
		s.Rows = append(s.Rows, []string{m.Pod, m.From, m.To})
	}
	for _, m := range c.Binds {
		s.Rows = append(s.Rows, []string{m.Pod, "pending", m.To})
	}
	s.shorten("pods")
	return s
}

// unplaced lists the pods that no node can be planned for, those with the same reasons together.
func (c *Changes) unplaced() Section {
	s := Section{Title: "Pods that fit no node", Columns: []string{"PODS", "SUCH AS", "WHY", "WHAT TO DO"}, Wide: 1}
	type kind struct {
		count         int
		pod, why, fix string
	}
	var kinds []*kind
	by := map[string]*kind{}
	for i := range c.Unplaced {
		p := &c.Unplaced[i]
		why, fix := "waits for the next plan", ""
		if len(p.Why) > 0 {
			why, fix = p.Why[0].Text, p.Why[0].Fix
		}
		if by[why] == nil {
			by[why] = &kind{pod: p.Pod, why: why, fix: fix}
			kinds = append(kinds, by[why])
		}
		by[why].count++
	}
	slices.SortStableFunc(kinds, func(a, b *kind) int { return cmp.Compare(b.count, a.count) })
	for _, k := range kinds {
		s.Rows = append(s.Rows, []string{strconv.Itoa(k.count), k.pod, k.why, k.fix})
	}
	s.shorten("kinds of pods")
	return s
}

// kept lists the nodes that stay, those with the same reason together.
func (c *Changes) kept() Section {
	s := Section{Title: "Nodes that stay", Columns: []string{"NODES", "SUCH AS", "WHY", "WHAT TO DO"}, Wide: 1}
	type kind struct {
		count int
		first Kept
	}
	var kinds []*kind
	by := map[string]*kind{}
	for i := range c.Kept {
		k := &c.Kept[i]
		if by[k.Why.Text] == nil {
			by[k.Why.Text] = &kind{first: *k}
			kinds = append(kinds, by[k.Why.Text])
		}
		by[k.Why.Text].count++
	}
	slices.SortStableFunc(kinds, func(a, b *kind) int { return cmp.Compare(b.count, a.count) })
	for _, k := range kinds {
		s.Rows = append(s.Rows, []string{strconv.Itoa(k.count), k.first.Node, k.first.Why.Text, k.first.Why.Fix})
	}
	s.shorten("kinds of nodes")
	return s
}

// shorten leaves out rows beyond what can be read, and says how many.
func (s *Section) shorten(what string) {
	if more := len(s.Rows) - shownRows; more > 0 {
		s.Rows = s.Rows[:shownRows]
		s.Omitted = fmt.Sprintf("%d more %s", more, what)
	}
}

// leastShown is a difference in USD that is shown.
const leastShown = 0.00005

// money is an amount in USD, with four digits below a cent.
func money(v float64) string {
	if v != 0 && math.Abs(v) < 0.1 {
		return "$" + strconv.FormatFloat(v, 'f', 4, 64)
	}
	return "$" + strconv.FormatFloat(v, 'f', 2, 64)
}

// monthly is what an amount an hour is a month.
func monthly(hourly float64) string {
	return "$" + strconv.FormatFloat(hourly*HoursPerMonth, 'f', 0, 64)
}

// price is what a node costs an hour.
func price(v float64) string {
	if v == 0 {
		return "?"
	}
	return money(v)
}

// count is a number with what is counted.
func count(n int, one, many string) string {
	if n == 1 {
		return "1 " + one
	}
	return strconv.Itoa(n) + " " + many
}
