package main

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// Two clones have one path as long as they take turns, and none is ever in the way of the other.
func TestStablePlace(t *testing.T) {
	t.Parallel()
	folder, first, second := filepath.Join(t.TempDir(), "gate"), t.TempDir(), t.TempDir()
	pointsTo := func(p *place) string {
		t.Helper()
		target, err := os.Readlink(p.root)
		if err != nil {
			t.Fatal(err)
		}
		return target
	}
	a, err := stablePlace(folder, first)
	if err != nil || pointsTo(a) != first {
		t.Fatal(a, err)
	}
	if b, err := stablePlace(folder, second); err == nil || !strings.Contains(err.Error(), "another gate runs") || pointsTo(a) != first {
		t.Errorf("while the first one runs: %v, %v", b, err)
	}
	a.release()
	b, err := stablePlace(folder, second)
	if err != nil || pointsTo(b) != second || b.root != a.root {
		t.Errorf("after the first one: %v, %v; want the same path %s", b, err, a.root)
	}
	b.release()
}

// Programs see the path of the link, also where they request their folder.
func TestProgramsRunInTheLink(t *testing.T) {
	t.Parallel()
	checkout := t.TempDir()
	if err := os.Mkdir(filepath.Join(checkout, "inner"), 0o755); err != nil {
		t.Fatal(err)
	}
	p, err := stablePlace(t.TempDir(), checkout)
	if err != nil {
		t.Fatal(err)
	}
	defer p.release()
	h := newShell(checkout, "", false)
	h.place = p.root
	var out bytes.Buffer
	if _, err := h.start(t.Context(), step{}, &command{dir: "inner", argv: []string{"sh", "-c", "pwd"}}, &out); err != nil {
		t.Fatal(err)
	}
	if want := filepath.Join(p.root, "inner") + "\n"; out.String() != want {
		t.Errorf("a program runs in %q, want %q", out.String(), want)
	}
}
