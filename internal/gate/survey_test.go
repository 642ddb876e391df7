package main

import (
	"testing"
	"testing/fstest"

	"github.com/google/go-cmp/cmp"
)

func sources(files map[string]string) fstest.MapFS {
	tree := fstest.MapFS{}
	for name, text := range files {
		tree[name] = &fstest.MapFile{Data: []byte(text)}
	}
	return tree
}

func TestIsConcurrent(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		text string
		want bool
	}{
		"a go statement":               {"func f() { go f() }", true},
		"a group that starts them":     {"func f() { group.Go(f) }", true},
		"a mutex":                      {`import "sync"; var mu sync.Mutex`, true},
		"an atomic value":              {`import "sync/atomic"; var n atomic.Int64`, true},
		"a value computed once":        {`import "sync"; var once = sync.OnceValue(f)`, false},
		"tests in parallel":            {`import "testing"; func TestX(t *testing.T) { t.Parallel() }`, false},
		"a function that is called Go": {"func f() { Go() }", false},
		"nothing of the kind":          {"func f() int { return 1 }", false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			all, err := readSurvey(sources(map[string]string{"internal/x/x_test.go": "package x\n" + tc.text}))
			if err != nil || len(all) != 1 {
				t.Fatal(all, err)
			}
			if all[0].concurrent != tc.want {
				t.Errorf("concurrent = %v, want %v", all[0].concurrent, tc.want)
			}
		})
	}
}

// A package that calls code with goroutines shares its data with them. One that consists of tests has no data.
func TestUsersOfGoroutinesAreConcurrent(t *testing.T) {
	t.Parallel()
	uses := "import \"" + module + "/internal/"
	all, err := readSurvey(sources(map[string]string{
		"internal/works/works.go":      "package works\nfunc f() { go f() }",
		"internal/guards/guards.go":    "package guards\nimport \"sync\"\nvar mu sync.Mutex",
		"internal/tests/tests_test.go": "package tests\nfunc f() { go f() }",
		"internal/user/user.go":        "package user\nvar data int",
		"internal/user/user_test.go":   "package user\n" + uses + "works\"",
		"internal/judge/doc.go":        "// Package judge has tests alone.\npackage judge",
		"internal/judge/judge_test.go": "package judge\n" + uses + "works\"",
		"internal/second/second.go":    "package second\n" + uses + "user\"",
		"internal/careful/careful.go":  "package careful\n" + uses + "guards\"",
		"internal/reader/reader.go":    "package reader\n" + uses + "tests\"",
	}))
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, p := range all {
		if p.concurrent {
			got = append(got, p.dir)
		}
	}
	if diff := cmp.Diff([]string{"internal/guards", "internal/tests", "internal/user", "internal/works"}, got); diff != "" {
		t.Errorf("concurrent packages (-want +got):\n%s", diff)
	}
}

func TestSurvey(t *testing.T) {
	t.Parallel()
	all, err := readSurvey(sources(map[string]string{
		"go.mod":                           "module " + module,
		"sandbox/go.mod":                   "module " + module + "/sandbox",
		"internal/a/a.go":                  "package a",
		"internal/a/a_test.go":             "package a\nimport \"pgregory.net/rapid\"\nfunc FuzzA() {}\nfunc TestA() {}\nfunc TestMain() {}\nfunc (f) FuzzNot() {}",
		"internal/a/b_test.go":             "package a\nfunc TestB() {}",
		"internal/untested/u.go":           "package untested",
		"internal/a/testdata/x.go":         "package x",
		"bin/b.go":                         "package b",
		".hidden/h.go":                     "package h",
		"sandbox/plane/plane.go":           "package plane\nimport \"k8s.io/kubernetes/cmd\"",
		"sandbox/plane/plane_test.go":      "package plane",
		"sandbox/flow/flow_test.go":        "package flow\nimport \"" + module + "/sandbox/plane\"",
		"sandbox/aws/aws_test.go":          "package aws",
		"sandbox/borrows/borrows_test.go":  "package borrows\nimport \"" + module + "/sandbox/testsuse\"",
		"sandbox/testsuse/testsuse.go":     "package testsuse",
		"sandbox/testsuse/a_test.go":       "package testsuse\nimport \"" + module + "/sandbox/plane\"",
		"sandbox/half/written_test.go":     "package half\nfunc (",
		"internal/broken/not_even_test.go": "",
	}))
	if err != nil {
		t.Fatal(err) // what does not parse is left to the compiler
	}
	everything := func(goPackage) bool { return true }
	if diff := cmp.Diff(patterns{"./internal/a", "./internal/broken"}, all.patternsWhere(".", everything)); diff != "" {
		t.Errorf("root module (-want +got):\n%s", diff)
	}
	properties := propertiesOf(all)
	if got, want := properties.text(), "GOFLAGS=-trimpath CGO_ENABLED=0 go test -timeout=0 '-run=^(TestA)$' ./internal/a -count=1"; got != want {
		t.Errorf("properties: %s, want %s", got, want)
	}
	linked := all.reaching(startsKubernetes)
	got := all.patternsWhere("sandbox", func(p goPackage) bool { return linked[p.dir] })
	if diff := cmp.Diff(patterns{"./testsuse", "./flow", "./plane"}, got); diff != "" {
		t.Errorf("packages whose tests are linked with Kubernetes (-want +got):\n%s", diff)
	}
	if fuzz := fuzzCommands(all, 0); len(fuzz) != 1 || fuzz[0].test.packages[0] != "./internal/a" {
		t.Errorf("fuzz targets: %v", fuzz)
	}
}

func TestChanged(t *testing.T) {
	t.Parallel()
	all := survey{{dir: "internal/a", module: "."}, {dir: "internal/b", module: "."}, {dir: "sandbox/flow", module: "sandbox"}}
	for name, tc := range map[string]struct {
		files []string
		want  patterns
	}{
		"the packages of the files":       {[]string{"internal/b/b_test.go", "internal/b/b.go"}, patterns{"./internal/b"}},
		"not of data or documents":        {[]string{"internal/b/testdata/x.txt", "internal/b/x.json", "README.md"}, nil},
		"not of other modules":            {[]string{"sandbox/flow/flow.go"}, nil},
		"not of a package that is gone":   {[]string{"internal/gone/gone.go"}, nil},
		"all when the linter has changed": {[]string{"internal/b/b.go", ".golangci.yml"}, patterns{"./..."}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if diff := cmp.Diff(tc.want, all.changed(tc.files)); diff != "" {
				t.Errorf("changed (-want +got):\n%s", diff)
			}
		})
	}
}
