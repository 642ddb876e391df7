package arch_test

import (
	"bufio"
	"go/ast"
	"path"
	"regexp"
	"slices"
	"strings"
	"testing"
	"unicode"
)

const (
	maxRequires = 41  // direct requirements of the root module (decision 0013)
	maxLines    = 500 // of a file that people write
	maxNolint   = 0   // directives that silence a linter; lower it when one goes, never raise it
)

// manuals are the packages whose comment is a manual: what they do takes more than a few lines to understand.
var manuals = []string{"internal/solve"}

// Every package has one package comment, in doc.go, of 3 to 12 lines, or 150 to 300 if it is a manual. A command may
// keep it in main.go and be brief: its --help is the manual.
func TestPackagesAreDocumented(t *testing.T) {
	t.Parallel()
	written := map[string]bool{}
	documents := map[string][]*source{}
	for _, file := range repository(t).sources {
		if !file.code() {
			continue
		}
		written[file.dir()] = true
		if file.syntax.Doc == nil {
			continue
		}
		documents[file.dir()] = append(documents[file.dir()], file)
		base := path.Base(file.path)
		if base != "doc.go" && (file.syntax.Name.Name != "main" || base != "main.go") {
			t.Errorf("%s holds the package comment; move it to doc.go", file.path)
		}
		least, most := 3, 12
		if slices.Contains(manuals, file.dir()) {
			least, most = 150, 300
		}
		if lines := docLines(file.syntax.Doc); lines < least && base == "doc.go" || lines > most {
			t.Errorf("%s: the package comment has %d lines, want %d to %d: what is here, what is not, where to enter", file.path, lines, least, most)
		}
	}
	for dir := range written {
		if n := len(documents[dir]); n != 1 {
			t.Errorf("%s has %d package comments, want one in doc.go", dir, n)
		}
	}
}

// docLines counts the lines of a comment, less the markers that generators read.
func docLines(doc *ast.CommentGroup) int {
	lines := 0
	for line := range strings.Lines(strings.TrimRight(doc.Text(), "\n")) {
		if !strings.HasPrefix(line, "+") {
			lines++
		}
	}
	return lines
}

func TestPackageNamesSaySomething(t *testing.T) {
	t.Parallel()
	banned := []string{"util", "utils", "common", "helpers", "misc", "base", "shared", "types", "models"}
	for _, file := range repository(t).sources {
		name := strings.TrimSuffix(file.syntax.Name.Name, "_test")
		if slices.Contains(banned, name) || slices.Contains(banned, path.Base(file.dir())) {
			t.Errorf("%s: package name %s says nothing; name what is inside", file.path, name)
		}
		if strings.Count(file.dir(), "/") > 2 && !file.nested {
			t.Errorf("%s: packages are at most three levels deep", file.path)
		}
	}
}

func TestRootModuleStaysSmall(t *testing.T) {
	t.Parallel()
	mod := readRoot(t, "go.mod")
	direct := 0
	block := ""
	lines := bufio.NewScanner(strings.NewReader(mod))
	for lines.Scan() {
		line := strings.TrimSpace(lines.Text())
		verb, rest, _ := strings.Cut(line, " ")
		switch {
		case line == "" || strings.HasPrefix(line, "//"):
			continue
		case line == ")":
			block = ""
			continue
		case rest == "(":
			block = verb
			continue
		case block != "":
			verb, rest = block, line
		}
		switch {
		case verb == "replace":
			t.Errorf("go.mod replaces %s: `go install` of the binary would ignore it; only sandbox/go.mod may", rest)
		case verb == "require" && !strings.Contains(rest, "// indirect"):
			direct++
		}
		if strings.HasPrefix(rest, "k8s.io/kubernetes ") {
			t.Errorf("go.mod requires k8s.io/kubernetes; it belongs to sandbox/go.mod alone")
		}
	}
	if direct > maxRequires {
		t.Errorf("go.mod has %d direct requirements, at most %d are allowed", direct, maxRequires)
	}
}

// A workspace has one build list: the sandbox would raise the versions that the binary ships with.
func TestNoWorkspace(t *testing.T) {
	t.Parallel()
	for _, name := range repository(t).files {
		if path.Base(name) == "go.work" {
			t.Errorf("%s: workspaces are not committed", name)
		}
	}
}

func TestNolintOnlyFalls(t *testing.T) {
	t.Parallel()
	var found []string
	for _, file := range repository(t).sources {
		for _, group := range file.syntax.Comments {
			for _, comment := range group.List {
				if strings.HasPrefix(comment.Text, "//nolint") {
					found = append(found, repository(t).fset.Position(comment.Pos()).String())
				}
			}
		}
	}
	switch {
	case len(found) > maxNolint:
		t.Errorf("%d nolint directives, at most %d are allowed; mend the code or drop the linter for everyone:\n%s", len(found), maxNolint, strings.Join(found, "\n"))
	case len(found) < maxNolint:
		t.Errorf("%d nolint directives are left: lower maxNolint from %d", len(found), maxNolint)
	}
}

