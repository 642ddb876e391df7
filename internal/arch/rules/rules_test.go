package main

import (
	"bytes"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"slices"
	"strings"
	"testing"
	"testing/fstest"
)

func TestIDs(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		got  []string
		want string
	}{
		"prose, families apart":              {inText("NP-11, LC-07 and G8"), "NP-11 LC-07 G8"},
		"a range":                            {inText("S-075…S-077"), "S-075 S-077 S-075 S-076 S-077"},
		"a section":                          {inText("API-2.2. SC-3.4c"), "API-2.2 SC-3.4c"},
		"part of another word":               {inText("XNP-11 CSC-12"), ""},
		"a name with underscores":            {inName("TestNP_11_RefusesBoth"), "NP-11"},
		"a name without underscores":         {inName("TestNP11RefusesBoth"), "NP-11"},
		"several in a name":                  {inName("TestConvert_CV_02_S_075"), "CV-02 S-075"},
		"a failure mode is no leniency":      {inName("TestFM_L19_Foo_L_03"), "FM-L19 L-03"},
		"the release delta":                  {inName("TestV15_07"), "V15-07"},
		"a word with a digit is no citation": {inName("TestL3CacheAndEC2"), ""},
		"five digits are no citation":        {inName("TestSC12345"), ""},
		"an item of a list":                  {inItem("A04, S-144, E10 to E12"), "S-144 FM-A04 FM-E10 FM-E12 FM-E10 FM-E11 FM-E12"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if got := strings.Join(tc.got, " "); got != tc.want {
				t.Errorf("got %q, want %q", got, tc.want)
			}
		})
	}
}

func TestReportNamesTestsAndGaps(t *testing.T) {
	t.Parallel()
	root := fstest.MapFS{
		"a/a_test.go":            {Data: []byte("package a\nfunc TestNP_01(t *T) {\n\trun(\"L-03 reads old names\")\n}\n")},
		"a/testdata/case.yaml":   {Data: []byte("# rule NP-02\nkind: NodePool\nname: NP-09\n")},
		"a/b_test.go":            {Data: []byte("package a\n\n// NP-05 is elsewhere.\n\n// L-04: on the test.\nfunc TestB(t *T) {\n\t// L-05: in the test.\n}\n")},
		"a/doc.go":               {Data: []byte("// Package a is about NP-04.\npackage a\n\n// What cannot be tested here:\n//\n//   - L-02, B09: it takes\n//     NP-04 hours.\n//   - NP-01: it is tested after all.\n")},
		"a/a.go":                 {Data: []byte("package a // NP-03")},
		"bin/testdata/case.yaml": {Data: []byte("rule: NP-03")},
		"docs/spec/README.md":    {Data: []byte("| Family | File |\n| --- | --- |\n| `NP` | api.md |\n")},
		"docs/spec/api.md":       {Data: []byte(book("NP-01", "NP-03", "NP-04", "NP-05", "L-01", "L-02", "L-04", "L-05"))},
		"docs/spec/faults.md":    {Data: []byte(book("FM-B09") + "| FM-B10 | " + notBuilt + "a thing. |\n")},
	}
	var out bytes.Buffer
	if err := run(&out, root, nil); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		"L-03     a/a_test.go:3 TestNP_01\n",
		"NP-01    a/a_test.go:2 TestNP_01\n",
		"NP-02    a/testdata/case.yaml:1 case.yaml\n",
		"L-04     a/b_test.go:6 TestB\n",
		"L-05     a/b_test.go:7 TestB\n",
		"not testable here:\nFM-B09   a/doc.go:4 it takes NP-04 hours.\nL-02     a/doc.go:4 it takes NP-04 hours.\n\n",
		"FM       0 of 2: \n",
		"not built yet:\nFM-B10   docs/spec/faults.md:4\n\n",
		"L        1 of 4: L-01\n",
		"NP       3 of 4: NP-03 NP-04 NP-05\n",
		"cited but unknown: L-03 NP-02\n",
	} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("the report lacks %q:\n%s", want, out.String())
		}
	}
}

