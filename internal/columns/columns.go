package columns

import (
	"strings"
	"unicode"
	"unicode/utf8"
)

// gap is what separates two columns.
const gap = "  "

// Text returns the rows as lines, every column as wide as its widest cell. Columns that hold numbers
// only, below a first row that is the header, are aligned on the right.
func Text(rows [][]string) string {
	var widths []int
	var numbers, figures []bool
	for r, row := range rows {
		for i, cell := range row {
			if i == len(widths) {
				widths, numbers, figures = append(widths, 0), append(numbers, true), append(figures, false)
			}
			widths[i] = max(widths[i], utf8.RuneCountInString(cell))
			if r > 0 && !number(cell) {
				numbers[i] = false
			}
			figures[i] = figures[i] || r > 0 && strings.ContainsAny(cell, "0123456789")
		}
	}
	var b strings.Builder
	for _, row := range rows {
		cells := make([]string, len(row))
		for i, cell := range row {
			pad := strings.Repeat(" ", widths[i]-utf8.RuneCountInString(cell))
			if numbers[i] && figures[i] {
				cells[i] = pad + cell
			} else {
				cells[i] = cell + pad
			}
		}
		b.WriteString(strings.TrimRight(strings.Join(cells, gap), " ") + "\n")
	}
	return b.String()
}

// number accepts what stands in a column of figures: digits with signs, units and blanks for missing.
func number(cell string) bool {
	cell = strings.TrimLeft(cell, "$+-×>")
	return cell == "" || cell[0] >= '0' && cell[0] <= '9' && !words(cell)
}

// words reports whether a cell that begins with a digit is a sentence or a time. Units have two letters at most, such as Gi.
func words(cell string) bool {
	letters := 0
	for _, r := range cell {
		if !unicode.IsLetter(r) {
			letters = 0
			continue
		}
		if letters++; letters > 2 {
			return true
		}
	}
	return strings.ContainsRune(cell, ':')
}
