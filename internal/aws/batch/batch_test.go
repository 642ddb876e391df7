package batch_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"

	"github.com/dovetail-sh/dovetail/internal/aws/batch"
	"github.com/dovetail-sh/dovetail/internal/metric"
)

// recorder records the batches that were sent, and when.
type recorder struct {
	mu      sync.Mutex
	start   time.Time
	batches [][]string
	at      []time.Duration
	running int
	most    int
}

func (l *recorder) run(hold time.Duration) func(context.Context, []string) []batch.Result[string] {
	l.start = time.Now()
	return func(ctx context.Context, requests []string) []batch.Result[string] {
		l.mu.Lock()
		l.batches = append(l.batches, slices.Sorted(slices.Values(requests)))
		l.at = append(l.at, time.Since(l.start))
		l.running++
		l.most = max(l.most, l.running)
		l.mu.Unlock()
		select {
		case <-time.After(hold):
		case <-ctx.Done():
		}
		l.mu.Lock()
		defer l.mu.Unlock()
		l.running--
		var out []batch.Result[string]
		for _, r := range requests {
			out = append(out, batch.Result[string]{Value: "re " + r, Err: ctx.Err()})
		}
		return out
	}
}

// seen is a copy of what was recorded so far, batches that were sent at the same moment in order.
func (l *recorder) seen() *recorder {
	l.mu.Lock()
	defer l.mu.Unlock()
	out := &recorder{batches: slices.Clone(l.batches), at: slices.Clone(l.at), running: l.running, most: l.most}
	slices.SortStableFunc(out.batches, slices.Compare)
	return out
}

func options(l *recorder, hold time.Duration) batch.Options[string, string] {
	return batch.Options[string, string]{
		Name: "create_fleet", Idle: 35 * time.Millisecond, Max: time.Second, MaxItems: 1000,
		Run: l.run(hold), Metrics: metric.New(prometheus.NewRegistry()),
	}
}

// series counts the series of a metric.
func series(c prometheus.Collector) int {
	all := make(chan prometheus.Metric, 100)
	c.Collect(all)
	return len(all)
}

// pass lets the time of the test go by, and everything happen that is due then.
func pass(d time.Duration) {
	time.Sleep(d)
	synctest.Wait()
}

// sendRequest sends a request in the background and fails the test if it does not get its own response.
func sendRequest(t *testing.T, b *batch.Batcher[string, string], request string) {
	t.Helper()
	go func() {
		got, err := b.Do(t.Context(), request)
		if err != nil || got != "re "+request {
			t.Errorf("%s got %q, %v", request, got, err)
		}
	}()
}

func TestIdleWindowJoinsWhatComesCloseTogether(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var l recorder
		o := options(&l, 0)
		b := batch.New(o)
		sendRequest(t, b, "a")
		pass(30 * time.Millisecond)
		sendRequest(t, b, "b")
		pass(30 * time.Millisecond)
		sendRequest(t, b, "c")
		pass(36 * time.Millisecond)
		sendRequest(t, b, "d") // too late
		pass(time.Second)
		if diff := cmp.Diff([][]string{{"a", "b", "c"}, {"d"}}, l.seen().batches); diff != "" {
			t.Error(diff)
		}
		if l.seen().at[0] != 95*time.Millisecond {
			t.Errorf("sent after %v, want 35 ms after the last request", l.seen().at[0])
		}
		if n := series(o.Metrics.BatchSize) + series(o.Metrics.BatchTime); n != 2 {
			t.Errorf("%d series of batches, want one of sizes and one of times", n)
		}
	})
}

func TestMaxWindowEndsAnEndlessStream(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var l recorder
		b := batch.New(options(&l, 0))
		for range 40 {
			sendRequest(t, b, "x")
			pass(30 * time.Millisecond)
		}
		pass(time.Second)
		if len(l.seen().batches) != 2 || l.seen().at[0] != time.Second {
			t.Errorf("%d batches, the first after %v; want 2, the first after 1 s", len(l.seen().batches), l.seen().at[0])
		}
	})
}

func TestFullBatchGoesAtOnce(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var l recorder
		o := options(&l, 0)
		o.MaxItems = 2
		b := batch.New(o)
		for _, name := range []string{"a", "b", "c"} {
			sendRequest(t, b, name)
			synctest.Wait()
		}
		if diff := cmp.Diff([][]string{{"a", "b"}}, l.seen().batches); diff != "" {
			t.Error(diff)
		}
		pass(35 * time.Millisecond)
		if diff := cmp.Diff([][]string{{"a", "b"}, {"c"}}, l.seen().batches); diff != "" {
			t.Error(diff)
		}
	})
}

