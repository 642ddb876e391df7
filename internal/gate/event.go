package main

import (
	"cmp"
	"encoding/json"
	"maps"
	"slices"
	"strings"
	"time"
)

const (
	keptLines  = 50   // of what a failure prints
	heldLines  = 1000 // of the output of one test, while it runs: its end
	firstLines = 20   // and its beginning
	heldRaces  = 2    // reports of the race detector for one package
	crashLines = 200  // of the output of a package after a panic
)

// The frame of a report of the race detector.
const (
	raceBegins = "WARNING: DATA RACE"
	raceEnds   = "=========="
)

// An event is one line of `go test -json`.
type event struct {
	Action      string
	Package     string
	ImportPath  string // of what is built, in build events
	Test        string
	Elapsed     float64 // seconds
	Output      string
	FailedBuild string
}

// parseEvent reads a line; a line that is no event is output of the go command itself.
func parseEvent(line []byte) (event, bool) {
	var e event
	if len(line) == 0 || line[0] != '{' || json.Unmarshal(line, &e) != nil || e.Action == "" {
		return event{}, false
	}
	return e, true
}

// results are the tests of one step, as far as events have come in.
type results struct {
	passed, failed, skipped int
	done                    []packageResult // packages that ended, in that order
	slow                    []timing        // tests without subtests that passed or failed
	skips                   []skip
	failures                []failure

	open   map[string]*packageRun
	builds map[string][]string // what the compiler said, by import path
}

type packageResult struct {
	name   string
	ok     bool
	cached bool
	tests  int
	took   time.Duration
}

type timing struct {
	pkg, test string
	took      time.Duration
	cached    bool
}

type skip struct{ pkg, test, reason string }

// packageRun is a package whose tests run.
type packageRun struct {
	name    string
	tests   map[string]*testRun
	ended   int
	failed  int
	skips   []skip
	own     output   // what belongs to no test
	crash   []string // all output since the first panic, whichever test it is filed under
	races   []string // reports of the race detector
	reports int
	racing  bool // inside a report
	cached  bool
	broken  string // the import path that does not build
}

type testRun struct {
	began   time.Time
	paused  bool
	parent  bool
	ended   bool
	failed  bool
	took    time.Duration
	printed output
}

func newResults() *results {
	return &results{open: map[string]*packageRun{}, builds: map[string][]string{}}
}

// apply takes one event in, at the time it arrived.
func (r *results) apply(e event, now time.Time) {
	if e.Action == "build-output" {
		r.builds[e.ImportPath] = append(r.builds[e.ImportPath], strings.TrimRight(e.Output, "\n"))
		return
	}
	if e.Package == "" {
		return
	}
	p := r.open[e.Package]
	if p == nil {
		p = &packageRun{name: e.Package, tests: map[string]*testRun{}}
		r.open[e.Package] = p
	}
	switch {
	case e.Action == "output":
		p.print(e, now)
	case e.Test != "":
		r.applyTest(p, e, now)
	case e.Action == "pass" || e.Action == "fail" || e.Action == "skip":
		p.broken = e.FailedBuild
		r.close(p, e)
	}
}

func (r *results) applyTest(p *packageRun, e event, now time.Time) {
	t := p.test(e.Test, now)
	switch e.Action {
	case "run":
		t.began = now
	case "pause":
		t.paused = true
	case "cont":
		t.paused, t.began = false, now
	case "pass", "fail", "skip":
		t.ended, t.took = true, seconds(e.Elapsed)
		p.ended++
	}
	switch e.Action {
	case "pass":
		r.passed++
		t.printed = output{}
	case "fail":
		r.failed++
		p.failed++
		t.failed = true
	case "skip":
		r.skipped++
		p.skips = append(p.skips, skip{pkg: p.name, test: e.Test, reason: t.printed.reason()})
	}
}

// test returns a test of the package, which is known from its first event on.
func (p *packageRun) test(name string, now time.Time) *testRun {
	t := p.tests[name]
	if t == nil {
		t = &testRun{began: now}
		p.tests[name] = t
		for parent := name; strings.Contains(parent, "/"); {
			parent = parent[:strings.LastIndex(parent, "/")]
			if above := p.tests[parent]; above != nil {
				above.parent = true
			}
		}
	}
	return t
}

// print files output under its test. Race reports and panics are also kept for the whole package: with
// tests in parallel, go test files them under whichever test printed last.
func (p *packageRun) print(e event, now time.Time) {
	if e.Test == "" {
		p.own.add(e.Output)
		p.cached = p.cached || strings.HasPrefix(e.Output, "ok ") && strings.Contains(e.Output, "(cached)")
	} else {
		p.test(e.Test, now).printed.add(e.Output)
	}
	line := strings.TrimRight(e.Output, "\n")
	if len(p.crash) > 0 || strings.HasPrefix(line, "panic: ") || strings.HasPrefix(line, "fatal error: ") {
		if len(p.crash) < crashLines {
			p.crash = append(p.crash, line)
		}
		return
	}
	switch {
	case line == raceBegins:
		p.racing = true
		p.reports++
	case strings.HasPrefix(line, raceEnds):
		p.racing = false
	}
	if p.racing && p.reports <= heldRaces {
		p.races = append(p.races, line)
	}
}

// close counts a package that ended.
func (r *results) close(p *packageRun, e event) {
	delete(r.open, p.name)
	if e.Action == "skip" && len(p.tests) == 0 {
		return // no test files
	}
	for _, name := range slices.Sorted(maps.Keys(p.tests)) {
		if t := p.tests[name]; t.ended && !t.parent {
			r.slow = append(r.slow, timing{pkg: p.name, test: name, took: t.took, cached: p.cached})
		}
	}
	r.skips = append(r.skips, p.skips...)
	r.done = append(r.done, packageResult{name: p.name, ok: e.Action != "fail", cached: p.cached, tests: p.ended, took: seconds(e.Elapsed)})
	if e.Action == "fail" {
		found := p.failures(r.builds)
		if p.failed == 0 {
			r.failed++ // it did not build, or crashed outside its tests
		}
		r.failures = append(r.failures, found...)
	}
}

// tests counts those that ended, in packages that ended and in those that run.
func (r *results) tests() int { return r.passed + r.failed + r.skipped }

// runningTests are the tests without subtests that run now, those that run for longest first.
func (r *results) runningTests(now time.Time) []timing {
	var list []timing
	for _, p := range r.open {
		for name, t := range p.tests {
			if !t.ended && !t.paused && !t.parent {
				list = append(list, timing{pkg: p.name, test: name, took: now.Sub(t.began)})
			}
		}
	}
	slices.SortFunc(list, func(a, b timing) int {
		return cmp.Or(cmp.Compare(b.took, a.took), cmp.Compare(a.pkg, b.pkg), cmp.Compare(a.test, b.test))
	})
	return list
}

// runningPackages are the packages whose tests run now, by name.
func (r *results) runningPackages() []string { return slices.Sorted(maps.Keys(r.open)) }

func seconds(s float64) time.Duration { return time.Duration(s * float64(time.Second)) }
