package disruption_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	karpv1 "github.com/dovetail-sh/dovetail/api/v1"
	"github.com/dovetail-sh/dovetail/internal/cluster"
	"github.com/dovetail-sh/dovetail/internal/condition"
	"github.com/dovetail-sh/dovetail/internal/disrupt"
	"github.com/dovetail-sh/dovetail/internal/solve"
)

// Disruption 16, 25.6: a pod comes between the decision and the taint. The move is given up whole: no
// taint is left behind, nothing was ordered, nothing is deleted.
func TestPodsThatComeBeforeTheTaintEndAMove(t *testing.T) {
	t.Parallel()
	for name, change := range map[string]func(s *fixture){
		"another pod":            func(s *fixture) { s.bind("late", "a") },
		"a pod that is guarded":  func(s *fixture) { protect(s, "web") },
		"a pending pod expected": func(s *fixture) { s.memory.Nominate("a", s.clock.Add(time.Minute)) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newFixture(t, interceptor.Funcs{})
			s.node("a", "web")
			s.node("b", "api")
			s.replace(karpv1.ReasonUnderutilized, "multi", "a", "b")
			decide := s.decide
			s.decide = func(v disrupt.View) []disrupt.Command {
				defer change(s)
				return decide(v)
			}
			s.mustPass()
			if held := s.tainted(); len(held) > 0 || len(s.replacements()) > 0 {
				t.Errorf("nodes %v are held, %d replacements ordered", held, len(s.replacements()))
			}
			for _, claim := range []string{"claim-a", "claim-b"} {
				if c := s.claim(claim); c.DeletionTimestamp != nil || condition.Find(c.Status.Conditions, karpv1.ConditionDisruptionReason) != nil {
					t.Errorf("%s is deleted or still says that it is disrupted", claim)
				}
			}
			if n := testutil.ToFloat64(s.metrics.DisruptionFailedValidations.WithLabelValues("multi")); n != 1 {
				t.Errorf("%v failed validations, want 1", n)
			}
			if !s.emitted.Saw("b ConsolidationRejected") {
				t.Errorf("the other node has no event: %q", s.emitted.Said)
			}
		})
	}
}

func protect(s *fixture, pod string) {
	edit(s, &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: pod}}, func(p *corev1.Pod) {
		metav1.SetMetaDataAnnotation(&p.ObjectMeta, karpv1.AnnotationDoNotDisrupt, "true")
	})
}

// G12: a node that turned out to stay is not held and released with every pass.
func TestFM_G12_NodesThatObjectAreLeftAlone(t *testing.T) {
	t.Parallel()
	s := newFixture(t, interceptor.Funcs{})
	s.node("a", "web")
	s.bind("unknown", "a")
	hidden := func(v disrupt.View) []disrupt.Command {
		if i := slices.IndexFunc(v.Nodes, func(n cluster.ManagedNode) bool { return n.Name == "a" && !n.BackingOff }); i < 0 {
			return nil
		}
		c := command(v, karpv1.ReasonUnderutilized, "single", disrupt.Delete, "a")
		c.Remove[0].Pods = []string{"default/web"}
		return []disrupt.Command{c}
	}
	s.decide = hidden
	for range 12 { // two minutes
		s.mustPass()
		s.clock = s.clock.Add(10 * time.Second)
	}
	if n := testutil.ToFloat64(s.metrics.DisruptionFailedValidations.WithLabelValues("single")); n < 2 || n > 6 {
		t.Errorf("tried %v times in two minutes, want a few", n)
	}
}

// Disruption 17, 3: a node that cannot be held ends a command with replacements; a command without goes
// on with the others.
func TestNodesThatCannotBeHeld(t *testing.T) {
	t.Parallel()
	for decision, want := range map[string][]string{disrupt.Replace: nil, disrupt.Delete: {"claim-b"}} {
		t.Run(decision, func(t *testing.T) {
			t.Parallel()
			s := newFixture(t, interceptor.Funcs{
				Patch: func(ctx context.Context, c client.WithWatch, obj client.Object, patch client.Patch, opts ...client.PatchOption) error {
					if obj.GetName() == "a" {
						return errors.New("no")
					}
					return c.Patch(ctx, obj, patch, opts...)
				},
			})
			s.node("a", "web")
			s.node("b", "api")
			if decision == disrupt.Replace {
				s.replace(karpv1.ReasonUnderutilized, "multi", "a", "b")
			} else {
				s.node("c")
				s.decide = func(v disrupt.View) []disrupt.Command {
					s.decide = nil
					c := command(v, karpv1.ReasonUnderutilized, "multi", disrupt.Delete, "a", "b")
					for _, pod := range podsOf(c) {
						c.Bind = append(c.Bind, solve.Bind{Pod: pod, Node: "c"})
					}
					return []disrupt.Command{c}
				}
			}
			_ = s.pass()
			if _, gone := s.claims(); !slices.Equal(gone, want) {
				t.Errorf("claims %v are deleted, want %v", gone, want)
			}
			if held := s.tainted(); decision == disrupt.Replace && len(held) > 0 || len(s.replacements()) > 0 {
				t.Errorf("nodes %v are held, %d replacements ordered", held, len(s.replacements()))
			}
		})
	}
}

