package disruption_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	karpv1 "github.com/dovetail-sh/dovetail/api/v1"
	"github.com/dovetail-sh/dovetail/internal/controller/provisioning"
	"github.com/dovetail-sh/dovetail/internal/disrupt"
)

// G9: what always fails with one node, which would be first each time, keeps no other from its turn.
func TestFM_G09_OneNodeDoesNotStarveOthers(t *testing.T) {
	t.Parallel()
	deny := errors.New("denied by a webhook")
	for name, calls := range map[string]interceptor.Funcs{
		"it cannot be held": {
			Patch: func(ctx context.Context, c client.WithWatch, obj client.Object, patch client.Patch, opts ...client.PatchOption) error {
				if obj.GetName() == "a" {
					return deny
				}
				return c.Patch(ctx, obj, patch, opts...)
			},
		},
		"its pods cannot be read": {
			List: func(ctx context.Context, c client.WithWatch, list client.ObjectList, opts ...client.ListOption) error {
				o := client.ListOptions{}
				if o.ApplyOptions(opts); o.FieldSelector != nil && strings.HasSuffix(o.FieldSelector.String(), "=a") {
					return deny
				}
				return c.List(ctx, list, opts...)
			},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newFixture(t, calls)
			s.node("a")
			s.node("b", "web")
			s.drift("b")
			s.Decide = disrupt.Next
			for range 2 {
				wait, _ := s.Turn(t.Context())
				s.clock = s.clock.Add(wait)
				s.sync()
			}
			if _, gone := s.claims(); !slices.Equal(gone, []string{"claim-b"}) {
				t.Errorf("claims %v are deleted after two turns, want that of the node that can go", gone)
			}
		})
	}
}

// drift marks the claim of a node as drifted.
func (s *fixture) drift(node string) {
	s.t.Helper()
	claim := s.claim("claim-" + node)
	claim.Status.Conditions = append(claim.Status.Conditions,
		metav1.Condition{Type: karpv1.ConditionDrifted, Status: metav1.ConditionTrue, Reason: "AMIDrift", LastTransitionTime: metav1.NewTime(s.clock)})
	if err := s.client.Status().Update(s.t.Context(), claim); err != nil {
		s.t.Fatal(err)
	}
	s.sync()
}

// Disruption 17, 4: an order that is filled in part leaves nothing behind, however often it is tried; its
// nodes rest, and the pool that the API server denies claims of is left alone by everybody (FM A14).
func TestOrdersThatAreFilledInPart(t *testing.T) {
	t.Parallel()
	var made atomic.Int64
	s := newFixture(t, interceptor.Funcs{
		Create: func(ctx context.Context, c client.WithWatch, obj client.Object, opts ...client.CreateOption) error {
			if _, is := obj.(*karpv1.NodeClaim); is && !strings.HasPrefix(obj.GetName(), "claim-") {
				if made.Add(1)%2 == 0 {
					return apierrors.NewForbidden(corev1.Resource("nodeclaims"), obj.GetName(), errors.New("quota"))
				}
			}
			return c.Create(ctx, obj, opts...)
		},
	})
	s.LaunchBackoff = provisioning.NewLaunchBackoff("")
	s.node("a", "web", "api")
	var rests, repairBackedOff bool
	for range 3 {
		s.replace(karpv1.ReasonUnhealthy, "", "a")
		decide := s.decide
		s.decide = func(v disrupt.View) []disrupt.Command {
			repairBackedOff = v.Nodes[0].RepairBackingOff
			list := decide(v)
			one := list[0].Create[0]
			one.Pods = one.Pods[:1]
			list[0].Create = append(list[0].Create, one)
			return list
		}
		if err := s.pass(); err == nil {
			t.Error("the pass says nothing of what failed")
		}
		rests = s.LaunchBackoff.PoolBackedOff("general", s.clock)
		for _, r := range s.replacements() {
			if r.DeletionTimestamp == nil {
				t.Errorf("%s was launched for nothing", r.Name)
			}
		}
	}
	if !rests || !repairBackedOff {
		t.Errorf("the pool rests: %v, the node rests: %v", rests, repairBackedOff)
	}
	if _, gone := s.claims(); slices.Contains(gone, "claim-a") || len(s.tainted()) > 0 {
		t.Errorf("claims %v are deleted, nodes %v held", gone, s.tainted())
	}
}

// Disruption 16, G5: another node goes between the decision and the start, and the budget is spent.
func TestBudgetsSpentMeanwhile(t *testing.T) {
	t.Parallel()
	s := newFixture(t, interceptor.Funcs{})
	for _, name := range []string{"a", "b", "c"} {
		s.node(name)
	}
	edit(s, &karpv1.NodePool{ObjectMeta: metav1.ObjectMeta{Name: "general"}}, func(p *karpv1.NodePool) {
		p.Spec.Disruption.Budgets = []karpv1.Budget{{Nodes: intstr.FromString("2")}}
	})
	s.remove(karpv1.ReasonEmpty, "empty", "a", "b")
	decide := s.decide
	s.decide = func(v disrupt.View) []disrupt.Command {
		if err := s.client.Delete(t.Context(), s.claim("claim-c")); err != nil {
			t.Fatal(err)
		}
		s.sync()
		return decide(v)
	}
	s.mustPass()
	if _, gone := s.claims(); !slices.Equal(gone, []string{"claim-a", "claim-c"}) {
		t.Errorf("claims %v are deleted, want two in all", gone)
	}
	if held := s.tainted(); !slices.Equal(held, []string{"a"}) {
		t.Errorf("nodes %v are held, want the one that goes", held)
	}
}

// The same for a reboot, which uses a budget too (V15-16).
func TestBudgetsSpentBeforeAReboot(t *testing.T) {
	t.Parallel()
	s := newFixture(t, interceptor.Funcs{})
	s.node("a")
	s.node("b")
	edit(s, &karpv1.NodePool{ObjectMeta: metav1.ObjectMeta{Name: "general"}}, func(p *karpv1.NodePool) {
		p.Spec.Disruption.Budgets = []karpv1.Budget{{Nodes: intstr.FromString("1")}}
	})
	rebooted := 0
	s.Reboot = func(context.Context, disrupt.Command) error {
		rebooted++
		return nil
	}
	for _, meanwhile := range []func(){func() {}, func() {
		if err := s.client.Delete(t.Context(), s.claim("claim-b")); err != nil {
			t.Fatal(err)
		}
	}} {
		s.decide = func(v disrupt.View) []disrupt.Command {
			meanwhile()
			s.sync()
			return []disrupt.Command{command(v, karpv1.ReasonUnhealthy, "", disrupt.Reboot, "a")}
		}
		_ = s.pass()
	}
	if rebooted != 1 {
		t.Errorf("%d reboots, want the one that the budget has room for", rebooted)
	}
}

// A panic over one object ends neither the process nor the work on the others (G9).
func TestFM_G09_PanicsStayWithTheirObject(t *testing.T) {
	t.Parallel()
	s := newFixture(t, interceptor.Funcs{
		Patch: func(ctx context.Context, c client.WithWatch, obj client.Object, patch client.Patch, opts ...client.PatchOption) error {
			if obj.GetName() == "a" {
				panic("bug")
			}
			return c.Patch(ctx, obj, patch, opts...)
		},
	})
	s.node("a")
	s.node("b")
	s.remove(karpv1.ReasonEmpty, "empty", "a", "b")
	_ = s.pass()
	if _, gone := s.claims(); !slices.Equal(gone, []string{"claim-b"}) {
		t.Errorf("claims %v are deleted, want the other one", gone)
	}
}
