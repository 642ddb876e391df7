package apiserver_test

import (
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/dovetail-sh/dovetail/sandbox/kubectl"
)

func kindOf(group, version, kind string) schema.GroupVersionKind {
	return schema.GroupVersionKind{Group: group, Version: version, Kind: kind}
}

var nodePool = kindOf("karpenter.sh", "v1", "NodePool")

// resource is what a client learns of a kind.
type resource struct {
	Kind, Singular         string
	Namespaced             bool
	Categories, ShortNames []string
	Subresources           []string
}

// CV-01: each version of each kind is listed, with the names that users type.
func TestCV_01_Discovery(t *testing.T) {
	t.Parallel()
	pools := resource{Kind: "NodePool", Singular: "nodepool", Categories: []string{"karpenter"}, Subresources: []string{"scale", "status"}}
	claims := resource{Kind: "NodeClaim", Singular: "nodeclaim", Categories: []string{"karpenter"}, Subresources: []string{"status"}}
	overlays := resource{Kind: "NodeOverlay", Singular: "nodeoverlay", Categories: []string{"karpenter"}, ShortNames: []string{"overlays"}, Subresources: []string{"status"}}
	classes := resource{Kind: "EC2NodeClass", Singular: "ec2nodeclass", Categories: []string{"karpenter"}, ShortNames: []string{"ec2nc", "ec2ncs"}, Subresources: []string{"status"}}
	buffers := resource{Kind: "CapacityBuffer", Singular: "capacitybuffer", Namespaced: true, ShortNames: []string{"cb"}, Subresources: []string{"status"}}
	for version, want := range map[string]map[string]resource{
		"karpenter.sh/v1":               {"nodepools": pools, "nodeclaims": claims},
		"karpenter.sh/v1beta1":          {"nodepools": pools, "nodeclaims": claims},
		"karpenter.sh/v1alpha1":         {"nodeoverlays": overlays},
		"karpenter.k8s.aws/v1":          {"ec2nodeclasses": classes},
		"karpenter.k8s.aws/v1beta1":     {"ec2nodeclasses": classes},
		"autoscaling.x-k8s.io/v1beta1":  {"capacitybuffers": buffers},
		"autoscaling.x-k8s.io/v1alpha1": {"capacitybuffers": buffers},
	} {
		t.Run(version, func(t *testing.T) {
			t.Parallel()
			list, err := server.Discovery().ServerResourcesForGroupVersion(version)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(want, resourcesByName(list)); diff != "" {
				t.Errorf("resources (-want +got):\n%s", diff)
			}
		})
	}
}

func resourcesByName(list *metav1.APIResourceList) map[string]resource {
	found := map[string]resource{}
	for _, r := range list.APIResources {
		if !strings.Contains(r.Name, "/") {
			found[r.Name] = resource{Kind: r.Kind, Singular: r.SingularName, Namespaced: r.Namespaced, Categories: r.Categories, ShortNames: r.ShortNames}
		}
	}
	for _, r := range list.APIResources {
		if name, sub, nested := strings.Cut(r.Name, "/"); nested {
			parent := found[name]
			parent.Subresources = append(parent.Subresources, sub)
			slices.Sort(parent.Subresources)
			found[name] = parent
		}
	}
	return found
}

// S-091, S-092: kubectl get shows these columns; those in parentheses only with -o wide.
func TestS_091_S_092_Columns(t *testing.T) {
	t.Parallel()
	const (
		pools   = "Name NodeClass Nodes Ready Age (Weight) (CPU) (Memory)"
		claims  = "Name Type Capacity Zone Node Ready Age (ImageID) (ID) (NodePool) (NodeClass) (Drifted)"
		classes = "Name Ready Age (Role)"
	)
	for kind, want := range map[schema.GroupVersionKind]string{
		nodePool: pools,
		kindOf("karpenter.sh", "v1beta1", "NodePool"):          pools,
		kindOf("karpenter.sh", "v1", "NodeClaim"):              claims,
		kindOf("karpenter.sh", "v1beta1", "NodeClaim"):         claims,
		kindOf("karpenter.k8s.aws", "v1", "EC2NodeClass"):      classes,
		kindOf("karpenter.k8s.aws", "v1beta1", "EC2NodeClass"): classes,
		kindOf("karpenter.sh", "v1alpha1", "NodeOverlay"):      "Name Ready Age (Weight)",
	} {
		t.Run(kind.Version+" "+kind.Kind, func(t *testing.T) {
			t.Parallel()
			table, err := server.Table(t.Context(), kind)
			if err != nil {
				t.Fatal(err)
			}
			var got []string
			for _, column := range table.ColumnDefinitions {
				if column.Priority > 0 {
					column.Name = "(" + column.Name + ")"
				}
				got = append(got, column.Name)
			}
			if diff := cmp.Diff(strings.Fields(want), got); diff != "" {
				t.Errorf("columns (-want +got):\n%s", diff)
			}
		})
	}
}

