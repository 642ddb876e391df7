package admission_test

import (
	"bytes"
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"

	awsv1 "github.com/dovetail-sh/dovetail/api/aws/v1"
	karpv1 "github.com/dovetail-sh/dovetail/api/v1"
	"github.com/dovetail-sh/dovetail/internal/admission"
	"github.com/dovetail-sh/dovetail/internal/convert"
	"github.com/dovetail-sh/dovetail/internal/reason"
)

var rewrite = flag.Bool("rewrite", false, "write the golden files anew")

const seedDir = "../../examples/seeds"

// seedFacts is the lab of the seed documents: EKS 1.34, a role field that holds a profile's name.
func seedFacts(role string) awsv1.Facts {
	return awsv1.Facts{ClusterName: "lab", KubernetesMinor: 34, RoleIsProfile: strings.HasSuffix(role, "InstanceProfile")}
}

func seeds(t *testing.T) map[string][]byte {
	t.Helper()
	paths, err := filepath.Glob(filepath.Join(seedDir, "*.yaml"))
	if err != nil || len(paths) == 0 {
		t.Fatalf("no seed manifests in %s: %v", seedDir, err)
	}
	texts := map[string][]byte{}
	for _, path := range paths {
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		texts[filepath.Base(path)] = text
	}
	return texts
}

// Each seed line about a manifest, and the file that shows it.
var seedFiles = map[string]string{
	"S-075": "s-075.yaml", "S-076": "s-076-077.yaml", "S-077": "s-076-077.yaml", "S-078": "s-078.yaml", "S-079": "s-079.yaml",
	"S-080": "s-080.yaml", "S-081": "s-081.yaml", "S-082": "s-082-084.yaml", "S-083": "s-082-084.yaml", "S-084": "s-082-084.yaml",
	"S-085": "s-085.yaml", "S-086": "s-086.yaml", "S-087": "s-087.yaml", "S-088": "s-088.yaml", "S-089": "s-089.yaml", "S-090": "s-090.yaml",
}

func TestEverySeedHasAManifest(t *testing.T) {
	t.Parallel()
	texts := seeds(t)
	for id, file := range seedFiles {
		first, _, _ := strings.Cut(string(texts[file]), "\n")
		if !strings.HasPrefix(first, "#") || !strings.Contains(first, id) {
			t.Errorf("%s: the first line of %s does not say that it shows it: %q", id, file, first)
		}
	}
}

// documents reads the objects of a file.
func documents(t *testing.T, text []byte) []*unstructured.Unstructured {
	t.Helper()
	var objects []*unstructured.Unstructured
	for part := range bytes.SplitSeq(text, []byte("\n---\n")) {
		raw, err := yaml.YAMLToJSON(part)
		if err != nil {
			t.Fatal(err)
		}
		obj := &unstructured.Unstructured{}
		if err := json.Unmarshal(raw, obj); err != nil {
			t.Fatal(err)
		}
		objects = append(objects, obj)
	}
	return objects
}

func ours(obj *unstructured.Unstructured) bool {
	version := obj.GroupVersionKind().Version
	group := obj.GroupVersionKind().Group
	return (group == karpv1.Group || group == awsv1.Group) && (version == "v1" || version == "v1beta1")
}

// effective applies an object and returns the effective form and what was read into it.
func effective(ctx context.Context, server *admission.Server, obj *unstructured.Unstructured) (any, []reason.Reason, error) {
	stored, err := server.Create(ctx, obj)
	if err != nil {
		return nil, nil, err
	}
	text, err := json.Marshal(stored.Object)
	if err != nil {
		return nil, nil, err
	}
	switch obj.GetKind() {
	case "NodePool":
		pool := &karpv1.NodePool{}
		if err := json.Unmarshal(text, pool); err != nil {
			return nil, nil, err
		}
		out, notes := pool.Effective(false)
		return out, notes, nil
	case awsv1.Kind:
		class := &awsv1.EC2NodeClass{}
		if err := json.Unmarshal(text, class); err != nil {
			return nil, nil, err
		}
		out, notes := class.Effective(seedFacts(class.Spec.Role))
		return out, notes, nil
	}
	return nil, nil, fmt.Errorf("no effective form of %s", obj.GetKind())
}

// Every manifest of the seeds (S-075..S-090) applies unmodified and is read as the user meant it. The
// golden files show the effective form of each and what was assumed.
func TestSeedManifestsReadAsMeant(t *testing.T) {
	t.Parallel()
	server, err := admission.New()
	if err != nil {
		t.Fatal(err)
	}
	for name, text := range seeds(t) {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var got bytes.Buffer
			for _, obj := range documents(t, text) {
				if !ours(obj) {
					continue
				}
				form, notes, err := effective(t.Context(), server, obj)
				if err != nil {
					t.Fatalf("%s %s is refused: %v", obj.GetKind(), obj.GetName(), err)
				}
				if refused := reason.Refusals(notes); len(refused) > 0 {
					t.Errorf("%s %s cannot be used: %s", obj.GetKind(), obj.GetName(), reason.Join(refused, 0))
				}
				for _, n := range notes {
					fmt.Fprintln(&got, "#", n.Code, n.Text())
				}
				body, err := yaml.Marshal(form)
				if err != nil {
					t.Fatal(err)
				}
				got.Write(body)
				got.WriteString("---\n")
			}
			if got.Len() == 0 {
				return // S-078 is a Deployment, S-087 is for convert
			}
			golden := filepath.Join("testdata", "effective", name)
			if *rewrite {
				if err := os.WriteFile(golden, got.Bytes(), 0o600); err != nil {
					t.Fatal(err)
				}
			}
			want, err := os.ReadFile(golden)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(string(want), got.String()); diff != "" {
				t.Errorf("effective form (-want +got):\n%s", diff)
			}
		})
	}
}

// What convert writes for a seed is accepted by the CRDs, needs no leniency, and means the same.
func TestConvertedSeedsMeanTheSame(t *testing.T) {
	t.Parallel()
	server, err := admission.New()
	if err != nil {
		t.Fatal(err)
	}
	for name, text := range seeds(t) {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			result := convert.Convert([]convert.Source{{Name: name, Text: text}}, convert.Options{})
			if len(result.Errors) > 0 {
				t.Fatal(result.Errors)
			}
			before := documents(t, text)
			for i, doc := range result.Documents {
				body, err := doc.YAML()
				if err != nil {
					t.Fatal(err)
				}
				converted := documents(t, body)[0]
				if !ours(converted) {
					continue
				}
				if v := converted.GroupVersionKind().Version; v != "v1" {
					t.Errorf("%s %s is still %s", converted.GetKind(), converted.GetName(), v)
				}
				got, notes, err := effective(t.Context(), server, converted)
				if err != nil {
					t.Fatalf("converted %s is refused: %v\n%s", converted.GetKind(), err, body)
				}
				for _, n := range notes {
					if n.Rule != "L-11" && n.Rule != "L-12" && n.Rule != "L-16" && n.Rule != "L-17" { // these depend on the cluster
						t.Errorf("converted %s still leans on %s", converted.GetKind(), n.Text())
					}
				}
				if !ours(before[i]) {
					continue // v1alpha5 has no effective form to compare with
				}
				want, _, err := effective(t.Context(), server, before[i])
				if err != nil {
					t.Fatal(err)
				}
				if diff := cmp.Diff(want, got); diff != "" {
					t.Errorf("%s means something else after convert (-before +after):\n%s", converted.GetKind(), diff)
				}
			}
		})
	}
}
