package main

import (
	"fmt"
	"strings"
	"time"
)

// A board is a run as it stands: what each step does, how long it took and what its tests said. Its
// owner alone writes to it, and brings the time along.
type board struct {
	steps  []step
	rules  rules
	began  time.Time
	states map[string]state
	runs   map[string]*stepRun
	usual  map[string]time.Duration // how long steps took when they last passed
}

// stepRun is one step that was started.
type stepRun struct {
	began    time.Time
	wall     time.Duration
	cpu      time.Duration
	command  int // index of the command that runs
	results  *results
	printed  output // what is not an event of go test
	failures []failure
	shown    int // how many of the failures of its tests are in failures
}

func newBoard(steps []step, r rules, usual map[string]time.Duration, now time.Time) *board {
	return &board{steps: steps, rules: r, began: now, usual: usual, states: map[string]state{}, runs: map[string]*stepRun{}}
}

// keepUnchanged marks the steps whose inputs are those over which they passed before. They are not run.
func (b *board) keepUnchanged(record, inputs map[string]string) {
	for _, s := range b.steps {
		if inputs[s.name] != "" && inputs[s.name] == record[s.name] {
			b.states[s.name] = unchanged
		}
	}
}

// next returns the steps to start now.
func (b *board) next() []step { return next(b.steps, b.states, b.rules) }

func (b *board) start(s step, now time.Time) {
	b.states[s.name] = running
	b.runs[s.name] = &stepRun{began: now, results: newResults()}
}

// fileLine files one line that a step printed, and returns what is news in it: failures to print.
func (b *board) fileLine(s step, line string, now time.Time) []failure {
	run := b.runs[s.name]
	c := &s.commands[run.command]
	e, isEvent := event{}, false
	if c.test != nil {
		e, isEvent = parseEvent([]byte(line))
	}
	if !isEvent {
		run.printed.add(line + "\n")
		return nil
	}
	run.results.apply(e, now)
	fresh := run.results.failures[run.shown:]
	run.shown = len(run.results.failures)
	for i := range fresh {
		fresh[i].repeat = c.repeatFailure(&fresh[i])
	}
	run.failures = append(run.failures, fresh...)
	return fresh
}

// an ending is how the process of a step ended.
type ending struct {
	err     error // of the first command that failed
	stopped bool  // we ended it
	cpu     time.Duration
}

// fileEnding files how a step ended, and returns what has to be said beyond what its tests said.
func (b *board) fileEnding(s step, how ending, now time.Time) []failure {
	run := b.runs[s.name]
	run.wall, run.cpu = now.Sub(run.began), how.cpu
	switch {
	case how.stopped:
		b.states[s.name] = stopped
		return nil
	case how.err == nil:
		b.states[s.name] = passed
		return nil
	}
	b.states[s.name] = failed
	if len(run.failures) > 0 {
		return nil
	}
	lines := last(run.printed.own(), keptLines)
	if len(lines) == 0 {
		lines = []string{how.err.Error()}
	}
	f := failure{title: how.err.Error(), lines: lines, mend: s.mend, repeat: "make test STEP=" + s.name}
	run.failures = []failure{f}
	return run.failures
}

// count adds up the tests of all steps. A step that failed without a failed test counts as one, and so
// does a run that did not come to its end.
func (b *board) count() (passes, failures, skips int) {
	for _, s := range b.steps {
		run := b.runs[s.name]
		if run == nil {
			continue
		}
		passes += run.results.passed
		skips += run.results.skipped
		if b.states[s.name] == failed {
			failures += max(1, run.results.failed)
		}
	}
	if failures == 0 && !b.allPassed() {
		failures = 1
	}
	return passes, failures, skips
}

// allPassed says whether every step ran and passed, as far as it was meant to.
func (b *board) allPassed() bool {
	for _, s := range b.steps {
		switch b.states[s.name] {
		case passed, unchanged, timeUp:
		case waiting, running, failed, stopped:
			return false
		}
	}
	return true
}

// status is one line for every step that runs and one for the run.
func (b *board) status(now time.Time) []string {
	var lines []string
	ran := map[string]time.Duration{}
	ended := 0
	for _, s := range b.steps {
		if b.states[s.name].ended() {
			ended++
		}
		if b.states[s.name] != running {
			continue
		}
		run := b.runs[s.name]
		ran[s.name] = now.Sub(run.began)
		line := fmt.Sprintf("%s %s", s.name, clock(ran[s.name]))
		if doing := run.currentActivity(s, now); doing != "" {
			line += ": " + doing
		}
		lines = append(lines, line)
	}
	whole := fmt.Sprintf("%d of %d steps done", ended, len(b.steps))
	if left := remaining(b.steps, b.states, b.usual, ran, b.rules); left > 0 {
		whole += ", about " + estimateText(left) + " left"
	}
	return append(lines, whole)
}

// shownTests is how many of the tests that run are named, from slowAfter on.
const (
	shownTests = 2
	slowAfter  = 5 * time.Second
)

// currentActivity says what a step is at: packages, how many tests have ended, and those that take long.
func (r *stepRun) currentActivity(s step, now time.Time) string {
	if len(s.commands) == 0 {
		return ""
	}
	c := &s.commands[r.command]
	if c.test == nil {
		return c.what
	}
	var parts []string
	if packages := r.results.runningPackages(); len(packages) > 0 {
		parts = append(parts, shortNames(packages, c.dir))
	}
	if n := r.results.tests(); n > 0 || len(parts) > 0 {
		parts = append(parts, fmt.Sprintf("%d tests done", n))
	} else {
		parts = append(parts, "compiling")
	}
	for _, t := range r.results.runningTests(now)[:min(shownTests, len(r.results.runningTests(now)))] {
		if t.took >= slowAfter {
			parts = append(parts, fmt.Sprintf("%s %s", t.test, clock(t.took)))
		}
	}
	return strings.Join(parts, ", ")
}

// shortNames names packages from the directory of their module on.
func shortNames(packages []string, dir string) string {
	const most = 3
	var names []string
	c := command{dir: dir}
	for _, name := range packages {
		names = append(names, strings.TrimPrefix(strings.TrimPrefix(c.relative(name), "./"), "internal/"))
	}
	if len(names) > most {
		names = append(names[:most], fmt.Sprintf("%d more", len(packages)-most))
	}
	return strings.Join(names, " ")
}

// clock writes a time since the beginning: 0:07, 12:30, 1:02:03.
func clock(d time.Duration) string {
	s := int(d / time.Second)
	if s >= 3600 {
		return fmt.Sprintf("%d:%02d:%02d", s/3600, s/60%60, s%60)
	}
	return fmt.Sprintf("%d:%02d", s/60, s%60)
}

// shortDuration writes how long something took, to the second once it took ten.
func shortDuration(d time.Duration) string {
	switch {
	case d < 10*time.Second:
		return fmt.Sprintf("%.1fs", d.Seconds())
	case d < time.Minute:
		return fmt.Sprintf("%ds", int(d.Round(time.Second)/time.Second))
	}
	s := int(d.Round(time.Second) / time.Second)
	if s >= 3600 {
		return fmt.Sprintf("%dh%02dm%02ds", s/3600, s/60%60, s%60)
	}
	return fmt.Sprintf("%dm%02ds", s/60, s%60)
}

// estimateText writes an estimate.
func estimateText(d time.Duration) string {
	if d < time.Minute {
		return fmt.Sprintf("%d s", int((d+9*time.Second)/(10*time.Second))*10)
	}
	return fmt.Sprintf("%d min", int((d+30*time.Second)/time.Minute))
}
