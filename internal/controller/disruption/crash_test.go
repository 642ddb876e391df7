package disruption_test

import (
	"context"
	"errors"
	"slices"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	karpv1 "github.com/dovetail-sh/dovetail/api/v1"
	"github.com/dovetail-sh/dovetail/internal/condition"
	"github.com/dovetail-sh/dovetail/internal/disrupt"
)

// Failure modes 16, rows 9 and 10, disruption 25.7: killed between the taint and the order of
// replacements. Taint and condition are gone within one pass.
func TestFM_C01_KilledBeforeTheOrder(t *testing.T) {
	t.Parallel()
	s := newFixture(t, interceptor.Funcs{})
	s.node("a", "web")
	s.node("b", "api")
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "a"}}
	edit(s, node, func(n *corev1.Node) {
		n.Spec.Taints = append(n.Spec.Taints, karpv1.DisruptedTaint())
		metav1.SetMetaDataAnnotation(&n.ObjectMeta, karpv1.AnnotationHeldBy, "x-y")
	})
	claim := s.claim("claim-b") // the other one has only its condition so far
	claim.Status.Conditions = append(claim.Status.Conditions, metav1.Condition{Type: karpv1.ConditionDisruptionReason, Status: metav1.ConditionTrue, Reason: "Drifted"})
	if err := s.client.Status().Update(t.Context(), claim); err != nil {
		t.Fatal(err)
	}
	s.boot()
	s.mustPass()
	if held := s.tainted(); len(held) > 0 || condition.Find(s.claim("claim-b").Status.Conditions, karpv1.ConditionDisruptionReason) != nil {
		t.Errorf("nodes %v are held one pass after the start", held)
	}
	if err := s.client.Get(t.Context(), client.ObjectKeyFromObject(node), node); err != nil || node.Annotations[karpv1.AnnotationHeldBy] != "" {
		t.Errorf("the node still names the command: %v", node.Annotations)
	}
}

// Failure modes 16, row 11, disruption 25.8, README decision 8: killed after the order. The command goes
// on: no second replacement for the same pods, and the old node runs until the first one is up.
func TestFM_C01_KilledAfterTheOrder(t *testing.T) {
	t.Parallel()
	s := newFixture(t, interceptor.Funcs{})
	s.node("a", "web")
	s.node("b", "api")
	s.replace(karpv1.ReasonUnderutilized, "multi", "a", "b")
	s.mustPass()
	s.boot()
	s.mustPass()
	for range 3 {
		s.plans.Pass(t.Context())
		s.mustPass()
		s.work(10 * time.Second)
	}
	made := s.replacements()
	if len(made) != 1 {
		t.Fatalf("%d replacements after a restart, want one", len(made))
	}
	if _, gone := s.claims(); len(gone) > 0 || !slices.Equal(s.tainted(), []string{"a", "b"}) {
		t.Fatalf("claims %v are deleted, nodes %v held, while the replacement comes up", gone, s.tainted())
	}
	s.up(made[0].Name)
	s.boot() // row 12: killed again when it is up
	s.mustPass()
	s.work(time.Second)
	if _, gone := s.claims(); !slices.Equal(gone, []string{"claim-a", "claim-b"}) {
		t.Errorf("claims %v are deleted, want both", gone)
	}
	s.mustPass()
	if left := s.claim(made[0].Name).Annotations[karpv1.AnnotationCommand]; left != "" {
		t.Errorf("the replacement still names a command that is over: %s", left)
	}
}

