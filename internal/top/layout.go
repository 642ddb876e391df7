package top

import (
	"cmp"
	"slices"
)

const (
	gutter   = 2  // where the selected row is marked
	leastBar = 9  // "100%" and a bar of four
	mostBar  = 24 // wider bars say no more
)

// placed is a column that is displayed.
type placed struct {
	index, width int
	brief        bool
}

// layout selects the columns that fit, by rank, and gives them their widths. The one that rows are sorted by comes second.
func (t *table[T]) layout(width int) []placed {
	rank := func(c int) int {
		if c == t.sortBy && t.columns[c].compare != nil {
			return min(t.columns[c].rank, 1)
		}
		return t.columns[c].rank
	}
	order := make([]int, 0, len(t.columns))
	for c := range t.columns {
		if rank(c) < hidden {
			order = append(order, c)
		}
	}
	slices.SortStableFunc(order, func(a, b int) int { return cmp.Or(rank(a)-rank(b), t.columns[a].rank-t.columns[b].rank) })
	room, out := width-gutter, make([]placed, 0, len(order))
	for i, c := range order {
		need, between := t.leastWidth(c), gap
		if i == 0 { // the name is always there
			need, between = max(min(need, room), 0), 0
		}
		if need+between <= room {
			out = append(out, placed{index: c, width: need})
			room -= need + between
		}
	}
	t.grow(out, max(room, 0))
	slices.SortFunc(out, func(a, b placed) int { return a.index - b.index })
	for i := range out {
		p := &out[i]
		p.brief = t.columns[p.index].brief != nil && p.width < t.widths[p.index]
	}
	return out
}

// grow distributes what columns leave: first to texts that are cut, then to those that are brief, then to bars.
func (t *table[T]) grow(columns []placed, room int) {
	for i := range columns {
		p := &columns[i]
		by := min(room, max(t.briefs[p.index]-p.width, 0))
		p.width, room = p.width+by, room-by
	}
	for i := range columns {
		p := &columns[i]
		if by := t.widths[p.index] - p.width; by > 0 && by <= room {
			p.width, room = p.width+by, room-by
		}
	}
	count, widest := 0, 0
	for i := range columns {
		if p := &columns[i]; t.columns[p.index].bar {
			count, widest, room = count+1, max(widest, p.width), room+p.width
		}
	}
	for i := range columns { // bars are equally wide, so that they can be compared
		if p := &columns[i]; t.columns[p.index].bar && room/count >= widest {
			p.width = max(p.width, min(room/count, mostBar))
		}
	}
}

// leastWidth is what a column needs to be of use.
func (t *table[T]) leastWidth(c int) int {
	col := &t.columns[c]
	if col.bar {
		return max(leastBar, widthOf(col.title)+2)
	}
	if col.least > 0 {
		return min(max(col.least, widthOf(col.title)+2), t.briefs[c])
	}
	return t.briefs[c]
}

// header has the titles, and marks the one that rows are sorted by.
func (t *table[T]) header(width int) string {
	l := newLine(width).blank(gutter)
	for i, p := range t.layout(width) {
		if i > 0 {
			l.blank(gap)
		}
		col := &t.columns[p.index]
		title, st := col.title, dim
		if p.index == t.sortBy && col.compare != nil {
			st = bold
			if t.descending() {
				title += " ▼"
			} else {
				title += " ▲"
			}
		}
		l.cell(st, title, p.width, col.right)
	}
	return l.String()
}

// draw returns the visible rows.
func (t *table[T]) draw(width int) []string {
	columns := t.layout(width)
	out := make([]string, 0, t.height)
	for i := t.first; i < min(t.first+t.height, len(t.shown)); i++ {
		row, l := &t.rows[t.shown[i]], newLine(width)
		if i == t.at {
			l.cell(heading, "›", gutter, false)
		} else {
			l.blank(gutter)
		}
		for n, p := range columns {
			if n > 0 {
				l.blank(gap)
			}
			t.drawCell(l, row, p, i == t.at)
		}
		out = append(out, l.String())
	}
	return out
}

func (t *table[T]) drawCell(l *line, row *T, p placed, isSelected bool) {
	col, st := &t.columns[p.index], normal
	if col.rowStyle != nil {
		st = col.rowStyle(row)
	}
	text := col.text(row)
	if p.brief {
		text = col.brief(row)
	}
	switch {
	case !isSelected || col.bar:
	case col.rank == 0:
		st = selected
	case st == dim:
		st = bold
	default:
		st = join(bold, st)
	}
	if !col.bar {
		l.cell(st, text, p.width, col.right)
		return
	}
	const figure = 4
	if text == unknown {
		l.cell(dim, text, p.width, false)
		return
	}
	l.cell(st, text, figure, true).blank(1).bar(accent, col.share(row), p.width-figure-1)
}

// join adds a style to another.
func join(a, b style) style {
	if b == normal {
		return a
	}
	return a + ";" + b
}
