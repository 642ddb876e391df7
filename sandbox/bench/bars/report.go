package bars

import (
	"cmp"
	"fmt"
	"io"
	"maps"
	"math"
	"slices"
	"strings"
	"text/tabwriter"
)

const mib = 1 << 20

// Units of figures.
const (
	unitCount      = "count"
	unitSeconds    = "seconds"
	unitBytes      = "bytes"
	unitMillicores = "millicores"
	unitPrice      = "dollars an hour"
	unitPercent    = "percent"
)

// Report is what was measured.
type Report struct {
	Results []Result `json:"scenarios"`
}

// Result of one scenario.
type Result struct {
	Name    string         `json:"name"`
	Title   string         `json:"title"`
	Load    string         `json:"loadAverage,omitempty"` // of the machine, at the end
	Figures []Figure       `json:"figures"`
	API     map[string]int `json:"apiRequests,omitempty"` // by verb and resource; watches when they end
	AWS     map[string]int `json:"awsCalls,omitempty"`    // by action, without dry runs
	Notes   []string       `json:"notes,omitempty"`
}

// Figure is one number, with its bar if there is one.
type Figure struct {
	Name  string   `json:"name"`
	Value float64  `json:"value"`
	Unit  string   `json:"unit"`
	Bar   *float64 `json:"bar,omitempty"` // the most that it should be
	Held  *bool    `json:"held,omitempty"`
}

func (r *Result) add(name string, value float64, unit string) {
	r.Figures = append(r.Figures, Figure{Name: name, Value: value, Unit: unit})
}

func (r *Result) addLimit(name string, value float64, unit string, limit float64) {
	r.Figures = append(r.Figures, Figure{Name: name, Value: value, Unit: unit, Bar: &limit, Held: new(value <= limit)})
}

// Bars is how many figures have a bar, and how many of them missed it.
func (r Report) Bars() (all, missed int) {
	for _, result := range r.Results {
		for _, f := range result.Figures {
			if f.Held == nil {
				continue
			}
			all++
			if !*f.Held {
				missed++
			}
		}
	}
	return all, missed
}

// Print writes the report as tables.
func (r Report) Print(out io.Writer) error {
	for _, result := range r.Results {
		if len(result.Figures) == 0 {
			continue // it failed before
		}
		if err := result.print(out); err != nil {
			return err
		}
	}
	if all, missed := r.Bars(); all > 0 {
		fmt.Fprintf(out, "\n%d of %d bars held.\n", all-missed, all)
	}
	return nil
}

func (r Result) print(out io.Writer) error {
	fmt.Fprintf(out, "\n%s: %s", r.Name, r.Title)
	if r.Load != "" {
		fmt.Fprintf(out, " (load average of the machine %s)", r.Load)
	}
	fmt.Fprint(out, "\n\n")
	w := tabwriter.NewWriter(out, 0, 8, 2, ' ', 0)
	fmt.Fprintln(w, "  \tmeasured\tbar\t")
	for _, f := range r.Figures {
		bar, held := "", ""
		if f.Bar != nil {
			bar, held = formatFigure(*f.Bar, f.Unit), "held"
			if !*f.Held {
				held = "MISSED"
			}
		}
		fmt.Fprintf(w, "  %s\t%s\t%s\t%s\n", f.Name, formatFigure(f.Value, f.Unit), bar, held)
	}
	if err := w.Flush(); err != nil {
		return err
	}
	printCounts(out, "requests to the API server", r.API)
	printCounts(out, "calls of AWS", r.AWS)
	for _, note := range r.Notes {
		fmt.Fprintf(out, "  %s\n", note)
	}
	return nil
}

// fewest kinds of requests that are listed; the rest is added up.
const listed = 12

func printCounts(out io.Writer, what string, counts map[string]int) {
	if len(counts) == 0 {
		return
	}
	kinds := slices.SortedFunc(maps.Keys(counts), func(a, b string) int { return cmp.Or(cmp.Compare(counts[b], counts[a]), cmp.Compare(a, b)) })
	var parts []string
	rest := 0
	for i, kind := range kinds {
		if i >= listed {
			rest += counts[kind]
			continue
		}
		parts = append(parts, fmt.Sprintf("%d %s", counts[kind], kind))
	}
	if rest > 0 {
		parts = append(parts, fmt.Sprintf("%d others", rest))
	}
	fmt.Fprintf(out, "  %s: %s\n", what, strings.Join(parts, ", "))
}

// formatFigure writes a figure for people.
func formatFigure(value float64, unit string) string {
	switch unit {
	case unitSeconds:
		if math.Abs(value) < 1 {
			return fmt.Sprintf("%.1f ms", value*1000)
		}
		return fmt.Sprintf("%.2f s", value)
	case unitBytes:
		return fmt.Sprintf("%.0f MiB", value/mib)
	case unitMillicores:
		return fmt.Sprintf("%.0fm", value)
	case unitPrice:
		return fmt.Sprintf("$%.2f/h", value)
	case unitPercent:
		return fmt.Sprintf("%.1f %%", value)
	default:
		return fmt.Sprintf("%.0f", value)
	}
}
