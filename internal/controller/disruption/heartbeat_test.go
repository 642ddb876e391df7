package disruption_test

import (
	"context"
	"testing"

	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	karpv1 "github.com/dovetail-sh/dovetail/api/v1"
)

// recordProgress counts signs of life.
type recordProgress struct{ begun, beats, done int }

func (b *recordProgress) Begin() { b.begun++ }
func (b *recordProgress) Beat()  { b.beats++ }
func (b *recordProgress) Done()  { b.done++ }

// FM D12: the loop that ends commands has a sign of life of its own. While a call of it hangs, liveness sees
// work that does not end; without commands there is none.
func TestFM_D12_TheQueueHasAPulse(t *testing.T) {
	t.Parallel()
	pulse, hangs := &recordProgress{}, false
	s := newFixture(t, interceptor.Funcs{Get: func(ctx context.Context, c client.WithWatch, key client.ObjectKey, obj client.Object, opts ...client.GetOption) error {
		if hangs && pulse.begun != pulse.done+1 {
			t.Errorf("while a call hangs %d passes have begun and %d are done", pulse.begun, pulse.done)
		}
		return c.Get(ctx, key, obj, opts...)
	}})
	s.Ends = pulse
	s.work(0)
	if pulse.begun != 0 {
		t.Error("there is work without a command")
	}
	s.node("a", "web")
	s.replace(karpv1.ReasonDrifted, "", "a")
	s.mustPass()
	hangs = true
	s.work(0)
	if pulse.begun != 1 || pulse.done != 1 {
		t.Errorf("%d passes have begun and %d are done, want one", pulse.begun, pulse.done)
	}
}
