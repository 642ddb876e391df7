package disruption_test

import (
	"context"
	"errors"
	"slices"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	karpv1 "github.com/dovetail-sh/dovetail/api/v1"
	"github.com/dovetail-sh/dovetail/internal/condition"
	"github.com/dovetail-sh/dovetail/internal/disrupt"
)

// FM C03: a process stands still between its last look and the deletion, and its successor gives the
// node back, or a user protects it. What the first one sends then has no effect.
func TestFM_C03_DeletionsOfAStaleLeader(t *testing.T) {
	t.Parallel()
	for name, change := range map[string]func(s *fixture){
		"rolled back": func(s *fixture) {
			claim := s.claim("claim-a")
			claim.Status.Conditions = condition.Remove(claim.Status.Conditions, karpv1.ConditionDisruptionReason)
			if err := s.client.Status().Update(s.t.Context(), claim); err != nil {
				s.t.Error(err)
			}
		},
		"protected": func(s *fixture) {
			node := &corev1.Node{}
			if err := s.client.Get(s.t.Context(), client.ObjectKey{Name: "a"}, node); err != nil {
				s.t.Error(err)
			}
			metav1.SetMetaDataAnnotation(&node.ObjectMeta, karpv1.AnnotationDoNotDisrupt, "true")
			claim := s.claim("claim-a") // whose controller takes note of it
			metav1.SetMetaDataAnnotation(&claim.ObjectMeta, "seen", "true")
			if err := errors.Join(s.client.Update(s.t.Context(), node), s.client.Update(s.t.Context(), claim)); err != nil {
				s.t.Error(err)
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var s *fixture
			paused := false
			s = newFixture(t, interceptor.Funcs{
				Delete: func(ctx context.Context, c client.WithWatch, obj client.Object, opts ...client.DeleteOption) error {
					if !paused {
						paused = true
						change(s)
					}
					// The fake client looks at neither of the preconditions that the API server looks at.
					o, now := client.DeleteOptions{}, &karpv1.NodeClaim{}
					o.ApplyOptions(opts)
					if err := c.Get(ctx, client.ObjectKeyFromObject(obj), now); err != nil {
						return err
					}
					if p := o.Preconditions; p == nil || p.UID == nil || *p.UID != now.UID || p.ResourceVersion != nil && *p.ResourceVersion != now.ResourceVersion {
						return apierrors.NewConflict(karpv1.GroupVersion().WithResource("nodeclaims").GroupResource(), obj.GetName(), nil)
					}
					return c.Delete(ctx, obj, opts...)
				},
			})
			s.node("a")
			s.remove(karpv1.ReasonEmpty, "empty", "a")
			_ = s.pass()
			if _, gone := s.claims(); !paused || len(gone) > 0 {
				t.Errorf("claims %v are deleted, requested %v", gone, paused)
			}
		})
	}
}

// V15-29: a process that dies between the end of the drain and the deletion leaves none of it on a claim
// that stays. A deadline of another client is not removed.
func TestBoundsOfClaimsThatStayAreTakenBack(t *testing.T) {
	t.Parallel()
	dead := false
	s := newFixture(t, interceptor.Funcs{
		Delete: func(context.Context, client.WithWatch, client.Object, ...client.DeleteOption) error {
			dead = true
			return errors.New("killed")
		},
	})
	s.node("a")
	s.node("b")
	edit(s, &karpv1.NodeClaim{ObjectMeta: metav1.ObjectMeta{Name: "claim-b"}}, func(c *karpv1.NodeClaim) {
		metav1.SetMetaDataAnnotation(&c.ObjectMeta, karpv1.AnnotationTerminationTimestamp, "2026-01-01T00:00:00Z")
	})
	s.decide = func(v disrupt.View) []disrupt.Command {
		s.decide = nil
		c := command(v, karpv1.ReasonUnhealthy, "", disrupt.Delete, "a")
		c.Bound = new(time.Minute)
		return []disrupt.Command{c}
	}
	_ = s.pass()
	if !dead || s.claim("claim-a").Annotations[karpv1.AnnotationTerminationTimestamp] == "" {
		t.Fatalf("the process did not come to the deletion: %v", s.claim("claim-a").Annotations)
	}
	s.boot()
	s.mustPass()
	for claim, want := range map[string]bool{"claim-a": false, "claim-b": true} {
		if _, there := s.claim(claim).Annotations[karpv1.AnnotationTerminationTimestamp]; there != want {
			t.Errorf("%s has the end of a drain: %v, want %v", claim, there, want)
		}
	}
	if held := s.tainted(); len(held) > 0 {
		t.Errorf("nodes %v are held", held)
	}
}

