package main

import (
	"bytes"
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
		"the release delta":                  {inName("TestV15_07"), "V15-07"},
		"a word with a digit is no citation": {inName("TestL3CacheAndEC2"), ""},
		"five digits are no citation":        {inName("TestSC12345"), ""},
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
		"a/a.go":                 {Data: []byte("package a // NP-03")},
		"bin/testdata/case.yaml": {Data: []byte("rule: NP-03")},
		"known.txt":              {Data: []byte(strings.Join([]string{"NP-01", "NP-03", "L-01"}, "\n"))},
	}
	var out bytes.Buffer
	if err := run(&out, root, "known.txt"); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		"L-03     a/a_test.go:3 TestNP_01\n",
		"NP-01    a/a_test.go:2 TestNP_01\n",
		"NP-02    a/testdata/case.yaml:1 case.yaml\n",
		"L        1 of 1: L-01\n",
		"NP       1 of 2: NP-03\n",
		"cited but unknown: L-03 NP-02\n",
	} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("the report lacks %q:\n%s", want, out.String())
		}
	}
}

// A citation of a rule that does not exist is a misspelling.
func TestEveryCitedRuleExists(t *testing.T) {
	t.Parallel()
	root := os.DirFS("../../..")
	cited, err := collect(root)
	if err != nil {
		t.Fatal(err)
	}
	known, err := os.ReadFile("../../../compat/rules.txt")
	if err != nil {
		t.Fatal(err)
	}
	list := strings.Fields(string(known))
	for _, id := range unknown(cited, list) {
		t.Errorf("%s, cited in %s, is not in compat/rules.txt", id, cited[id][0].file)
	}
	if !slices.IsSortedFunc(list, compareIDs) {
		t.Error("compat/rules.txt is not in order")
	}
}
