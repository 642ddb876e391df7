package main

import (
	"cmp"
	"fmt"
	"path"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/dovetail-sh/dovetail/internal/columns"
)

const slowest = 10

// summary is what stands at the end of a run. Its last line is read by CI.
func (b *board) summary(logs string, now time.Time) []string {
	passes, failures, skips := b.count()
	lines := []string{""}
	lines = append(lines, b.stepTable()...)
	lines = append(lines, b.slowTable()...)
	lines = append(lines, b.skipList()...)
	lines = append(lines, b.failureList()...)
	lines = append(lines, "", b.verdict(now)+"; logs are in "+logs)
	return append(lines, fmt.Sprintf("%d passed, %d failed, %d skipped", passes, failures, skips))
}

func (b *board) stepTable() []string {
	rows := [][]string{{"step", "result", "wall", "CPU", "tests", "failed", "skipped", ""}}
	for _, s := range b.steps {
		run := b.runs[s.name]
		if run == nil {
			row := []string{s.name, b.resultWord(s), "", "", "", "", "", ""}
			if b.states[s.name] == unchanged {
				row[7] = "its inputs are those over which it passed; STEP=" + s.name + " runs it"
			}
			rows = append(rows, row)
			continue
		}
		row := []string{s.name, b.resultWord(s), shortDuration(run.wall), shortDuration(run.cpu), "", "", "", ""}
		if r := run.results; s.isTest() {
			row[4], row[5], row[6] = strconv.Itoa(r.tests()), strconv.Itoa(r.failed), strconv.Itoa(r.skipped)
			row[7] = fromCache(r.done)
		}
		rows = append(rows, row)
	}
	return text(rows)
}

func (s *step) isTest() bool {
	return slices.ContainsFunc(s.commands, func(c command) bool { return c.test != nil })
}

func (b *board) resultWord(s step) string {
	switch b.states[s.name] {
	case passed:
		return "passed"
	case unchanged:
		return "unchanged"
	case failed:
		return "FAILED"
	case timeUp:
		return "time up"
	case running, stopped:
		return "stopped"
	case waiting:
	}
	return "not run"
}

// fromCache says how many results are those of an earlier run over the same sources.
func fromCache(done []packageResult) string {
	cached := 0
	for _, p := range done {
		if p.cached {
			cached++
		}
	}
	if cached == 0 {
		return ""
	}
	return fmt.Sprintf("%d of %d packages unchanged since they last passed", cached, len(done))
}

// slowTable lists the tests that took longest, in this run.
func (b *board) slowTable() []string {
	type entry struct {
		timing
		step, pkg string
	}
	var all []entry
	for _, s := range b.steps {
		run := b.runs[s.name]
		if run == nil {
			continue
		}
		for _, t := range run.results.slow {
			if !t.cached && t.took >= time.Second/10 {
				all = append(all, entry{timing: t, step: s.name, pkg: s.relative(t.pkg)})
			}
		}
	}
	if len(all) == 0 {
		return nil
	}
	slices.SortStableFunc(all, func(a, b entry) int { return cmp.Compare(b.took, a.took) })
	rows := [][]string{{"slowest", "step", "package", "test"}}
	for _, e := range all[:min(slowest, len(all))] {
		rows = append(rows, []string{shortDuration(e.took), e.step, e.pkg, e.test})
	}
	return append([]string{""}, text(rows)...)
}

// relative names a package of the step's module as the go command does in its directory.
func (s *step) relative(importPath string) string {
	for i := range s.commands {
		if c := &s.commands[i]; c.test != nil {
			return c.relative(importPath)
		}
	}
	return importPath
}

func (b *board) skipList() []string {
	var lines []string
	for _, s := range b.steps {
		if run := b.runs[s.name]; run != nil {
			for _, k := range run.results.skips {
				lines = append(lines, fmt.Sprintf("  %s %s %s: %s", s.name, s.relative(k.pkg), k.test, k.reason))
			}
		}
	}
	if len(lines) == 0 {
		return nil
	}
	return append([]string{"", "skipped"}, lines...)
}

// failureList names each failure again, with what the test said first and what repeats it: the first mention has
// scrolled away.
func (b *board) failureList() []string {
	var lines []string
	for _, s := range b.steps {
		run := b.runs[s.name]
		if run == nil || b.states[s.name] == stopped {
			continue
		}
		for _, f := range run.failures {
			lines = append(lines, "  "+strings.TrimPrefix(f.heading(s.name, s.short(f.pkg)), "--- FAIL: "))
			for _, line := range f.firstComplaints() {
				lines = append(lines, "    "+line)
			}
			lines = append(lines, "    "+f.repeat)
		}
	}
	if len(lines) == 0 {
		return nil
	}
	return append([]string{"", "failed"}, lines...)
}

// short is the package of a failure, where it is about one.
func (s *step) short(importPath string) string {
	if importPath == "" {
		return ""
	}
	return s.relative(importPath)
}

func (b *board) verdict(now time.Time) string {
	took := shortDuration(now.Sub(b.began))
	var cpu time.Duration
	var bad, missed []string
	for _, s := range b.steps {
		switch b.states[s.name] {
		case failed:
			bad = append(bad, s.name)
		case waiting, running, stopped:
			missed = append(missed, s.name)
		case passed, unchanged, timeUp:
		}
		if run := b.runs[s.name]; run != nil {
			cpu += run.cpu
		}
	}
	var parts []string
	if len(bad) > 0 {
		parts = append(parts, "FAILED: "+strings.Join(bad, ", "))
	}
	if len(missed) > 0 {
		parts = append(parts, "did not run to the end: "+strings.Join(missed, ", "))
	}
	if len(parts) == 0 {
		parts = append(parts, "every step passed")
	}
	return fmt.Sprintf("%s; %s, CPU %s", strings.Join(parts, "; "), took, shortDuration(cpu))
}

func text(rows [][]string) []string {
	return strings.Split(strings.TrimRight(columns.Text(rows), "\n"), "\n")
}

// logName is where all that a step printed is kept.
func logName(dir, step string) string { return path.Join(dir, step+".log") }
