package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"
)

// Two clones of one commit get the same times; what differs gets another one, and what is being edited stays as it is.
func TestStampFiles(t *testing.T) {
	t.Parallel()
	if _, err := exec.LookPath("git"); err != nil {
		t.Skip("no git")
	}
	run := func(dir string, args ...string) {
		t.Helper()
		cmd := exec.CommandContext(t.Context(), "git", append([]string{"-c", "user.name=n", "-c", "user.email=e@example.com", "-c", "init.defaultBranch=main"}, args...)...)
		cmd.Dir = dir
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("git %v: %v\n%s", args, err, out)
		}
	}
	write := func(file, text string) {
		t.Helper()
		if err := os.MkdirAll(filepath.Dir(file), 0o750); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	modified := func(file string) time.Time {
		t.Helper()
		info, err := os.Stat(file)
		if err != nil {
			t.Fatal(err)
		}
		return info.ModTime()
	}
	first, second := t.TempDir(), filepath.Join(t.TempDir(), "clone")
	run(first, "init", "-q")
	write(filepath.Join(first, "a", "same"), "same")
	write(filepath.Join(first, "a", "b", "edited"), "before")
	write(filepath.Join(first, "c", "changed"), "one")
	write(filepath.Join(first, "tools", "go.mod"), "module tools")
	run(first, "add", ".")
	run(first, "commit", "-q", "-m", "one")
	run(first, "clone", "-q", first, second)

	write(filepath.Join(second, "c", "changed"), "two")
	run(second, "add", ".")
	run(second, "commit", "-q", "-m", "two")
	write(filepath.Join(second, "a", "b", "edited"), "after")
	edited := modified(filepath.Join(second, "a", "b", "edited"))
	for _, dir := range []string{first, second} {
		stampFiles(t.Context(), dir)
	}
	for name, same := range map[string]bool{"a/same": true, "a": true, "a/b": true, "c/changed": false, "c": false, ".": false} {
		one, two := modified(filepath.Join(first, name)), modified(filepath.Join(second, name))
		if one.Equal(two) != same {
			t.Errorf("%s: %s and %s; want the same: %t", name, one, two, same)
		}
		if time.Since(one) < time.Hour {
			t.Errorf("%s has the time %s, which Go takes for too new", name, one)
		}
	}
	if now := modified(filepath.Join(second, "a", "b", "edited")); !now.Equal(edited) {
		t.Errorf("a file that is being edited was %s and is %s", edited, now)
	}
	if tools := modified(filepath.Join(first, "tools", "go.mod")); time.Since(tools) > time.Hour {
		t.Errorf("tools/go.mod has the time %s: make would take tools of an older one for fresh", tools)
	}
	stampFiles(t.Context(), t.TempDir()) // no repository is no failure
}