// Disruption 17, 4: a replacement cannot be ordered. Nothing is deleted, the nodes are released, and drift
// of the pool rests.
func TestOrdersThatFail(t *testing.T) {
	t.Parallel()
	s := newFixture(t, interceptor.Funcs{
		Create: func(ctx context.Context, c client.WithWatch, obj client.Object, opts ...client.CreateOption) error {
			if _, is := obj.(*karpv1.NodeClaim); is && !strings.HasPrefix(obj.GetName(), "claim-") {
				return errors.New("denied")
			}
			return c.Create(ctx, obj, opts...)
		},
	})
	s.node("a", "web")
	s.replace(karpv1.ReasonDrifted, "", "a")
	if err := s.pass(); err == nil {
		t.Error("the pass says nothing of what failed")
	}
	if _, gone := s.claims(); len(gone) > 0 || len(s.tainted()) > 0 {
		t.Errorf("claims %v are deleted, nodes %v held", gone, s.tainted())
	}
	var rests bool
	s.decide = func(v disrupt.View) []disrupt.Command {
		rests = v.DriftBackoff["general"].After(v.Now)
		return nil
	}
	s.mustPass()
	if !rests {
		t.Error("drift of the pool does not rest")
	}
}

// API 4.2: limits are looked at again when replacements are ordered.
func TestLimitsHoldForReplacements(t *testing.T) {
	t.Parallel()
	s := newFixture(t, interceptor.Funcs{})
	s.node("a", "web")
	s.replace(karpv1.ReasonDrifted, "", "a")
	edit(s, &karpv1.NodePool{ObjectMeta: metav1.ObjectMeta{Name: "general"}}, func(p *karpv1.NodePool) {
		p.Spec.Limits = corev1.ResourceList{karpv1.LimitNodes: *zero()}
	})
	if err := s.pass(); err == nil || len(s.replacements()) > 0 {
		t.Errorf("%d replacements beyond the limit, error %v", len(s.replacements()), err)
	}
}

// Disruption 17, 5 and 6: pods that are to move to nodes that exist get an event, those nodes are spoken
// for, and the provisioner launches nothing for them.
func TestMovesToNodesThatExist(t *testing.T) {
	t.Parallel()
	s := newFixture(t, interceptor.Funcs{})
	s.node("a", "web")
	s.node("b", "api")
	s.decide = func(v disrupt.View) []disrupt.Command {
		s.decide = nil
		c := command(v, karpv1.ReasonUnderutilized, "single", disrupt.Delete, "a")
		c.Bind = []solve.Bind{{Pod: cluster.PodKey{Namespace: "default", Name: "web"}, Node: "b"}}
		return []disrupt.Command{c}
	}
	s.mustPass()
	if _, gone := s.claims(); !slices.Equal(gone, []string{"claim-a"}) {
		t.Fatalf("claims %v are deleted, want that of the node", gone)
	}
	if !s.emitted.Saw("web Nominated", "node/b") || !s.memory.Nominated("b") {
		t.Errorf("the pod does not know where it goes: %q", s.emitted.Said)
	}
	s.clock = s.clock.Add(time.Minute)
	s.plans.Pass(t.Context())
	if n := len(s.replacements()); n > 0 {
		t.Errorf("%d claims were launched for pods that have a place", n)
	}
	if i := slices.IndexFunc(s.memory.Disruption(nil).Nodes, func(n cluster.ManagedNode) bool { return n.Name == "b" && (n.Nominated || n.ExpectsDisplaced) }); i < 0 {
		t.Error("the node that the pod goes to may be removed meanwhile")
	}
}

// Disruption 17, 1: a node that is part of a running command is in no other one.
func TestOneCommandForANode(t *testing.T) {
	t.Parallel()
	s := newFixture(t, interceptor.Funcs{})
	s.node("a", "web")
	s.replace(karpv1.ReasonDrifted, "", "a")
	s.mustPass()
	s.remove(karpv1.ReasonUnderutilized, "single", "a")
	s.mustPass()
	if _, gone := s.claims(); len(gone) > 0 {
		t.Errorf("claims %v are deleted by a second command", gone)
	}
}

