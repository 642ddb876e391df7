package disruption_test

import (
	"slices"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	karpv1 "github.com/dovetail-sh/dovetail/api/v1"
	"github.com/dovetail-sh/dovetail/internal/condition"
)

// Disruption 17, FM K14: the node is held, its replacement ordered, and its claim deleted once that is up; the
// provisioner launches nothing for the pods meanwhile. Nothing is evicted before, so that the only replica of a
// workload has a place to go to.
func TestReplaceFirstThenRemove(t *testing.T) {
	t.Parallel()
	s := newFixture(t, interceptor.Funcs{})
	s.node("a", "web", "api")
	s.replace(karpv1.ReasonDrifted, "", "a")
	s.mustPass()
	made := s.replacements()
	if len(made) != 1 || made[0].Annotations[karpv1.AnnotationReplaces] != "claim-a" {
		t.Fatalf("replacements = %+v, want one that names claim-a", made)
	}
	if held := s.tainted(); !slices.Equal(held, []string{"a"}) || !condition.True(s.claim("claim-a").Status.Conditions, karpv1.ConditionDisruptionReason) {
		t.Errorf("nodes %v are held", held)
	}
	for range 3 {
		s.clock = s.clock.Add(10 * time.Second)
		s.plans.Pass(t.Context())
		s.mustPass()
		s.work(0)
	}
	if made := s.replacements(); len(made) != 1 {
		t.Errorf("%d claims for pods that have a place", len(made))
	}
	if _, gone := s.claims(); len(gone) > 0 {
		t.Fatalf("claims %v are deleted before the replacement is up", gone)
	}
	s.up(made[0].Name)
	s.work(10 * time.Second)
	if _, gone := s.claims(); !slices.Equal(gone, []string{"claim-a"}) {
		t.Errorf("claims %v are deleted, want that of the node alone", gone)
	}
	m := s.metrics
	for name, n := range map[string]float64{
		"decisions":  testutil.ToFloat64(m.DisruptionDecisions.WithLabelValues("replace", "drifted", "")),
		"by pool":    testutil.ToFloat64(m.DisruptionDecisionsByPool.WithLabelValues("general", "replace", "drifted", "")),
		"created":    testutil.ToFloat64(m.NodeClaimsCreated.WithLabelValues("drifted", "general", "false")),
		"disrupted":  testutil.ToFloat64(m.NodeClaimsDisrupted.WithLabelValues("drifted", "general", "on-demand", "", "graceful")),
		"pods moved": testutil.ToFloat64(m.PodsDisruptionInitiated.WithLabelValues("drifted", "general", "on-demand", "", "graceful")) - 1,
	} {
		if n != 1 {
			t.Errorf("%s: counted %v, want 1", name, n)
		}
	}
	for _, said := range []string{"DisruptionLaunching", "DisruptionTerminating"} {
		if !s.emitted.Saw(said) {
			t.Errorf("no event says %s: %q", said, s.emitted.Said)
		}
	}
}

// Disruption 25.9, FM K07: there is no capacity for the replacement. The node is released, no pod was
// evicted, and drift of the pool waits.
func TestFM_K07_NoCapacityForTheReplacement(t *testing.T) {
	t.Parallel()
	s := newFixture(t, interceptor.Funcs{})
	s.node("a", "web")
	s.replace(karpv1.ReasonDrifted, "", "a")
	s.mustPass()
	s.ice(s.replacements()[0].Name)
	s.work(10 * time.Second)
	if held, _ := s.tainted(), 0; len(held) > 0 || condition.Find(s.claim("claim-a").Status.Conditions, karpv1.ConditionDisruptionReason) != nil {
		t.Errorf("nodes %v are still held", held)
	}
	if _, gone := s.claims(); len(gone) > 0 {
		t.Errorf("claims %v are deleted", gone)
	}
	if n := testutil.ToFloat64(s.metrics.DisruptionQueueFailures.WithLabelValues("replace", "drifted", "")); n != 1 {
		t.Errorf("%v failures were counted, want 1", n)
	}
	if n := testutil.ToFloat64(s.metrics.DisruptionDriftBackoffs.WithLabelValues("general")); n != 1 {
		t.Errorf("drift was put off %v times, want once", n)
	}
}
