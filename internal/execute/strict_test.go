package execute_test

import (
	"maps"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"

	karpv1 "github.com/dovetail-sh/dovetail/api/v1"
	"github.com/dovetail-sh/dovetail/internal/admission"
	"github.com/dovetail-sh/dovetail/internal/execute"
)

// FM C10, README decision 2: whatever form its pool was applied in, a claim that is written is strict v1. So it
// stays valid when the cluster goes back to Karpenter.
func TestFM_C10_ClaimsAreStrict(t *testing.T) {
	t.Parallel()
	strict := []string{"expireAfter", "nodeClassRef", "requirements", "resources", "startupTaints", "taints", "terminationGracePeriod"}
	server, err := admission.New()
	if err != nil {
		t.Fatal(err)
	}
	for name, change := range map[string]func(p *karpv1.NodePool){
		"a pool of v1": func(*karpv1.NodePool) {},
		"a pool of v1beta1": func(p *karpv1.NodePool) {
			p.Spec.Template.Spec.NodeClassRef = karpv1.NodeClassReference{DeprecatedAPIVersion: "karpenter.k8s.aws/v1beta1", Kind: "EC2NodeClass", Name: "default"}
			p.Spec.Template.Spec.ExpireAfter = ""
			p.Spec.Disruption.DeprecatedExpireAfter = "48h"
			p.Spec.Disruption.ConsolidationPolicy = "WhenUnderutilized"
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			o := order(t)
			change(o.Pool)
			o.Pool, _ = o.Pool.Effective(false)
			claim, err := execute.Claim(o)
			if err != nil {
				t.Fatal(err)
			}
			if _, notes := claim.Effective(nil, true); len(notes) > 0 {
				t.Errorf("strictly read it has faults: %v", notes)
			}
			claim.SetGroupVersionKind(karpv1.GroupVersion().WithKind("NodeClaim"))
			tree, err := runtime.DefaultUnstructuredConverter.ToUnstructured(claim)
			if err != nil {
				t.Fatal(err)
			}
			delete(tree, "status")
			spec := tree["spec"].(map[string]any)
			for _, field := range slices.Sorted(maps.Keys(spec)) {
				if !slices.Contains(strict, field) {
					t.Errorf("spec.%s is no field of strict v1", field)
				}
			}
			class := slices.Sorted(maps.Keys(spec["nodeClassRef"].(map[string]any)))
			if diff := cmp.Diff([]string{"group", "kind", "name"}, class); diff != "" {
				t.Errorf("nodeClassRef (-want +got):\n%s", diff)
			}
			if _, err := server.Create(t.Context(), &unstructured.Unstructured{Object: tree}); err != nil {
				t.Errorf("the API server refuses it: %v", err)
			}
		})
	}
}
