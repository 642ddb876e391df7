package commands

import (
	"cmp"
	"maps"
	"regexp"
	"slices"
	"strings"
)

// Normalize replaces what differs from run to run: the names that the caller knows, times, ages, identifiers and addresses. Two
// and more spaces within a line become two, since the width of a column depends on what is in it.
func Normalize(text string, names map[string]string) string {
	var pairs []string
	longestFirst := slices.SortedFunc(maps.Keys(names), func(a, b string) int { return cmp.Or(len(b)-len(a), cmp.Compare(a, b)) })
	for _, name := range longestFirst {
		pairs = append(pairs, name, names[name])
	}
	text = strings.NewReplacer(pairs...).Replace(text)
	for _, p := range patterns() {
		text = p.find.ReplaceAllString(text, p.put)
	}
	lines := strings.Split(text, "\n")
	for i, line := range lines {
		lines[i] = collapse(line)
	}
	return strings.Join(lines, "\n")
}

// pattern is a kind of text that no two runs have alike.
type pattern struct {
	find *regexp.Regexp
	put  string
}

// patterns are in order: a time contains what looks like an age. A number of minutes alone is an age up to 59; beyond, it is a
// quantity of CPU.
func patterns() []pattern {
	var out []pattern
	for _, p := range [][2]string{
		{`\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d(\.\d+)?(Z|[+-]\d\d:\d\d)?`, "TIME"},
		{`\b\d\d:\d\d:\d\d\b`, "TIME"},
		{`\b[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}\b`, "UID"},
		{`\b(i|ami|subnet|sg|vol|lt|eni)-[0-9a-f]{8,17}\b`, "$1-ID"},
		{`\bhttps?://(127\.0\.0\.1|localhost|\[::1\]):\d+`, "ADDRESS"},
		{`\b\d{1,3}\.\d{1,3}\.\d{1,3}\.\d{1,3}(:\d+)?\b`, "IP"},
		{`\b(\d+d(\d+h)?|\d+h(\d+m)?(\d+s)?|\d+m\d+s|[1-5]?\dm|\d+(\.\d+)?s)\b`, "AGE"},
	} {
		out = append(out, pattern{regexp.MustCompile(p[0]), p[1]})
	}
	return out
}

// mostIndent is the deepest indentation of a text. What is deeper is a column without contents, or JSON.
const mostIndent = 4

// collapse leaves the indentation of texts and of JSON as it is.
func collapse(line string) string {
	inside := strings.TrimLeft(line, " ")
	indent := line[:len(line)-len(inside)]
	if len(indent) > mostIndent && !strings.ContainsAny(inside[:min(1, len(inside))], `"{}[]`) {
		indent = indent[:mostIndent]
	}
	columns := strings.FieldsFunc(strings.ReplaceAll(inside, "  ", "\x00"), func(r rune) bool { return r == 0 })
	for i := range columns {
		columns[i] = strings.TrimSpace(columns[i])
	}
	return strings.TrimRight(indent+strings.Join(columns, "  "), " ")
}
