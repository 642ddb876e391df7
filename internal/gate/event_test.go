package main

import (
	"bytes"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

var rewrite = flag.Bool("rewrite", false, "write the golden files anew")

var start = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)

// Streams that go test wrote, and what is printed of them. The golden file of each is what a reader sees.
func TestStreams(t *testing.T) {
	t.Parallel()
	files, err := filepath.Glob("testdata/events/*.json")
	if err != nil || len(files) == 0 {
		t.Fatal(files, err)
	}
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".json"), func(t *testing.T) {
			t.Parallel()
			got := strings.Join(play(t, file), "\n") + "\n"
			golden := strings.TrimSuffix(file, ".json") + ".txt"
			if *rewrite {
				if err := os.WriteFile(golden, []byte(got), 0o644); err != nil {
					t.Fatal(err)
				}
			}
			want, err := os.ReadFile(golden)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(string(want), got); diff != "" {
				t.Errorf("%s (-want +got):\n%s", golden, diff)
			}
		})
	}
}

// play runs a step that prints the lines of a file, and returns what is printed of it.
func play(t *testing.T, file string) []string {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	s := step{name: "pure", commands: []command{goTestOf("", nil, []string{"./..."}, nil)}}
	b := newBoard([]step{s}, rules{lanes: 2}, nil, start)
	b.start(s, start)
	var printed []string
	how := ending{cpu: time.Second}
	for line := range bytes.Lines(text) {
		for _, f := range b.fileLine(s, strings.TrimRight(string(line), "\n"), start) {
			printed = append(printed, f.text(s.name, s.short(f.pkg), "bin/test/pure.log")...)
			how.err = fmt.Errorf("exit status 1")
		}
	}
	if fresh := b.fileEnding(s, how, start.Add(2*time.Second)); len(fresh) > 0 {
		t.Errorf("reported twice: %v", fresh)
	}
	return append(printed, b.summary("bin/test", start.Add(2*time.Second))...)
}

func TestTestsThatRun(t *testing.T) {
	t.Parallel()
	r := newResults()
	at := func(s int) time.Time { return start.Add(time.Duration(s) * time.Second) }
	for i, e := range []event{
		{Action: "start", Package: "p"},
		{Action: "run", Package: "p", Test: "TestA"},
		{Action: "run", Package: "p", Test: "TestA/row"},
		{Action: "run", Package: "p", Test: "TestB"},
		{Action: "pause", Package: "p", Test: "TestB"},
		{Action: "run", Package: "p", Test: "TestC"},
		{Action: "pass", Package: "p", Test: "TestC"},
		{Action: "run", Package: "q", Test: "TestD"},
	} {
		r.apply(e, at(i))
	}
	got := r.runningTests(at(10))
	want := []timing{{pkg: "p", test: "TestA/row", took: 8 * time.Second}, {pkg: "q", test: "TestD", took: 3 * time.Second}}
	if diff := cmp.Diff(want, got, cmp.AllowUnexported(timing{})); diff != "" {
		t.Errorf("neither parents nor paused tests run (-want +got):\n%s", diff)
	}
	r.apply(event{Action: "cont", Package: "p", Test: "TestB"}, at(11))
	if got := r.runningTests(at(12)); len(got) != 3 || got[2].test != "TestB" || got[2].took != time.Second {
		t.Errorf("a test that goes on has run since then: %v", got)
	}
}

func TestLinesThatAreNoEvents(t *testing.T) {
	t.Parallel()
	for _, line := range []string{"", "go: downloading example.com v1.0.0", "{", "{}", `{"level":"info"}`} {
		if e, ok := parseEvent([]byte(line)); ok {
			t.Errorf("%q is no event, and was read as %v", line, e)
		}
	}
}

func TestOutputIsBounded(t *testing.T) {
	t.Parallel()
	var o output
	for i := range 10 * heldLines {
		o.add(fmt.Sprintf("line %d\n", i))
	}
	if len(o.lines) > 2*heldLines || o.lines[0] != "line 0" {
		t.Errorf("%d lines are held, the first is %q", len(o.lines), o.lines[0])
	}
	o.add("one ")
	o.add("line\nand the next\n")
	got := last(o.own(), 2)
	want := []string{missing(len(o.lines) - 2), "one line", "and the next"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("last lines (-want +got):\n%s", diff)
	}
}

func TestEndsOfALongText(t *testing.T) {
	t.Parallel()
	var lines []string
	for i := range 12 {
		lines = append(lines, fmt.Sprint(i))
	}
	want := []string{"0", missing(7), "8", "9", "10", "11"}
	if diff := cmp.Diff(want, ends(lines, 5)); diff != "" {
		t.Errorf("ends (-want +got):\n%s", diff)
	}
	if got := ends(lines, 12); len(got) != 12 {
		t.Errorf("a text that is short enough has %d lines", len(got))
	}
}

func TestLongLinesAreCut(t *testing.T) {
	t.Parallel()
	f := failure{lines: []string{strings.Repeat("ä", 5000), "short"}, repeat: "make test STEP=lint"}
	got := f.text("lint", "", "lint.log")
	want := []string{"", "--- FAIL: lint", "  " + strings.Repeat("ä", 400) + "…", "  short", "  log:    lint.log", "  repeat: make test STEP=lint"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("text (-want +got):\n%s", diff)
	}
}
