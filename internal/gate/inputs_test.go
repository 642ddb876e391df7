package main

import (
	"maps"
	"os"
	"path/filepath"
	"testing"
	"testing/fstest"
)

func TestDigestSeesWhatAStepIsAbout(t *testing.T) {
	t.Parallel()
	base := map[string]string{"charts/a/values.yaml": "a: 1", "charts/a/templates/x.yaml": "x", "iam/policy.json": "{}", "other/file": "1"}
	inputs := []string{"charts", "iam/policy.json"}
	digestOf := func(files map[string]string) string {
		t.Helper()
		root := fstest.MapFS{}
		for name, text := range files {
			root[name] = &fstest.MapFile{Data: []byte(text)}
		}
		sum, err := digest(root, inputs)
		if err != nil {
			t.Fatal(err)
		}
		return sum
	}
	for name, tc := range map[string]struct {
		change func(map[string]string)
		same   bool
	}{
		"nothing changed":                     {change: func(map[string]string) {}, same: true},
		"a file outside":                      {change: func(f map[string]string) { f["other/file"] = "2" }, same: true},
		"a hidden file, such as of an editor": {change: func(f map[string]string) { f["charts/.swp"] = "x" }, same: true},
		"a folder that a tool works in":       {change: func(f map[string]string) { f["charts/.terraform/x"] = "x" }, same: true},
		"a line":                              {change: func(f map[string]string) { f["charts/a/values.yaml"] = "a: 2" }},
		"an input that is a file":             {change: func(f map[string]string) { f["iam/policy.json"] = "[]" }},
		"a file that is new":                  {change: func(f map[string]string) { f["charts/a/testdata/new"] = "" }},
		"a file that is gone":                 {change: func(f map[string]string) { delete(f, "charts/a/templates/x.yaml") }},
		"a file with another name": {change: func(f map[string]string) {
			f["charts/a/templates/y.yaml"] = f["charts/a/templates/x.yaml"]
			delete(f, "charts/a/templates/x.yaml")
		}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			files := maps.Clone(base)
			tc.change(files)
			if same := digestOf(files) == digestOf(base); same != tc.same {
				t.Errorf("the digest is the same: %t, want %t", same, tc.same)
			}
		})
	}
	if _, err := digest(fstest.MapFS{}, inputs); err == nil {
		t.Error("an input that does not exist is no error")
	}
}

// Tests on control planes run again when anything changes that they may see, and not for what only others read.
func TestSourcesAreWhatTestsOnControlPlanesSee(t *testing.T) {
	t.Parallel()
	base := map[string]string{"cmd/dovetail/main.go": "a", "charts/karpenter/values.yaml": "a", "sandbox/world/world.go": "a", "docs/how-to/install.md": "a"}
	digestOf := func(files map[string]string) string {
		t.Helper()
		root := fstest.MapFS{}
		for name, text := range files {
			root[name] = &fstest.MapFile{Data: []byte(text)}
		}
		sum, err := sourcesDigest(root)
		if err != nil {
			t.Fatal(err)
		}
		return sum
	}
	for name, same := range map[string]bool{
		"internal/solve/solve.go":       false,
		"go.sum":                        false,
		"charts/karpenter/values.yaml":  false,
		"sandbox/flow/testdata/a.yaml":  false,
		"docs/how-to/install.md":        false,
		"internal/solve/solve_test.go":  true,
		"sandbox/flow/launch_test.go":   true, // known to the cache: it is compiled into the test
		"docs/decisions/0001-x.md":      true,
		"CHANGELOG.md":                  true,
		"internal/gate/passed.txt":      true,
		"bin/programs/dovetail":         true,
		".git/HEAD":                     true,
		"bench/peer/main.go":            true,
		"internal/arch/rules/rules.go":  true,
		"sandbox/setup/setup_test.go":   true,
		"internal/gateway/in_future.go": false,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			files := maps.Clone(base)
			files[name] += "b"
			if got := digestOf(files) == digestOf(base); got != same {
				t.Errorf("the digest is the same: %t, want %t", got, same)
			}
		})
	}
}

// A step is left out of the gate only while its inputs are those over which it passed, and only a pass is recorded.
func TestUnchangedStepsAreNotRun(t *testing.T) {
	t.Parallel()
	list := []step{{name: "narrow", lane: laneCPU, inputs: []string{"charts"}}, {name: "wide", lane: laneCPU}}
	for name, tc := range map[string]struct {
		record map[string]string
		want   string
	}{
		"it never passed":               {want: "narrow"},
		"it passed over other inputs":   {record: map[string]string{"narrow": "old"}, want: "narrow"},
		"it passed over these":          {record: map[string]string{"narrow": "now"}, want: "wide"},
		"a record of another step":      {record: map[string]string{"wide": "now"}, want: "narrow"},
		"an empty digest is no witness": {record: map[string]string{"narrow": ""}, want: "narrow"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := newBoard(list, rules{lanes: 2}, nil, start)
			b.keepUnchanged(tc.record, map[string]string{"narrow": "now"})
			if got := names(b.next()); got != tc.want {
				t.Errorf("the gate runs %q first, want %q", got, tc.want)
			}
		})
	}
	inputs, old := map[string]string{"narrow": "now"}, map[string]string{"narrow": "old", "gone": "x"}
	for s, want := range map[state]string{passed: "now", failed: "old", stopped: "old", waiting: "old", unchanged: "old"} {
		if got := recorded(old, inputs, map[string]state{"narrow": s})["narrow"]; got != want {
			t.Errorf("recorded is %q after state %d, want %q", got, s, want)
		}
	}
}

func TestRecordIsReadAsItIsWritten(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	want := map[string]string{"b": "2", "a": "1"}
	file := filepath.Join(dir, recordFile)
	if err := os.MkdirAll(filepath.Dir(file), 0o750); err != nil {
		t.Fatal(err)
	}
	if err := writeRecord(file, want); err != nil {
		t.Fatal(err)
	}
	if got, err := readRecord(os.DirFS(dir)); err != nil || !maps.Equal(got, want) {
		t.Errorf("read %v, %v; want %v", got, err, want)
	}
	if got, err := readRecord(os.DirFS(t.TempDir())); err != nil || len(got) != 0 {
		t.Errorf("without a file read %v, %v", got, err)
	}
}

// Every input of the table exists, so that a renamed folder does not take a step out of the gate unnoticed.
func TestInputsOfTheTableExist(t *testing.T) {
	t.Parallel()
	for _, s := range steps(survey{}, settings{}) {
		if _, err := digest(os.DirFS("../.."), s.inputs); err != nil {
			t.Errorf("step %s: %v", s.name, err)
		}
	}
}
