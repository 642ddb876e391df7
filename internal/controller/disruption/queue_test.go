package disruption_test

import (
	"context"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	karpv1 "github.com/dovetail-sh/dovetail/api/v1"
	"github.com/dovetail-sh/dovetail/internal/condition"
	"github.com/dovetail-sh/dovetail/internal/disrupt"
)

func zero() *resource.Quantity { return resource.NewQuantity(0, resource.DecimalSI) }

// FM K06, disruption 17: a replacement that never comes up. After ten minutes everything is undone, and
// the claim that turns up later is an ordinary one.
func TestFM_K06_ReplacementNeverComesUp(t *testing.T) {
	t.Parallel()
	s := newFixture(t, interceptor.Funcs{})
	s.node("a", "web")
	s.replace(karpv1.ReasonUnderutilized, "single", "a")
	s.mustPass()
	s.work(9 * time.Minute)
	if held := s.tainted(); !slices.Equal(held, []string{"a"}) {
		t.Fatalf("nodes %v are held after nine minutes", held)
	}
	s.work(time.Minute + time.Second)
	if held := s.tainted(); len(held) > 0 || condition.Find(s.claim("claim-a").Status.Conditions, karpv1.ConditionDisruptionReason) != nil {
		t.Errorf("nodes %v are held", held)
	}
	if n := testutil.ToFloat64(s.metrics.DisruptionQueueFailures.WithLabelValues("replace", "underutilized", "single")); n != 1 {
		t.Errorf("%v failures were counted, want 1", n)
	}
	if view := s.memory.Disruption(nil); view.Nodes[0].BeingRemoved || view.Nodes[0].Commanded {
		t.Error("memory still has the node on its way out")
	}
	s.up(s.replacements()[0].Name)
	s.mustPass()
	s.work(time.Minute)
	if _, gone := s.claims(); len(gone) > 0 {
		t.Errorf("claims %v are deleted for a command that is over", gone)
	}
}

// FM K09: a user deletes one of the nodes while the command waits. It goes on with the others.
func TestFM_K09_NodeDeletedMeanwhile(t *testing.T) {
	t.Parallel()
	s := newFixture(t, interceptor.Funcs{})
	s.node("a", "web")
	s.node("b", "api")
	s.replace(karpv1.ReasonUnderutilized, "multi", "a", "b")
	s.mustPass()
	if err := s.client.Delete(t.Context(), s.claim("claim-a")); err != nil {
		t.Fatal(err)
	}
	s.up(s.replacements()[0].Name)
	s.work(10 * time.Second)
	if _, gone := s.claims(); !slices.Equal(gone, []string{"claim-a", "claim-b"}) {
		t.Errorf("claims %v are deleted, want both", gone)
	}
	if n := testutil.ToFloat64(s.metrics.NodeClaimsDisrupted.WithLabelValues("underutilized", "general", "on-demand", "when_empty_or_underutilized", "graceful")); n != 1 {
		t.Errorf("%v claims were counted, want the one that the command deleted", n)
	}
}

// A node that is protected while its replacement comes up is not deleted, whether by an annotation of its own or
// of its pool (L-15), current or deprecated (LC-62).
func TestProtectedWhileTheReplacementComesUp(t *testing.T) {
	t.Parallel()
	for name, protect := range map[string]func(s *fixture){
		"the node": func(s *fixture) {
			edit(s, &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "a"}}, func(n *corev1.Node) {
				metav1.SetMetaDataAnnotation(&n.ObjectMeta, karpv1.AnnotationDoNotDisrupt, "true")
			})
		},
		"the node, by a deprecated annotation": func(s *fixture) {
			edit(s, &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "a"}}, func(n *corev1.Node) {
				metav1.SetMetaDataAnnotation(&n.ObjectMeta, karpv1.AnnotationDoNotConsolidate, "true")
			})
		},
		"the pool": func(s *fixture) {
			edit(s, &karpv1.NodePool{ObjectMeta: metav1.ObjectMeta{Name: "general"}}, func(p *karpv1.NodePool) {
				metav1.SetMetaDataAnnotation(&p.ObjectMeta, karpv1.AnnotationDoNotDisrupt, "true")
			})
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newFixture(t, interceptor.Funcs{})
			s.node("a", "web")
			s.replace(karpv1.ReasonUnderutilized, "single", "a")
			s.mustPass()
			protect(s)
			s.up(s.replacements()[0].Name)
			s.work(10 * time.Second)
			if _, gone := s.claims(); len(gone) > 0 || len(s.tainted()) > 0 {
				t.Errorf("claims %v are deleted, nodes %v held", gone, s.tainted())
			}
		})
	}
}

// The replacement of a running command is not removed, though it is empty.
func TestReplacementsAreSpokenFor(t *testing.T) {
	t.Parallel()
	s := newFixture(t, interceptor.Funcs{})
	s.node("a", "web")
	s.replace(karpv1.ReasonUnderutilized, "single", "a")
	s.mustPass()
	for range 5 {
		s.work(15 * time.Second)
		if name := s.replacements()[0].Name; !s.memory.Nominated(name) {
			t.Fatalf("replacement %s is not reserved", name)
		}
	}
}

