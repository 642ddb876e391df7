package disruption_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-logr/logr/funcr"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
	"sigs.k8s.io/controller-runtime/pkg/log"

	karpv1 "github.com/dovetail-sh/dovetail/api/v1"
	"github.com/dovetail-sh/dovetail/internal/app"
	"github.com/dovetail-sh/dovetail/internal/cluster"
	"github.com/dovetail-sh/dovetail/internal/disrupt"
	"github.com/dovetail-sh/dovetail/internal/solve"
)

// consolidating is the method that limits are for.
func consolidating(v disrupt.View) disrupt.Method {
	all := disrupt.EnabledMethods(v.Methods)
	return all[slices.IndexFunc(all, func(m disrupt.Method) bool { return m.Name == "consolidation" })]
}

// Trust C04, disruption 13 and 14: planning for all nodes together has a minute, a few nodes at a time have three. What
// runs out of time is counted and reported, and pools that there was no time for go first until a search ends in time.
func TestTrust_C04_TheDeadlinesOfConsolidation(t *testing.T) {
	t.Parallel()
	s := newFixture(t, interceptor.Funcs{})
	slow, first, took := true, [][]string(nil), [2]time.Duration{}
	s.Decide = func(v disrupt.View, stop func() bool) disrupt.Decision {
		v.OnMethod(consolidating(v))
		first = append(first, v.First)
		for i, up := range []func() bool{v.Joint, v.Single} {
			for begun := s.clock; slow && !up() && !stop(); s.clock = s.clock.Add(time.Second) {
				took[i] = s.clock.Sub(begun)
			}
		}
		if d := (disrupt.Decision{At: v.Now, Partial: slow}); !slow {
			return d
		}
		return disrupt.Decision{At: v.Now, Partial: true, Unreached: []string{"general"}}
	}
	var lines []string
	ctx := log.IntoContext(t.Context(), funcr.New(func(_, args string) { lines = append(lines, args) }, funcr.Options{Verbosity: 1}))
	for range 2 {
		if _, err := s.Turn(ctx); err != nil {
			t.Fatal(err)
		}
	}
	if want := [2]time.Duration{time.Minute, 3 * time.Minute}; took != want {
		t.Errorf("the searches took %v, want %v", took, want)
	}
	slow = false
	for range 2 {
		if _, err := s.Turn(ctx); err != nil {
			t.Fatal(err)
		}
	}
	if got := fmt.Sprint(first); got != "[[] [general] [general] []]" {
		t.Errorf("pools that went first: %s", got)
	}
	for _, kind := range []string{"multi", "single"} {
		if n := testutil.ToFloat64(s.metrics.DisruptionTimeouts.WithLabelValues(kind)); n != 2 {
			t.Errorf("%v searches of type %s are counted, want 2", n, kind)
		}
	}
	said := strings.Join(lines, "\n")
	if strings.Count(said, `"limit"="1m0s"`) != 2 || strings.Count(said, `"limit"="3m0s"`) != 2 || !strings.Contains(said, `"NodePools"=["general"]`) {
		t.Errorf("the log says %s", said)
	}
}

// Trust C04: a decision on a clock that runs out at every poll uses what was found, and looks again soon: that nothing
// was found in so short a time does not mean that there is nothing.
func TestTrust_C04_TheBestSoFarIsUsed(t *testing.T) {
	t.Parallel()
	s := newFixture(t, interceptor.Funcs{})
	for i := range 4 {
		s.node(fmt.Sprintf("n%d", i), fmt.Sprintf("web-%d", i))
	}
	s.clock = s.clock.Add(time.Hour)
	requested := 0
	s.Decide = func(v disrupt.View, stop func() bool) disrupt.Decision {
		joint := v.Joint
		v.Joint = func() bool { // each poll takes a quarter of a minute
			s.clock = s.clock.Add(15 * time.Second)
			requested++
			return joint()
		}
		return disrupt.Next(v, stop)
	}
	s.mustPass()
	if n := testutil.ToFloat64(s.metrics.DisruptionTimeouts.WithLabelValues("multi")); n != 1 || requested < 4 {
		t.Errorf("%v searches ran out of time after %d polls, want one", n, requested)
	}
	if _, gone := s.claims(); len(gone) == 0 {
		t.Error("nothing that was found is done")
	}
}