// Several commands run at once; one that fails does not stop the others.
func TestSeveralCommands(t *testing.T) {
	t.Parallel()
	s := newFixture(t, interceptor.Funcs{})
	for _, name := range []string{"a", "b", "c"} {
		s.node(name, "pod-"+name)
	}
	s.decide = func(v disrupt.View) []disrupt.Command {
		var list []disrupt.Command
		for _, name := range []string{"a", "b", "c"} {
			s.replace(karpv1.ReasonDrifted, "", name)
			list = append(list, s.decide(v)...)
		}
		return list
	}
	s.mustPass()
	made := s.replacements()
	if len(made) != 3 {
		t.Fatalf("%d replacements, want three", len(made))
	}
	for _, claim := range made {
		switch claim.Annotations[karpv1.AnnotationReplaces] {
		case "claim-a":
			s.ice(claim.Name)
		case "claim-b":
			s.up(claim.Name)
		}
	}
	s.work(10 * time.Second)
	if _, gone := s.claims(); !slices.Equal(gone, []string{"claim-b"}) {
		t.Errorf("claims %v are deleted, want the one whose replacement is up", gone)
	}
	s.mustPass()
	if held := s.tainted(); !slices.Equal(held, []string{"b", "c"}) {
		t.Errorf("nodes %v are held, want b, which goes, and c, which waits", held)
	}
}

// Static pools: claims straight from the template, one for each command, also if several are decided
// together (disruption 18).
func TestReplacementsFromTheTemplate(t *testing.T) {
	t.Parallel()
	s := newFixture(t, interceptor.Funcs{})
	s.node("a", "web")
	s.node("b", "api")
	s.decide = func(v disrupt.View) []disrupt.Command {
		s.decide = nil
		var list []disrupt.Command
		for _, name := range []string{"a", "b"} {
			c := command(v, karpv1.ReasonDrifted, "", disrupt.Replace, name)
			c.Template = []string{"general"}
			list = append(list, c)
		}
		return list
	}
	s.mustPass()
	made := s.replacements()
	if len(made) != 2 || len(made[0].Spec.Resources.Requests) > 0 {
		t.Fatalf("replacements are %+v, want two without requests", made)
	}
	s.up(made[0].Name, made[1].Name)
	s.work(10 * time.Second)
	if _, gone := s.claims(); !slices.Equal(gone, []string{"claim-a", "claim-b"}) {
		t.Errorf("claims %v are deleted, want both", gone)
	}
}

// V15-50: a node that is terminated before its replacement exists is counted apart.
func TestTerminateFirst(t *testing.T) {
	t.Parallel()
	s := newFixture(t, interceptor.Funcs{})
	s.node("a", "web")
	s.decide = func(v disrupt.View) []disrupt.Command {
		s.decide = nil
		c := command(v, karpv1.ReasonDrifted, "", disrupt.TerminateFirst, "a")
		c.Because = disrupt.NoReservedCapacity
		return []disrupt.Command{c}
	}
	s.mustPass()
	if _, gone := s.claims(); !slices.Equal(gone, []string{"claim-a"}) {
		t.Errorf("claims %v are deleted, want that of the node", gone)
	}
	if n := testutil.ToFloat64(s.metrics.DisruptionTerminateFirst.WithLabelValues("general", "drifted", "no-reserved-capacity")); n != 1 {
		t.Errorf("counted %v times, want once", n)
	}
}

// V15-34: reboots are handed over; no taint, no queue.
func TestRebootsAreHandedOver(t *testing.T) {
	t.Parallel()
	s := newFixture(t, interceptor.Funcs{})
	s.node("a", "web")
	var got []string
	for _, by := range []func(context.Context, disrupt.Command) error{nil, func(_ context.Context, c disrupt.Command) error {
		got = append(got, c.Remove[0].Node)
		return nil
	}} {
		s.boot()
		s.Reboot = by
		s.decide = func(v disrupt.View) []disrupt.Command {
			s.decide = nil
			return []disrupt.Command{command(v, karpv1.ReasonUnhealthy, "", disrupt.Reboot, "a")}
		}
		if err := s.pass(); (err == nil) != (by != nil) {
			t.Errorf("the pass says %v", err)
		}
	}
	if !slices.Equal(got, []string{"a"}) || len(s.tainted()) > 0 {
		t.Errorf("rebooted %v, held %v", got, s.tainted())
	}
	if n := testutil.ToFloat64(s.metrics.DisruptionDecisions.WithLabelValues("reboot", "unhealthy", "")); n != 1 {
		t.Errorf("%v decisions to reboot were counted, want one", n)
	}
}
