package replay

import (
	"fmt"
	"strconv"

	"github.com/dovetail-sh/dovetail/internal/inspect"
)

// shown is how many differences of a record a Document has. The JSON form has all.
const shown = 30

// Document lays a Report out for reading.
func (r *Report) Document() inspect.Document {
	d := inspect.Document{Answer: r.summary()}
	table := inspect.Section{Title: "Records", Columns: []string{"record", "cluster", "taken", "decided by", "result", "an hour", "removed", "launched", "evictions", "unplaced"}, Wide: 2}
	for i := range r.Results {
		table.Rows = append(table.Rows, r.Results[i].row())
	}
	d.Sections = append(d.Sections, table)
	for i := range r.Results {
		one := &r.Results[i]
		if one.Problem != "" {
			d.Sections = append(d.Sections, inspect.Section{Title: one.Source, Lines: []string{one.Problem}})
		}
		if len(one.Differs) == 0 {
			continue
		}
		s := inspect.Section{Title: one.Source, Columns: []string{"differs in", "object", "recorded", "now"}}
		for _, x := range one.Differs[:min(shown, len(one.Differs))] {
			s.Rows = append(s.Rows, []string{x.What, orDash(x.Object), orDash(x.Before), orDash(x.After)})
		}
		if more := len(one.Differs) - shown; more > 0 {
			s.Lines = append(s.Lines, fmt.Sprintf("and %d more: -o json has all of them", more))
		}
		d.Sections = append(d.Sections, s)
	}
	return d
}

func (r *Report) summary() string {
	records := "records are"
	if len(r.Results) == 1 {
		records = "record is"
	}
	text := fmt.Sprintf("%d of %d %s decided as before", r.Equal, len(r.Results), records)
	if r.Different > 0 {
		text += fmt.Sprintf(", %d differently", r.Different)
	}
	if r.Failed > 0 {
		text += fmt.Sprintf(", %d could not be decided again", r.Failed)
	}
	before, after := 0.0, 0.0
	for i := range r.Results {
		if one := &r.Results[i]; one.Now != nil {
			before, after = before+one.Recorded.Hourly, after+one.Now.Hourly
		}
	}
	if r.Different > 0 {
		text += fmt.Sprintf(". The clusters would cost %s an hour in all, and %s as recorded", dollars(after), dollars(before))
	}
	return text + "."
}

func (r *Result) row() []string {
	taken := ""
	if r.Taken != nil {
		taken = r.Taken.UTC().Format("2006-01-02 15:04:05")
	}
	result := "equal"
	switch {
	case r.Problem != "":
		result = "failed"
	case len(r.Differs) > 0:
		result = "differs"
	}
	row := []string{r.Source, orDash(r.Cluster), orDash(taken), orDash(r.Tool), result}
	if r.Now == nil {
		return append(row, "-", "-", "-", "-", "-")
	}
	row = append(row, change(dollars(r.Recorded.Hourly), dollars(r.Now.Hourly)))
	for _, pair := range [][2]int{
		{r.Recorded.Removed, r.Now.Removed}, {r.Recorded.Launched, r.Now.Launched}, {r.Recorded.Evictions, r.Now.Evictions}, {r.Recorded.Unplaced, r.Now.Unplaced},
	} {
		row = append(row, change(strconv.Itoa(pair[0]), strconv.Itoa(pair[1])))
	}
	return row
}

// change is a value, or what it was and is.
func change(before, after string) string {
	if before == after {
		return after
	}
	return before + " -> " + after
}

func dollars(v float64) string { return "$" + strconv.FormatFloat(v, 'f', 4, 64) }

func orDash(text string) string {
	if text == "" {
		return "-"
	}
	return text
}
