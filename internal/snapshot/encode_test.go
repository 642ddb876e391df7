package snapshot_test

import (
	"bytes"
	"compress/gzip"
	"encoding/json"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	awsv1 "github.com/dovetail-sh/dovetail/api/aws/v1"
	"github.com/dovetail-sh/dovetail/internal/inspect"
	"github.com/dovetail-sh/dovetail/internal/snapshot"
	"github.com/dovetail-sh/dovetail/internal/snapshot/snapshottest"
)

// A plan for a cluster and a plan for its snapshot are the same, byte for byte.
func TestWI_18_AFileIsTheCluster(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		f := clusters().Draw(t, "cluster")
		written := textOf(t, f)
		read, err := snapshot.Decode(strings.NewReader(written))
		if err != nil {
			t.Fatal(err)
		}
		if again := textOf(t, read); again != written {
			t.Fatalf("writing what was read (-first +second):\n%s", cmp.Diff(written, again))
		}
		if diff := cmp.Diff(planBytes(t, f), planBytes(t, read)); diff != "" {
			t.Fatalf("plans (-cluster +file):\n%s", diff)
		}
	})
}

func planBytes(t *rapid.T, f *snapshot.File) string {
	changes, err := (&snapshot.Service{File: f, Words: awsv1.Vocabulary()}).Plan(t.Context(), inspect.WhatIf{})
	if err != nil {
		t.Fatal(err)
	}
	text, err := json.Marshal(changes)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

func TestDecodeSaysWhereAFileIsMalformed(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct{ text, want string }{
		"WI-19: cut off":          {"{\n\"format\":", "unexpected"},
		"WI-19: no JSON":          {"{\n\n]", "line 3"},
		"WI-19: an unknown field": {`{"format":"dovetail.sh/snapshot/v1","colour":1}`, `unknown field "colour"`},
		"WI-19: a later format":   {`{"format":"dovetail.sh/snapshot/v2"}`, `the format is "dovetail.sh/snapshot/v2", want "dovetail.sh/snapshot/v1"`},
		"WI-19: broken gzip":      {"\x1f\x8bnot gzip", "decompress"},
		"WI-19: a wrong type":     {`{"format":"dovetail.sh/snapshot/v1","objects":5}`, "objects"},
		"WI-19: more after it":    {`{"format":"dovetail.sh/snapshot/v1"}{}`, "more than one"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if _, err := snapshot.Decode(strings.NewReader(tc.text)); err == nil || !strings.Contains(err.Error(), tc.want) {
				t.Errorf("got error %v, want %q", err, tc.want)
			}
		})
	}
}

func TestIsTellsASnapshotFromAScenario(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]bool{
		`{"format":"dovetail.sh/snapshot/v1"}`: true, `{"format":"dovetail.sh/snapshot/v9"}`: true, "\x1f\x8b": true,
		`{"name":"a","format":"dovetail.sh/snapshot/v1","objects":`: true, `{"format":`: false, `{"format":["dovetail.sh/snapshot/v1"]}`: false, `[{"format":"dovetail.sh/snapshot/v1"}]`: false,
		`{"name":"s2-500"}`: false, "name: s2-500\n": false, "": false, `{"format":5}`: false,
	} {
		if got := snapshot.Is([]byte(text)); got != want {
			t.Errorf("%q: got %t, want %t", text, got, want)
		}
	}
}

func FuzzDecode(f *testing.F) {
	var plain, packed bytes.Buffer
	file := snapshottest.New(snapshottest.Options{Nodes: 1, Pending: 1})
	if err := file.Encode(&plain); err != nil {
		f.Fatal(err)
	}
	w := gzip.NewWriter(&packed)
	if err := file.Encode(w); err != nil {
		f.Fatal(err)
	}
	if err := w.Close(); err != nil {
		f.Fatal(err)
	}
	f.Add(plain.Bytes())
	f.Add(packed.Bytes())
	f.Add([]byte(`{"format":"dovetail.sh/snapshot/v1"}`))
	f.Fuzz(func(t *testing.T, text []byte) {
		if len(text) > 1<<16 {
			return
		}
		read, err := snapshot.Decode(bytes.NewReader(text))
		if err != nil {
			return
		}
		first := encoded(t, read)
		again, err := snapshot.Decode(strings.NewReader(first))
		if err != nil {
			t.Fatalf("what was written cannot be read: %v", err)
		}
		if second := encoded(t, again); first != second {
			t.Fatalf("writing what was read (-first +second):\n%s", cmp.Diff(first, second))
		}
		service := &snapshot.Service{File: again, Words: awsv1.Vocabulary()}
		if _, err := service.Fleet(t.Context()); err != nil {
			return // a file can be malformed further inside; it must be said, and not crash
		}
		if _, err := again.Anonymize(awsv1.Vocabulary()); err != nil {
			t.Fatalf("anonymize: %v", err)
		}
	})
}

func BenchmarkPlan(b *testing.B) {
	file := snapshottest.New(snapshottest.Options{Nodes: 1000, Pods: 10, Pending: 100})
	var text bytes.Buffer
	if err := file.Encode(&text); err != nil {
		b.Fatal(err)
	}
	b.Run("decode", func(b *testing.B) {
		for b.Loop() {
			if _, err := snapshot.Decode(bytes.NewReader(text.Bytes())); err != nil {
				b.Fatal(err)
			}
		}
	})
	b.Run("cluster", func(b *testing.B) {
		for b.Loop() {
			if _, err := file.Cluster(awsv1.Vocabulary()); err != nil {
				b.Fatal(err)
			}
		}
	})
	b.Run("plan", func(b *testing.B) {
		service := &snapshot.Service{File: file, Words: awsv1.Vocabulary()}
		for b.Loop() {
			if _, err := service.Plan(b.Context(), inspect.WhatIf{}); err != nil {
				b.Fatal(err)
			}
		}
	})
	b.Run("anonymize", func(b *testing.B) {
		for b.Loop() {
			if _, err := file.Anonymize(awsv1.Vocabulary()); err != nil {
				b.Fatal(err)
			}
		}
	})
}