// book is a page of rules whose demands say nothing.
func book(ids ...string) string {
	text := "| Rule | What it demands |\n| --- | --- |\n"
	for _, id := range ids {
		text += "| " + id + " | Demand of " + id + ". |\n"
	}
	return text
}

func TestOneRule(t *testing.T) {
	t.Parallel()
	root := fstest.MapFS{
		"a/a_test.go":      {Data: []byte("package a\nfunc TestNP_01(t *T) {}\n")},
		"docs/spec/api.md": {Data: []byte(book("NP-01", "NP-02"))},
	}
	var out bytes.Buffer
	if err := run(&out, root, []string{"NP-01"}); err != nil {
		t.Fatal(err)
	}
	if want := "NP-01  Demand of NP-01.\n    a/a_test.go:2 TestNP_01\n"; out.String() != want {
		t.Errorf("printed %q, want %q", out.String(), want)
	}
	if err := run(&out, root, []string{"NP-03"}); err == nil || !strings.Contains(err.Error(), "there is no rule NP-03") {
		t.Errorf("a rule that does not exist: %v", err)
	}
	root["docs/spec/b.md"] = &fstest.MapFile{Data: []byte(book("NP-02"))}
	if err := run(&out, root, nil); err == nil || !strings.Contains(err.Error(), "docs/spec/b.md:3: rule NP-02 is also in docs/spec/api.md:4") {
		t.Errorf("a rule that is there twice: %v", err)
	}
}

// repositoryRules are the rule book and the citations of this repository.
func repositoryRules(t *testing.T) ([]rule, *findings) {
	t.Helper()
	root := os.DirFS("../../..")
	book, err := readBook(root)
	if err != nil {
		t.Fatal(err)
	}
	found, err := collect(root)
	if err != nil {
		t.Fatal(err)
	}
	return book, found
}

// mentions returns the rules that comments of all Go files name, for readers.
func mentions(root fs.FS) (map[string][]cite, error) {
	found := map[string][]cite{}
	err := fs.WalkDir(root, ".", func(name string, entry fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case entry.IsDir() && slices.Contains(skipped, name):
			return fs.SkipDir
		case entry.IsDir() || !strings.HasSuffix(name, ".go"):
			return nil
		}
		text, err := fs.ReadFile(root, name)
		if err != nil {
			return err
		}
		fset := token.NewFileSet()
		file, err := parser.ParseFile(fset, name, text, parser.SkipObjectResolution|parser.ParseComments)
		if err != nil {
			return err
		}
		for _, comment := range file.Comments {
			insert(found, cite{file: name, line: fset.Position(comment.Pos()).Line}, inText(comment.Text()))
		}
		return nil
	})
	return found, err
}

// A citation of a rule that does not exist is a misspelling. Comments of code cite rules too.
func TestEveryCitedRuleExists(t *testing.T) {
	t.Parallel()
	book, found := repositoryRules(t)
	mentioned, err := mentions(os.DirFS("../../.."))
	if err != nil {
		t.Fatal(err)
	}
	for _, places := range []map[string][]cite{found.cited, found.excepted, mentioned} {
		for _, id := range unknown(places, book) {
			t.Errorf("%s, cited in %s:%d, is not in %s", id, places[id][0].file, places[id][0].line, bookDir)
		}
	}
	if len(mentioned) < 100 {
		t.Errorf("comments mention %d rules: the test looks at the wrong files", len(mentioned))
	}
}

// Every rule is held by a test, or it is said why none can.
func TestEveryRuleIsTested(t *testing.T) {
	t.Parallel()
	book, found := repositoryRules(t)
	for _, r := range untested(found, book) {
		t.Errorf("%s:%d: no test cites %s, and no list says why none can: %s", r.file, r.line, r.id, r.demand)
	}
	for _, r := range book {
		if strings.HasPrefix(r.demand, notBuilt) && len(found.cited[r.id]) > 0 {
			t.Errorf("%s:%d: %s is not built yet and has a test, %s", r.file, r.line, r.id, found.cited[r.id][0].test)
		}
	}
}
