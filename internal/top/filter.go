package top

import (
	"slices"
	"strings"
)

// filter selects rows: by terms that all have to be in some column, and KEY=TEXT in one.
type filter struct {
	text  string
	terms []string
}

func parseFilter(text string) filter {
	return filter{text: strings.TrimSpace(text), terms: strings.Fields(strings.ToLower(text))}
}

func (f filter) isZero() bool { return len(f.terms) == 0 }

func (f filter) String() string { return f.text }

// matches looks in the texts of a row, which are in lower case and in the order of the keys.
func (f filter) matches(keys, texts []string) bool {
	for _, term := range f.terms {
		key, text, _ := strings.Cut(term, "=")
		if c := slices.Index(keys, key); c >= 0 && key != term {
			if !strings.Contains(texts[c], text) {
				return false
			}
		} else if !slices.ContainsFunc(texts, func(s string) bool { return strings.Contains(s, term) }) {
			return false
		}
	}
	return true
}
