package apiserver_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/dovetail-sh/dovetail/internal/convert"
	"github.com/dovetail-sh/dovetail/sandbox/kubectl"
)

var seeds = filepath.Join("..", "..", "examples", "seeds")

// gone are the kinds of seeds that no API server takes: dovetail convert reads them.
var gone = []schema.GroupVersionKind{
	{Group: "karpenter.sh", Version: "v1alpha5", Kind: "Provisioner"},
	{Group: "karpenter.k8s.aws", Version: "v1alpha1", Kind: "AWSNodeTemplate"},
}

// The ways in which users send manifests: they take different paths through the API server.
var ways = map[string]func(context.Context, *unstructured.Unstructured) (*unstructured.Unstructured, error){
	"create": func(ctx context.Context, obj *unstructured.Unstructured) (*unstructured.Unstructured, error) {
		return server.Create(ctx, obj)
	},
	"apply": func(ctx context.Context, obj *unstructured.Unstructured) (*unstructured.Unstructured, error) {
		return server.Apply(ctx, obj)
	},
}

// CV-02, CV-03: what users wrote (S-075 to S-090) is accepted, and all of it is there when it is read
// in any served version. The files say which seed each manifest stands for.
func TestCV_03_SeedsAreTakenAndKeptWhole(t *testing.T) {
	t.Parallel()
	manifests, err := kubectl.ReadFolder(seeds)
	if err != nil {
		t.Fatal(err)
	}
	for i, m := range manifests {
		kind := m.Object.GroupVersionKind()
		if slices.Contains(gone, kind) {
			continue
		}
		for way, send := range ways {
			name := fmt.Sprintf("%s/%d %s/%s", strings.TrimSuffix(filepath.Base(m.File), ".yaml"), m.Document, kind.Kind, way)
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				sent := m.Object.DeepCopy()
				sent.SetName(fmt.Sprintf("%s-%d-%s", sent.GetName(), i, way)) // seeds share names
				if _, err := send(t.Context(), sent.DeepCopy()); err != nil {
					t.Fatalf("refused: %v", err)
				}
				t.Cleanup(func() { remove(t, sent) })
				checkKept(t, sent)
			})
		}
	}
}

// S-087: what dovetail convert makes of the seeds, old ones included, is accepted.
func TestS_087_ConvertedSeedsAreTaken(t *testing.T) {
	t.Parallel()
	files, err := filepath.Glob(filepath.Join(seeds, "*.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range files {
		base := strings.TrimSuffix(filepath.Base(file), ".yaml")
		t.Run(base, func(t *testing.T) {
			t.Parallel()
			text, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			result := convert.Convert([]convert.Source{{Name: file, Text: text}}, convert.Options{})
			for _, fault := range result.Errors {
				t.Error(fault)
			}
			for i, document := range result.Documents {
				text, err := document.YAML()
				if err != nil {
					t.Fatal(err)
				}
				manifests, err := kubectl.Read(file, text)
				if err != nil {
					t.Fatal(err)
				}
				for _, m := range manifests {
					m.Object.SetName(fmt.Sprintf("converted-%s-%d", base, i))
					create(t, m.Object)
				}
			}
		})
	}
}

func checkKept(t *testing.T, sent *unstructured.Unstructured) {
	t.Helper()
	for _, version := range servedVersions(sent.GroupVersionKind().GroupKind()) {
		read, err := server.Get(t.Context(), sent, version)
		if err != nil {
			t.Errorf("read as %s: %v", version, err)
			continue
		}
		if read.GroupVersionKind().Version != version {
			t.Errorf("read as %s: it says %s", version, read.GetAPIVersion())
		}
		want := sent.DeepCopy()
		want.SetAPIVersion(read.GetAPIVersion())
		for _, lost := range kubectl.Lost(want.Object, read.Object) {
			t.Errorf("read as %s: %s", version, lost)
		}
	}
}
