package controller_test

import (
	"testing"

	corev1 "k8s.io/api/core/v1"

	karpv1 "github.com/dovetail-sh/dovetail/api/v1"
)

func TestTrust_C05_AMistypedInstanceTypeIsTold(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	pool := readyPool("general")
	pool.Spec.Template.Spec.Requirements = []karpv1.Requirement{{Key: corev1.LabelInstanceTypeStable, Operator: corev1.NodeSelectorOpIn, Values: []string{"smal", "large"}}}
	l.add(pool, pendingPod("a", "1"))
	l.Pass(t.Context())
	if !l.told.saw("general DefaultAssumed", "smal does not exist; did you mean small?") {
		t.Errorf("told %q", l.told.said)
	}
}

func TestTrust_C05_ABudgetThatCannotBeReadIsTold(t *testing.T) {
	t.Parallel()
	pool := aPool("p")
	pool.Spec.Disruption.Budgets = []karpv1.Budget{{Schedule: new("0 25 * * *"), Duration: new(karpv1.Duration("1h"))}}
	w := newPoolWorld(t, pool, readyClass())
	w.reconcile("p")
	w.reconcile("p")
	if n := w.events.count("p Normal DefaultAssumed: spec.disruption.budgets[0].schedule: budget 0 25 * * * cannot be read"); n != 1 {
		t.Errorf("told %d times: %q", n, w.events.lines)
	}
}
