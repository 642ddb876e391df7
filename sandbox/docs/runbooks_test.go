package docs

import (
	"path/filepath"
	"slices"
	"testing"
)

// Where nothing is wrong there is nothing to find, and grep says so by its exit code.
const findNothing = `grep() { command grep "$@" || test $? -eq 1; }`

// withRunbooks adds the runbooks of all alerts to the pages, before the last page takes the CRDs away.
func withRunbooks(t *testing.T, all []page) []page {
	t.Helper()
	names, err := filepath.Glob("../../docs/runbooks/*.md")
	if err != nil || len(names) < 20 {
		t.Fatalf("%d runbooks: %v", len(names), err)
	}
	for _, name := range names {
		if base := filepath.Base(name); base != "README.md" {
			all = slices.Insert(all, len(all)-1, page{name: "docs/runbooks/" + base, before: findNothing})
		}
	}
	return all
}
