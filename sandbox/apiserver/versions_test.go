package apiserver_test

import (
	"context"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"

	karpv1 "github.com/dovetail-sh/dovetail/api/v1"
	"github.com/dovetail-sh/dovetail/internal/drift"
	"github.com/dovetail-sh/dovetail/sandbox/kubectl"
)

// FM C13: what was made through one version and is edited through the other loses nothing, keeps its finalizer
// and does not count as changed.
func TestFM_C13_EditsThroughTheOtherVersion(t *testing.T) {
	t.Parallel()
	old := map[string]any{
		"template": map[string]any{"spec": map[string]any{
			"requirements": []any{map[string]any{"key": "kubernetes.io/arch", "operator": "In", "values": []any{"arm64"}}},
			"nodeClassRef": map[string]any{"apiVersion": "karpenter.k8s.aws/v1beta1", "kind": "EC2NodeClass", "name": "default"},
			"kubelet":      map[string]any{"maxPods": int64(20), "clusterDNS": []any{"10.0.0.10"}},
		}},
		"disruption": map[string]any{"consolidationPolicy": "WhenUnderutilized", "expireAfter": "240h", "budgets": []any{map[string]any{"nodes": "20%"}}},
		"limits":     map[string]any{"cpu": "100"},
	}
	now := map[string]any{
		"template":   map[string]any{"spec": map[string]any{"requirements": []any{}, "nodeClassRef": classRef(), "expireAfter": "48h"}},
		"disruption": map[string]any{"consolidationPolicy": "WhenEmpty", "consolidateAfter": "30s"},
	}
	claim := func(ref map[string]any) map[string]any {
		return map[string]any{"requirements": []any{}, "nodeClassRef": ref, "resources": map[string]any{"requests": map[string]any{"cpu": "1"}}}
	}
	for name, tc := range map[string]struct {
		kind, made, edited string
		spec               map[string]any
	}{
		"pool-old":  {"NodePool", "v1beta1", "v1", old},
		"pool-new":  {"NodePool", "v1", "v1beta1", now},
		"claim-old": {"NodeClaim", "v1beta1", "v1", claim(map[string]any{"apiVersion": "karpenter.k8s.aws/v1beta1", "kind": "EC2NodeClass", "name": "default"})},
		"claim-new": {"NodeClaim", "v1", "v1beta1", claim(classRef())},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			obj := newObject(kindOf("karpenter.sh", tc.made, tc.kind), "c13-"+name, tc.spec)
			obj.SetFinalizers([]string{karpv1.FinalizerTermination})
			made := create(t, obj)
			t.Cleanup(func() { release(t, made) })
			edited := read(t, made, tc.edited)
			edited.SetLabels(map[string]string{"edited": "true"})
			if _, err := server.Update(t.Context(), edited); err != nil {
				t.Fatal(err)
			}
			after := read(t, made, tc.made)
			for _, lost := range kubectl.Lost(made.Object["spec"], after.Object["spec"]) { // defaults of the other version may be added
				t.Error(lost)
			}
			if diff := cmp.Diff(made.GetFinalizers(), after.GetFinalizers()); diff != "" || after.GetLabels()["edited"] != "true" {
				t.Errorf("finalizers %v, labels %v", after.GetFinalizers(), after.GetLabels())
			}
			if tc.kind == "NodePool" {
				if before, now := poolHash(t, made), poolHash(t, read(t, made, "v1")); before != now {
					t.Errorf("its nodes would be drifted: hash %s, and %s after the edit", before, now)
				}
			}
		})
	}
}

func read(t *testing.T, obj *unstructured.Unstructured, version string) *unstructured.Unstructured {
	t.Helper()
	got, err := server.Get(context.WithoutCancel(t.Context()), obj, version)
	if err != nil {
		t.Fatal(err)
	}
	return got
}

// release takes the finalizer off, so that the object can go.
func release(t *testing.T, obj *unstructured.Unstructured) {
	t.Helper()
	now := read(t, obj, "v1")
	now.SetFinalizers(nil)
	if _, err := server.Update(context.WithoutCancel(t.Context()), now); err != nil {
		t.Error(err)
	}
}

func poolHash(t *testing.T, obj *unstructured.Unstructured) string {
	t.Helper()
	pool := &karpv1.NodePool{}
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(obj.Object, pool); err != nil {
		t.Fatal(err)
	}
	effective, _ := pool.Effective(false)
	hash, err := drift.PoolHash(effective)
	if err != nil {
		t.Fatal(err)
	}
	return hash.Sum
}
