package main

import (
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
	"time"
)

// A failure is one thing to fix: a test, a package that does not build, or a whole command.
type failure struct {
	pkg    string   // import path; empty for a command that is not go test
	tests  []string // what to run again; empty for the whole package
	title  string   // what failed, where it is not one test
	took   time.Duration
	lines  []string // what it printed, as far as it matters
	mend   string   // the command that fixes it, where there is one
	repeat string   // the command that runs only this again, set by the caller that knows the command
}

func missing(n int) string { return fmt.Sprintf("… %d more lines are in the log", n) }

// racesIn says whether the race detector failed the test that printed these lines.
func racesIn(lines []string) bool {
	return slices.ContainsFunc(lines, func(line string) bool {
		return strings.Contains(line, "race detected during execution of test")
	})
}

// withoutRaces leaves out the reports of the race detector, which are kept for the whole package.
func withoutRaces(lines []string) []string {
	var rest []string
	inside := false
	for _, line := range lines {
		switch {
		case line == raceBegins:
			inside = true
		case strings.HasPrefix(line, raceEnds):
			inside = false
		case !inside:
			rest = append(rest, line)
		}
	}
	return rest
}

// failures says what went wrong in a package that failed.
func (p *packageRun) failures(builds map[string][]string) []failure {
	if p.broken != "" {
		return []failure{{pkg: p.name, title: "does not build", lines: first(buildLines(builds, p.broken), keptLines)}}
	}
	var list []failure
	for _, name := range slices.Sorted(maps.Keys(p.tests)) {
		t := p.tests[name]
		lines := t.printed.own()
		if !t.failed || t.parent && len(lines) == 0 {
			continue // a parent fails with its subtests; it is news only if it has something to say
		}
		if len(p.crash) > 0 && slices.Contains(lines, p.crash[0]) {
			continue // what ended the process comes last
		}
		if lines = ends(withoutRaces(lines), keptLines); racesIn(lines) {
			lines = slices.Concat(first(p.races, keptLines), lines)
		}
		list = append(list, failure{pkg: p.name, tests: []string{name}, took: t.took, lines: lines})
	}
	if f, found := p.crashed(); found {
		list = append(list, f)
	}
	if len(list) == 0 {
		list = append(list, failure{pkg: p.name, title: "fails outside its tests", lines: p.outputOutsideTests()})
	}
	return list
}

// crashed describes a process that ended before its tests did. The culprit is the test that failed with
// the crash, or the only one that ran; otherwise any of those that ran.
func (p *packageRun) crashed() (failure, bool) {
	if len(p.crash) == 0 {
		return failure{}, false
	}
	f := failure{pkg: p.name, tests: p.unfinished()}
	for _, name := range slices.Sorted(maps.Keys(p.tests)) {
		if t := p.tests[name]; t.failed && !t.parent && slices.Contains(t.printed.lines, p.crash[0]) {
			f.tests, f.took = []string{name}, t.took
			break
		}
	}
	switch len(f.tests) {
	case 0:
		if p.failed > 0 {
			return failure{}, false // the word was printed, and the package failed for another reason
		}
		f.title = "crashed"
	case 1:
		before := p.tests[f.tests[0]].printed.own()
		if i := slices.Index(before, p.crash[0]); i >= 0 {
			before = before[:i]
		}
		f.lines = last(before, keptLines/5)
	default:
		f.title = "crashed while these ran: " + strings.Join(first(f.tests, 5), ", ")
	}
	crash := slices.DeleteFunc(slices.Clone(p.crash), frame.MatchString)
	f.lines = append(f.lines, first(crash, keptLines)...)
	return f, true
}

// outputOutsideTests is what a package printed that failed without a failed test.
func (p *packageRun) outputOutsideTests() []string {
	lines := last(p.own.own(), keptLines)
	if len(p.races) > 0 {
		lines = slices.Concat(first(p.races, keptLines), lines)
	}
	for _, name := range first(p.unfinished(), 5) {
		lines = append(lines, "did not end: "+name)
	}
	return lines
}

// unfinished are the tests without subtests that began and did not end.
func (p *packageRun) unfinished() []string {
	var list []string
	for _, name := range slices.Sorted(maps.Keys(p.tests)) {
		if t := p.tests[name]; !t.ended && !t.parent && !t.paused {
			list = append(list, name)
		}
	}
	return list
}

// buildLines is what the compiler said about a package, or about whatever else did not build.
func buildLines(builds map[string][]string, broken string) []string {
	if lines := builds[broken]; len(lines) > 0 {
		return lines
	}
	var all []string
	for _, name := range slices.Sorted(maps.Keys(builds)) {
		all = append(all, builds[name]...)
	}
	return all
}

// heading is the first line of a failure.
func (f *failure) heading(step, pkg string) string {
	words := []string{"--- FAIL: " + step}
	if pkg != "" {
		words = append(words, pkg)
	}
	switch {
	case f.title != "":
		words = append(words, f.title)
	case len(f.tests) > 0:
		words = append(words, f.tests[0])
	}
	if f.took > 0 {
		words = append(words, "("+shortDuration(f.took)+")")
	}
	return strings.Join(words, " ")
}

// complaint matches a line that a test printed itself, with the place in its source.
var complaint = regexp.MustCompile(`^\s*\S+_test\.go:\d+: `)

// firstComplaints are the first lines that a test printed itself: later ones are about consequences, or how things are.
func (f *failure) firstComplaints() []string {
	const most = 3
	var found []string
	for _, line := range f.lines {
		if complaint.MatchString(line) && len(found) < most {
			found = append(found, shorten(strings.TrimSpace(line)))
		}
	}
	return found
}

// shorten cuts a long line, such as a log entry as JSON. The log has all of it.
func shorten(line string) string {
	const most = 400
	if runes := []rune(line); len(runes) > most {
		return string(runes[:most]) + "…"
	}
	return line
}

// text is a failure as it is printed.
func (f *failure) text(step, pkg, log string) []string {
	lines := []string{"", f.heading(step, pkg)}
	for _, line := range f.lines {
		lines = append(lines, strings.TrimRight("  "+shorten(line), " \t"))
	}
	if f.mend != "" {
		lines = append(lines, "  mend:   "+f.mend)
	}
	return append(lines, "  log:    "+log, "  repeat: "+f.repeat)
}
