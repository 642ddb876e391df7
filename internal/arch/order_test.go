package arch_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"go/ast"
	"go/importer"
	"go/parser"
	"go/token"
	"go/types"
	"io"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// anyOrder starts the comment of a loop over a map whose order does not matter for a reason that the test below
// does not see: on the line of the loop or the one before, with the reason after it.
const anyOrder = "// any order: "

// What users read, and what is requested of the cloud, never depends on the order of a map. Each loop over one is
// obviously independent of its order (see independent), or says in a comment why it is.
func TestOrderOfMapsDoesNotMatter(t *testing.T) {
	t.Parallel()
	tree := repository(t)
	packages := map[string][]*source{}
	for _, file := range tree.sources {
		if file.within("api", "internal", "cmd") && !file.test() {
			packages[file.dir()] = append(packages[file.dir()], file)
		}
	}
	built := goList(t, "./api/...", "./internal/...", "./cmd/...")
	from := importer.ForCompiler(tree.fset, "gc", built.open)
	loops := 0
	for dir, files := range packages {
		var syntax []*ast.File
		for _, file := range files {
			if slices.Contains(built.files[module+"/"+dir], path.Base(file.path)) {
				syntax = append(syntax, file.syntax)
			}
		}
		info := &types.Info{Types: map[ast.Expr]types.TypeAndValue{}, Defs: map[*ast.Ident]types.Object{}, Uses: map[*ast.Ident]types.Object{}}
		if _, err := (&types.Config{Importer: from}).Check(module+"/"+dir, tree.fset, syntax, info); err != nil {
			t.Errorf("%s: %v", dir, err)
			continue
		}
		for _, file := range files {
			if slices.Contains(syntax, file.syntax) && !file.generated {
				found, all := unordered(tree.fset, info, file.syntax)
				loops += all
				for _, text := range found {
					t.Error(text)
				}
			}
		}
	}
	if loops < 200 {
		t.Errorf("%d loops over maps were found: the test looks at the wrong files", loops)
	}
}

// built is what the go command knows about packages.
type built struct {
	files  map[string][]string // of a package, for this platform
	export map[string]string   // file with the types of a package
}

func (b built) open(name string) (io.ReadCloser, error) {
	if b.export[name] == "" {
		return nil, errors.New("not compiled")
	}
	return os.Open(b.export[name])
}

// goList has the go command compile what packages need, which it mostly has already: to read types from source
// would take minutes.
func goList(t *testing.T, patterns ...string) built {
	t.Helper()
	command := exec.CommandContext(t.Context(), "go", append([]string{"list", "-export", "-deps", "-json=ImportPath,Export,GoFiles"}, patterns...)...)
	command.Dir, command.Stderr = filepath.Join("..", ".."), os.Stderr
	out, err := command.Output()
	if err != nil {
		t.Fatalf("%s: %v", command, err)
	}
	b := built{files: map[string][]string{}, export: map[string]string{}}
	for decoder := json.NewDecoder(strings.NewReader(string(out))); ; {
		var one struct {
			ImportPath, Export string
			GoFiles            []string
		}
		if err := decoder.Decode(&one); errors.Is(err, io.EOF) {
			return b
		} else if err != nil {
			t.Fatal(err)
		}
		b.files[one.ImportPath], b.export[one.ImportPath] = one.GoFiles, one.Export
	}
}

// unordered returns what is wrong with a file, and how many loops over maps it has.
func unordered(fset *token.FileSet, info *types.Info, file *ast.File) (found []string, loops int) {
	comments := map[int]string{} // by line
	for _, group := range file.Comments {
		for _, c := range group.List {
			if strings.HasPrefix(c.Text, strings.TrimSpace(anyOrder)) {
				comments[fset.Position(c.Pos()).Line] = c.Text
			}
		}
	}
	used := map[int]bool{}
	ast.PreorderStack(file, nil, func(n ast.Node, above []ast.Node) bool {
		what := ""
		switch n := n.(type) {
		case *ast.RangeStmt:
			if t := info.TypeOf(n.X); t == nil || !isMap(t) {
				return true
			}
			if loops++; !independent(info, n, above) {
				what = "a loop over map " + types.ExprString(n.X) + " that may depend on its order"
			}
		case *ast.CallExpr:
			if !listsMap(info, n) || sorts(info, above) {
				return true
			}
			what = types.ExprString(n.Fun) + " without sorting"
		default:
			return true
		}
		at := fset.Position(n.Pos())
		line := at.Line
		if comments[line] == "" {
			line--
		}
		used[line] = true
		switch reason, _ := strings.CutPrefix(comments[line], anyOrder); {
		case what == "":
		case comments[line] == "":
			found = append(found, fmt.Sprintf("%s:%d: %s; sort the keys first, or say on the line before: %swhy it does not matter", at.Filename, at.Line, what, anyOrder))
		case len(reason) < len("why it so"):
			found = append(found, fmt.Sprintf("%s:%d: %q gives no reason", at.Filename, at.Line, comments[line]))
		}
		return true
	})
	for line := range comments {
		if !used[line] {
			found = append(found, fmt.Sprintf("%s:%d: %q belongs to no loop over a map", fset.Position(file.Pos()).Filename, line, comments[line]))
		}
	}
	slices.Sort(found)
	return found, loops
}

