package main

import (
	"context"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// runAll runs steps that are scripts, and returns what was printed, without times.
func runAll(t *testing.T, steps []step, r rules, interruptAt string) (*board, string) {
	t.Helper()
	var out strings.Builder
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	run := &runner{
		board:  newBoard(steps, r, nil, start),
		shell:  &shell{root: t.TempDir(), place: ".", logs: "logs", tool: "go", env: os.Environ(), grace: 20 * time.Millisecond, kill: make(chan struct{})},
		screen: &screen{out: writerFunc(func(text string) { out.WriteString(text); cancelAt(text, interruptAt, cancel) })},
		now:    func() time.Time { return start },
	}
	run.run(ctx)
	run.screen.print(run.board.summary("logs", start)...)
	return run.board, regexp.MustCompile(`CPU [0-9.]+s|(FAILED|passed) +0\.0s +[0-9.]+s`).ReplaceAllString(out.String(), "$1 ~")
}

type writerFunc func(string)

func (w writerFunc) Write(text []byte) (int, error) {
	w(string(text))
	return len(text), nil
}

func cancelAt(text, mark string, cancel func()) {
	if mark != "" && strings.Contains(text, mark) {
		cancel()
	}
}

func TestRunStopsAtAFailure(t *testing.T) {
	t.Parallel()
	b, got := runAll(t, []step{
		{name: "first", about: "passes", lane: laneCPU, commands: []command{script("echo fine")}},
		{name: "lint", about: "fails", lane: laneCPU, mend: "make fmt", commands: []command{script("echo a.go:1: wrong; exit 1")}},
		{name: "never", about: "is not run", lane: laneCPU, commands: []command{script("exit 1")}},
	}, rules{lanes: 1}, "")
	want := `[ 0:00] start   first          passes
[ 0:00] passed  first          0.0s,  ~
[ 0:00] start   lint           fails

--- FAIL: lint exit status 1
  a.go:1: wrong
  mend:   make fmt
  log:    logs/lint.log
  repeat: make test STEP=lint
[ 0:00] FAILED  lint           0.0s,  ~

step   result   wall   CPU  tests  failed  skipped
first  passed ~
lint   FAILED ~
never  not run

failed
  lint exit status 1
    make test STEP=lint

FAILED: lint; did not run to the end: never; 0.0s,  ~; logs are in logs
0 passed, 1 failed, 0 skipped
`
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("printed (-want +got):\n%s", diff)
	}
	if b.allPassed() {
		t.Error("the run passed")
	}
}

func TestRunContinuesWithKeepGoing(t *testing.T) {
	t.Parallel()
	b, got := runAll(t, []step{
		{name: "one", lane: laneCPU, commands: []command{script("exit 1")}},
		{name: "two", lane: laneCPU, needs: []string{"one"}, commands: []command{script("true")}},
		{name: "three", lane: laneCluster, commands: []command{script("true")}},
		{name: "nothing to do", lane: laneCPU},
	}, rules{lanes: 2, keepGoing: true}, "")
	want := map[string]state{"one": failed, "three": passed, "nothing to do": passed}
	if diff := cmp.Diff(want, b.states); diff != "" {
		t.Errorf("states (-want +got):\n%s\n%s", diff, got)
	}
	if !strings.HasSuffix(got, "\n0 passed, 1 failed, 0 skipped\n") {
		t.Errorf("last line:\n%s", got)
	}
}

// A run that was interrupted did not pass, whatever it found so far.
func TestRunIsInterrupted(t *testing.T) {
	t.Parallel()
	b, got := runAll(t, []step{
		{name: "long", lane: laneCPU, commands: []command{script("sleep 300")}},
		{name: "later", lane: laneCPU, commands: []command{script("true")}},
	}, rules{lanes: 1}, "start   long")
	if diff := cmp.Diff(map[string]state{"long": stopped}, b.states); diff != "" {
		t.Errorf("states (-want +got):\n%s", diff)
	}
	if !strings.Contains(got, "did not run to the end: long, later;") || !strings.HasSuffix(got, "\n0 passed, 1 failed, 0 skipped\n") {
		t.Errorf("summary:\n%s", got)
	}
}

func TestTimesAreKept(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "times.json")
	if got := readTimes(file); len(got) != 0 {
		t.Errorf("without a file: %v", got)
	}
	table := catalogue{{name: "a", lane: laneCPU}, {name: "b", lane: laneCPU}}
	b := newBoard(append(table, step{name: "drawn"}), rules{}, map[string]time.Duration{"old": time.Hour, "a": time.Hour}, start)
	for _, s := range b.steps {
		b.start(s, start)
		b.fileEnding(s, ending{}, start.Add(90*time.Second))
	}
	b.states["b"] = failed
	if err := writeTimes(file, b, table); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(map[string]time.Duration{"old": time.Hour, "a": 90 * time.Second}, readTimes(file)); diff != "" {
		t.Errorf("times (-want +got):\n%s", diff)
	}
}

func TestDurationsAreReadable(t *testing.T) {
	t.Parallel()
	for d, want := range map[time.Duration]string{
		1500 * time.Millisecond:         "0:01 1.5s 10 s",
		42 * time.Second:                "0:42 42s 50 s",
		12*time.Minute + 30*time.Second: "12:30 12m30s 13 min",
		62*time.Minute + 3*time.Second:  "1:02:03 1h02m03s 62 min",
	} {
		if got := strings.Join([]string{clock(d), shortDuration(d), estimateText(d)}, " "); got != want {
			t.Errorf("%s: %q, want %q", d, got, want)
		}
	}
}
