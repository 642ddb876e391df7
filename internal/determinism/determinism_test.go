package determinism_test

import (
	"bytes"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"regexp"
	"strings"
	"sync"
	"testing"
)

var only = flag.String("decision", ".", "make only the decisions whose names match this regular expression")

const (
	processes = 2
	// childOf holds the regular expression of the decisions that a process is to make; its presence makes this
	// binary such a process.
	childOf = "DOVETAIL_DETERMINISM_DECISIONS"
)

// made is a decision as one process made it.
type made struct {
	Name  string
	Text  string
	Other string // what it said another time in the same process; "": always the same
}

func TestMain(m *testing.M) {
	if names, child := os.LookupEnv(childOf); child {
		if err := json.NewEncoder(os.Stdout).Encode(makeAll(decisions(), regexp.MustCompile(names))); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	flag.Parse()
	os.Exit(m.Run())
}

// makeAll makes decisions again and again.
func makeAll(list []decision, names *regexp.Regexp) []made {
	var out []made
	for _, d := range list {
		if !names.MatchString(d.name) {
			continue
		}
		one := made{Name: d.name, Text: d.make()}
		for range d.rounds - 1 {
			if again := d.make(); again != one.Text {
				one.Other = again
				break
			}
		}
		out = append(out, one)
	}
	return out
}

// Equal input gives equal decisions, whatever order maps are in: within a process, and from one to another.
func TestDecisionsAreTheSame(t *testing.T) {
	t.Parallel()
	results := make([][]made, processes)
	var wait sync.WaitGroup
	for i := range results {
		wait.Go(func() { results[i] = process(t, *only) })
	}
	wait.Wait()
	if t.Failed() {
		return
	}
	if len(results[0]) == 0 {
		t.Fatalf("no decision is called %s", *only)
	}
	for _, text := range compare(results) {
		t.Error(text)
	}
}

// process makes decisions in a process of its own.
func process(t *testing.T, names string) []made {
	t.Helper()
	program, err := os.Executable()
	if err != nil {
		t.Error(err)
		return nil
	}
	command := exec.CommandContext(t.Context(), program)
	command.Env = append(os.Environ(), childOf+"="+names)
	var out, errs bytes.Buffer
	command.Stdout, command.Stderr = &out, &errs
	if err := command.Run(); err != nil {
		t.Errorf("a process that makes decisions: %v\n%s", err, errs.String())
		return nil
	}
	var list []made
	if err := json.Unmarshal(out.Bytes(), &list); err != nil {
		t.Errorf("a process that makes decisions: %v\n%s", err, out.String())
	}
	return list
}

// compare says of each decision that differs where it does so first, and how to see it again.
func compare(results [][]made) []string {
	var found []string
	for i, first := range results[0] {
		again := fmt.Sprintf("go test ./internal/determinism -count=1 -run '^TestDecisionsAreTheSame$' -decision '^%s$'", regexp.QuoteMeta(first.Name))
		for n, other := range results {
			switch {
			case other[i].Other != "":
				found = append(found, fmt.Sprintf("decision %q was made in two ways by process %d:\n%s\nSee it again with\n  %s", first.Name, n+1, difference(other[i].Text, other[i].Other), again))
			case other[i].Text != first.Text:
				found = append(found, fmt.Sprintf("decision %q was made in two ways by processes 1 and %d:\n%s\nSee it again with\n  %s", first.Name, n+1, difference(first.Text, other[i].Text), again))
			default:
				continue
			}
			break
		}
	}
	return found
}

// difference shows the first line in which two texts differ.
func difference(a, b string) string {
	x, y := strings.Split(a, "\n"), strings.Split(b, "\n")
	line := func(list []string, i int) string {
		if i < len(list) {
			return list[i]
		}
		return "(the text ends)"
	}
	i := 0
	for i < len(x) && i < len(y) && x[i] == y[i] {
		i++
	}
	return fmt.Sprintf("  line %d once:  %s\n  line %d again: %s", i+1, line(x, i), i+1, line(y, i))
}

// What is said of decisions that differ: which, where, and how to see it again.
func TestDifferencesAreNamed(t *testing.T) {
	t.Parallel()
	same := made{Name: "same", Text: "a\nb"}
	for name, tc := range map[string]struct {
		one, two made
		want     []string
	}{
		"the same":                {one: same, two: same},
		"between processes":       {one: made{Name: "x (1)", Text: "a\nb\nc"}, two: made{Name: "x (1)", Text: "a\nB\nC"}, want: []string{`"x (1)"`, "processes 1 and 2", "line 2 once:  b\n", "line 2 again: B\n", `-decision '^x \(1\)$'`}},
		"within a process":        {one: same, two: made{Name: "same", Text: "a\nb", Other: "a"}, want: []string{`"same"`, "by process 2", "line 2 once:  b\n", "line 2 again: (the text ends)"}},
		"both, but reported once": {one: made{Name: "x", Text: "a", Other: "b"}, two: made{Name: "x", Text: "b", Other: "a"}, want: []string{"by process 1"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			found := compare([][]made{{same, tc.one}, {same, tc.two}})
			if (len(found) == 0) != (len(tc.want) == 0) || len(found) > 1 {
				t.Fatalf("found %q", found)
			}
			for _, part := range tc.want {
				if !strings.Contains(found[0], part) {
					t.Errorf("%s\ndoes not say %s", found[0], part)
				}
			}
		})
	}
}

// A decision that depends on the order of a map is seen within a process.
func TestMapOrderIsSeen(t *testing.T) {
	t.Parallel()
	list := []decision{{"any", 50, func() string {
		for key := range map[string]bool{"a": true, "b": true, "c": true} {
			return key
		}
		return ""
	}}}
	if got := makeAll(list, regexp.MustCompile(".")); got[0].Other == "" {
		t.Errorf("%+v: nothing was seen", got)
	}
}
