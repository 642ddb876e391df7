package pools_test

import (
	"testing"

	karpv1 "github.com/dovetail-sh/dovetail/api/v1"
	"github.com/dovetail-sh/dovetail/internal/controller/controllertest"
)

func TestTrust_C05_AnInvalidBudgetIsReported(t *testing.T) {
	t.Parallel()
	pool := controllertest.Pool("p")
	pool.Spec.Disruption.Budgets = []karpv1.Budget{{Schedule: new("0 25 * * *"), Duration: new(karpv1.Duration("1h"))}}
	w := newPoolWorld(t, pool, readyClass())
	w.reconcile("p")
	w.reconcile("p")
	if n := w.events.Count("p Normal DefaultAssumed: spec.disruption.budgets[0].schedule: budget 0 25 * * * cannot be read"); n != 1 {
		t.Errorf("reported %d times: %q", n, w.events.Lines)
	}
}
