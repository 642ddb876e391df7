package admission_test

import (
	"testing"

	"github.com/dovetail-sh/dovetail/internal/admission"
)

// TestCases runs every admission case against the API server's libraries. Rule ids are in the case
// files; make rules lists them.
func TestCases(t *testing.T) {
	t.Parallel()
	server, err := admission.New(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	cases, err := admission.Cases()
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range cases {
		t.Run(c.File+"/"+c.Rule+" "+c.Name, func(t *testing.T) {
			t.Parallel()
			if err := c.Run(t.Context(), server); err != nil {
				t.Error(err)
			}
		})
	}
}

// A rule is shown only by a pair: what it lets through and what it stops.
func TestEveryRuleHasBothCases(t *testing.T) {
	t.Parallel()
	cases, err := admission.Cases()
	if err != nil {
		t.Fatal(err)
	}
	accepted, refused := map[string]bool{}, map[string]bool{}
	for _, c := range cases {
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
