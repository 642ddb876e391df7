package provisioning_test

import (
	"context"
	"strconv"
	"testing"
	"testing/synctest"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/dovetail-sh/dovetail/internal/controller/provisioning"
)

// SC-04: when windows open and close.
func TestBatcherWindows(t *testing.T) {
	t.Parallel()
	type trigger = struct {
		after time.Duration
		uid   string
	}
	for name, tc := range map[string]struct {
		triggers []trigger
		want     time.Duration // from the first trigger
	}{
		"one pod closes after the idle time":              {triggers: []trigger{{0, "a"}}, want: time.Second},
		"a new pod extends the window":                    {triggers: []trigger{{0, "a"}, {600 * time.Millisecond, "b"}}, want: 1600 * time.Millisecond},
		"the same pod again does not":                     {triggers: []trigger{{0, "a"}, {600 * time.Millisecond, "a"}}, want: time.Second},
		"a stream of new pods is cut at the longest time": {triggers: stream(40, 500*time.Millisecond), want: 10 * time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				b := provisioning.NewBatcher(time.Second, 10*time.Second)
				triggered := make(chan struct{})
				go func() {
					defer close(triggered)
					for _, a := range tc.triggers {
						time.Sleep(a.after)
						b.Trigger(types.UID(a.uid))
					}
				}()
				start := time.Now()
				if !b.Wait(t.Context()) {
					t.Fatal("Wait() = false")
				}
				if got := time.Since(start); got != tc.want {
					t.Errorf("the window closed after %v, want %v", got, tc.want)
				}
				<-triggered
			})
		})
	}
}

func stream(n int, every time.Duration) []struct {
	after time.Duration
	uid   string
} {
	var triggers []struct {
		after time.Duration
		uid   string
	}
	for i := range n {
		triggers = append(triggers, struct {
			after time.Duration
			uid   string
		}{every, strconv.Itoa(i)})
	}
	triggers[0].after = 0
	return triggers
}

// With nothing to do, Wait waits; when the context ends it says so.
func TestBatcherEnds(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
		defer cancel()
		if provisioning.NewBatcher(time.Second, 10*time.Second).Wait(ctx) {
			t.Error("Wait() = true although nothing requested a plan")
		}
	})
}

// A trigger while a plan is made opens the next window.
func TestBatcherKeepsWhatComesLater(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := provisioning.NewBatcher(time.Second, 10*time.Second)
		b.Trigger("a")
		b.Wait(t.Context())
		b.Trigger("a")
		start := time.Now()
		if !b.Wait(t.Context()) || time.Since(start) != time.Second {
			t.Errorf("the second window closed after %v, want 1s", time.Since(start))
		}
	})
}