// S-091: the row of a pool says what the pool says of itself.
func TestS_091_Row(t *testing.T) {
	t.Parallel()
	pool := create(t, pool("row", map[string]any{"weight": int64(7)}))
	setStatus(t, pool, map[string]any{
		"nodes":     int64(3),
		"resources": map[string]any{"cpu": "12", "memory": "48Gi"},
		"conditions": []any{map[string]any{
			"type": "Ready", "status": "True", "reason": "Ready", "message": "", "lastTransitionTime": "2026-01-02T03:04:05Z",
		}},
	})
	table, err := server.Table(t.Context(), nodePool)
	if err != nil {
		t.Fatal(err)
	}
	for _, row := range table.Rows {
		if row.Cells[0] != "row" {
			continue
		}
		row.Cells[4] = "age"
		want := []any{"row", "default", "3", "True", "age", 7.0, "12", "48Gi"}
		if diff := cmp.Diff(want, row.Cells); diff != "" {
			t.Errorf("cells (-want +got):\n%s", diff)
		}
		return
	}
	t.Error("the pool has no row")
}

// kubectl scale works on a static pool, in either version.
func TestCV_01_Scale(t *testing.T) {
	t.Parallel()
	for _, version := range []string{"v1", "v1beta1"} {
		t.Run(version, func(t *testing.T) {
			t.Parallel()
			created := create(t, pool("static-"+version, map[string]any{"replicas": int64(2)}))
			setStatus(t, created, map[string]any{"nodes": int64(1)})
			pools, err := server.Of(kindOf("karpenter.sh", version, "NodePool"), "")
			if err != nil {
				t.Fatal(err)
			}
			scale, err := pools.Get(t.Context(), created.GetName(), metav1.GetOptions{}, "scale")
			if err != nil {
				t.Fatal(err)
			}
			if want, have := nestedInt(scale, "spec", "replicas"), nestedInt(scale, "status", "replicas"); want != 2 || have != 1 {
				t.Errorf("scale says %d wanted and %d there, want 2 and 1", want, have)
			}
			if err := unstructured.SetNestedField(scale.Object, int64(5), "spec", "replicas"); err != nil {
				t.Fatal(err)
			}
			if _, err := pools.Update(t.Context(), scale, metav1.UpdateOptions{}, "scale"); err != nil {
				t.Fatal(err)
			}
			read, err := server.Get(t.Context(), created, "v1")
			if err != nil {
				t.Fatal(err)
			}
			if got := nestedInt(read, "spec", "replicas"); got != 5 {
				t.Errorf("spec.replicas is %d after scaling to 5", got)
			}
		})
	}
}