func TestBucketsAreSeparate(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var l recorder
		o := options(&l, 0)
		o.Bucket = func(r string) string { return r[:1] }
		b := batch.New(o)
		for _, name := range []string{"a1", "b1", "a2", "b2"} {
			sendRequest(t, b, name)
		}
		pass(time.Second)
		if diff := cmp.Diff([][]string{{"a1", "a2"}, {"b1", "b2"}}, l.seen().batches); diff != "" {
			t.Error(diff)
		}
	})
}

func TestAtMostAHundredBatchesRun(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var l recorder
		o := options(&l, time.Minute)
		o.MaxItems = 1
		b := batch.New(o)
		for range 150 {
			sendRequest(t, b, "x")
		}
		pass(30 * time.Second)
		if l.seen().running != 100 {
			t.Errorf("%d batches run, want 100", l.seen().running)
		}
		pass(2 * time.Minute)
		if len(l.seen().batches) != 150 || l.seen().most != 100 {
			t.Errorf("%d batches ran, %d at once", len(l.seen().batches), l.seen().most)
		}
	})
}

func TestOneCallerThatGivesUpDoesNotHurtTheOthers(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var l recorder
		b := batch.New(options(&l, time.Second))
		ctx, cancel := context.WithCancel(t.Context())
		go func() {
			if _, err := b.Do(ctx, "first"); !errors.Is(err, context.Canceled) {
				t.Errorf("the caller that gave up got %v", err)
			}
		}()
		synctest.Wait()
		sendRequest(t, b, "second")
		pass(100 * time.Millisecond)
		cancel() // in the middle of the call
		pass(2 * time.Second)
		if diff := cmp.Diff([][]string{{"first", "second"}}, l.seen().batches); diff != "" {
			t.Error(diff)
		}
	})
}

func TestCallerThatLeavesEarlyIsNotSent(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var l recorder
		b := batch.New(options(&l, 0))
		ctx, cancel := context.WithCancel(t.Context())
		go func() { _, _ = b.Do(ctx, "first") }()
		synctest.Wait()
		sendRequest(t, b, "second")
		cancel()
		pass(time.Second)
		if diff := cmp.Diff([][]string{{"second"}}, l.seen().batches); diff != "" {
			t.Error(diff)
		}
		if _, err := b.Do(ctx, "third"); !errors.Is(err, context.Canceled) {
			t.Errorf("an ended context got %v", err)
		}
	})
}

func TestBatchEndsWithoutCallers(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var l recorder
		b := batch.New(options(&l, time.Hour))
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		go func() { _, _ = b.Do(ctx, "a") }()
		go func() { _, _ = b.Do(ctx, "b") }()
		pass(2 * time.Second)
		if l.seen().running != 0 || len(l.seen().batches) != 1 {
			t.Errorf("%d of %d batches still run", l.seen().running, len(l.seen().batches))
		}
	})
}

// A batch may respond to one after the other: a caller that has its response does not wait for the rest, and does not keep the
// batch going once the rest has given up. A second response does not count.
func TestTrust_A07_ResponsesAreReturnedAsTheyArrive(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		o := options(&recorder{}, 0)
		var ended atomic.Bool
		o.RunEach = func(ctx context.Context, requests []string, respond func(int, batch.Result[string])) {
			for n, r := range requests {
				if r == "quick" {
					respond(n, batch.Result[string]{Value: "re quick"})
					respond(n, batch.Result[string]{Value: "another"})
				}
			}
			<-ctx.Done()
			ended.Store(true)
		}
		b := batch.New(o)
		started := time.Now()
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		go func() { _, _ = b.Do(ctx, "slow") }()
		sendRequest(t, b, "quick")
		if _, err := b.Do(ctx, "quick"); err != nil || time.Since(started) > time.Second {
			t.Errorf("%v after %s", err, time.Since(started))
		}
		pass(30 * time.Second)
		if ended.Load() {
			t.Error("the batch ended although a caller waits")
		}
		pass(time.Minute)
		if !ended.Load() {
			t.Error("the batch goes on although no caller waits")
		}
	})
}

func TestMissingResponsesAndPanicsAreErrors(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		run    func(context.Context, []string) []batch.Result[string]
		want   string
		panics float64
	}{
		"too few responses": {func(context.Context, []string) []batch.Result[string] { return nil }, "no result", 0},
		"a panic":           {func(context.Context, []string) []batch.Result[string] { panic("boom") }, "boom", 1},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				o := options(&recorder{}, 0)
				o.Run = tc.run
				if _, err := batch.New(o).Do(t.Context(), "a"); err == nil || !strings.Contains(err.Error(), tc.want) {
					t.Errorf("got %v", err)
				}
				if n := testutil.ToFloat64(o.Metrics.Panics.WithLabelValues(o.Name)); n != tc.panics {
					t.Errorf("%g panics counted, want %g", n, tc.panics)
				}
			})
		})
	}
}
