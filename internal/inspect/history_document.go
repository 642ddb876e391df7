package inspect

import (
	"fmt"
	"strings"
	"time"
)

// Document lays a History out for reading. It has no costs: they are for a chart. query is what was requested.
func (h *History) Document(query *HistoryQuery) Document {
	d := Document{Title: "history"}
	if query.Object != (Subject{}) {
		d.Title = "history of " + query.Object.String()
	}
	d.Answer = h.summary()
	events := Section{Title: "Events", Columns: []string{"Time", "What", "Text", "Saves an hour", "Command", "Source", "Objects"}, Wide: 4}
	for i := range h.Events {
		e := &h.Events[i]
		saves := ""
		if e.Saves != 0 {
			saves = balance(e.Saves)
		}
		events.Rows = append(events.Rows, []string{e.At.UTC().Format(time.RFC3339), e.Kind, e.Text, saves, e.ID, e.Source, strings.Join(e.Objects, " ")})
	}
	d.add(events)
	return d
}

// summary says how much happened.
func (h *History) summary() string {
	if len(h.Events) == 0 {
		return "Nothing is recorded that matches."
	}
	text := "1 event."
	if n := len(h.Events); n > 1 {
		text = fmt.Sprintf("%d events from %s to %s.", n, h.Events[0].At.UTC().Format(time.RFC3339), h.Events[n-1].At.UTC().Format(time.RFC3339))
	}
	commands, saves := 0, 0.0
	for i := range h.Events {
		if e := &h.Events[i]; e.Saves > 0 {
			commands, saves = commands+1, saves+e.Saves
		}
	}
	switch {
	case commands == 1:
		text += " 1 command was started that saves money: " + money(saves) + " an hour once it is complete."
	case commands > 1:
		text += fmt.Sprintf(" %d commands were started that save money: %s an hour once they are complete.", commands, money(saves))
	}
	return text
}

// balance is an amount in USD that may be negative.
func balance(v float64) string {
	if v < 0 {
		return "-" + money(-v)
	}
	return money(v)
}