// Disruption 18: only a node that was replaced shows that drift of its pool works again. One that went
// by itself shows nothing.
func TestNodesDeletedByOthersEndNoBackoff(t *testing.T) {
	t.Parallel()
	s := newFixture(t, interceptor.Funcs{})
	s.node("a", "web")
	s.node("b", "api")
	s.replace(karpv1.ReasonDrifted, "", "b")
	s.mustPass()
	other := s.replacements()[0].Name
	s.replace(karpv1.ReasonDrifted, "", "a")
	s.mustPass()
	for _, r := range s.replacements() {
		if r.Name != other {
			s.ice(r.Name)
		}
	}
	s.work(10 * time.Second)
	if err := s.client.Delete(t.Context(), s.claim("claim-b")); err != nil {
		t.Fatal(err)
	}
	s.work(10 * time.Second)
	rests := false
	s.decide = func(v disrupt.View) []disrupt.Command {
		rests = v.DriftBackoff["general"].After(v.Now)
		return nil
	}
	s.mustPass()
	if !rests {
		t.Error("drift of the pool does not rest any more")
	}
	if _, gone := s.claims(); !slices.Equal(gone, []string{"claim-b"}) {
		t.Errorf("claims %v are deleted", gone)
	}
}

// V15-30: the pass after a reboot was requested comes when the watch has delivered it, else the same node
// would look like one whose reboots did not help.
func TestRebootsAreWaitedFor(t *testing.T) {
	t.Parallel()
	s := newFixture(t, interceptor.Funcs{})
	s.node("a", "web")
	s.Reboot = func(context.Context, disrupt.Command) error { return nil }
	s.decide = func(v disrupt.View) []disrupt.Command {
		return []disrupt.Command{command(v, karpv1.ReasonUnhealthy, "", disrupt.Reboot, "a")}
	}
	if wait, err := s.Turn(t.Context()); wait <= 0 || wait >= time.Second || err != nil {
		t.Errorf("waits %s, error %v, want a moment", wait, err)
	}
	rests := false
	s.decide = func(v disrupt.View) []disrupt.Command {
		rests = v.Nodes[0].RepairBackingOff
		return nil
	}
	if s.mustPass(); !rests {
		t.Error("the node may be replaced although the watch has not delivered its reboot")
	}
}

// G9: a claim that cannot be deleted when its command begins is tried again soon: the queue, which nothing else wakes, is
// asked to.
func TestADeletionThatFailedIsTriedAgainSoon(t *testing.T) {
	t.Parallel()
	denied := true
	s := newFixture(t, interceptor.Funcs{
		Delete: func(ctx context.Context, c client.WithWatch, obj client.Object, opts ...client.DeleteOption) error {
			if denied {
				return errors.New("forbidden")
			}
			return c.Delete(ctx, obj, opts...)
		},
	})
	s.node("a")
	s.remove(karpv1.ReasonEmpty, "empty", "a")
	if err := s.pass(); err == nil || !s.TakeWakeUp() {
		t.Fatalf("pass: %v, and the queue is not triggered to go on", err)
	}
	wait, err := s.Work(t.Context())
	if err != nil || wait > 10*time.Second {
		t.Errorf("the queue looks again in %s, %v; want seconds", wait, err)
	}
	denied = false
	s.clock = s.clock.Add(wait)
	if _, err := s.Work(t.Context()); err != nil {
		t.Error(err)
	}
	if _, gone := s.claims(); len(gone) != 1 {
		t.Errorf("claims %v are deleted, want one", gone)
	}
}