// V15-26, V15-29: the time until which a drain may take is written before the deletion, counted from
// then; a time that is there is only made earlier.
func TestBoundsAreOnlyTightened(t *testing.T) {
	t.Parallel()
	const waited = 5 * time.Minute
	for name, tc := range map[string]struct {
		have, own string // offset from the deletion; terminationGracePeriod
		bound     time.Duration
		want      string // offset from the deletion
		mode      string
	}{
		"none yet":                     {bound: time.Minute, want: "1m", mode: "eventual"},
		"a later one":                  {have: "1h", bound: time.Minute, want: "1m", mode: "eventual"},
		"an earlier one":               {have: "30s", bound: time.Minute, want: "30s", mode: "eventual"},
		"at once":                      {bound: 0, want: "0s", mode: "forceful"},
		"the claim's period is less":   {own: "20s", bound: time.Minute, want: "20s", mode: "eventual"},
		"one that cannot be read goes": {have: "?", bound: time.Minute, want: "1m", mode: "eventual"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			conflicts := 2
			s := newFixture(t, interceptor.Funcs{
				Patch: func(ctx context.Context, c client.WithWatch, obj client.Object, patch client.Patch, opts ...client.PatchOption) error {
					if obj.GetAnnotations()[karpv1.AnnotationTerminationTimestamp] != "" && conflicts > 0 { // another client writes too
						conflicts--
						return apierrors.NewConflict(karpv1.GroupVersion().WithResource("nodeclaims").GroupResource(), obj.GetName(), nil)
					}
					return c.Patch(ctx, obj, patch, opts...)
				},
			})
			s.node("a", "web")
			at := s.clock.Add(waited)
			edit(s, &karpv1.NodeClaim{ObjectMeta: metav1.ObjectMeta{Name: "claim-a"}}, func(c *karpv1.NodeClaim) {
				c.Spec.TerminationGracePeriod = karpv1.Duration(tc.own)
				if offset, err := time.ParseDuration(tc.have); err == nil {
					metav1.SetMetaDataAnnotation(&c.ObjectMeta, karpv1.AnnotationTerminationTimestamp, at.Add(offset).Format(time.RFC3339))
				} else if tc.have != "" {
					metav1.SetMetaDataAnnotation(&c.ObjectMeta, karpv1.AnnotationTerminationTimestamp, tc.have)
				}
			})
			s.replace(karpv1.ReasonUnhealthy, "", "a")
			decide := s.decide
			s.decide = func(v disrupt.View) []disrupt.Command {
				list := decide(v)
				list[0].Bound, list[0].Because = &tc.bound, "DiskPressure"
				return list
			}
			s.mustPass()
			s.up(s.replacements()[0].Name)
			s.work(waited)
			claim := s.claim("claim-a")
			offset, err := time.ParseDuration(tc.want)
			if err != nil {
				t.Fatal(err)
			}
			if got, want := claim.Annotations[karpv1.AnnotationTerminationTimestamp], at.Add(offset).Format(time.RFC3339); got != want || claim.DeletionTimestamp == nil {
				t.Errorf("the drain may take until %s, want %s; deleted %v", got, want, claim.DeletionTimestamp)
			}
			if n := testutil.ToFloat64(s.metrics.NodeClaimsUnhealthyDisrupted.WithLabelValues("disk_pressure", "general", "on-demand", "", tc.mode)); n != 1 {
				t.Errorf("%v repairs were counted with mode %s, want one", n, tc.mode)
			}
		})
	}
}

// Both loops work on the same commands at the same time. Each claim is deleted once.
func TestBothLoopsAtOnce(t *testing.T) {
	t.Parallel()
	var mu sync.Mutex
	deletes := map[string]int{}
	s := newFixture(t, interceptor.Funcs{
		Delete: func(ctx context.Context, c client.WithWatch, obj client.Object, opts ...client.DeleteOption) error {
			mu.Lock()
			deletes[obj.GetName()]++
			mu.Unlock()
			return c.Delete(ctx, obj, opts...)
		},
	})
	names := []string{"a", "b", "c", "d", "e", "f", "g", "h"}
	for _, name := range names {
		s.node(name)
	}
	next := 0
	s.decide = func(v disrupt.View) []disrupt.Command {
		if next == len(names) {
			return nil
		}
		next++
		return []disrupt.Command{command(v, karpv1.ReasonEmpty, "empty", disrupt.Delete, names[next-1])}
	}
	var wait sync.WaitGroup
	wait.Go(func() {
		for range names {
			if err := s.Pass(t.Context()); err != nil {
				t.Error(err)
			}
		}
	})
	wait.Go(func() {
		for range 50 {
			if _, err := s.Work(t.Context()); err != nil {
				t.Error(err)
			}
		}
	})
	wait.Wait()
	for _, name := range names {
		if n := deletes["claim-"+name]; n != 1 {
			t.Errorf("claim of %s was deleted %d times", name, n)
		}
	}
}
