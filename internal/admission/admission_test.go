package admission_test

import (
	"testing"

	crdvalidation "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/validation"

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
