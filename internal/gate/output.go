package main

import (
	"regexp"
	"slices"
	"strings"
)

// output holds the first and the last lines of what a test printed.
type output struct {
	lines []string
	open  bool // the last line has no end yet
}

func (o *output) add(text string) {
	for line := range strings.Lines(text) {
		whole := strings.HasSuffix(line, "\n")
		line = strings.TrimRight(line, "\n")
		if o.open && len(o.lines) > 0 {
			o.lines[len(o.lines)-1] += line
		} else {
			o.lines = append(o.lines, line)
		}
		o.open = !whole
	}
	if len(o.lines) > 2*heldLines {
		o.lines = slices.Concat(o.lines[:firstLines], o.lines[len(o.lines)-heldLines:])
	}
}

// frame matches what the testing package prints around the output of tests.
var frame = regexp.MustCompile(`^\s*(=== (RUN|PAUSE|CONT|NAME)\b|--- (PASS|FAIL|SKIP):|(PASS|FAIL)$|FAIL\t|ok  \t|exit status \d)`)

// own returns the lines that the test itself printed, without empty ones around them.
func (o *output) own() []string {
	lines := slices.DeleteFunc(slices.Clone(o.lines), frame.MatchString)
	for len(lines) > 0 && strings.TrimSpace(lines[0]) == "" {
		lines = lines[1:]
	}
	for len(lines) > 0 && strings.TrimSpace(lines[len(lines)-1]) == "" {
		lines = lines[:len(lines)-1]
	}
	return lines
}

// reason is the last line that a skipped test printed: testing prints the argument of Skip there.
func (o *output) reason() string {
	lines := o.own()
	if len(lines) == 0 {
		return "it gives no reason"
	}
	return strings.TrimSpace(lines[len(lines)-1])
}

// last returns the end of a text and says how much of it is missing.
func last(lines []string, n int) []string {
	if len(lines) <= n {
		return lines
	}
	return append([]string{missing(len(lines) - n)}, lines[len(lines)-n:]...)
}

// ends returns the beginning of a text and its end, and says how much between them is missing: a test that describes
// at its end how things are has said at the beginning what went wrong.
func ends(lines []string, n int) []string {
	if len(lines) <= n {
		return lines
	}
	head := n / 5
	return slices.Concat(lines[:head], last(lines[head:], n-head))
}

// first returns the beginning of a text and says how much of it is missing.
func first(lines []string, n int) []string {
	if len(lines) <= n {
		return lines
	}
	return append(slices.Clone(lines[:n]), missing(len(lines)-n))
}
