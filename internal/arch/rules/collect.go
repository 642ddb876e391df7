package main

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"path"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// cite is the first place in one test that cites a rule.
type cite struct {
	file string
	line int
	test string // function or variable around it, or the case file
}

// ruleLine is a line of a case file that says which rule it holds.
var ruleLine = regexp.MustCompile(`(?i)(^|[\s#"'-])rules?["']?[:\s]`)

// skipped directories cite nothing: build output, and this program, whose tests need ids as examples.
var skipped = []string{"bin", "dist", ".git", "internal/arch/rules"}

// findings is what the files of the repository say about rules.
type findings struct {
	cited    map[string][]cite
	excepted map[string][]cite // rules on a list of what cannot be tested; test is the reason
}

func (f *findings) add(c cite, ids []string)    { insert(f.cited, c, ids) }
func (f *findings) except(c cite, ids []string) { insert(f.excepted, c, ids) }

func insert(places map[string][]cite, c cite, ids []string) {
	for _, id := range ids {
		same := func(o cite) bool { return o.file == c.file && o.test == c.test }
		if !slices.ContainsFunc(places[id], same) {
			places[id] = append(places[id], c)
		}
	}
}

// collect reads every test file, every case file and every package comment below root.
func collect(root fs.FS) (*findings, error) {
	found := &findings{cited: map[string][]cite{}, excepted: map[string][]cite{}}
	err := fs.WalkDir(root, ".", func(name string, entry fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case entry.IsDir() && slices.Contains(skipped, name):
			return fs.SkipDir
		case entry.IsDir():
			return nil
		case strings.HasSuffix(name, "_test.go"), path.Base(name) == "doc.go":
			return readSource(root, name, found)
		case strings.Contains("/"+name, "/testdata/") || strings.Contains("/"+name, "/cases/"):
			return readCases(root, name, found.add)
		}
		return nil
	})
	return found, err
}

func readSource(root fs.FS, name string, found *findings) error {
	text, err := fs.ReadFile(root, name)
	if err != nil {
		return err
	}
	fset := token.NewFileSet()
	file, err := parser.ParseFile(fset, name, text, parser.SkipObjectResolution|parser.ParseComments)
	if err != nil {
		return err
	}
	readExceptions(fset, file, found)
	if strings.HasSuffix(name, "_test.go") {
		readTests(fset, file, found)
	}
	return nil
}

func readTests(fset *token.FileSet, file *ast.File, found *findings) {
	place := func(at token.Pos, test string) cite {
		position := fset.Position(at)
		return cite{position.Filename, position.Line, test}
	}
	for _, decl := range file.Decls {
		test := ""
		switch decl := decl.(type) {
		case *ast.FuncDecl:
			test = decl.Name.Name
			found.add(place(decl.Pos(), test), inName(test))
			if strings.HasPrefix(test, "Test") || strings.HasPrefix(test, "Fuzz") {
				found.add(place(decl.Pos(), test), inText(decl.Doc.Text()))
				for _, comment := range within(file, decl) {
					found.add(place(comment.Pos(), test), inText(comment.Text()))
				}
			}
		case *ast.GenDecl:
			if len(decl.Specs) > 0 {
				if spec, ok := decl.Specs[0].(*ast.ValueSpec); ok {
					test = spec.Names[0].Name
				}
			}
		}
		ast.Inspect(decl, func(node ast.Node) bool {
			literal, ok := node.(*ast.BasicLit)
			if !ok || literal.Kind != token.STRING {
				return true
			}
			if value, err := strconv.Unquote(literal.Value); err == nil {
				found.add(place(literal.Pos(), test), inText(value))
			}
			return true
		})
	}
}

// within returns the comments inside a function: those say what its next lines show.
func within(file *ast.File, decl *ast.FuncDecl) []*ast.CommentGroup {
	var inside []*ast.CommentGroup
	for _, comment := range file.Comments {
		if decl.Pos() <= comment.Pos() && comment.End() <= decl.End() {
			inside = append(inside, comment)
		}
	}
	return inside
}

func readCases(root fs.FS, name string, add func(cite, []string)) error {
	text, err := fs.ReadFile(root, name)
	if err != nil {
		return err
	}
	base := path.Base(name)
	add(cite{name, 1, base}, inText(strings.ReplaceAll(base, "_", " ")))
	number := 0
	for line := range strings.Lines(string(text)) {
		number++
		if ruleLine.MatchString(line) {
			add(cite{name, number, base}, inText(line))
		}
	}
	return nil
}
