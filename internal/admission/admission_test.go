package admission_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	crdvalidation "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/validation"
	"sigs.k8s.io/yaml"

	"github.com/dovetail-sh/dovetail/api/crds"
	"github.com/dovetail-sh/dovetail/internal/admission"
	"github.com/dovetail-sh/dovetail/internal/admission/cases"
)

// TestCases runs every admission case against the API server's libraries. Rule ids are in the case
// files; make rules lists them.
func TestCases(t *testing.T) {
	t.Parallel()
	server, err := admission.New()
	if err != nil {
		t.Fatal(err)
	}
	all, err := cases.All()
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range all {
		t.Run(c.File+"/"+c.Rule+" "+c.Name, func(t *testing.T) {
			t.Parallel()
			if err := c.Run(t.Context(), server); err != nil {
				t.Error(err)
			}
		})
	}
}

// The API server takes the CRDs: schemas are structural, defaults fit them, CEL rules compile and are
// cheap enough.
func TestCRDsAreAccepted(t *testing.T) {
	t.Parallel()
	all, err := crds.All()
	if err != nil {
		t.Fatal(err)
	}
	if len(all) != 5 {
		t.Errorf("%d CRDs, want 5", len(all))
	}
	for _, crd := range all {
		decoded, err := admission.Decode(crd.YAML)
		if err != nil {
			t.Fatalf("%s: %v", crd.File, err)
		}
		for _, err := range crdvalidation.ValidateCustomResourceDefinition(t.Context(), decoded) {
			t.Errorf("%s: %v", crd.File, err)
		}
	}
}

// A rule is shown only by a pair: what it lets through and what it stops.
func TestEveryRuleHasBothCases(t *testing.T) {
	t.Parallel()
	all, err := cases.All()
	if err != nil {
		t.Fatal(err)
	}
	accepted, refused := map[string]bool{}, map[string]bool{}
	for _, c := range all {
		key := c.File + " " + c.Rule
		if c.Refuse == "" {
			accepted[key] = true
		} else {
			refused[key] = true
		}
	}
	for key := range refused {
		if !accepted[key] {
			t.Errorf("%s has a refusing case and no accepting one", key)
		}
	}
}

// The libraries of the API server range over maps. Of a file with several faults users get the same
// every time, in the order of the fields.
func TestRefusalsAreInOrder(t *testing.T) {
	t.Parallel()
	server, err := admission.New()
	if err != nil {
		t.Fatal(err)
	}
	for name, tc := range map[string]struct {
		spec string
		want []string // fields
	}{
		"unknown fields": {
			spec: `{disruption: {late: 1, early: 2}, soon: 3, weigth: 1, template: {spec: {x: 1, a: 2}}}`,
			want: []string{"spec.disruption.early", "spec.disruption.late", "spec.soon", "spec.template.spec.a", "spec.template.spec.x", "spec.weigth"},
		},
		"fields of the wrong shape": {
			spec: `{disruption: {consolidateAfter: soon, consolidationPolicy: Maybe}, weight: 500, replicas: -1, template: {spec: {expireAfter: later}}}`,
			want: []string{"spec.disruption.consolidateAfter", "spec.disruption.consolidationPolicy", "spec.replicas", "spec.template.spec.expireAfter", "spec.template.spec.nodeClassRef", "spec.template.spec.requirements", "spec.weight"},
		},
		"rules that do not hold": {
			spec: `{disruption: {budgets: [{schedule: "@daily"}]}, limits: {cpu: 1}, replicas: 1,
				template: {metadata: {labels: {karpenter.sh/nodepool: x}}, spec: {nodeClassRef: {group: a, kind: b, name: c}, requirements: [{key: a, operator: In}, {key: karpenter.sh/nodepool, operator: Exists}]}}}`,
			want: []string{"spec", "spec.disruption.budgets[0]", "spec.template.metadata.labels", "spec.template.spec.requirements", "spec.template.spec.requirements[0]"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			for range 30 {
				var tree map[string]any
				if err := yaml.Unmarshal([]byte("{apiVersion: karpenter.sh/v1, kind: NodePool, metadata: {name: x}, spec: "+tc.spec+"}"), &tree); err != nil {
					t.Fatal(err)
				}
				var got []string
				for _, e := range server.Refusals(t.Context(), tree) {
					got = append(got, e.Field)
				}
				if diff := cmp.Diff(tc.want, got); diff != "" {
					t.Fatalf("fields of the refusals (-want +got):\n%s", diff)
				}
			}
		})
	}
}