// Failure modes 16, row 13: killed when one of two old claims was deleted. The other one follows.
func TestFM_C01_KilledBetweenDeletions(t *testing.T) {
	t.Parallel()
	broken := true
	s := newFixture(t, interceptor.Funcs{
		Delete: func(ctx context.Context, c client.WithWatch, obj client.Object, opts ...client.DeleteOption) error {
			if obj.GetName() == "claim-b" && broken {
				return errors.New("the API server is away")
			}
			return c.Delete(ctx, obj, opts...)
		},
	})
	s.node("a", "web")
	s.node("b", "api")
	s.replace(karpv1.ReasonUnderutilized, "multi", "a", "b")
	s.mustPass()
	s.up(s.replacements()[0].Name)
	s.clock = s.clock.Add(time.Second)
	s.sync()
	if _, err := s.Work(t.Context()); err == nil {
		t.Fatal("nothing is said of a deletion that failed")
	}
	broken = false
	s.boot()
	s.mustPass()
	s.work(time.Second)
	if _, gone := s.claims(); !slices.Equal(gone, []string{"claim-a", "claim-b"}) {
		t.Errorf("claims %v are deleted, want both", gone)
	}
	if made := s.replacements(); len(made) != 1 {
		t.Errorf("%d replacements, want one", len(made))
	}
}

// A command of which not all replacements were ordered cannot go on: the nodes are released, the
// replacement that is there is a node like any other.
func TestFM_C01_KilledInTheMiddleOfTheOrder(t *testing.T) {
	t.Parallel()
	s := newFixture(t, interceptor.Funcs{})
	s.node("a", "web")
	s.replace(karpv1.ReasonDrifted, "", "a")
	one := s.decide
	s.decide = func(v disrupt.View) []disrupt.Command {
		list := one(v)
		list[0].Create = append(list[0].Create, list[0].Create[0])
		list[0].Create[1].Pods = nil
		return list
	}
	s.mustPass()
	made := s.replacements()
	if len(made) != 2 {
		t.Fatalf("%d replacements, want two", len(made))
	}
	s.ice(made[1].Name) // as if it had never been written
	s.boot()
	s.mustPass()
	if held := s.tainted(); len(held) > 0 {
		t.Errorf("nodes %v are held", held)
	}
	if left := s.claim(made[0].Name).Annotations[karpv1.AnnotationReplaces]; left != "" {
		t.Errorf("the replacement still says that it replaces %s", left)
	}
	s.up(made[0].Name)
	s.boot()
	s.mustPass()
	s.work(time.Minute)
	if _, gone := s.claims(); len(gone) > 0 {
		t.Errorf("claims %v are deleted for a command that was given up", gone)
	}
}

// A replacement of a command that is over starts nothing when its old nodes are held by another one.
func TestOldOrdersDoNotComeBack(t *testing.T) {
	t.Parallel()
	s := newFixture(t, interceptor.Funcs{})
	s.node("a", "web")
	s.replace(karpv1.ReasonDrifted, "", "a")
	s.mustPass()
	first := s.replacements()[0]
	old := first.Annotations
	s.clock = s.clock.Add(11 * time.Minute) // it never comes up: rolled back
	s.work(0)
	s.mustPass()
	edit(s, &karpv1.NodeClaim{ObjectMeta: metav1.ObjectMeta{Name: first.Name}}, func(c *karpv1.NodeClaim) { c.Annotations = old }) // as if that write had failed
	s.clock = s.clock.Add(11 * time.Minute)
	s.replace(karpv1.ReasonDrifted, "", "a")
	s.mustPass()
	if n := len(s.replacements()); n != 2 {
		t.Fatalf("%d replacements, want another one for the second try", n)
	}
	edit(s, &karpv1.NodeClaim{ObjectMeta: metav1.ObjectMeta{Name: first.Name}}, func(c *karpv1.NodeClaim) { c.Annotations = old })
	s.up(first.Name)
	s.boot()
	s.mustPass()
	s.work(time.Second)
	if _, gone := s.claims(); len(gone) > 0 {
		t.Errorf("claims %v are deleted although the replacement of the running command is not up", gone)
	}
	if held := s.tainted(); !slices.Equal(held, []string{"a"}) {
		t.Errorf("nodes %v are held, want the one of the running command", held)
	}
}
