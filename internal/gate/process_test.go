package main

import (
	"context"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// runStep runs a step in an empty directory and returns what it said; heard may end it.
func runStep(t *testing.T, s step, heard func(line string, h *shell, cancel func())) (lines []string, end ending, dir string) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	h := &shell{root: t.TempDir(), place: ".", logs: "logs", tool: "go", env: os.Environ(), yield: true, grace: 20 * time.Millisecond, kill: make(chan struct{})}
	h.run(ctx, s, func(m message) {
		if m.ended != nil {
			end = *m.ended
			return
		}
		if m.line == nil {
			return
		}
		lines = append(lines, *m.line)
		if heard != nil {
			heard(*m.line, h, cancel)
		}
	})
	return lines, end, h.root
}

func script(text string) command { return command{argv: []string{"sh", "-c", text}} }

func TestStepRunsItsCommands(t *testing.T) {
	t.Parallel()
	lines, end, root := runStep(t, step{name: "s", lane: laneCPU, commands: []command{script("echo one; echo two >&2; printf three"), script("exit 3"), script("echo never")}}, nil)
	if diff := cmp.Diff([]string{"one", "two", "three"}, lines); diff != "" {
		t.Errorf("lines (-want +got):\n%s", diff)
	}
	if end.stopped || end.err == nil || end.err.Error() != "exit status 3" {
		t.Errorf("ended with %+v, want the error of the second command", end)
	}
	text, err := os.ReadFile(filepath.Join(root, "logs", "s.log"))
	if err != nil || !strings.Contains(string(text), "one\ntwo\nthree\n") || !strings.Contains(string(text), "$ sh -c 'exit 3'") {
		t.Errorf("log %q, %v", text, err)
	}
	if _, err := os.Stat(filepath.Join(root, "logs", "s.json")); !os.IsNotExist(err) {
		t.Errorf("a file of events without events: %v", err)
	}
}

func TestStepWithoutItsProgram(t *testing.T) {
	t.Parallel()
	if _, end, _ := runStep(t, step{name: "s", commands: []command{{argv: []string{"./no-such-program"}}}}, nil); end.err == nil || end.stopped {
		t.Errorf("ended with %+v", end)
	}
}

// A shell starts what is in its background without SIGINT, as a test binary may start a server: the
// group is killed when its grace is over. Would it live, it would hold the pipe, and the test, open.
func TestStopEndsTheWholeGroup(t *testing.T) {
	t.Parallel()
	for name, heard := range map[string]func(line string, h *shell, cancel func()){
		"asked":  func(_ string, _ *shell, cancel func()) { cancel() },
		"killed": func(_ string, h *shell, cancel func()) { cancel(); close(h.kill) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			began := time.Now()
			_, end, _ := runStep(t, step{name: "s", commands: []command{script("sleep 300 & echo ready; wait"), script("echo never")}}, heard)
			if took := time.Since(began); !end.stopped || took > time.Minute {
				t.Errorf("ended with %+v after %s", end, took)
			}
		})
	}
}

func TestProcessesThatStay(t *testing.T) {
	t.Parallel()
	_, end, _ := runStep(t, step{name: "s", commands: []command{script("sleep 300 & echo done")}}, nil)
	if end.err == nil || !strings.Contains(end.err.Error(), "outlived it") {
		t.Errorf("ended with %+v, want a word about the process that it left", end)
	}
}

func TestEnvironment(t *testing.T) {
	t.Parallel()
	got := environment([]string{"HOME=/h", "GOFLAGS=-buildvcs=auto -mod=mod -trimpath", "CGO_ENABLED=1", "GOWORK=/w/go.work", "MAKEFLAGS=j", "MAKELEVEL=1"})
	if want := []string{"HOME=/h", "GOFLAGS=-buildvcs=false -trimpath -mod=mod", "GOWORK=off", "CGO_ENABLED=0"}; !slices.Equal(got, want) {
		t.Errorf("environment = %q, want %q", got, want)
	}
}
