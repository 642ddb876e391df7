package periodic

import (
	"context"
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-logr/logr"
	"github.com/google/go-cmp/cmp"
	"k8s.io/client-go/rest"
	ctrl "sigs.k8s.io/controller-runtime"
	ctrlconfig "sigs.k8s.io/controller-runtime/pkg/config"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"
)

var start = time.Date(2030, 1, 1, 12, 0, 0, 0, time.UTC)

// newManager is a manager that never reaches an API server.
func newManager(t *testing.T) ctrl.Manager {
	t.Helper()
	mgr, err := ctrl.NewManager(&rest.Config{Host: "http://127.0.0.1:1"}, ctrl.Options{
		Logger: logr.Discard(), Metrics: metricsserver.Options{BindAddress: "0"}, Controller: ctrlconfig.Controller{SkipNameValidation: new(true)},
	})
	if err != nil {
		t.Fatal(err)
	}
	return mgr
}

// rounds runs a manager with one round for a while of imagined time.
func rounds(t *testing.T, length time.Duration, do Task) {
	t.Helper()
	mgr := newManager(t)
	if err := Add(mgr, "providers.odd", do); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), length)
	defer cancel()
	if err := mgr.Start(ctx); err != nil {
		t.Error(err)
	}
}

func TestRoundsGoOn(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		do   func(n int) error
		want []time.Duration // since the first, rounded
	}{
		"at their interval":       {func(int) error { return nil }, []time.Duration{0, time.Minute, 2 * time.Minute}},
		"sooner after a failure":  {failing(func() error { return errors.New("no") }), []time.Duration{0, time.Second, 3 * time.Second, 63 * time.Second}},
		"sooner after a panic":    {failing(func() error { panic("odd") }), []time.Duration{0, time.Second, 3 * time.Second, 63 * time.Second}},
		"ever later if they fail": {func(int) error { return errors.New("no") }, []time.Duration{0, 1 * time.Second, 3 * time.Second, 7 * time.Second, 15 * time.Second, 31 * time.Second, 63 * time.Second}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				var mu sync.Mutex
				var at []time.Duration
				var first time.Time
				rounds(t, 121*time.Second, func(context.Context) (time.Duration, error) {
					mu.Lock()
					defer mu.Unlock()
					if first.IsZero() {
						first = time.Now()
					}
					at = append(at, time.Since(first).Round(time.Second))
					return time.Minute, tc.do(len(at))
				})
				if diff := cmp.Diff(tc.want, at[:min(len(at), len(tc.want))]); diff != "" {
					t.Error(diff)
				}
			})
		})
	}
}

func TestTheCatalogueIsNotReadTwiceAtTheStart(t *testing.T) {
	t.Parallel()
	now, reads := start, 0
	do := EveryAfter(start, func() time.Time { return now }, time.Hour, func(context.Context) error { reads++; return nil })
	for _, want := range []int{0, 1, 2} {
		if next, err := do(t.Context()); next != time.Hour || err != nil || reads != want {
			t.Errorf("%v, %v, %d reads, want %d", next, err, reads, want)
		}
	}
	late := EveryAfter(start, func() time.Time { return start.Add(time.Hour) }, time.Hour, func(context.Context) error { reads++; return nil })
	if _, err := late(t.Context()); err != nil || reads != 3 {
		t.Error("a standby that takes over did not read")
	}
}

// failing fails twice.
func failing(how func() error) func(int) error {
	return func(n int) error {
		if n <= 2 {
			return how()
		}
		return nil
	}
}
