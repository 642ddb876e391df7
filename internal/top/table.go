package top

import (
	"cmp"
	"slices"
	"strings"

	"github.com/dovetail-sh/dovetail/internal/inspect"
)

// column is one property of the rows of a table.
type column[T any] struct {
	key   string // of filters: key=text
	title string
	rank  int // importance; the highest ranks are left out first when a terminal is narrow
	right bool

	text     func(*T) string
	brief    func(*T) string // of text where that does not fit; nil: text is cut
	share    func(*T) float64
	rowStyle func(*T) style
	compare  func(a, b *T) int // ascending; nil: not sorted by
	falling  bool              // sorted by it, the largest come first

	least, most int  // width; most 0: as wide as the widest text
	bar         bool // drawn from share, beside the text
}

// table shows rows of one kind: sorted, filtered, and scrolled to the one that is selected.
type table[T any] struct {
	name    string // of the rows, such as "node"
	columns []column[T]
	id      func(*T) string
	about   func(*T) (inspect.Subject, bool)
	empty   string          // shown instead of no rows
	detail  func(*T) string // of the selected row, shown below the table
	details int             // lines that are kept free for it

	rows     []T
	found    [][]string // texts in lower case that filters search, by row and column
	shown    []int      // rows that match the filter, in order
	widths   []int      // of the widest text of columns, and of their brief text
	briefs   []int
	sortBy   int
	reversed bool
	filter   filter

	at, first int // selected row and first visible row, as indexes of shown
	height    int // of the rows at the last layout
}

// list is a table of any kind.
type list interface {
	move(by int)
	page(direction int)
	sort(by int)
	reverse()
	search(filter)
	resize(height int)
	subject() (inspect.Subject, bool)
	counts() (shown, all int)
	position() (first, last int)
	header(width int) string
	draw(width int) []string
	nothing() string
	selectedDetail() (text string, lines int)
}

// set replaces the rows. The selected object stays selected while it is there.
func (t *table[T]) set(rows []T) {
	selected := ""
	if row := t.current(); row != nil {
		selected = t.id(row)
	}
	t.rows, t.found = rows, nil
	t.measure()
	t.arrange()
	if selected != "" {
		t.choose(selected)
	}
}

// measure finds how wide the columns are. All rows count, so that columns do not jump while they are scrolled.
func (t *table[T]) measure() {
	t.widths, t.briefs = make([]int, len(t.columns)), make([]int, len(t.columns))
	for c := range t.columns {
		col := &t.columns[c]
		t.widths[c] = widthOf(col.title) + 2 // with the mark of the order
		if col.most > 0 && col.least == col.most || col.bar {
			t.widths[c] = max(col.least, col.most) // a bar has none of both, and grows later
			t.briefs[c] = t.widths[c]
			continue
		}
		t.briefs[c] = t.widths[c]
		for i := range t.rows {
			t.widths[c] = max(t.widths[c], widthOf(col.text(&t.rows[i])))
			if col.brief != nil {
				t.briefs[c] = max(t.briefs[c], widthOf(col.brief(&t.rows[i])))
			}
		}
		if col.brief == nil {
			t.briefs[c] = t.widths[c]
		}
		if col.most > 0 {
			t.widths[c], t.briefs[c] = min(t.widths[c], col.most), min(t.briefs[c], col.most)
		}
	}
}

// arrange selects the rows that match the filter, and sorts them.
func (t *table[T]) arrange() {
	t.shown = t.shown[:0]
	matches := t.match()
	for i := range t.rows {
		if matches == nil || matches[i] {
			t.shown = append(t.shown, i)
		}
	}
	if compare := t.columns[t.sortBy].compare; compare != nil {
		if t.reversed != t.columns[t.sortBy].falling {
			forward := compare
			compare = func(a, b *T) int { return forward(b, a) }
		}
		slices.SortFunc(t.shown, func(a, b int) int {
			return cmp.Or(compare(&t.rows[a], &t.rows[b]), cmp.Compare(a, b))
		})
	}
	t.move(0)
}

