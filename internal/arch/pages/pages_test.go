package pages_test

import (
	"io/fs"
	"os"
	"path"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/dovetail-sh/dovetail/internal/arch/pages"
)

var root = os.DirFS("../../..")

// read returns the text of a file of the repository.
func read(t *testing.T, name string) string {
	t.Helper()
	text, err := fs.ReadFile(root, name)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

func TestBlocks(t *testing.T) {
	t.Parallel()
	const page = "# Title\n\n<!-- needs AWS: a bill -->\n```sh\naws it\n```\n\n```console\n$ first \\\n  more\nout\n…\n$ second\n```\n\n[a](b.md) `[no](c.md)`\n"
	blocks := pages.Blocks("p.md", page)
	want := []pages.Block{
		{Page: "p.md", Line: 5, Language: "sh", Note: "needs AWS: a bill", Text: "aws it\n"},
		{Page: "p.md", Line: 9, Language: "console", Text: "$ first \\\n  more\nout\n…\n$ second\n"},
	}
	if diff := cmp.Diff(want, blocks); diff != "" {
		t.Fatal(diff)
	}
	if blocks[0].Runs() || !blocks[1].Runs() {
		t.Error("a block that needs AWS is not run, others are")
	}
	if diff := cmp.Diff([]pages.Command{{Typed: "first \\\n  more\n", Shown: []string{"out", "…"}}, {Typed: "second\n"}}, blocks[1].Commands()); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff([]string{"b.md"}, pages.Links(page)); diff != "" {
		t.Error(diff)
	}
}

// A shell block of a tutorial, a how-to page or README.md is run by the test of sandbox/docs, or says by whom it is run
// or why it is not run.
func TestEveryShellBlockIsRunOrSaysWhyNot(t *testing.T) {
	t.Parallel()
	names, err := pages.Written(root)
	if err != nil || len(names) < 10 {
		t.Fatalf("%d pages: %v", len(names), err)
	}
	runner := read(t, "sandbox/docs/pages_test.go")
	for _, name := range names {
		for _, b := range pages.Blocks(name, read(t, name)) {
			if !b.Shell() {
				continue
			}
			dir, test, elsewhere := b.Test()
			switch {
			case elsewhere && !has(t, dir, "func "+test+"("):
				t.Errorf("%s: the comment names a test that does not exist: %s %s", b, dir, test)
			case b.Runs() && !strings.Contains(runner, `"`+name+`"`):
				t.Errorf("%s: sandbox/docs does not run this page; add it to its table, or say before the block why not: <!-- needs AWS: reason -->", b)
			case strings.HasPrefix(b.Note, "needs AWS:") && len(b.Note) < len("needs AWS: a word"):
				t.Errorf("%s: say why it needs AWS", b)
			}
		}
	}
}

// has reports whether a test file of a folder has a text.
func has(t *testing.T, dir, text string) bool {
	t.Helper()
	files, err := fs.Glob(root, path.Join(dir, "*_test.go"))
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range files {
		if strings.Contains(read(t, file), text) {
			return true
		}
	}
	return false
}

// The table of switches names tests of sandbox/flow that exist, at least one for each side of a row.
func TestSwitchesAreShownByFlows(t *testing.T) {
	t.Parallel()
	_, table, _ := strings.Cut(read(t, "docs/spec/features.md"), "## Switches\n")
	table, _, _ = strings.Cut(table, "\n## ")
	name, rows := regexp.MustCompile("`(Test[A-Za-z0-9_]+)`"), 0
	for line := range strings.Lines(table) {
		cells := strings.Split(line, "|")
		if len(cells) != 5 || strings.Contains(line, "---") || strings.HasPrefix(line, "| Feature ") {
			continue
		}
		rows++
		for _, cell := range cells[2:4] {
			tests := name.FindAllStringSubmatch(cell, -1)
			if len(tests) == 0 {
				t.Errorf("no test shows that%s", cell)
			}
			for _, test := range tests {
				if !has(t, "sandbox/flow", "func "+test[1]+"(") {
					t.Errorf("sandbox/flow has no %s, which shows that%s", test[1], cell)
				}
			}
		}
	}
	if rows < 7 {
		t.Errorf("%d rows", rows)
	}
}

// Links between files of the repository lead to a file, and to a heading of it.
func TestLinksResolve(t *testing.T) {
	t.Parallel()
	seen := 0
	err := fs.WalkDir(root, ".", func(name string, entry fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case entry.IsDir() && (name == "bin" || strings.HasPrefix(path.Base(name), ".") && name != "."):
			return fs.SkipDir
		case entry.IsDir() || path.Ext(name) != ".md" || strings.Contains(name, "testdata/"):
			return nil
		}
		for _, target := range pages.Links(read(t, name)) {
			if strings.Contains(target, "://") || strings.HasPrefix(target, "mailto:") {
				continue
			}
			seen++
			file, anchor, _ := strings.Cut(target, "#")
			to := path.Join(path.Dir(name), file)
			if file == "" {
				to = name
			}
			if _, err := fs.Stat(root, to); err != nil {
				t.Errorf("%s: link to %s: %v", name, target, err)
			} else if anchor != "" && path.Ext(to) == ".md" && !headings(read(t, to))[anchor] {
				t.Errorf("%s: link to %s: no such heading", name, target)
			}
		}
		return nil
	})
	if err != nil || seen < 50 {
		t.Fatalf("%d links: %v", seen, err)
	}
}

// headings are the anchors of a page, as web pages of repositories make them.
func headings(text string) map[string]bool {
	anchors := map[string]bool{}
	drop := regexp.MustCompile(`[^\p{L}\p{N} _-]`)
	for line := range strings.Lines(text) {
		if title, found := strings.CutPrefix(strings.TrimLeft(line, "#"), " "); found && strings.HasPrefix(line, "#") {
			anchors[strings.ReplaceAll(drop.ReplaceAllString(strings.ToLower(strings.TrimSpace(title)), ""), " ", "-")] = true
		}
	}
	return anchors
}
