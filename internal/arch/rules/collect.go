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

// collect reads every test file and every case file below root.
func collect(root fs.FS) (map[string][]cite, error) {
	cited := map[string][]cite{}
	add := func(c cite, ids []string) {
		for _, id := range ids {
			same := func(o cite) bool { return o.file == c.file && o.test == c.test }
			if !slices.ContainsFunc(cited[id], same) {
				cited[id] = append(cited[id], c)
			}
		}
	}
	err := fs.WalkDir(root, ".", func(name string, entry fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case entry.IsDir() && slices.Contains(skipped, name):
			return fs.SkipDir
		case entry.IsDir():
			return nil
		case strings.HasSuffix(name, "_test.go"):
			return readTests(root, name, add)
		case strings.Contains("/"+name, "/testdata/") || strings.Contains("/"+name, "/cases/"):
			return readCases(root, name, add)
		}
		return nil
	})
	return cited, err
}

func readTests(root fs.FS, name string, add func(cite, []string)) error {
	text, err := fs.ReadFile(root, name)
	if err != nil {
		return err
	}
	fset := token.NewFileSet()
	file, err := parser.ParseFile(fset, name, text, parser.SkipObjectResolution|parser.ParseComments)
	if err != nil {
		return err
	}
	for _, decl := range file.Decls {
		test := ""
		switch decl := decl.(type) {
		case *ast.FuncDecl:
			test = decl.Name.Name
			at := cite{name, fset.Position(decl.Pos()).Line, test}
			add(at, inName(test))
			if strings.HasPrefix(test, "Test") || strings.HasPrefix(test, "Fuzz") {
				add(at, inText(decl.Doc.Text()))
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
				add(cite{name, fset.Position(literal.Pos()).Line, test}, inText(value))
			}
			return true
		})
	}
	return nil
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
