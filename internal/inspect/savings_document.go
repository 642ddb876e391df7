package inspect

import (
	"fmt"
	"slices"
	"strconv"
)

// Grouping is what rows of Savings are about.
type Grouping string

// Groupings, in the order in which they are shown.
const (
	ByDay       Grouping = "day"
	ByNodePool  Grouping = "nodepool"
	ByNamespace Grouping = "namespace"
)

// Groupings lists all.
func Groupings() []Grouping { return []Grouping{ByDay, ByNodePool, ByNamespace} }

// Rows are those of a grouping. The row of a day has no name.
func (d *DaySavings) Rows(by Grouping) []SavingsRow {
	switch by {
	case ByNodePool:
		return d.NodePools
	case ByNamespace:
		return d.Namespaces
	case ByDay:
	}
	return []SavingsRow{d.Total}
}

// Saved is what consolidation saved; negative: what it cost.
func (r *SavingsRow) Saved() float64 { return r.Unconsolidated - r.Spent }

// AboveBound is by which share the cost was above the lower bound, while that was known.
func (r *SavingsRow) AboveBound() (share float64, known bool) {
	if r.Bound <= 0 {
		return 0, false
	}
	return r.BoundSpent/r.Bound - 1, true
}

// Document lays Savings out for reading, without their notes. It has a table for each grouping; none: for all.
func (s *Savings) Document(by ...Grouping) Document {
	d := Document{Title: "savings", Answer: s.summary()}
	for _, g := range Groupings() {
		if len(by) == 0 || slices.Contains(by, g) {
			d.add(s.section(g))
		}
	}
	return d
}

// summary sums up all days.
func (s *Savings) summary() string {
	if len(s.Days) == 0 {
		return "Nothing is recorded of what the cluster cost."
	}
	var sum SavingsRow
	hours := 0.0
	for i := range s.Days {
		hours += s.Days[i].Hours
		sum.add(&s.Days[i].Total)
	}
	when := "On " + s.Days[0].Day
	if last := s.Days[len(s.Days)-1].Day; last != s.Days[0].Day {
		when = "From " + s.Days[0].Day + " to " + last
	}
	text := fmt.Sprintf("%s, the nodes cost %s in %s. Without consolidation they would have cost %s: ", when, money(sum.Spent), observed(hours), money(sum.Unconsolidated))
	switch saved := sum.Saved(); {
	case saved > leastShown:
		text += fmt.Sprintf("it saved %s (%s)", money(saved), sum.savedShare())
	case saved < -leastShown:
		text += "it cost " + money(-saved)
	default:
		text += "it saved nothing"
	}
	text += fmt.Sprintf(", with %s.", count(sum.Evictions, "eviction", "evictions"))
	if above, known := sum.AboveBound(); known {
		text += " The cost was " + percentage(above) + " above the lower bound."
	}
	return text
}

func observed(hours float64) string {
	return strconv.FormatFloat(hours, 'f', 1, 64) + " observed hours"
}

// add adds the row of another day.
func (r *SavingsRow) add(other *SavingsRow) {
	r.Spent += other.Spent
	r.Unconsolidated += other.Unconsolidated
	r.Bound += other.Bound
	r.BoundSpent += other.BoundSpent
	r.Evictions += other.Evictions
}

// savedShare is what was saved of what the cost would have been.
func (r *SavingsRow) savedShare() string {
	if r.Unconsolidated <= 0 {
		return "-"
	}
	return percentage(r.Saved() / r.Unconsolidated)
}

func (s *Savings) section(by Grouping) Section {
	out := Section{}
	switch by {
	case ByDay:
		out.Title, out.Columns = "Days", []string{"Day"}
	case ByNodePool:
		out.Title, out.Columns = "NodePools", []string{"Day", "NodePool"}
	case ByNamespace:
		out.Title, out.Columns = "Namespaces", []string{"Day", "Namespace"}
	}
	out.Columns = append(out.Columns, "Spent", "Without consolidation", "Saved", "Saved share", "Evictions")
	if by == ByDay {
		out.Columns, out.Wide = append(out.Columns, "Above the bound", "Hours observed", "Lower bound", "Spent while it was known"), 2
	}
	for i := range s.Days {
		day := &s.Days[i]
		for _, r := range day.Rows(by) {
			row := []string{day.Day}
			if by != ByDay {
				row = append(row, r.Name)
			}
			row = append(row, money(r.Spent), money(r.Unconsolidated), balance(r.Saved()), r.savedShare(), strconv.Itoa(r.Evictions))
			if by == ByDay {
				above, bound, spent := "-", "-", "-"
				if share, known := r.AboveBound(); known {
					above, bound, spent = percentage(share), money(r.Bound), money(r.BoundSpent)
				}
				row = append(row, above, strconv.FormatFloat(day.Hours, 'f', 1, 64), bound, spent)
			}
			out.Rows = append(out.Rows, row)
		}
	}
	return out
}
