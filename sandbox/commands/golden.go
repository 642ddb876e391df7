package commands

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// Golden compares a text with a file of testdata, or writes the file anew.
func Golden(t *testing.T, rewrite bool, name, text string) {
	t.Helper()
	path := filepath.Join("testdata", filepath.FromSlash(name))
	text = strings.TrimSpace(text) + "\n"
	if rewrite {
		if err := os.MkdirAll(filepath.Dir(path), 0o750); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatalf("%v; -rewrite makes it", err)
	}
	if diff := cmp.Diff(strings.Split(string(want), "\n"), strings.Split(text, "\n")); diff != "" {
		t.Errorf("%s differs; -rewrite writes it anew (-want +got):\n%s\nall of it:\n%s", path, diff, text)
	}
}
