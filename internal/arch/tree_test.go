package arch_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strings"
	"sync"
	"testing"
)

const module = "github.com/dovetail-sh/dovetail"

// source is one Go file: where it is, how it parses and what it is for.
type source struct {
	path      string // slash-separated, relative to the root
	text      []byte
	syntax    *ast.File
	generated bool
	nested    bool // of sandbox, bench, tools or the tests of the page in a browser
}

func (s *source) dir() string { return path.Dir(s.path) }
func (s *source) test() bool  { return strings.HasSuffix(s.path, "_test.go") }
func (s *source) lines() int  { return strings.Count(string(s.text), "\n") }
func (s *source) code() bool  { return !s.test() && !s.generated }
func (s *source) within(dirs ...string) bool {
	for _, dir := range dirs {
		if strings.HasPrefix(s.path, dir+"/") {
			return true
		}
	}
	return false
}

// tree is the repository, read once. Reading files instead of asking `go list` keeps the tests
// independent of build errors and lets the go command's test cache see every file they depend on.
type tree struct {
	files   []string  // every file but build output and dot directories of tools
	sources []*source // every Go file outside testdata
	fset    *token.FileSet
}

var readTree = sync.OnceValues(func() (*tree, error) {
	root, fset := os.DirFS(filepath.Join("..", "..")), token.NewFileSet()
	t := &tree{fset: fset}
	err := fs.WalkDir(root, ".", func(name string, entry fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case entry.IsDir() && skipped(name):
			return fs.SkipDir
		case entry.IsDir() || !entry.Type().IsRegular() || name == ".git": // of a worktree, where it is a file
			return nil
		}
		t.files = append(t.files, name)
		if !strings.HasSuffix(name, ".go") || strings.Contains("/"+name, "/testdata/") {
			return nil
		}
		text, err := fs.ReadFile(root, name)
		if err != nil {
			return err
		}
		syntax, err := parser.ParseFile(fset, name, text, parser.ParseComments|parser.SkipObjectResolution)
		if err != nil {
			return err
		}
		t.sources = append(t.sources, &source{
			path: name, text: text, syntax: syntax, generated: ast.IsGenerated(syntax),
			nested: strings.HasPrefix(name, "sandbox/") || strings.HasPrefix(name, "tools/") || strings.HasPrefix(name, "bench/") ||
				strings.HasPrefix(name, "internal/console/browser/"),
		})
		return nil
	})
	return t, err
})

// skipped says whether a directory is build output or belongs to a tool.
func skipped(name string) bool {
	switch name {
	case "bin", "dist", ".git", ".idea", ".vscode":
		return true
	}
	return path.Base(name) == "node_modules"
}

func repository(t *testing.T) *tree {
	t.Helper()
	read, err := readTree()
	if err != nil {
		t.Fatal(err)
	}
	return read
}

func readRoot(t *testing.T, name string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("..", "..", filepath.FromSlash(name)))
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}
