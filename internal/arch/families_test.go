package arch_test

import (
	"go/ast"
	"go/token"
	"strconv"
	"strings"
	"testing"

	"github.com/dovetail-sh/dovetail/internal/aws/ami"
)

// What differs between AMI families is a field of ami.Family. Code elsewhere that names a family would be
// another place to think of when one is added, so none does, but where a family is the answer and not the
// question: each such place is listed with its reason.
func TestFamiliesAreDistinguishedInOnePlace(t *testing.T) {
	t.Parallel()
	mayName := map[string]string{
		"api/aws/v1 FamilyCustom":                   "CV-10: the family of a class that names none and selects images by terms",
		`internal/check/classes "Bottlerocket"`:     "a value that tests change spec.amiFamily to",
		`internal/check/classes "al2023@v20250101"`: "a value that tests change an alias to",
		`api/aws/v1 "windows"`:                      "a value of kubernetes.io/os",
		"internal/convert awsv1.FamilyAL2":          "the default of v1alpha5, whatever is the default today",
	}
	names := map[string]bool{"windows": true} // a prefix of three
	for _, f := range ami.All() {
		names[strings.ToLower(f.Name)] = true
	}
	used := map[string]bool{}
	for _, file := range repository(t).sources {
		if file.nested || !file.code() || file.dir() == "internal/aws/ami" {
			continue
		}
		for _, named := range familyNames(file.syntax, names) {
			place := file.dir() + " " + named.text
			if used[place] = true; mayName[place] == "" {
				t.Errorf("%s names an AMI family: %s; make what depends on it a field of ami.Family", repository(t).fset.Position(named.at), named.text)
			}
		}
	}
	for place, why := range mayName {
		if !used[place] {
			t.Errorf("%s is gone (%s): take it out of the list", place, why)
		}
	}
}

// mention is a place in code that names a family.
type mention struct {
	text string
	at   token.Pos
}

// familyNames finds the constants of the API and of the table, and texts that are the name or the alias of a
// family, with or without a version. The declaration of a constant does not count.
func familyNames(file *ast.File, names map[string]bool) []mention {
	var list []mention
	ast.Inspect(file, func(node ast.Node) bool {
		switch node := node.(type) {
		case *ast.ValueSpec:
			return !familyConstants(node, names)
		case *ast.SelectorExpr:
			of, _ := node.X.(*ast.Ident)
			constant := of != nil && (of.Name == "awsv1" && familyConstant(node.Sel.Name, names) || of.Name == "ami" && names[strings.ToLower(node.Sel.Name)])
			if constant {
				list = append(list, mention{of.Name + "." + node.Sel.Name, node.Pos()})
			}
			return !constant
		case *ast.Ident:
			if file.Name.Name == "v1" && familyConstant(node.Name, names) {
				list = append(list, mention{node.Name, node.Pos()})
			}
		case *ast.BasicLit:
			text, err := strconv.Unquote(node.Value)
			name, _, _ := strings.Cut(text, "@")
			if err == nil && names[strings.ToLower(name)] {
				list = append(list, mention{node.Value, node.Pos()})
			}
		}
		return true
	})
	return list
}

// familyConstants reports whether a declaration gives the names of the table to constants of the API.
func familyConstants(spec *ast.ValueSpec, names map[string]bool) bool {
	if len(spec.Names) != 1 || len(spec.Values) != 1 {
		return false
	}
	value, isName := spec.Values[0].(*ast.SelectorExpr)
	return isName && familyConstant(spec.Names[0].Name, names) && value.Sel.Name == strings.TrimPrefix(spec.Names[0].Name, "Family")
}

func familyConstant(name string, names map[string]bool) bool {
	family, found := strings.CutPrefix(name, "Family")
	return found && names[strings.ToLower(family)]
}
