package execute_test

import (
	"testing"

	karpv1 "github.com/dovetail-sh/dovetail/api/v1"
	"github.com/dovetail-sh/dovetail/internal/execute"
)

// DR-08: a NodeClaim lists the drivers that its pods need; without any, it has no such annotation.
func TestDR_08_ClaimsListTheirDrivers(t *testing.T) {
	t.Parallel()
	o := order(t)
	plain, err := execute.Claim(o)
	if err != nil {
		t.Fatal(err)
	}
	if _, has := plain.Annotations[karpv1.AnnotationRequestedDRADrivers]; has {
		t.Errorf("annotations of a claim without devices: %v", plain.Annotations)
	}
	o.Node.Drivers = []string{"a.example.com", "b.example.com"}
	claim, err := execute.Claim(o)
	if err != nil {
		t.Fatal(err)
	}
	if got := claim.Annotations[karpv1.AnnotationRequestedDRADrivers]; got != "a.example.com,b.example.com" {
		t.Errorf("drivers: %q", got)
	}
}
