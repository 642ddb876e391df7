package convert_test

import (
	"bytes"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/dovetail-sh/dovetail/internal/convert"
)

var rewrite = flag.Bool("rewrite", false, "write the golden files anew")

// transcript shows a result the way a user sees it: findings, then documents.
func transcript(t *testing.T, r convert.Result) string {
	t.Helper()
	var b strings.Builder
	for _, w := range r.Warnings {
		fmt.Fprintln(&b, "warning:", w)
	}
	for _, e := range r.Errors {
		fmt.Fprintln(&b, "error:", e)
	}
	for _, d := range r.Documents {
		text, err := d.YAML()
		if err != nil {
			t.Fatal(err)
		}
		b.WriteString("---\n" + string(text))
	}
	return b.String()
}

// Each file under testdata is converted and compared with its .golden, which shows every rule of API
// 12 at work. Rewrite with -rewrite and read the diff.
func TestConvert(t *testing.T) {
	t.Parallel()
	paths, err := filepath.Glob("testdata/*.yaml")
	if err != nil || len(paths) == 0 {
		t.Fatal("no cases", err)
	}
	for _, path := range paths {
		t.Run(filepath.Base(path), func(t *testing.T) {
			t.Parallel()
			text, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			got := transcript(t, convert.Convert([]convert.Source{{Name: filepath.Base(path), Text: text}}, convert.Options{}))
			golden := strings.TrimSuffix(path, ".yaml") + ".golden"
			if *rewrite {
				if err := os.WriteFile(golden, []byte(got), 0o600); err != nil {
					t.Fatal(err)
				}
			}
			want, err := os.ReadFile(golden)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(string(want), got); diff != "" {
				t.Errorf("conversion (-want +got):\n%s", diff)
			}
		})
	}
}

func source(text string) []convert.Source {
	return []convert.Source{{Name: "in.yaml", Text: []byte(text)}}
}

const bareProvisioner = `{"apiVersion": "karpenter.sh/v1alpha5", "kind": "Provisioner", "metadata": {"name": "p"}, "spec": {"providerRef": {"name": "c"}}}`

func TestIgnoreDefaults(t *testing.T) {
	t.Parallel()
	got := transcript(t, convert.Convert(source(bareProvisioner), convert.Options{IgnoreDefaults: true}))
	if !strings.Contains(got, "requirements: []") {
		t.Errorf("API-12.1: requirements were added:\n%s", got)
	}
}

func TestNodeRole(t *testing.T) {
	t.Parallel()
	template := `{"apiVersion": "karpenter.k8s.aws/v1alpha1", "kind": "AWSNodeTemplate", "metadata": {"name": "c"}, "spec": {"subnetSelector": {"a": "b"}}}`
	got := transcript(t, convert.Convert(source(template), convert.Options{NodeRole: "my-role"}))
	if !strings.Contains(got, "role: my-role") || strings.Contains(got, convert.DefaultNodeRole) {
		t.Errorf("API-12.2: the role of the call is not used:\n%s", got)
	}
}

func TestStrictMakesDoubtsErrors(t *testing.T) {
	t.Parallel()
	for name, text := range map[string]string{
		"unknown kind":                       "{apiVersion: v1, kind: Secret, metadata: {name: s}}",
		"unknown field":                      strings.Replace(bareProvisioner, `"spec": {`, `"spec": {"foo": 1, `, 1),
		"kubelet whose class is not present": "{apiVersion: karpenter.sh/v1, kind: NodePool, metadata: {name: p}, spec: {template: {spec: {requirements: [], nodeClassRef: {name: c}, kubelet: {maxPods: 1}}}}}",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if r := convert.Convert(source(text), convert.Options{}); len(r.Errors) > 0 || len(r.Warnings) == 0 {
				t.Errorf("without strict: errors %v, warnings %v", r.Errors, r.Warnings)
			}
			if r := convert.Convert(source(text), convert.Options{Strict: true}); len(r.Errors) == 0 || len(r.Documents) > 0 {
				t.Errorf("with strict: errors %v and %d documents", r.Errors, len(r.Documents))
			}
		})
	}
}

func TestTooManyAlternatives(t *testing.T) {
	t.Parallel()
	values := strings.Repeat("v,", 31)
	template := `{apiVersion: karpenter.k8s.aws/v1alpha1, kind: AWSNodeTemplate, metadata: {name: c}, spec: {subnetSelector: {a: "` + values + `"}}}`
	r := convert.Convert(source(template), convert.Options{})
	if len(r.Errors) == 0 || !strings.Contains(r.Errors[0].String(), "alternatives") {
		t.Errorf("errors %v, want one about alternatives", r.Errors)
	}
}

// Several JSON objects in a row are one source, and JSON output can be read again.
func TestJSONInAndOut(t *testing.T) {
	t.Parallel()
	r := convert.Convert(source(bareProvisioner+"\n\n"+strings.Replace(bareProvisioner, `"p"`, `"q"`, 1)), convert.Options{})
	if len(r.Errors) > 0 || len(r.Documents) != 2 {
		t.Fatalf("errors %v, %d documents", r.Errors, len(r.Documents))
	}
	var stream bytes.Buffer
	for _, d := range r.Documents {
		text, err := d.JSON()
		if err != nil {
			t.Fatal(err)
		}
		stream.Write(text)
	}
	again := convert.Convert([]convert.Source{{Name: "again", Text: stream.Bytes()}}, convert.Options{Strict: true})
	if diff := cmp.Diff(transcript(t, r), transcript(t, again)); diff != "" {
		t.Errorf("JSON does not survive (-first +second):\n%s", diff)
	}
}

// FuzzConvert: no input makes it panic, and its output is a fixed point that needs no warning of ours.
func FuzzConvert(f *testing.F) {
	paths, err := filepath.Glob("testdata/*.yaml")
	if err != nil {
		f.Fatal(err)
	}
	for _, path := range paths {
		text, err := os.ReadFile(path)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(text)
	}
	f.Add([]byte(bareProvisioner))
	f.Fuzz(func(t *testing.T, text []byte) {
		first := convert.Convert([]convert.Source{{Name: "in", Text: text}}, convert.Options{})
		if len(first.Errors) > 0 {
			if len(first.Documents) > 0 {
				t.Error("errors and documents together")
			}
			return
		}
		var out bytes.Buffer
		for _, d := range first.Documents {
			text, err := d.YAML()
			if err != nil {
				t.Fatal(err)
			}
			out.WriteString("---\n")
			out.Write(text)
			if !bytes.HasSuffix(text, []byte("\n")) {
				out.WriteByte('\n')
			}
		}
		second := convert.Convert([]convert.Source{{Name: "out", Text: out.Bytes()}}, convert.Options{})
		if len(second.Errors) > 0 {
			t.Fatalf("own output is refused: %v\n%s", second.Errors, out.Bytes())
		}
		if len(first.Documents) != len(second.Documents) {
			t.Fatalf("%d documents became %d\n%s", len(first.Documents), len(second.Documents), out.Bytes())
		}
		for i := range first.Documents {
			a, err := first.Documents[i].JSON()
			if err != nil {
				t.Fatal(err)
			}
			b, err := second.Documents[i].JSON()
			if err != nil {
				t.Fatal(err)
			}
			if !bytes.Equal(a, b) {
				t.Fatalf("not a fixed point:\n%s\nthen\n%s", a, b)
			}
		}
	})
}
