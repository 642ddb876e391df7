package cli

import (
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/dovetail-sh/dovetail/internal/snapshot/snapshottest"
)

// TV-14: without a terminal, the command of the page prints what the page shows.
func TestTV_14_TheHowToPage(t *testing.T) {
	t.Parallel()
	const page = "../../docs/how-to/watch-with-top.md"
	text, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	path := snapshotFile(t, snapshottest.Varied())
	blocks := 0
	block := regexp.MustCompile("(?s)```console\n\\$ dovetail ([^\n]*)\n(.*?)```")
	got := block.ReplaceAllStringFunc(string(text), func(shown string) string {
		blocks++
		typed := block.FindStringSubmatch(shown)[1]
		code, stdout, stderr := run("", strings.Fields(strings.ReplaceAll(typed, "cluster.json", path))...)
		if code != 0 {
			t.Errorf("dovetail %s: exit code %d: %s", typed, code, stderr)
		}
		return "```console\n$ dovetail " + typed + "\n" + stdout + "```"
	})
	if blocks != 1 || !strings.Contains(string(text), "```sh\ndovetail top\n```") {
		t.Errorf("the page has %d commands with output, want 1, and `dovetail top` itself", blocks)
	}
	if *rewrite {
		if err := os.WriteFile(page, []byte(got), 0o600); err != nil {
			t.Fatal(err)
		}
		return
	}
	if d := cmp.Diff(string(text), got); d != "" {
		t.Errorf("%s (-page +command):\n%s", page, d)
	}
}

func TestTopUsage(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		args []string
		want string
		code int
	}{
		"too often":             {args: []string{"--interval", "10ms"}, want: "--interval 10ms is too short; want 1s or more", code: exitUsage},
		"an unknown flag":       {args: []string{"--no-colour"}, want: "did you mean --no-color?", code: exitUsage},
		"no such file":          {args: []string{"--scenario", "missing.json"}, want: "missing.json", code: exitUsage},
		"not an argument":       {args: []string{"nodes"}, want: "takes no arguments", code: exitUsage},
		"two ways to a cluster": {args: []string{"--scenario", "a.json", "--context", "b"}, want: "use only one of them", code: exitUsage},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			code, _, stderr := run("", append([]string{"top"}, tc.args...)...)
			if code != tc.code || !strings.Contains(stderr, tc.want) {
				t.Errorf("exit code %d, want %d: %s", code, tc.code, stderr)
			}
		})
	}
}

// TV-13: NO_COLOR counts with any value, and only what a terminal can do is passed on.
func TestTV_13_TerminalSettings(t *testing.T) {
	t.Parallel()
	lookup := func(set map[string]string) func(string) (string, bool) {
		return func(name string) (string, bool) { value, ok := set[name]; return value, ok }
	}
	for name, tc := range map[string]struct {
		set     map[string]string
		noColor bool
		want    []string
	}{
		"TV-13: colors":                  {set: map[string]string{"TERM": "xterm", "HOME": "/root"}, want: []string{"TERM=xterm"}},
		"TV-13: NO_COLOR with any value": {set: map[string]string{"TERM": "xterm", "NO_COLOR": "yes"}, want: []string{"TERM=xterm", "NO_COLOR=1"}},
		"TV-13: NO_COLOR without one":    {set: map[string]string{"TERM": "xterm", "NO_COLOR": ""}, want: []string{"TERM=xterm"}},
		"TV-13: --no-color":              {set: map[string]string{"TERM": "xterm"}, noColor: true, want: []string{"TERM=xterm", "NO_COLOR=1"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if d := cmp.Diff(tc.want, terminalSettings(lookup(tc.set), tc.noColor)); d != "" {
				t.Errorf("(-want +got):\n%s", d)
			}
		})
	}
}