// The status is written apart: a user's apply cannot change it, and a controller's cannot change the spec.
func TestCV_01_StatusIsApart(t *testing.T) {
	t.Parallel()
	for kind, spec := range map[schema.GroupVersionKind]map[string]any{
		nodePool: poolSpec(nil),
		kindOf("karpenter.sh", "v1", "NodeClaim"): {"requirements": []any{}, "nodeClassRef": classRef()},
		kindOf("karpenter.k8s.aws", "v1", "EC2NodeClass"): {
			"role":                       "nodes",
			"amiSelectorTerms":           []any{map[string]any{"alias": "al2023@latest"}},
			"subnetSelectorTerms":        []any{map[string]any{"id": "subnet-0123456789abcdef0"}},
			"securityGroupSelectorTerms": []any{map[string]any{"id": "sg-0123456789abcdef0"}},
		},
		kindOf("karpenter.sh", "v1alpha1", "NodeOverlay"): {
			"requirements": []any{map[string]any{"key": "kubernetes.io/arch", "operator": "In", "values": []any{"arm64"}}},
			"price":        "1.5",
		},
	} {
		t.Run(kind.Kind, func(t *testing.T) {
			t.Parallel()
			ready := func(status string) map[string]any {
				return map[string]any{"conditions": []any{map[string]any{
					"type": "Ready", "status": status, "reason": "Because", "message": "", "lastTransitionTime": "2026-01-02T03:04:05Z",
				}}}
			}
			obj := newObject(kind, "status-is-apart", spec)
			obj.Object["status"] = ready("True")
			created := create(t, obj)
			if _, found := created.Object["status"]; found {
				t.Error("a status was taken from the manifest")
			}
			written := setStatus(t, created, ready("False"))
			conditions, _, _ := unstructured.NestedSlice(written.Object, "status", "conditions")
			if len(conditions) != 1 {
				t.Errorf("conditions %v, want one", conditions)
			}
			if written.GetGeneration() != created.GetGeneration() {
				t.Error("a new status made a new generation")
			}
			if diff := cmp.Diff(created.Object["spec"], written.Object["spec"]); diff != "" {
				t.Errorf("the status changed the spec (-before +after):\n%s", diff)
			}
		})
	}
}

// CV-01: an old version works and says that it is old, once per request; the new one is silent.
func TestCV_01_OldVersionsWarn(t *testing.T) {
	t.Parallel()
	for _, crd := range server.CRDs {
		for _, version := range crd.Spec.Versions {
			kind := kindOf(crd.Spec.Group, version.Name, crd.Spec.Names.Kind)
			t.Run(kind.Version+" "+kind.Kind, func(t *testing.T) {
				t.Parallel()
				ctx, warnings := kubectl.WithWarnings(t.Context())
				if _, err := server.Table(ctx, kind); err != nil {
					t.Fatal(err)
				}
				current, _ := storageVersion(kind.GroupKind())
				texts := warnings.Texts()
				switch {
				case version.Name == current && len(texts) > 0:
					t.Errorf("warnings %q, want none", texts)
				case version.Name != current && (len(texts) != 1 || !strings.Contains(texts[0], "deprecated; use "+current)):
					t.Errorf("warnings %q, want one that says to use %s", texts, current)
				}
			})
		}
	}
}

func newObject(kind schema.GroupVersionKind, name string, spec map[string]any) *unstructured.Unstructured {
	obj := &unstructured.Unstructured{Object: map[string]any{"spec": spec}}
	obj.SetGroupVersionKind(kind)
	obj.SetName(name)
	return obj
}

func classRef() map[string]any {
	return map[string]any{"group": "karpenter.k8s.aws", "kind": "EC2NodeClass", "name": "default"}
}

// poolSpec is the least that a NodePool needs, and more.
func poolSpec(more map[string]any) map[string]any {
	spec := map[string]any{"template": map[string]any{"spec": map[string]any{"requirements": []any{}, "nodeClassRef": classRef()}}}
	maps.Copy(spec, more)
	return spec
}

func pool(name string, more map[string]any) *unstructured.Unstructured {
	return newObject(nodePool, name, poolSpec(more))
}

// create makes an object for the time of a test.
func create(t *testing.T, obj *unstructured.Unstructured) *unstructured.Unstructured {
	t.Helper()
	created, err := server.Create(t.Context(), obj)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { remove(t, created) })
	return created
}

func setStatus(t *testing.T, obj *unstructured.Unstructured, status map[string]any) *unstructured.Unstructured {
	t.Helper()
	obj = obj.DeepCopy()
	obj.Object["status"] = status
	resource, err := server.Of(obj.GroupVersionKind(), obj.GetNamespace())
	if err != nil {
		t.Fatal(err)
	}
	written, err := resource.UpdateStatus(t.Context(), obj, metav1.UpdateOptions{FieldValidation: metav1.FieldValidationStrict})
	if err != nil {
		t.Fatal(err)
	}
	return written
}

func nestedInt(obj *unstructured.Unstructured, path ...string) int64 {
	n, _, _ := unstructured.NestedInt64(obj.Object, path...)
	return n
}