// Trust C04, FM D12: a pass of 21 minutes that advances is never taken for dead, one that does not advance is, and so is
// one that continues after it was stopped.
func TestTrust_C04_LivenessJudgesProgress(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		every, decide time.Duration // how often the decision polls whether to stop, and how long it takes
		deaf          bool          // it goes on when it is requested to stop
		call          time.Duration // how long a write takes
		lasts         time.Duration // the pass, at least
		dies          bool
	}{
		"a slow decision, and slow calls": {every: 20 * time.Second, decide: 14 * time.Minute, call: time.Minute, lasts: 20 * time.Minute},
		"a decision that is cut off":      {every: 20 * time.Second, decide: time.Hour, lasts: 15 * time.Minute},
		"a decision that hangs":           {every: time.Hour, decide: time.Hour, dies: true},
		"a call that hangs":               {every: time.Second, decide: time.Second, call: time.Hour, dies: true},
		"a decision that never ends":      {every: 20 * time.Second, decide: 2 * time.Hour, deaf: true, dies: true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				busy := false
				s := newFixture(t, interceptor.Funcs{Patch: func(ctx context.Context, c client.WithWatch, obj client.Object, patch client.Patch, opts ...client.PatchOption) error {
					if busy {
						time.Sleep(tc.call)
					}
					return c.Patch(ctx, obj, patch, opts...)
				}})
				for i := range 6 {
					s.node(fmt.Sprintf("n%d", i), fmt.Sprintf("web-%d", i))
				}
				pulse := app.NewPulse("disruption", time.Now)
				s.Pulse, s.Now = pulse, time.Now
				s.Decide = func(v disrupt.View, stop func() bool) disrupt.Decision {
					for begun := time.Now(); time.Since(begun) < tc.decide && (!stop() || tc.deaf); {
						time.Sleep(tc.every)
					}
					d := disrupt.Decision{At: v.Now}
					for i := range 6 {
						d.Commands = append(d.Commands, command(v, karpv1.ReasonDrifted, "", disrupt.Delete, fmt.Sprintf("n%d", i)))
					}
					return d
				}
				busy = true
				begun, over := time.Now(), make(chan struct{})
				go func() {
					defer close(over)
					if _, err := s.Turn(t.Context()); err != nil {
						t.Error(err)
					}
				}()
				died := error(nil)
				for probe := time.NewTicker(10 * time.Second); ; {
					select {
					case <-probe.C:
						if err := pulse.Check(time.Now()); died == nil {
							died = err
						}
						continue
					case <-over:
						probe.Stop()
					}
					break
				}
				if took := time.Since(begun); (died != nil) != tc.dies || took < tc.lasts {
					t.Errorf("a pass of %s: liveness says %v, want an error: %v", took, died, tc.dies)
				}
				if err := pulse.Check(time.Now()); err != nil {
					t.Errorf("after the pass: %v", err)
				}
			})
		})
	}
}

// Trust C04: moves that there is no time to judge again are given up, and the others are made.
func TestTrust_C04_MovesThatAreNotJudgedAgainAreGivenUp(t *testing.T) {
	t.Parallel()
	s := newFixture(t, interceptor.Funcs{})
	const nodes = 12
	for i := range nodes {
		s.node(fmt.Sprintf("n%02d", i), fmt.Sprintf("web-%d", i))
	}
	s.node("other")
	var mu sync.Mutex
	now := s.clock
	s.Now = func() time.Time { // every look at the clock takes ten seconds
		mu.Lock()
		defer mu.Unlock()
		now = now.Add(10 * time.Second)
		return now
	}
	s.decide = func(v disrupt.View) (list []disrupt.Command) {
		for i := range nodes {
			c := command(v, karpv1.ReasonUnderutilized, "single", disrupt.Delete, fmt.Sprintf("n%02d", i))
			c.Bind = []solve.Bind{{Pod: cluster.PodKey{Namespace: "default", Name: fmt.Sprintf("web-%d", i)}, Node: "other"}}
			list = append(list, c)
		}
		return list
	}
	s.mustPass()
	_, gone := s.claims()
	if want := []string{"claim-n00", "claim-n01", "claim-n02", "claim-n03", "claim-n04", "claim-n05", "claim-n06"}; !slices.Equal(gone, want) {
		t.Errorf("claims %v are deleted, want those of a minute, %v", gone, want)
	}
	if held := s.tainted(); len(held) != len(gone) {
		t.Errorf("nodes %v are held", held)
	}
}
