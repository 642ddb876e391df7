package disruption_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	karpv1 "github.com/dovetail-sh/dovetail/api/v1"
	"github.com/dovetail-sh/dovetail/internal/condition"
)

// mortal ends a process at one of its writes: that one, if it is not to be sent any more, and all after it
// fail, so whatever the process still does has no effect.
type mortal struct {
	armed atomic.Bool
	left  atomic.Int64 // writes until it dies
	sent  bool         // the last one takes effect, and its response is lost
}

func (m *mortal) dead() bool { return m.armed.Load() && m.left.Load() < 0 }

func (m *mortal) write(do func() error) error {
	if !m.armed.Load() {
		return do()
	}
	left := m.left.Add(-1)
	if left < -1 || left == -1 && !m.sent {
		return errors.New("killed")
	}
	if err := do(); left >= 0 || err != nil {
		return err
	}
	return errors.New("killed")
}

func (m *mortal) calls(deleting func(client.Object)) interceptor.Funcs {
	return interceptor.Funcs{
		Create: func(ctx context.Context, c client.WithWatch, obj client.Object, opts ...client.CreateOption) error {
			return m.write(func() error { return c.Create(ctx, obj, opts...) })
		},
		Patch: func(ctx context.Context, c client.WithWatch, obj client.Object, patch client.Patch, opts ...client.PatchOption) error {
			return m.write(func() error { return c.Patch(ctx, obj, patch, opts...) })
		},
		SubResourcePatch: func(ctx context.Context, c client.Client, sub string, obj client.Object, patch client.Patch, opts ...client.SubResourcePatchOption) error {
			return m.write(func() error { return c.SubResource(sub).Patch(ctx, obj, patch, opts...) })
		},
		Delete: func(ctx context.Context, c client.WithWatch, obj client.Object, opts ...client.DeleteOption) error {
			return m.write(func() error {
				deleting(obj)
				return c.Delete(ctx, obj, opts...)
			})
		},
	}
}

// Failure modes 16, C01, README decision 8: wherever the process dies between the first taint and the last
// deletion, the next one ends the command or undoes it, whole. There is never a second replacement, and no
// node goes before its replacement is up.
func TestFM_C01_KilledAtEveryWrite(t *testing.T) {
	t.Parallel()
	for _, sent := range []bool{false, true} {
		for n := range int64(12) {
			t.Run(fmt.Sprintf("write %d, sent %v", n, sent), func(t *testing.T) {
				t.Parallel()
				m := &mortal{sent: sent}
				var s *fixture
				s = newFixture(t, m.calls(func(obj client.Object) {
					for _, r := range s.replacements() {
						if !condition.True(r.Status.Conditions, karpv1.ConditionInitialized) {
							t.Errorf("%s is deleted before its replacement is up", obj.GetName())
						}
					}
				}))
				s.node("a", "web")
				s.node("b", "api")
				s.replace(karpv1.ReasonUnderutilized, "multi", "a", "b")
				m.left.Store(n)
				m.armed.Store(true)
				s.live(m, 3)
				died := m.dead()
				m.armed.Store(false)
				if died {
					s.decide = nil
					s.boot()
				}
				s.live(m, 6)
				s.judge(died)
			})
		}
	}
}

// live lets both loops and the provisioner work for a while, and replacements come up.
func (s *fixture) live(m *mortal, rounds int) {
	s.t.Helper()
	for range rounds {
		s.sync()
		_ = s.Pass(s.t.Context()) // what fails is looked at at the end
		s.sync()
		if !m.dead() {
			s.plans.Pass(s.t.Context())
		}
		for _, r := range s.replacements() {
			if !condition.True(r.Status.Conditions, karpv1.ConditionInitialized) {
				s.up(r.Name)
			}
		}
		s.clock = s.clock.Add(10 * time.Second)
		s.sync()
		_, _ = s.Work(s.t.Context())
	}
	s.sync()
}

// judge looks at what is left of the command.
func (s *fixture) judge(died bool) {
	s.t.Helper()
	_, gone := s.claims()
	made := s.replacements()
	if len(made) > 1 {
		s.t.Errorf("%d replacements", len(made))
	}
	switch {
	case slices.Equal(gone, []string{"claim-a", "claim-b"}):
		if len(made) != 1 {
			s.t.Error("the nodes go without a replacement")
		}
	case len(gone) == 0 && len(made) == 0 && died: // it died before the order, else the command would have gone on
		if held := s.tainted(); len(held) > 0 {
			s.t.Errorf("nodes %v are held although nothing removes them", held)
		}
		for _, name := range []string{"claim-a", "claim-b"} {
			if condition.Find(s.claim(name).Status.Conditions, karpv1.ConditionDisruptionReason) != nil {
				s.t.Errorf("%s still says that it is disrupted", name)
			}
		}
	default:
		s.t.Errorf("claims %v are deleted, %d replacements, died %v", gone, len(made), died)
	}
	for _, r := range made {
		if r.Annotations[karpv1.AnnotationCommand] != "" {
			s.t.Errorf("%s still names a command that is over", r.Name)
		}
	}
}
