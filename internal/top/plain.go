package top

import (
	"context"
	"fmt"
	"io"
	"strings"

	"github.com/dovetail-sh/dovetail/internal/columns"
	"github.com/dovetail-sh/dovetail/internal/inspect"
)

// Print writes the nodes and pending pods once, as plain text for files and pipes.
func Print(ctx context.Context, s inspect.Service, out io.Writer) error {
	f, err := s.Fleet(ctx)
	if err != nil {
		return err
	}
	m := newModel(requests{}, 0)
	m.fleet, m.now = &f, f.At
	plan, err := s.Plan(ctx, inspect.WhatIf{})
	if err != nil {
		m.ofPlan.err = err
		f.Notes = append(f.Notes, "no plan could be made, so that the lower bound is missing: "+err.Error())
	} else {
		m.changes = &plan
	}
	m.fill()
	_, err = io.WriteString(out, m.plain())
	return err
}

func (m *Model) plain() string {
	var b strings.Builder
	t := &m.fleet.Totals
	hour, month, missing := costs(t)
	_, distance := m.distance(t)
	distance += m.boundedPods(t)
	if m.ofPlan.err != nil {
		distance = ""
	}
	fmt.Fprintf(&b, "%s, %s, %d pending; %s\n", plural(t.Nodes, "node"), plural(t.Pods, "pod"), len(m.fleet.Pending), orUnknown(m.fleet.Source))
	b.WriteString(joined(", ", hour, month, missing, distance) + "\n")
	for _, note := range m.fleet.Notes {
		b.WriteString("note: " + clean(note) + "\n")
	}
	b.WriteString("\n" + columns.Text(m.nodes.plain()))
	if len(m.fleet.Pending) > 0 {
		b.WriteString("\n" + columns.Text(m.pending.plain()))
	}
	return b.String()
}

// plain returns all rows with the columns that are not hidden.
func (t *table[T]) plain() [][]string {
	var titles []string
	for c := range t.columns {
		if t.columns[c].rank < hidden {
			titles = append(titles, t.columns[c].title)
		}
	}
	out := [][]string{titles}
	for _, i := range t.shown {
		var row []string
		for c := range t.columns {
			if t.columns[c].rank < hidden {
				row = append(row, clean(t.columns[c].text(&t.rows[i])))
			}
		}
		out = append(out, row)
	}
	return out
}

// joined joins the texts that are not empty.
func joined(separator string, texts ...string) string {
	out := ""
	for _, text := range texts {
		if text != "" && out != "" {
			out += separator
		}
		out += text
	}
	return out
}
