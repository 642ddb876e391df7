package top

import (
	"math"
	"strings"
	"unicode"

	"github.com/charmbracelet/x/ansi"
)

// style is how text looks, as parameters of an ANSI sequence. Colors are those of the terminal's theme. None is the only
// carrier of a meaning: what is drawn reads the same without.
type style string

const (
	normal   style = ""
	bold     style = "1"
	dim      style = "2"
	selected style = "7"
	accent   style = "36"
	good     style = "32"
	warn     style = "33"
	bad      style = "31"
	heading  style = "1;36"
)

const (
	ellipsis = "…"
	gap      = 2 // between columns
)

// line is a line that is drawn from left to right, at most as wide as it may be.
type line struct {
	text        strings.Builder
	width, used int
}

func newLine(width int) *line { return &line{width: width} }

// put appends text, and cuts what does not fit.
func (l *line) put(s style, text string) *line {
	text, width := cut(text, l.width-l.used)
	if width == 0 {
		return l
	}
	l.used += width
	if s == normal {
		l.text.WriteString(text)
		return l
	}
	l.text.WriteString("\x1b[" + string(s) + "m" + text + "\x1b[m")
	return l
}

// blank appends spaces.
func (l *line) blank(n int) *line {
	n = min(n, l.width-l.used)
	for range n {
		l.text.WriteByte(' ')
	}
	l.used += max(n, 0)
	return l
}

// cell appends text in a column of that width.
func (l *line) cell(s style, text string, width int, right bool) *line {
	text, used := cut(text, min(width, l.width-l.used))
	if right {
		return l.blank(width-used).put(s, text)
	}
	if s == selected { // a selected cell is highlighted as a whole
		return l.put(s, text+strings.Repeat(" ", max(width-used, 0)))
	}
	return l.put(s, text).blank(width - used)
}

// right puts text at the right edge if it fits beside what is there.
func (l *line) right(s style, text string) *line {
	if room := l.width - l.used - widthOf(clean(text)); room >= gap {
		l.blank(room).put(s, text)
	}
	return l
}

// bar appends a bar of that width, filled by a share from 0 to 1.
func (l *line) bar(s style, share float64, width int) *line {
	const eighths = " ▏▎▍▌▋▊▉"
	if math.IsNaN(share) {
		share = 0
	}
	filled := int(math.Round(min(max(share, 0), 1) * float64(width) * 8))
	if share > 0 && filled == 0 {
		filled = 1 // something is not nothing
	}
	text, rest := strings.Repeat("█", filled/8), width-filled/8
	if part := filled % 8; part > 0 {
		text += string([]rune(eighths)[part])
		rest--
	}
	return l.put(s, text).put(dim, strings.Repeat("·", max(rest, 0)))
}

func (l *line) String() string { return l.text.String() }

// cut returns text that can be displayed in so many cells, with its width.
func cut(text string, width int) (string, int) {
	if width <= 0 {
		return "", 0
	}
	text = clean(text)
	w := widthOf(text)
	if w <= width {
		return text, w
	}
	text = ansi.Truncate(text, width, ellipsis)
	return text, widthOf(text)
}

// clean removes what could control the terminal: names and reasons come from the cluster.
func clean(text string) string {
	if isASCII(text) {
		return text
	}
	return strings.Map(func(r rune) rune {
		switch {
		case unicode.IsSpace(r):
			return ' '
		case !unicode.IsPrint(r):
			return -1
		}
		return r
	}, text)
}

// isASCII says whether every character is one cell wide.
func isASCII(text string) bool {
	for i := range len(text) {
		if text[i] < ' ' || text[i] > '~' {
			return false
		}
	}
	return true
}

func widthOf(text string) int {
	if isASCII(text) {
		return len(text)
	}
	return ansi.StringWidth(text)
}

// wrap breaks text into lines at spaces, and words that are longer than a line anywhere.
func wrap(text string, width int) []string {
	if width <= 0 {
		return nil
	}
	var out []string
	for paragraph := range strings.Lines(text) {
		current := ""
		for word := range strings.FieldsSeq(clean(paragraph)) {
			if current != "" && widthOf(current)+1+widthOf(word) <= width {
				current += " " + word
				continue
			}
			if current != "" {
				out = append(out, current)
			}
			for widthOf(word) > width {
				head := ansi.Truncate(word, width, "")
				if head == "" {
					break // a character that is wider than the line
				}
				out, word = append(out, head), word[len(head):]
			}
			current = word
		}
		out = append(out, current)
	}
	return out
}
