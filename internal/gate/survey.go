package main

import (
	"cmp"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"maps"
	"path"
	"slices"
	"strconv"
	"strings"
)

// A goPackage is what the sources of a package say that matters for how it is tested.
type goPackage struct {
	dir        string // from the root of the repository
	module     string // the directory of its module; "." is the root
	code       bool   // it has more than tests and a doc.go
	tests      bool
	starts     bool            // its code starts goroutines
	concurrent bool            // see isConcurrent; also true for packages whose code or tests use one which starts goroutines
	imports    map[string]bool // true for those of its code, false for those of its tests alone
	fuzz       []string        // names of fuzz targets
	properties []string        // names of the tests in files that use rapid
	weight     int             // bytes of tests: an estimate of how long they take, without a measurement
}

// A survey is every package of the repository, by directory.
type survey []goPackage

// readSurvey parses all Go files. It does not run the go command, which would resolve every dependency
// of every module and take longer than many a step.
func readSurvey(root fs.FS) (survey, error) {
	found := map[string]*goPackage{}
	modules := map[string]bool{}
	err := fs.WalkDir(root, ".", func(name string, entry fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case entry.IsDir() && notOurs(name):
			return fs.SkipDir
		case entry.IsDir():
			return nil
		case path.Base(name) == "go.mod":
			modules[path.Dir(name)] = true
		case strings.HasSuffix(name, ".go"):
			text, err := fs.ReadFile(root, name)
			if err != nil {
				return err
			}
			// What does not parse is reported by the compiler, in its step.
			file, _ := parser.ParseFile(token.NewFileSet(), name, text, parser.SkipObjectResolution)
			p := found[path.Dir(name)]
			if p == nil {
				p = &goPackage{dir: path.Dir(name), imports: map[string]bool{}}
				found[p.dir] = p
			}
			p.addFile(file, strings.HasSuffix(name, "_test.go"))
			if strings.HasSuffix(name, "_test.go") {
				p.weight += len(text)
			}
		}
		return nil
	})
	var all survey
	for _, dir := range slices.Sorted(maps.Keys(found)) {
		p := found[dir]
		p.module = moduleOf(dir, modules)
		for name := range p.imports {
			if used := found[strings.TrimPrefix(name, module+"/")]; p.code && used != nil && used.starts {
				p.concurrent = true
			}
		}
		all = append(all, *p)
	}
	return all, err
}

// notOurs are directories with build output, data of tests, or files of other tools.
func notOurs(name string) bool {
	base := path.Base(name)
	return name == "bin" || name == "dist" || base == "testdata" || base == "node_modules" || len(base) > 1 && base[0] == '.'
}

func moduleOf(dir string, modules map[string]bool) string {
	for ; dir != "."; dir = path.Dir(dir) {
		if modules[dir] {
			return dir
		}
	}
	return "."
}

func (p *goPackage) addFile(file *ast.File, test bool) {
	p.tests = p.tests || test
	p.code = p.code || !test && len(file.Decls) > 0
	for _, spec := range file.Imports {
		if name, err := strconv.Unquote(spec.Path.Value); err == nil {
			p.imports[name] = p.imports[name] || !test
		}
	}
	starts, guards := isConcurrent(file)
	p.starts = p.starts || starts && !test
	p.concurrent = p.concurrent || starts || guards
	if !test {
		return
	}
	rapid := slices.ContainsFunc(file.Imports, func(spec *ast.ImportSpec) bool { return spec.Path.Value == `"pgregory.net/rapid"` })
	for _, decl := range file.Decls {
		f, ok := decl.(*ast.FuncDecl)
		switch {
		case !ok || f.Recv != nil:
		case strings.HasPrefix(f.Name.Name, "Fuzz"):
			p.fuzz = append(p.fuzz, f.Name.Name)
		case strings.HasPrefix(f.Name.Name, "Test") && f.Name.Name != "TestMain" && rapid:
			p.properties = append(p.properties, f.Name.Name)
		}
	}
}

var memoization = []string{"OnceFunc", "OnceValue", "OnceValues"}

// isConcurrent says whether a file starts goroutines, by a go statement or a call of a method Go, or guards
// what they share: it uses sync/atomic, or anything of sync but sync.OnceFunc, sync.OnceValue and
// sync.OnceValues, which hold a value that is computed when it is first requested. Tests that run in
// parallel with each other are no reason: what they share, they only read.
func isConcurrent(file *ast.File) (starts, guards bool) {
	guards = slices.ContainsFunc(file.Imports, func(spec *ast.ImportSpec) bool { return spec.Path.Value == `"sync/atomic"` })
	ast.Inspect(file, func(node ast.Node) bool {
		switch node := node.(type) {
		case *ast.GoStmt:
			starts = true
		case *ast.CallExpr:
			if called, ok := node.Fun.(*ast.SelectorExpr); ok && called.Sel.Name == "Go" {
				starts = true
			}
		case *ast.SelectorExpr:
			if from, ok := node.X.(*ast.Ident); ok && from.Name == "sync" && !slices.Contains(memoization, node.Sel.Name) {
				guards = true
			}
		}
		return true
	})
	return starts, guards
}

// pattern names the package for the go command, run in the directory of its module.
func (p *goPackage) pattern() string {
	if p.module == "." {
		return "./" + p.dir
	}
	return "." + strings.TrimPrefix(p.dir, p.module)
}

// patternsWhere returns the patterns of the packages with tests that a rule holds for, the heaviest first: the go
// command starts them in this order, and a long one that comes last runs alone.
func (s survey) patternsWhere(module string, rule func(goPackage) bool) patterns {
	var found []goPackage
	for _, p := range s {
		if p.module == module && p.tests && rule(p) {
			found = append(found, p)
		}
	}
	slices.SortStableFunc(found, func(a, b goPackage) int { return cmp.Compare(b.weight, a.weight) })
	var list patterns
	for _, p := range found {
		list = append(list, p.pattern())
	}
	return list
}

// reaching returns the directories of the packages whose tests are linked with something: they, their
// tests or packages of ours that they use import it.
func (s survey) reaching(is func(importPath string) bool) map[string]bool {
	reach := func(p goPackage, code map[string]bool, tests bool) bool {
		for name, byCode := range p.imports {
			if dir, ours := strings.CutPrefix(name, module+"/"); (byCode || tests) && (is(name) || ours && code[dir]) {
				return true
			}
		}
		return false
	}
	code := map[string]bool{}
	for grown := true; grown; {
		grown = false
		for _, p := range s {
			if !code[p.dir] && reach(p, code, false) {
				code[p.dir], grown = true, true
			}
		}
	}
	linked := map[string]bool{}
	for _, p := range s {
		linked[p.dir] = reach(p, code, true)
	}
	return linked
}