// use replaces the columns, and keeps the one that rows are sorted by.
func (t *table[T]) use(columns []column[T]) {
	by := t.columns[t.sortBy].key
	t.columns, t.sortBy = columns, 0
	for c := range columns {
		if columns[c].key == by {
			t.sortBy = c
		}
	}
	t.set(t.rows)
}

// match makes the texts that filters search when they are first needed, and reports which rows match.
func (t *table[T]) match() []bool {
	if t.filter.isZero() {
		return nil
	}
	keys := make([]string, len(t.columns))
	for c := range t.columns {
		keys[c] = t.columns[c].key
	}
	if t.found == nil {
		t.found = make([][]string, len(t.rows))
		for i := range t.rows {
			t.found[i] = make([]string, len(t.columns))
			for c := range t.columns {
				t.found[i][c] = strings.ToLower(t.columns[c].text(&t.rows[i]))
			}
		}
	}
	out := make([]bool, len(t.rows))
	for i := range t.rows {
		out[i] = t.filter.matches(keys, t.found[i])
	}
	return out
}

func (t *table[T]) current() *T {
	if t.at < 0 || t.at >= len(t.shown) {
		return nil
	}
	return &t.rows[t.shown[t.at]]
}

// choose selects a row by its id, if it is shown.
func (t *table[T]) choose(id string) {
	for i, row := range t.shown {
		if t.id(&t.rows[row]) == id {
			t.at = i
			t.move(0)
			return
		}
	}
}

func (t *table[T]) move(by int) {
	t.at = min(max(t.at+by, 0), max(len(t.shown)-1, 0))
	height := max(t.height, 1)
	t.first = min(max(t.first, t.at-height+1), t.at)
	t.first = min(t.first, max(len(t.shown)-height, 0))
}

func (t *table[T]) page(direction int) { t.move(direction * max(t.height-1, 1)) }

// sort sorts by the next column, or the one before.
func (t *table[T]) sort(by int) {
	for range t.columns {
		t.sortBy = (t.sortBy + by + len(t.columns)) % len(t.columns)
		if col := &t.columns[t.sortBy]; col.compare != nil && col.rank < hidden {
			break
		}
	}
	t.reversed = false
	t.arrange()
	t.move(-len(t.rows)) // who sorts wants to see the first rows
}

func (t *table[T]) reverse() {
	if t.columns[t.sortBy].compare == nil {
		return
	}
	t.reversed = !t.reversed
	t.arrange()
	t.move(-len(t.rows))
}

// search applies a filter. The selected row stays selected if it matches.
func (t *table[T]) search(f filter) {
	t.filter = f
	selected := t.current()
	t.arrange()
	if selected != nil {
		t.choose(t.id(selected))
	}
}

func (t *table[T]) resize(height int) {
	t.height = height
	t.move(0)
}

func (t *table[T]) subject() (inspect.Subject, bool) {
	row := t.current()
	if row == nil {
		return inspect.Subject{}, false
	}
	return t.about(row)
}

func (t *table[T]) counts() (shown, all int) { return len(t.shown), len(t.rows) }

func (t *table[T]) position() (first, last int) {
	return t.first + 1, min(t.first+t.height, len(t.shown))
}

func (t *table[T]) nothing() string {
	if len(t.rows) > 0 {
		return "No " + t.name + " matches " + t.filter.String() + ". Esc clears the filter."
	}
	return t.empty
}

// selectedDetail is what is shown below the table, in at most so many lines.
func (t *table[T]) selectedDetail() (text string, lines int) {
	if row := t.current(); row != nil && t.detail != nil {
		text = t.detail(row)
	}
	return text, t.details
}

// descending says whether the largest come first.
func (t *table[T]) descending() bool { return t.reversed != t.columns[t.sortBy].falling }
