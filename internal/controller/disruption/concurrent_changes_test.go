package disruption_test

import (
	"slices"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	karpv1 "github.com/dovetail-sh/dovetail/api/v1"
	"github.com/dovetail-sh/dovetail/internal/disrupt"
)

// FM K10: a budget that becomes zero while a command waits lets the command end, and no other begin.
func TestFM_K10_BudgetEditedDuringACommand(t *testing.T) {
	t.Parallel()
	s := newFixture(t, interceptor.Funcs{})
	s.node("a", "web")
	s.node("b", "api")
	s.replace(karpv1.ReasonDrifted, "", "a")
	s.mustPass()
	edit(s, &karpv1.NodePool{ObjectMeta: metav1.ObjectMeta{Name: "general"}}, func(p *karpv1.NodePool) {
		p.Spec.Disruption.Budgets = []karpv1.Budget{{Nodes: intstr.FromString("0")}}
	})
	s.replace(karpv1.ReasonDrifted, "", "b")
	s.mustPass()
	if held := s.tainted(); !slices.Equal(held, []string{"a"}) {
		t.Fatalf("nodes %v are held, want the one whose command had begun", held)
	}
	s.up(s.replacements()[0].Name)
	s.work(10 * time.Second)
	if _, gone := s.claims(); !slices.Equal(gone, []string{"claim-a"}) {
		t.Errorf("claims %v are deleted, want claim-a", gone)
	}
}

// FM K24: a node is interrupted while it is being replaced for drift. It is deleted once, and what was
// ordered for it is all that is launched.
func TestFM_K24_DriftAndInterruption(t *testing.T) {
	t.Parallel()
	s := newFixture(t, interceptor.Funcs{})
	s.node("a", "web")
	s.replace(karpv1.ReasonDrifted, "", "a")
	s.mustPass()
	if err := s.client.Delete(t.Context(), s.claim("claim-a")); err != nil {
		t.Fatal(err)
	}
	s.sync()
	s.decide = func(disrupt.View) []disrupt.Command { return nil }
	for range 3 {
		s.mustPass()
		s.work(10 * time.Second)
	}
	list := s.replacements()
	if len(list) != 1 || list[0].DeletionTimestamp != nil {
		t.Fatalf("%d replacements, want the one that was ordered", len(list))
	}
	view := s.memory.Disruption(nil)
	if len(view.PlannedBinds) != 1 || view.PlannedBinds[0].Node != list[0].Name {
		t.Errorf("the pod of the node is planned on %v, want %s", view.PlannedBinds, list[0].Name)
	}
}

// FM K18: a pod that gets do-not-disrupt between the decision and the second look keeps its node. Later, the
// drain respects it (disruption 7).
func TestFM_K18_PodProtectedWhileItsNodeIsHeld(t *testing.T) {
	t.Parallel()
	s := newFixture(t, interceptor.Funcs{})
	s.node("a", "web")
	s.replace(karpv1.ReasonUnderutilized, "single", "a")
	protect := s.decide
	s.decide = func(v disrupt.View) []disrupt.Command {
		edit(s, &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "web", Namespace: "default"}}, func(p *corev1.Pod) {
			metav1.SetMetaDataAnnotation(&p.ObjectMeta, karpv1.AnnotationDoNotDisrupt, "true")
		})
		return protect(v)
	}
	s.mustPass()
	if _, gone := s.claims(); len(gone) > 0 || len(s.tainted()) > 0 || len(s.replacements()) > 0 {
		t.Errorf("claims %v are deleted, nodes %v held, %d replacements ordered", gone, s.tainted(), len(s.replacements()))
	}
}
