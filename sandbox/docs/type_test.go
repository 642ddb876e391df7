package docs

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/dovetail-sh/dovetail/internal/arch/pages"
)

// patience is how long the commands of one page may take together.
const patience = 5 * time.Minute

// page is one page of the documentation, and what makes its commands those of this reader.
type page struct {
	name    string
	replace []string // pairs: what is on the page, what is typed
	before  string   // typed first: what the page takes as given
	after   string   // typed last, even if a command failed: clean up
}

// passage is a part of the script of a page, with an output of its own.
type passage struct {
	block pages.Block
	pages.Command
}

// typeIn runs the blocks of a page in one shell, in order, and compares what the page shows.
func (p page) typeIn(t *testing.T) {
	text, err := os.ReadFile(filepath.Join("..", "..", p.name))
	if err != nil {
		t.Fatal(err)
	}
	var passages []passage
	for _, b := range pages.Blocks(p.name, string(text)) {
		if !b.Runs() {
			continue
		}
		for _, c := range b.Commands() {
			passages = append(passages, passage{b, c})
		}
	}
	if len(passages) == 0 {
		t.Fatalf("%s has no block that runs: take it out of the table", p.name)
	}
	dir := t.TempDir()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	cmd := exec.CommandContext(ctx, "bash", "-c", p.bashScript(dir, passages))
	cmd.Dir, cmd.Env, cmd.WaitDelay = reader.clone, reader.env, time.Second
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} // what runs in the background ends with it
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
	rest, err := cmd.CombinedOutput()
	for i, one := range passages {
		out, read := os.ReadFile(filepath.Join(dir, strconv.Itoa(i)))
		if read != nil {
			t.Fatalf("%s: the commands before this block end with %v: %s", one.block, err, rest)
		}
		last := i == len(passages)-1
		if _, next := os.Stat(filepath.Join(dir, strconv.Itoa(i+1))); err != nil && (last || next != nil) {
			t.Fatalf("%s\n$ %sends with %v:\n%s%s", one.block, one.Typed, err, out, rest)
		}
		if missing := compare(one.Shown, string(out)); missing != "" {
			t.Errorf("%s\n$ %sdoes not show %q:\n%s", one.block, one.Typed, missing, out)
		}
	}
}

// bashScript is what bash runs: each passage with a file for its output.
func (p page) bashScript(dir string, passages []passage) string {
	var b strings.Builder
	b.WriteString("set -euo pipefail\n")
	fmt.Fprintf(&b, "finish() {\ncode=$?\nset +e\nexec > %s/after 2>&1\nkill $(jobs -p) 2> /dev/null\n%s\nexit $code\n}\ntrap finish EXIT\n", dir, p.after)
	b.WriteString(p.before + "\n")
	own := strings.NewReplacer(p.replace...)
	for i, one := range passages {
		fmt.Fprintf(&b, "exec > %s/%d 2>&1\n", dir, i)
		typed := own.Replace(one.Typed)
		if one.block.Note == pages.Refused {
			before, last := cutLast(typed)
			typed = before + "if " + last + "; then echo 'it is not refused'; exit 1; fi\n"
		}
		b.WriteString(typed)
		if one.block.Note == pages.Examples {
			for _, v := range reader.env {
				if name, value, _ := strings.Cut(v, "="); strings.Contains(typed, "export "+name+"=") {
					fmt.Fprintf(&b, "export %s='%s'\n", name, value)
				}
			}
		}
	}
	return b.String()
}

// cutLast splits the last line off.
func cutLast(text string) (before, last string) {
	text = strings.TrimRight(text, "\n")
	i := strings.LastIndex(text, "\n") + 1
	return text[:i], text[i:]
}

// compare returns the first line of a page that the output does not have, in this order. On the page … stands for
// anything, as a line or in one, and blanks for blanks.
func compare(shown []string, out string) string {
	lines := strings.Split(out, "\n")
	at := 0
	for _, want := range shown {
		want = strings.Join(strings.Fields(want), " ")
		if want == "" || want == "…" {
			continue
		}
		for at < len(lines) && !matchesPattern(want, strings.Join(strings.Fields(lines[at]), " ")) {
			at++
		}
		if at == len(lines) {
			return want
		}
		at++
	}
	return ""
}

// matchesPattern reports whether a line has the parts of a pattern in their order.
func matchesPattern(pattern, line string) bool {
	parts := strings.Split(pattern, "…")
	for i, part := range parts {
		at := strings.Index(line, part)
		if at < 0 || i == 0 && at > 0 {
			return false
		}
		line = line[at+len(part):]
	}
	return parts[len(parts)-1] == "" || line == ""
}

func TestCompare(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		shown []string
		out   string
		want  string
	}{
		"the same":           {[]string{"a  b", "c"}, "a b\nc\n", ""},
		"with others":        {[]string{"a", "…", "c"}, "a\nb\nc\n", ""},
		"in another order":   {[]string{"b", "a"}, "a\nb\n", "a"},
		"anything in a line": {[]string{"default … True …"}, "default   x  True  5s\n", ""},
		"a line that begins": {[]string{"default"}, "default 5s", "default"},
		"missing":            {[]string{"a"}, "", "a"},
	} {
		if got := compare(tc.shown, tc.out); got != tc.want {
			t.Errorf("%s: %q, want %q", name, got, tc.want)
		}
	}
}
