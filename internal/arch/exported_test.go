package arch_test

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"slices"
	"testing"
)

// forTests are packages that only tests import: what they export, and what they use, is for tests.
var forTests = []string{
	"internal/admission/cases", "internal/arch/...", "internal/check/classes", "internal/check/random", "internal/cloud/cloudtest", "internal/cloud/conformance", "internal/console/browser",
	"internal/controller/controllertest", "internal/determinism", "internal/script", "internal/seed", "internal/sim", "internal/snapshot/snapshottest",
}

// implicit are methods that only libraries call.
var implicit = []string{
	"Describe", "LocalAddr", "MarshalJSON", "MarshalLogObject", "NeedLeaderElection", "SetDeadline", "SetReadDeadline", "SetWriteDeadline", "Sync",
}

// An exported name is for other packages of the program, or at least for its own: one that only tests use is unexported, and a field
// that only tests set is what production sets, too, or is not there. Names are compared without their types, so that one with a
// namesake may go unnoticed.
func TestNothingIsExportedForTests(t *testing.T) {
	t.Parallel()
	names := map[string]*occurrences{}
	for _, file := range repository(t).sources {
		countNames(file, names)
	}
	known := map[string]bool{} // methods of interfaces, which are called by them
	for _, file := range repository(t).sources {
		ast.Inspect(file.syntax, func(n ast.Node) bool {
			if of, ok := n.(*ast.InterfaceType); ok {
				for _, m := range of.Methods.List {
					for _, name := range m.Names {
						known[name.Name] = true
					}
				}
			}
			return true
		})
	}
	for _, file := range repository(t).sources {
		if file.nested || !file.code() || !file.within("internal") || matches(forTests, file.dir()) {
			continue
		}
		for _, d := range exportedOf(file.syntax) {
			n := names[d.name.Name]
			if n == nil {
				n = &occurrences{}
			}
			switch at := repository(t).fset.Position(d.name.Pos()); {
			case d.method && (known[d.name.Name] || slices.Contains(implicit, d.name.Name)):
			case d.field && n.set == 0 && n.setByTests > 0:
				t.Errorf("%s: field %s is set by tests alone; have production set it, or tests set an unexported one", at, d.name.Name)
			case !d.field && n.used == 0 && n.usedByTests > 0:
				t.Errorf("%s: %s is used by tests alone; unexport it or remove it", at, d.name.Name)
			case !d.field && n.used == 0:
				t.Errorf("%s: nobody uses %s", at, d.name.Name)
			}
		}
	}
}

// The test itself notices what it is about.
func TestNamesForTestsAreNoticed(t *testing.T) {
	t.Parallel()
	names := map[string]*occurrences{}
	countNames(parsed(t, "internal/a/a.go", `package a
		type Options struct{ Plain, Nested, Tested int }
		func (o *Options) Used() int { return o.Tested }
		func Unused() { (&Options{}).Used() }`), names)
	countNames(parsed(t, "internal/b/b.go", `package b
		func f(o *a.Options) { o.Plain++; g(&o.Nested.Inner) }`), names)
	countNames(parsed(t, "internal/a/a_test.go", `package a
		func TestUnused(*testing.T) { Unused(); _ = Options{Tested: 1} }`), names)
	want := map[string]string{"Plain": "1 0", "Nested": "1 0", "Tested": "0 1", "Used": "used", "Unused": "tests"}
	// any order: each is judged by itself
	for name, expected := range want {
		n := names[name]
		got := fmt.Sprint(n.set, " ", n.setByTests)
		switch {
		case expected == "used" && n.used > 0, expected == "tests" && n.used == 0 && n.usedByTests > 0:
			got = expected
		}
		if got != expected {
			t.Errorf("%s: %q (%+v), want %q", name, got, *n, expected)
		}
	}
}

func parsed(t *testing.T, path, text string) *source {
	t.Helper()
	syntax, err := parser.ParseFile(token.NewFileSet(), path, text, parser.SkipObjectResolution)
	if err != nil {
		t.Fatal(err)
	}
	return &source{path: path, syntax: syntax}
}

// occurrences counts where a name stands, beside its declarations.
type occurrences struct {
	used, usedByTests int
	set, setByTests   int
}

func countNames(file *source, into map[string]*occurrences) {
	tests := file.test() || matches(forTests, file.dir())
	declared, set := map[*ast.Ident]bool{}, map[*ast.Ident]bool{}
	ast.Inspect(file.syntax, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.FuncDecl:
			declared[n.Name] = true
		case *ast.TypeSpec:
			declared[n.Name] = true
		case *ast.ValueSpec:
			for _, name := range n.Names {
				declared[name] = true
			}
		case *ast.Field:
			for _, name := range n.Names {
				declared[name] = true
			}
		case *ast.KeyValueExpr:
			if name, ok := n.Key.(*ast.Ident); ok {
				set[name] = true
			}
		case *ast.AssignStmt:
			for _, e := range n.Lhs {
				markSet(e, set)
			}
		case *ast.IncDecStmt:
			markSet(n.X, set)
		case *ast.RangeStmt:
			markSet(n.Key, set)
			markSet(n.Value, set)
		case *ast.UnaryExpr:
			if n.Op == token.AND {
				markSet(n.X, set)
			}
		}
		return true
	})
	ast.Inspect(file.syntax, func(n ast.Node) bool {
		name, ok := n.(*ast.Ident)
		if !ok || !name.IsExported() || declared[name] {
			return true
		}
		o := into[name.Name]
		if o == nil {
			o = &occurrences{}
			into[name.Name] = o
		}
		switch {
		case tests && set[name]:
			o.usedByTests++
			o.setByTests++
		case tests:
			o.usedByTests++
		case set[name]:
			o.used++
			o.set++
		default:
			o.used++
		}
		return true
	})
}

// markSet marks the fields that an assignment to an expression, or to what it points at, changes.
func markSet(e ast.Expr, set map[*ast.Ident]bool) {
	for {
		switch x := e.(type) {
		case *ast.SelectorExpr:
			set[x.Sel] = true
			e = x.X
		case *ast.IndexExpr:
			e = x.X
		case *ast.ParenExpr:
			e = x.X
		case *ast.StarExpr:
			e = x.X
		default:
			return
		}
	}
}

// declaration is an exported name.
type declaration struct {
	name          *ast.Ident
	method, field bool
}

// exportedOf lists the exported names that a file declares. Fields with tags are set by encoders.
func exportedOf(file *ast.File) (out []declaration) {
	add := func(d declaration) {
		if d.name.IsExported() {
			out = append(out, d)
		}
	}
	for _, d := range file.Decls {
		switch d := d.(type) {
		case *ast.FuncDecl:
			add(declaration{name: d.Name, method: d.Recv != nil})
		case *ast.GenDecl:
			for _, spec := range d.Specs {
				switch spec := spec.(type) {
				case *ast.ValueSpec:
					for _, name := range spec.Names {
						add(declaration{name: name})
					}
				case *ast.TypeSpec:
					add(declaration{name: spec.Name})
					of, ok := spec.Type.(*ast.StructType)
					if !ok || !spec.Name.IsExported() {
						continue
					}
					for _, field := range of.Fields.List {
						for _, name := range field.Names {
							if field.Tag == nil {
								add(declaration{name: name, field: true})
							}
						}
					}
				}
			}
		}
	}
	return out
}
