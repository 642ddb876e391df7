package main

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

func names(steps []step) string {
	var list []string
	for _, s := range steps {
		list = append(list, s.name)
	}
	return strings.Join(list, " ")
}

func TestNext(t *testing.T) {
	t.Parallel()
	steps := []step{
		{name: "build", lane: laneCluster},
		{name: "tools", lane: laneCPU},
		{name: "lint", lane: laneCPU, needs: []string{"tools"}},
		{name: "race", lane: laneCPU, after: []string{"build"}},
		{name: "sim", lane: laneCPU},
		{name: "cluster", lane: laneCluster, needs: []string{"build"}},
	}
	for name, tc := range map[string]struct {
		states map[string]state
		rules  rules
		want   string
	}{
		"each lane starts its first":                    {want: "build tools"},
		"one lane runs all, one after the other":        {rules: rules{lanes: 1}, want: "build"},
		"one lane goes on in the order of the table":    {rules: rules{lanes: 1}, states: map[string]state{"build": passed}, want: "tools"},
		"a lane is one step wide":                       {states: map[string]state{"build": running, "tools": running}},
		"what is needed has passed":                     {states: map[string]state{"build": running, "tools": passed}, want: "lint"},
		"a lane waits for another and does not skip":    {states: map[string]state{"build": running, "tools": passed, "lint": passed}},
		"and goes on when the other has ended":          {states: map[string]state{"build": passed, "tools": passed, "lint": passed}, want: "race cluster"},
		"after a failure nothing starts":                {states: map[string]state{"build": running, "tools": failed}},
		"unless told to keep going":                     {rules: rules{lanes: 2, keepGoing: true}, states: map[string]state{"build": passed, "tools": passed, "lint": failed}, want: "race cluster"},
		"but never without what is needed":              {rules: rules{lanes: 2, keepGoing: true}, states: map[string]state{"build": failed, "tools": passed, "lint": passed}, want: "race"},
		"what comes after a failure may run":            {rules: rules{lanes: 2, keepGoing: true}, states: map[string]state{"build": failed, "tools": failed}, want: "race"},
		"after a signal nothing starts":                 {rules: rules{lanes: 2, keepGoing: true}, states: map[string]state{"build": stopped, "tools": passed}},
		"nothing is left when all has ended":            {states: map[string]state{"build": passed, "tools": passed, "lint": passed, "race": passed, "sim": passed, "cluster": passed}},
		"a step that runs is not started a second time": {states: map[string]state{"build": passed, "tools": passed, "lint": passed, "race": running, "cluster": running}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if tc.rules.lanes == 0 {
				tc.rules.lanes = 2
			}
			if got := names(next(steps, tc.states, tc.rules)); got != tc.want {
				t.Errorf("next() = %q, want %q", got, tc.want)
			}
		})
	}
}

// Whatever fails, a run comes to its end, and every step that ran had what it needs.
func TestEveryRunEnds(t *testing.T) {
	t.Parallel()
	all := steps(survey{}, settings{})
	for _, r := range []rules{{lanes: 1}, {lanes: 2}, {lanes: 1, keepGoing: true}, {lanes: 2, keepGoing: true}} {
		for _, broken := range append([]step{{}}, all...) {
			states := map[string]state{}
			started := 0
			for rounds := 0; ; rounds++ {
				start := next(all, states, r)
				for _, s := range start {
					for _, need := range s.needs {
						if states[need] != passed {
							t.Errorf("%s starts without %s", s.name, need)
						}
					}
					states[s.name] = running
					started++
				}
				ended := false
				for _, s := range all { // one ends, the last in the table first
					if states[s.name] == running && !ended {
						ended = true
						states[s.name] = passed
						if s.name == broken.name {
							states[s.name] = failed
						}
					}
				}
				if !ended {
					break
				}
				if rounds > 100 {
					t.Fatal("it does not end")
				}
			}
			if broken.name == "" && started != len(all) {
				t.Errorf("%+v: %d of %d steps ran", r, started, len(all))
			}
		}
	}
}

func TestRemaining(t *testing.T) {
	t.Parallel()
	steps := []step{
		{name: "a", lane: laneCPU, usually: time.Minute},
		{name: "b", lane: laneCPU, usually: time.Minute},
		{name: "c", lane: laneCluster, usually: 90 * time.Second},
	}
	usual := map[string]time.Duration{"b": 2 * time.Minute}
	states := map[string]state{"a": running, "c": running}
	ran := map[string]time.Duration{"a": 20 * time.Second, "c": time.Hour}
	if got := remaining(steps, states, usual, ran, rules{lanes: 2}); got != 160*time.Second {
		t.Errorf("two lanes: %s, want the longer one", got)
	}
	if got := remaining(steps, nil, usual, nil, rules{lanes: 1}); got != 270*time.Second {
		t.Errorf("one lane: %s, want the sum", got)
	}
	if got := remaining(steps, map[string]state{"a": passed, "b": failed, "c": stopped}, usual, nil, rules{lanes: 2}); got != 0 {
		t.Errorf("all ended: %s", got)
	}
}

func TestStatus(t *testing.T) {
	t.Parallel()
	list := []step{
		{name: "lint", lane: laneCPU, usually: 30 * time.Second, commands: []command{{argv: []string{"lint"}}}},
		{name: "sandbox", lane: laneCluster, usually: 10 * time.Minute, commands: []command{goTestOf("sandbox", nil, []string{"./..."}, nil)}},
	}
	b := newBoard(list, rules{lanes: 2}, nil, start)
	for _, s := range list {
		b.start(s, start)
	}
	check := func(after time.Duration, want ...string) {
		t.Helper()
		if diff := cmp.Diff(want, b.status(start.Add(after))); diff != "" {
			t.Errorf("after %s (-want +got):\n%s", after, diff)
		}
	}
	check(time.Second, "lint 0:01", "sandbox 0:01: compiling", "0 of 2 steps done, about 10 min left")
	b.fileLine(list[1], `{"Action":"run","Package":"`+module+`/sandbox/flow","Test":"TestA"}`, start.Add(10*time.Second))
	b.fileLine(list[1], `{"Action":"run","Package":"`+module+`/sandbox/flow","Test":"TestB"}`, start.Add(10*time.Second))
	b.fileLine(list[1], `{"Action":"pass","Package":"`+module+`/sandbox/flow","Test":"TestB"}`, start.Add(10*time.Second))
	b.fileEnding(list[0], ending{}, start.Add(20*time.Second))
	check(12*time.Second, "sandbox 0:12: flow, 1 tests done", "1 of 2 steps done, about 10 min left")
	check(8*time.Minute+30*time.Second, "sandbox 8:30: flow, 1 tests done, TestA 8:20", "1 of 2 steps done, about 2 min left")
}
