package kubectl_test

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/dovetail-sh/dovetail/sandbox/kubectl"
)

func TestRead(t *testing.T) {
	t.Parallel()
	text := "# only a comment\n---\napiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\n---\n---\napiVersion: v1\nkind: ConfigMap\nmetadata: {name: b}\n"
	manifests, err := kubectl.Read("two.yaml", []byte(text))
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, m := range manifests {
		names = append(names, m.Object.GetName())
	}
	if diff := cmp.Diff([]string{"a", "b"}, names); diff != "" {
		t.Errorf("names (-want +got):\n%s", diff)
	}
	for name, tc := range map[string]struct{ text, want string }{
		"no YAML":      {"a: [", "bad.yaml: document 1"},
		"key twice":    {"kind: A\nkind: B\n", "already set"},
		"no kind":      {"metadata: {name: a}\n", "Kind"},
		"no name":      {"apiVersion: v1\nkind: ConfigMap\n", "metadata.name: required"},
		"not a record": {"- 1\n", "bad.yaml: document 1"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, err := kubectl.Read("bad.yaml", []byte(tc.text))
			if err == nil || !strings.Contains(err.Error(), tc.want) {
				t.Errorf("error %v, want %q in it", err, tc.want)
			}
		})
	}
}

func TestReadFolder(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	if _, err := kubectl.ReadFolder(dir); err == nil || !strings.Contains(err.Error(), "no manifests") {
		t.Errorf("empty folder: error %v", err)
	}
	for name, text := range map[string]string{"b.yml": "second", "a.yaml": "first", "c.txt": "no manifest"} {
		content := "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: " + text + "}\n"
		if err := os.WriteFile(filepath.Join(dir, name), []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	manifests, err := kubectl.ReadFolder(dir)
	if err != nil {
		t.Fatal(err)
	}
	if len(manifests) != 2 || manifests[0].Object.GetName() != "first" || manifests[1].Object.GetName() != "second" {
		t.Errorf("manifests %v, want first and second", manifests)
	}
}

func TestLostAndAdded(t *testing.T) {
	t.Parallel()
	sent := map[string]any{
		"kept":    "x",
		"changed": int64(1),
		"gone":    "x",
		"null":    nil,
		"list":    []any{map[string]any{"key": "a"}},
		"shorter": []any{"a", "b"},
	}
	stored := map[string]any{
		"kept":    "x",
		"changed": "1",
		"list":    []any{map[string]any{"key": "a", "operator": "In"}},
		"shorter": []any{"a"},
		"more":    map[string]any{"of": "it"},
	}
	wantLost := []string{`.changed: 1 became 1`, `.gone: x is gone`, `.shorter: ["a","b"] became ["a"]`}
	if diff := cmp.Diff(wantLost, kubectl.Lost(sent, stored)); diff != "" {
		t.Errorf("lost (-want +got):\n%s", diff)
	}
	var added []string
	for _, field := range kubectl.Added(sent, stored) {
		added = append(added, field.String())
	}
	wantAdded := []string{".list[0].operator: In", `.more: {"of":"it"}`}
	if diff := cmp.Diff(wantAdded, added); diff != "" {
		t.Errorf("added (-want +got):\n%s", diff)
	}
}

func TestPrint(t *testing.T) {
	t.Parallel()
	table := &metav1.Table{
		ColumnDefinitions: []metav1.TableColumnDefinition{{Name: "Name"}, {Name: "Ready"}, {Name: "Weight", Priority: 1}},
		Rows:              []metav1.TableRow{{Cells: []any{"default", nil, 3.0}}, {Cells: []any{"b", "True"}}},
	}
	for wide, want := range map[bool]string{
		false: "NAME      READY\ndefault   \nb         True\n",
		true:  "NAME      READY   WEIGHT\ndefault           3\nb         True    \n",
	} {
		var out bytes.Buffer
		if err := kubectl.Print(&out, table, wide); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(want, out.String()); diff != "" {
			t.Errorf("wide=%v (-want +got):\n%s", wide, diff)
		}
	}
}
