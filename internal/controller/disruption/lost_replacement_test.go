package disruption_test

import (
	"testing"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	karpv1 "github.com/dovetail-sh/dovetail/api/v1"
	"github.com/dovetail-sh/dovetail/internal/controller/controllertest"
)

// G8: the replacement finds no capacity, and the provisioner plans before the queue has given the node
// back. Only for the pod that really waits is a node launched.
func TestFM_G08_PodsOfNodesThatStayAreNotBoughtFor(t *testing.T) {
	t.Parallel()
	s := newFixture(t, interceptor.Funcs{})
	s.node("a", "p1", "p2", "p3", "p4", "p5", "p6", "p7")
	s.replace(karpv1.ReasonDrifted, "", "a")
	s.mustPass()
	s.ice(s.replacements()[0].Name)
	s.create(controllertest.PendingPod("real", "1"))
	s.plans.Pass(t.Context())
	made := s.replacements()
	if len(made) != 1 {
		t.Fatalf("%d claims, want one", len(made))
	}
	if cpu := made[0].Spec.Resources.Requests.Cpu(); cpu.Value() != 1 {
		t.Errorf("the new node is for %s cores, want the one of the pod that waits", cpu)
	}
}

// A command whose replacement goes is looked at now, not when it is due.
func TestLostReplacementsAreNoticedAtOnce(t *testing.T) {
	t.Parallel()
	s := newFixture(t, interceptor.Funcs{})
	if err := s.Watch(t.Context(), s.feed); err != nil {
		t.Fatal(err)
	}
	s.node("a", "web")
	s.replace(karpv1.ReasonDrifted, "", "a")
	s.mustPass()
	for range 4 { // looks are five seconds apart by now
		s.work(5 * time.Second)
	}
	s.work(time.Millisecond)
	if len(s.tainted()) != 1 {
		t.Fatal("the node is not held")
	}
	s.ice(s.replacements()[0].Name)
	s.work(time.Millisecond)
	if held := s.tainted(); len(held) > 0 {
		t.Errorf("nodes %v are still held", held)
	}
}