func isMap(t types.Type) bool {
	_, is := t.Underlying().(*types.Map)
	return is
}

// listsMap reports whether a call gives what is in a map in the order of the map.
func listsMap(info *types.Info, call *ast.CallExpr) bool {
	switch full := calledFunc(info, call); full {
	case "maps.Keys", "maps.Values", "maps.All", "(reflect.Value).MapKeys", "(reflect.Value).MapRange", "(reflect.Value).Seq2", "(*sync.Map).Range":
		return true
	default:
		return strings.HasSuffix(full, ".UnsortedList")
	}
}

// sorts reports whether a call is the argument of one that sorts, or whose result has no order either.
func sorts(info *types.Info, above []ast.Node) bool {
	if len(above) == 0 {
		return false
	}
	call, is := above[len(above)-1].(*ast.CallExpr)
	if !is {
		return false
	}
	switch calledFunc(info, call) {
	case "slices.Sorted", "slices.SortedFunc", "maps.Collect", "maps.Insert":
		return true
	}
	return false
}

// calledFunc is the full name of what is called, "" for what is no function.
func calledFunc(info *types.Info, call *ast.CallExpr) string {
	fun := ast.Unparen(call.Fun)
	if index, is := fun.(*ast.IndexExpr); is {
		fun = index.X
	}
	var name *ast.Ident
	switch fun := fun.(type) {
	case *ast.Ident:
		name = fun
	case *ast.SelectorExpr:
		name = fun.Sel
	default:
		return ""
	}
	switch object := info.Uses[name].(type) {
	case *types.Func:
		return object.FullName()
	case *types.Builtin:
		return object.Name()
	}
	return ""
}