func TestNoMachinePaths(t *testing.T) {
	t.Parallel()
	machine := regexp.MustCompile(`(^|[^\w.\-/}])/(` + strings.Join([]string{"root", "home", "work", "Users"}, "|") + `)/`)
	for _, name := range repository(t).files {
		text := readRoot(t, name)
		if strings.Contains(text[:min(len(text), 8000)], "\x00") {
			continue
		}
		number := 0
		for line := range strings.Lines(text) {
			number++
			if found := machine.FindString(line); found != "" {
				t.Errorf("%s:%d names a path of one machine: %q", name, number, found)
			}
		}
	}
}

// S-002: instances are launched and ended one by one through EC2. The product cannot even speak to Auto
// Scaling, and calls nothing of EKS that is about node groups.
func TestS_002_NoGroupsOfInstances(t *testing.T) {
	t.Parallel()
	group := regexp.MustCompile(`(?i)^(create|update|delete|describe|list)(nodegroup|autoscalinggroup)|^setdesiredcapacity`)
	for _, file := range repository(t).sources {
		if file.nested || !file.code() {
			continue
		}
		for _, spec := range file.syntax.Imports {
			if strings.Contains(spec.Path.Value, "aws-sdk-go-v2/service/autoscaling") {
				t.Errorf("%s imports %s", file.path, spec.Path.Value)
			}
		}
		ast.Inspect(file.syntax, func(node ast.Node) bool {
			if name, ok := node.(*ast.Ident); ok && group.MatchString(name.Name) {
				t.Errorf("%s is about a group of instances: %s", repository(t).fset.Position(name.Pos()), name.Name)
			}
			return true
		})
	}
}

// V15-11: the annotation that tied a NodeClaim to the version of its provider is gone, and so is its group.
func TestV15_11_NoProviderCompatibility(t *testing.T) {
	t.Parallel()
	for _, file := range repository(t).sources {
		if file.test() {
			continue
		}
		ast.Inspect(file.syntax, func(node ast.Node) bool {
			if text, ok := node.(*ast.BasicLit); ok && strings.Contains(text.Value, "compatibility.karpenter.sh") {
				t.Errorf("%s: %s", repository(t).fset.Position(text.Pos()), text.Value)
			}
			return true
		})
	}
}

// CV-02: old API fields, whose Go names begin with Deprecated, are read in the API and in convert and
// nowhere else. All other code reads the effective form.
func TestCV_02_OldFieldsAreReadInOnePlace(t *testing.T) {
	t.Parallel()
	for _, file := range repository(t).sources {
		if !file.code() || file.within("api", "internal/convert") {
			continue
		}
		ast.Inspect(file.syntax, func(node ast.Node) bool {
			var name *ast.Ident
			switch node := node.(type) {
			case *ast.SelectorExpr:
				name = node.Sel
			case *ast.KeyValueExpr:
				name, _ = node.Key.(*ast.Ident)
			}
			if name != nil && oldField(name.Name) {
				t.Errorf("%s uses old field %s; read the effective form", repository(t).fset.Position(name.Pos()), name.Name)
			}
			return true
		})
	}
}

// oldField tells DeprecatedKubelet from Deprecated, a field that libraries have too.
func oldField(name string) bool {
	rest, found := strings.CutPrefix(name, "Deprecated")
	return found && rest != "" && unicode.IsUpper(rune(rest[0]))
}

// gofmt takes two single quotes in the comment of a declaration for a closing double quote, and so
// breaks the CEL rule of a marker. Such a rule has another form: size(self.id) > 0.
func TestMarkersSurviveFormatting(t *testing.T) {
	t.Parallel()
	for _, file := range repository(t).sources {
		for _, decl := range file.syntax.Decls {
			types, ok := decl.(*ast.GenDecl)
			if !ok || types.Doc == nil {
				continue
			}
			for _, comment := range types.Doc.List {
				if strings.HasPrefix(comment.Text, "// +") && (strings.ContainsAny(comment.Text, "“”") || strings.Contains(comment.Text, "''")) {
					t.Errorf("%s: gofmt rewrites '' in this marker; use size(...) > 0", repository(t).fset.Position(comment.Pos()))
				}
			}
		}
	}
}

func TestFilesAreShort(t *testing.T) {
	t.Parallel()
	for _, file := range repository(t).sources {
		if file.code() && file.lines() >= maxLines {
			t.Errorf("%s has %d lines, want fewer than %d: split it by idea", file.path, file.lines(), maxLines)
		}
	}
}
