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

func TestSurvey(t *testing.T) {
	t.Parallel()
	all, err := readSurvey(sources(map[string]string{
		"go.mod":                           "module " + module,
		"sandbox/go.mod":                   "module " + module + "/sandbox",
		"internal/a/a.go":                  "package a",
		"internal/a/a_test.go":             "package a\nimport \"pgregory.net/rapid\"\nfunc FuzzA() {}\nfunc (f) FuzzNot() {}",
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
	if diff := cmp.Diff([]string{"./internal/a", "./internal/broken"}, all.where(".", everything)); diff != "" {
		t.Errorf("root module (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff([]string{"./internal/a"}, all.where(".", usesRapid)); diff != "" {
		t.Errorf("packages with properties (-want +got):\n%s", diff)
	}
	linked := all.reaching(isKubernetes)
	got := all.where("sandbox", func(p goPackage) bool { return linked[p.dir] })
	if diff := cmp.Diff([]string{"./flow", "./plane", "./testsuse"}, got); diff != "" {
		t.Errorf("packages whose tests are linked with Kubernetes (-want +got):\n%s", diff)
	}
	if fuzz := fuzzCommands(all, 0); len(fuzz) != 1 || fuzz[0].test.packages[0] != "./internal/a" {
		t.Errorf("fuzz targets: %v", fuzz)
	}
}
