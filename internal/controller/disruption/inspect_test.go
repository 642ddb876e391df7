package disruption_test

import (
	"context"
	"errors"
	"reflect"
	"testing"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	karpv1 "github.com/dovetail-sh/dovetail/api/v1"
	"github.com/dovetail-sh/dovetail/internal/catalog"
	"github.com/dovetail-sh/dovetail/internal/disrupt"
)

// Questions are answered from what a pass decides on, and asking changes nothing that passes go by.
func TestEX_30_InspectSeesWhatAPassSees(t *testing.T) {
	t.Parallel()
	s := newFixture(t, interceptor.Funcs{})
	s.node("a", "web", "db")
	s.node("b")
	s.Policy.NodeFee, s.Tuning.MinSaving, s.Methods.Static = 0.02, 0.1, true
	var decided disrupt.View
	s.Decide = func(v disrupt.View, _ func() bool) disrupt.Decision {
		decided = v
		return disrupt.Decision{}
	}
	s.mustPass()
	for range 3 {
		c := s.Inspect(t.Context())
		for part, pair := range map[string][2]any{
			"nodes": {c.View.Nodes, decided.Nodes}, "pools": {c.View.Pools, decided.Pools}, "pending": {c.View.Cluster.Pending, decided.Cluster.Pending},
			"policy": {c.View.Policy, decided.Policy}, "tuning": {c.View.Tuning, decided.Tuning}, "methods": {c.View.Methods, decided.Methods},
			"outcomes": {c.View.Outcomes, decided.Outcomes}, "backoff": {c.View.DriftBackoff, decided.DriftBackoff}, "unpriced": {c.View.Unpriced, decided.Unpriced},
		} {
			if !reflect.DeepEqual(pair[0], pair[1]) {
				t.Errorf("%s: got %+v, want %+v as the pass had it", part, pair[0], pair[1])
			}
		}
	}
	s.mustPass()
	if !decided.Unchanged {
		t.Error("a question made the next pass look at everything again")
	}
}

// A NodePool without instance types is named with the reason, and prices that are not known yet are said so before the
// first pass too.
func TestEX_30_InspectSaysWhatIsNotKnown(t *testing.T) {
	t.Parallel()
	s := newFixture(t, interceptor.Funcs{})
	s.node("a")
	s.Cloud, s.Priced = noTypes{}, func() bool { return false }
	c := s.Inspect(t.Context())
	if c.Untyped["general"] != "no subnets" || !c.View.Unpriced {
		t.Errorf("got untyped %v, unpriced %v; want general: no subnets, and true", c.Untyped, c.View.Unpriced)
	}
}

type noTypes struct{}

func (noTypes) Types(context.Context, *karpv1.NodePool) ([]catalog.InstanceType, error) {
	return nil, errors.New("no subnets")
}

// Questions come from other goroutines than passes.
func TestEX_30_InspectIsSafeBesidePasses(t *testing.T) {
	t.Parallel()
	s := newFixture(t, interceptor.Funcs{})
	s.node("a", "web")
	ctx, stop := context.WithTimeout(t.Context(), time.Minute)
	defer stop()
	requested := make(chan int)
	go func() {
		defer close(requested)
		for range 50 {
			requested <- len(s.Inspect(ctx).View.Nodes)
		}
	}()
	for n := range requested {
		if n != 1 {
			t.Errorf("got %d nodes, want 1", n)
		}
		if err := s.Pass(ctx); err != nil {
			t.Fatal(err)
		}
	}
}