// The recogniser at work: what it lets pass, what has to be commented, and which comments do not count.
func TestUnorderedLoopsAreSeen(t *testing.T) {
	t.Parallel()
	library := goList(t, "maps", "slices")
	for name, tc := range map[string]struct {
		body string
		want string // part of what is found; "": nothing
	}{
		"an error for any of the keys":     {body: "for k := range m { if k < 0 { return k } }", want: "map m that may depend on its order"},
		"a text":                           {body: "text := \"\"\nfor _, v := range m { text += v }\n_ = text", want: "may depend"},
		"a sum of fractions":               {body: "sum := 0.0\nfor k := range m { sum += float64(k) }\n_ = sum", want: "may depend"},
		"any of the keys":                  {body: "first := 0\nfor k := range m { first = k; break }\n_ = first", want: "may depend"},
		"a list":                           {body: "var l []int\nfor k := range m { l = append(l, k) }\n_ = l", want: "may depend"},
		"a list that was sorted before":    {body: "var l []int\nslices.Sort(l)\nfor k := range m { l = append(l, k) }\n_ = l", want: "may depend"},
		"another list is sorted":           {body: "var l, o []int\nfor k := range m { l = append(l, k) }\nslices.Sort(o)\n_ = l", want: "may depend"},
		"sorted, ties as they come":        {body: "var l []int\nfor k := range m { l = append(l, k) }\nslices.SortStableFunc(l, func(int, int) int { return 0 })", want: "may depend"},
		"a list in a map":                  {body: "o := map[string][]int{}\nfor k, v := range m { o[v] = append(o[v], k) }", want: "may depend"},
		"the last of several":              {body: "o := map[string]int{}\nfor k, v := range m { o[v] = k }", want: "may depend"},
		"so many and no more":              {body: "o := map[int]bool{}\nfor k := range m { if len(o) < 5 { o[k] = true } }", want: "may depend"},
		"until a sum is reached":           {body: "n := 0\nfor k := range m { if n < 5 { n += k } }", want: "may depend"},
		"a boolean by the last":            {body: "b := false\nfor k := range m { if k > 0 { b = true } else { b = false } }\n_ = b", want: "may depend"},
		"a boolean by a value":             {body: "b := false\nfor k := range m { b = k > 0 }\n_ = b", want: "may depend"},
		"two answers":                      {body: "for k := range m { if k > 0 { return 1 }; return 0 }", want: "may depend"},
		"a count and an end":               {body: "n := 0\nfor k := range m { n++; if k > 0 { return 1 } }\n_ = n", want: "may depend"},
		"an effect":                        {body: "for k := range m { println(k) }", want: "may depend"},
		"an effect of a method":            {body: "var l list\nfor k := range m { l.add(k) }", want: "may depend"},
		"a closure":                        {body: "for k := range m { func() { _ = k }() }", want: "may depend"},
		"a goroutine":                      {body: "for k := range m { go println(k) }", want: "may depend"},
		"a loop inside":                    {body: "text := \"\"\nfor _, v := range m { for range 2 { text = v } }\n_ = text", want: "may depend"},
		"a map of a named type":            {body: "for k := range named(m) { println(k) }", want: "named(m) that may depend"},
		"keys as they come":                {body: "_ = slices.Collect(maps.Keys(m))", want: "maps.Keys without sorting"},
		"values in a loop":                 {body: "for v := range maps.Values(m) { println(v) }", want: "maps.Values without sorting"},
		"a comment without a reason":       {body: "// any order: \nfor k := range m { println(k) }", want: "gives no reason"},
		"a comment that is not this":       {body: "// in any order\nfor k := range m { println(k) }", want: "may depend"},
		"a comment too far above":          {body: "// any order: it is only printed\n\nfor k := range m { println(k) }", want: "may depend"},
		"a comment without a loop":         {body: "// any order: of what?\nprintln(m)", want: "belongs to no loop"},
		"a comment says why":               {body: "// any order: it is only printed\nfor k := range m { println(k) }"},
		"a comment on the same line":       {body: "for k := range m { // any order: it is only printed\nprintln(k) }"},
		"keys with a comment":              {body: "// any order: a set is made of it\n_ = slices.Collect(maps.Keys(m))"},
		"a slice":                          {body: "for k := range []int{1} { println(k) }"},
		"sorted keys":                      {body: "for _, k := range slices.Sorted(maps.Keys(m)) { println(k) }"},
		"a set":                            {body: "o := map[string]bool{}\nfor k, v := range m { if k > 0 { o[v] = true } }"},
		"another map, key by key":          {body: "o := map[int]string{}\nfor k, v := range m { if o[k] == \"\" { o[k] = v + \"x\" } }"},
		"deleted":                          {body: "for k := range m { if k > 0 { delete(m, k) } }"},
		"counted":                          {body: "n := 0\nfor k := range m { if k > 0 { n++; continue }; n += 2 * k }\n_ = n"},
		"counted by value":                 {body: "o := map[string]int{}\nfor k, v := range m { o[v] += k }"},
		"the largest":                      {body: "n := 0\nfor k := range m { n = max(n, k) }\n_ = n"},
		"whether there is one":             {body: "found := false\nfor k := range m { if k > 0 { found = true; break } }\n_ = found"},
		"whether one or another":           {body: "b := false\nfor k := range m { b = b || k > 0 }\n_ = b"},
		"the same answer for any":          {body: "for k := range m { switch { case k > 3: return 1; case k < 0: return 1 } }"},
		"sorted afterwards":                {body: "var l []int\nfor k := range m { l = append(l, k) }\nslices.Sort(l)"},
		"sorted by a function":             {body: "var l []int\nfor k := range m { one := k; one++; l = append(l, one) }\nslices.SortFunc(l, func(a, b int) int { return a - b })"},
		"a structure of its own is filled": {body: "o := map[int]list{}\nfor k := range m { var l list; l.n = k; o[k] = l }"},
		"a loop inside that only counts":   {body: "n := 0\nfor _, v := range m { for i := range v { n += i } }\n_ = n"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			fset := token.NewFileSet()
			text := "package p\nimport (\"maps\"; \"slices\")\ntype named map[int]string\ntype list struct{ n int }\nfunc (l *list) add(int) {}\n" +
				"var _, _ = maps.Keys[named], slices.Sort[[]int]\nfunc f(m map[int]string) int {\n" + tc.body + "\nreturn 0\n}\n"
			file, err := parser.ParseFile(fset, "p.go", text, parser.ParseComments|parser.SkipObjectResolution)
			if err != nil {
				t.Fatal(err)
			}
			info := &types.Info{Types: map[ast.Expr]types.TypeAndValue{}, Defs: map[*ast.Ident]types.Object{}, Uses: map[*ast.Ident]types.Object{}}
			if _, err := (&types.Config{Importer: importer.ForCompiler(fset, "gc", library.open)}).Check("p", fset, []*ast.File{file}, info); err != nil {
				t.Fatal(err)
			}
			found, _ := unordered(fset, info, file)
			if got := strings.Join(found, "\n"); tc.want == "" && got != "" || !strings.Contains(got, tc.want) {
				t.Errorf("found %q, want %q", got, tc.want)
			}
		})
	}
}
