package condition_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/dovetail-sh/dovetail/internal/condition"
	"github.com/dovetail-sh/dovetail/internal/drivers"
)

// sources parses the files of folders of the repository, and of those below them, without tests.
func sources(t *testing.T, dirs ...string) []*ast.File {
	t.Helper()
	var files []*ast.File
	for _, dir := range dirs {
		err := fs.WalkDir(os.DirFS("../.."), dir, func(name string, entry fs.DirEntry, err error) error {
			if err != nil || entry.IsDir() || filepath.Ext(name) != ".go" || strings.HasSuffix(name, "_test.go") {
				return err
			}
			file, err := parser.ParseFile(token.NewFileSet(), filepath.Join("../..", name), nil, parser.ParseComments)
			files = append(files, file)
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	return files
}

func unquote(e ast.Expr) string {
	if lit, ok := e.(*ast.BasicLit); ok && lit.Kind == token.STRING {
		if text, err := strconv.Unquote(lit.Value); err == nil {
			return text
		}
	}
	return ""
}

// constants are the string constants of files whose name, or whose comment, fits.
func constants(files []*ast.File, fits func(name, comment string) bool) map[string]bool {
	found := map[string]bool{}
	for _, file := range files {
		for _, decl := range file.Decls {
			block, ok := decl.(*ast.GenDecl)
			if !ok || block.Tok != token.CONST {
				continue
			}
			for _, spec := range block.Specs {
				values := spec.(*ast.ValueSpec)
				for i, name := range values.Names {
					if i < len(values.Values) && fits(name.Name, block.Doc.Text()+values.Doc.Text()) {
						found[unquote(values.Values[i])] = true
					}
				}
			}
		}
	}
	delete(found, "")
	return found
}

// valuesOf are the string constants of files, by name.
func valuesOf(files []*ast.File) map[string]string {
	values := map[string]string{}
	for _, file := range files {
		for _, decl := range file.Decls {
			block, ok := decl.(*ast.GenDecl)
			if !ok || block.Tok != token.CONST {
				continue
			}
			for _, spec := range block.Specs {
				for i, name := range spec.(*ast.ValueSpec).Names {
					if list := spec.(*ast.ValueSpec).Values; i < len(list) {
						values[name.Name] = unquote(list[i])
					}
				}
			}
		}
	}
	return values
}

// typeName is the last part of a name, such as Change of condition.Change; empty if it is none.
func typeName(e ast.Expr) string {
	switch e := e.(type) {
	case *ast.Ident:
		return e.Name
	case *ast.SelectorExpr:
		return e.Sel.Name
	}
	return ""
}

// Every condition, and every reason that code gives for one, is in the reference with its meaning; and what is there exists.
func TestEveryConditionIsDocumented(t *testing.T) {
	t.Parallel()
	types, reasons := map[string]bool{}, map[string]bool{}
	for _, d := range condition.Docs(drivers.Driver().ConditionDocs()) {
		types[d.Type], reasons[d.Reason] = true, true
		if d.Kind == "" || d.Status == "" || d.Meaning == "" || d.Status == "True" && !strings.Contains(d.Reason, d.Type) && d.Reason[0] != '*' && d.Type != "Rebooting" {
			t.Errorf("%+v: a kind, a status and a meaning are needed, and a true condition has its type as reason", d)
		}
	}
	isType := func(name, _ string) bool { return strings.HasPrefix(name, "Condition") }
	known := constants(sources(t, "api/v1", "api/aws/v1"), isType)
	for name := range known {
		if !types[name] {
			t.Errorf("condition %s is not documented", name)
		}
	}
	for name := range types {
		if !known[name] && name != "*any*" {
			t.Errorf("no condition %s exists", name)
		}
	}
	given := reasonsGiven(t)
	if len(given) < 50 {
		t.Fatalf("only %d reasons found: the search is wrong", len(given))
	}
	for name := range given {
		if !reasons[name] {
			t.Errorf("reason %s is not documented", name)
		}
	}
	for name := range reasons {
		if !given[name] && !known[name] && name[0] != '*' && name != "NodeClassNotReady" { // which is the reason of an event too
			t.Errorf("no condition has reason %s", name)
		}
	}
}

var (
	aboutReasons = regexp.MustCompile(`^Reasons? (of|why a class)|\bis the reason (of|for)|^Reasons that the mechanics`)
	notReasons   = regexp.MustCompile(`waitsForOthers|^ErrorReason`)
)

// reasonsGiven are the constants that their comment calls reasons of conditions, the reasons of errors of the cloud, and
// those of the table of launch failures.
func reasonsGiven(t *testing.T) map[string]bool {
	t.Helper()
	files := sources(t, "internal/cluster", "internal/condition", "internal/controller", "internal/disrupt", "internal/lifecycle", "internal/pool", "internal/reboot", "internal/drain", "internal/aws")
	given := constants(files, func(name, comment string) bool {
		return aboutReasons.MatchString(comment) && !notReasons.MatchString(name)
	})
	values := valuesOf(files)
	for _, file := range files {
		ast.Inspect(file, func(node ast.Node) bool {
			lit, ok := node.(*ast.CompositeLit)
			if !ok {
				return true
			}
			if typeName(lit.Type) == "Change" { // a condition, whatever the comment of its reason says
				for _, element := range lit.Elts {
					if pair, ok := element.(*ast.KeyValueExpr); ok && pair.Key.(*ast.Ident).Name == "Reason" {
						given[unquote(pair.Value)], given[values[typeName(pair.Value)]] = true, true
					}
				}
			}
			if kind, ok := lit.Type.(*ast.SelectorExpr); ok && kind.Sel.Name == "Error" {
				for _, element := range lit.Elts {
					if pair, ok := element.(*ast.KeyValueExpr); ok && pair.Key.(*ast.Ident).Name == "Reason" {
						given[unquote(pair.Value)] = true
					}
				}
			}
			if _, list := lit.Type.(*ast.ArrayType); !list && file.Name.Name == "awserr" && len(lit.Elts) == 3 { // cause{reason, fix, texts}
				given[unquote(lit.Elts[0])] = true
			}
			return true
		})
	}
	delete(given, "")
	return given
}
