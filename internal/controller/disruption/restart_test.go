package disruption_test

import (
	"slices"
	"testing"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	karpv1 "github.com/dovetail-sh/dovetail/api/v1"
	"github.com/dovetail-sh/dovetail/internal/controller/controllertest"
)

// Disruption 25.8: a process that began a moment ago plans before it has found the commands of the one before.
// The replacement is full with the pods of the node that it stands for: a pod that waits does not get their
// room, else there would have to be a second replacement for them.
func TestReplacementsAreNotGivenAwayAfterARestart(t *testing.T) {
	t.Parallel()
	s := newFixture(t, interceptor.Funcs{})
	s.node("a", "web", "api")
	s.replace(karpv1.ReasonDrifted, "", "a")
	s.mustPass()
	replacement := s.replacements()[0].Name
	s.boot()
	s.create(controllertest.PendingPod("waits", "1"))
	s.plans.Pass(t.Context())
	if made := s.replacements(); len(made) != 2 {
		t.Fatalf("%d claims, want the replacement and one for the pod that waits", len(made))
	}
	s.mustPass()
	s.plans.Pass(t.Context())
	if made := s.replacements(); len(made) != 2 {
		t.Errorf("%d claims once the command is found again, want no more", len(made))
	}
	s.up(replacement)
	s.work(10 * time.Second)
	s.plans.Pass(t.Context())
	if _, gone := s.claims(); !slices.Equal(gone, []string{"claim-a"}) || len(s.replacements()) != 2 {
		t.Errorf("claims %v go and %d were ordered, want claim-a to go and two", gone, len(s.replacements()))
	}
}
