package seed_test

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"regexp"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/dovetail-sh/dovetail/internal/seed"
)

// role says what this binary does when a test runs it again.
const role = "DOVETAIL_SEED_TEST_ROLE"

// TestDraws is also run by the other tests: then it prints what is drawn, or fails once a large number is.
func TestDraws(t *testing.T) {
	var drawn strings.Builder
	does := os.Getenv(role)
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.Uint64Range(0, 1000).Draw(t, "n")
		fmt.Fprintln(&drawn, n, rapid.SliceOf(rapid.String()).Draw(t, "texts"), rapid.MapOf(rapid.Int(), rapid.Bool()).Draw(t, "map"))
		if does == "fails" && n > 900 {
			t.Fatal("too large")
		}
	})
	if does != "" {
		fmt.Println(drawn.String())
	}
}

// run runs TestDraws in a process of its own.
func run(t *testing.T, does string, environment []string, args ...string) string {
	t.Helper()
	program, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	command := exec.CommandContext(t.Context(), program, append([]string{"-test.run=^TestDraws$", "-rapid.nofailfile"}, args...)...)
	for _, entry := range os.Environ() {
		if !strings.HasPrefix(entry, "RAPID_") && !strings.HasPrefix(entry, "DOVETAIL_EXPLORE=") {
			command.Env = append(command.Env, entry)
		}
	}
	command.Env = append(append(command.Env, role+"="+does), environment...)
	var out bytes.Buffer
	command.Stdout, command.Stderr = &out, &out
	if err := command.Run(); (err != nil) != (does == "fails") {
		t.Fatalf("%v: %v\n%s", args, err, out.String())
	}
	return regexp.MustCompile(`\([0-9.]+.?s\)`).ReplaceAllString(out.String(), "") // how long it took
}

// Two runs draw the same values, unless another seed is requested.
func TestRunsDrawTheSame(t *testing.T) {
	t.Parallel()
	first := run(t, "draws", nil)
	if strings.Count(first, "\n") < 100 {
		t.Fatalf("nothing was drawn:\n%s", first)
	}
	for name, tc := range map[string]struct {
		environment, args []string
		same              bool
	}{
		"again":                           {same: true},
		"the fixed seed by its number":    {args: []string{"-rapid.seed=" + seed.Fixed}, same: true},
		"a seed of the command line":      {args: []string{"-rapid.seed=7"}},
		"a seed of the environment":       {environment: []string{"RAPID_SEED=7"}},
		"exploring":                       {environment: []string{"DOVETAIL_EXPLORE=1"}},
		"exploring is requested with 1":   {environment: []string{"DOVETAIL_EXPLORE=0"}, same: true},
		"exploring from the fixed seed":   {environment: []string{"DOVETAIL_EXPLORE=1"}, args: []string{"-rapid.seed=" + seed.Fixed}, same: true},
		"the command line wins over both": {environment: []string{"DOVETAIL_EXPLORE=1", "RAPID_SEED=7"}, args: []string{"-rapid.seed=" + seed.Fixed}, same: true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if got := run(t, "draws", tc.environment, tc.args...); (got == first) != tc.same {
				t.Errorf("the same values: %v, want %v", got == first, tc.same)
			}
		})
	}
}

// A failure says how to repeat it, also one that was found by exploring, and that does.
func TestFailuresNameTheirSeed(t *testing.T) {
	t.Parallel()
	for _, environment := range [][]string{nil, {"DOVETAIL_EXPLORE=1"}} {
		out := run(t, "fails", environment)
		found := regexp.MustCompile(`-run="TestDraws" (-rapid\.seed=\d+)`).FindStringSubmatch(out)
		if found == nil {
			t.Fatalf("%v: the output does not say how to repeat it:\n%s", environment, out)
		}
		if again := run(t, "fails", nil, found[1]); !strings.Contains(again, "failed after 0 tests") {
			t.Errorf("%v: %s does not fail at once:\n%s", environment, found[1], again)
		}
	}
}
