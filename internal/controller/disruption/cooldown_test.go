package disruption_test

import (
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	karpv1 "github.com/dovetail-sh/dovetail/api/v1"
	"github.com/dovetail-sh/dovetail/internal/disrupt"
)

// Disruption 4: consolidation does not rest while time alone may change what it finds. A cluster that had
// moved pods stood still for five minutes otherwise: nodes that take pods in are nominated, and nothing
// tells when that is over.
func TestConsolidationLooksAgainWhenTimeHasPassed(t *testing.T) {
	t.Parallel()
	s := newFixture(t, interceptor.Funcs{})
	s.node("a", "web")
	var quiet bool
	s.Decide = func(v disrupt.View, _ func() bool) disrupt.Decision {
		quiet = v.Unchanged
		return disrupt.Decision{}
	}
	expect := func(when string, want bool) {
		t.Helper()
		if err := s.Pass(t.Context()); err != nil {
			t.Fatal(err)
		}
		if quiet != want {
			t.Errorf("%s: left out %v, want %v", when, quiet, want)
		}
	}
	s.memory.Nominate("a", s.clock.Add(20*time.Second))
	expect("at first", false)
	expect("a pod is expected", false)
	s.clock = s.clock.Add(21 * time.Second)
	expect("no longer", false)
	expect("and nothing changed", true)

	s.clock = s.clock.Add(5 * time.Minute)
	s.Tuning.MinAge = time.Minute
	edit(s, &karpv1.NodeClaim{ObjectMeta: metav1.ObjectMeta{Name: "claim-a"}}, func(c *karpv1.NodeClaim) { c.CreationTimestamp = metav1.NewTime(s.clock) })
	expect("the node is too young", false)
	expect("still", true)
	s.clock = s.clock.Add(time.Minute)
	expect("it is old enough", false)
}
