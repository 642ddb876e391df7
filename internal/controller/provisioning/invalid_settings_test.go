package provisioning_test

import (
	"testing"

	corev1 "k8s.io/api/core/v1"

	karpv1 "github.com/dovetail-sh/dovetail/api/v1"
	"github.com/dovetail-sh/dovetail/internal/controller/controllertest"
)

func TestTrust_C05_AMistypedInstanceTypeIsReported(t *testing.T) {
	t.Parallel()
	l := newFixture(t)
	pool := controllertest.ReadyPool("general")
	pool.Spec.Template.Spec.Requirements = []karpv1.Requirement{{Key: corev1.LabelInstanceTypeStable, Operator: corev1.NodeSelectorOpIn, Values: []string{"smal", "large"}}}
	l.add(pool, controllertest.PendingPod("a", "1"))
	l.Pass(t.Context())
	if !l.emitted.Saw("general DefaultAssumed", "smal does not exist; did you mean small?") {
		t.Errorf("reported %q", l.emitted.Said)
	}
}
