package disruption_test

import (
	"slices"
	"sync"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	karpv1 "github.com/dovetail-sh/dovetail/api/v1"
	"github.com/dovetail-sh/dovetail/internal/cluster"
	"github.com/dovetail-sh/dovetail/internal/controller/controllertest"
	"github.com/dovetail-sh/dovetail/internal/disrupt"
)

// comesBack has a pod of an unhealthy node come back under its name, as those of StatefulSets do.
func (s *fixture) comesBack(name string) {
	s.t.Helper()
	if err := s.client.Delete(s.t.Context(), &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: "default"}}); err != nil {
		s.t.Fatal(err)
	}
	pod := controllertest.PendingPod(name, "1")
	pod.UID = "again"
	s.create(pod)
}

// unhealthyScene has a node with two pods that takes no others, and is to be replaced.
func unhealthyScene(t *testing.T) *fixture {
	t.Helper()
	s := newFixture(t, interceptor.Funcs{})
	s.node("a", "web-0", "web-1")
	edit(s, &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "a"}}, func(n *corev1.Node) { n.Spec.Unschedulable = true })
	s.replace(karpv1.ReasonUnhealthy, "", "a")
	return s
}

// servedBy names the claims that were ordered for a pod.
func (s *fixture) servedBy(pod string) []string {
	s.t.Helper()
	var out []string
	hash := cluster.PodKey{Namespace: "default", Name: pod}.Hash()
	for _, claim := range s.replacements() {
		if slices.Contains(cluster.ReadHashes(claim.Annotations[karpv1.AnnotationPods]), hash) && claim.DeletionTimestamp == nil {
			out = append(out, claim.Name)
		}
	}
	return out
}

// G8: a pod leaves its node between the decision to repair that and the order, comes back under the same name,
// and provisioning orders a node for it. The command, which has it in its plan, writes nothing and is decided
// anew.
func TestG8_PodIsServedBetweenDecisionAndOrder(t *testing.T) {
	t.Parallel()
	s := unhealthyScene(t)
	decide := s.decide
	s.decide = func(v disrupt.View) []disrupt.Command {
		commands := decide(v)
		s.comesBack("web-0")
		s.plans.Pass(t.Context())
		return commands
	}
	if err := s.pass(); err == nil {
		t.Error("the command does not say why it is given up")
	}
	if claims := s.servedBy("web-0"); len(claims) != 1 {
		t.Errorf("claims %v for one pod", claims)
	}
	if held := s.tainted(); len(held) > 0 {
		t.Errorf("nodes %v are held by a command that was given up", held)
	}
	s.replace(karpv1.ReasonUnhealthy, "", "a")
	s.mustPass()
	if all, again := s.replacements(), s.servedBy("web-1"); len(all) != 2 || len(again) != 1 {
		t.Errorf("%d claims, %v for the other pod; want one for each", len(all), again)
	}
}

// G8: both at once, however they meet.
func TestG8_BothOrderForAPodAtOnce(t *testing.T) {
	t.Parallel()
	for range 20 {
		s := unhealthyScene(t)
		decide := s.decide
		var both sync.WaitGroup
		s.decide = func(v disrupt.View) []disrupt.Command {
			commands := decide(v)
			s.comesBack("web-0")
			both.Go(func() { s.plans.Pass(t.Context()) })
			return commands
		}
		if err := s.Pass(t.Context()); err != nil {
			t.Log(err) // the other one was faster
		}
		both.Wait()
		s.sync()
		if claims := s.servedBy("web-0"); len(claims) != 1 {
			t.Errorf("claims %v for one pod", claims)
		}
	}
}
