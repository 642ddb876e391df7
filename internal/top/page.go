package top

import (
	"strings"

	"github.com/dovetail-sh/dovetail/internal/inspect"
)

// page shows a Document, scrolled to some line.
type page struct {
	document inspect.Document
	lines    []string // laid out for the width
	width    int
	first    int
	height   int
}

// show replaces the Document; the place in it stays.
func (p *page) show(d inspect.Document) {
	p.document = d
	p.lines = documentLines(&d, p.width)
	p.scroll(0)
}

func (p *page) resize(width, height int) {
	p.height = height
	if width != p.width {
		p.width = width
		p.lines = documentLines(&p.document, width)
	}
	p.scroll(0)
}

func (p *page) scroll(by int) {
	p.first = max(min(p.first+by, len(p.lines)-p.height), 0)
}

func (p *page) draw() []string {
	return p.lines[p.first:min(p.first+p.height, len(p.lines))]
}

// documentLines lays a Document out. Text is wrapped, since reasons are what the reader came for.
func documentLines(d *inspect.Document, width int) []string {
	var out []string
	add := func(st style, indent int, text string) {
		for _, l := range wrap(text, width-indent) {
			out = append(out, newLine(width).blank(indent).put(st, l).String())
		}
	}
	add(heading, 0, d.Title)
	if d.Answer != "" {
		out = append(out, "")
		add(normal, 0, d.Answer)
	}
	for i := range d.Sections {
		s := &d.Sections[i]
		out = append(out, "")
		add(bold, 0, s.Title)
		for _, l := range s.Lines {
			add(normal, gutter, l)
		}
		out = append(out, tableLines(s, width-gutter)...)
		if s.Omitted != "" {
			add(dim, gutter, "and "+s.Omitted)
		}
	}
	return out
}

// tableLines lays a table out. Where it does not fit, columns for wide output are left out, and then the widest are wrapped.
func tableLines(s *inspect.Section, width int) []string {
	columns := len(s.Columns)
	for _, row := range s.Rows {
		columns = max(columns, len(row))
	}
	if columns == 0 {
		return nil
	}
	widths := tableWidths(s, columns)
	if total(widths) > width && s.Wide < columns {
		columns -= s.Wide
		widths = widths[:columns]
	}
	for over := total(widths) - width; over > 0; over-- {
		widest := 0
		for c := range widths {
			if widths[c] > widths[widest] {
				widest = c
			}
		}
		if widths[widest] <= 1 {
			break
		}
		widths[widest]--
	}
	var out []string
	draw := func(st style, cells []string) {
		wrapped, height := make([][]string, len(widths)), 0
		for c := range widths {
			if c < len(cells) {
				wrapped[c] = wrapCell(cells[c], widths[c])
			}
			height = max(height, len(wrapped[c]))
		}
		for row := range height {
			l := newLine(width + gutter).blank(gutter)
			for c := range widths {
				text := ""
				if row < len(wrapped[c]) {
					text = wrapped[c][row]
				}
				l.cell(st, text, widths[c], false)
				if c < len(widths)-1 {
					l.blank(gap)
				}
			}
			out = append(out, strings.TrimRight(l.String(), " "))
		}
	}
	if len(s.Columns) > 0 {
		draw(dim, s.Columns)
	}
	for _, row := range s.Rows {
		draw(normal, row)
	}
	return out
}

// wrapCell wraps sentences. Single words are names, which are cut.
func wrapCell(text string, width int) []string {
	if !strings.Contains(text, " ") {
		return []string{text}
	}
	return wrap(text, width)
}

func tableWidths(s *inspect.Section, columns int) []int {
	widths := make([]int, columns)
	for c, title := range s.Columns {
		widths[c] = widthOf(title)
	}
	for _, row := range s.Rows {
		for c := range min(columns, len(row)) {
			widths[c] = max(widths[c], widthOf(clean(row[c])))
		}
	}
	return widths
}

// total is how wide columns are with what is between them.
func total(widths []int) int {
	sum := gap * max(len(widths)-1, 0)
	for _, w := range widths {
		sum += w
	}
	return sum
}
