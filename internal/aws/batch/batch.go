package batch

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/dovetail-sh/dovetail/internal/metric"
)

// Options say how requests are collected and what is done with them.
type Options[Req, Res any] struct {
	Name        string        // label of the metrics, such as create_fleet
	Idle        time.Duration // a bucket without a new request for this long is sent
	Max         time.Duration // timeout: a bucket is sent after this time even if requests still arrive
	MaxItems    int           // a bucket with this many requests is sent at once; 0: no limit
	Concurrency int           // batches that run at the same time; 0: 100

	// Bucket says which requests may go together: those with equal keys. Nil: all of them.
	Bucket func(Req) string

	// Run sends a batch. It returns one result for each request, in order. Its context ends when no
	// caller waits any more; one caller that gives up does not disturb the others.
	Run func(ctx context.Context, requests []Req) []Result[Res]

	// RunEach replaces Run for batches whose requests do not all finish at the same time: each response is returned
	// to its caller at once. respond takes the number of a request; only the first call for each counts. Several
	// goroutines may call it.
	RunEach func(ctx context.Context, requests []Req, respond func(n int, got Result[Res]))

	Metrics *metric.Set
}

// Result is the response to one request of a batch.
type Result[Res any] struct {
	Value Res
	Err   error
}

// Batcher collects requests. It is safe for concurrent use.
type Batcher[Req, Res any] struct {
	options Options[Req, Res]
	slots   chan struct{}

	mu      sync.Mutex
	pending map[string]*bucket[Req, Res] // those that still take requests
}

// bucket is a batch that is collected, or runs.
type bucket[Req, Res any] struct {
	key   string
	more  chan struct{} // a request was added
	full  chan struct{} // closed when nothing can be added
	items []*item[Req, Res]
	end   context.CancelFunc // of the running batch; nil before
}

type item[Req, Res any] struct {
	request  Req
	response chan Result[Res]
	gone     bool // its caller gave up, or has its response
}

// New returns a Batcher.
func New[Req, Res any](o Options[Req, Res]) *Batcher[Req, Res] {
	if o.Concurrency == 0 {
		o.Concurrency = 100
	}
	if o.Bucket == nil {
		o.Bucket = func(Req) string { return "" }
	}
	if o.RunEach == nil {
		o.RunEach = func(ctx context.Context, requests []Req, respond func(int, Result[Res])) {
			for n, got := range o.Run(ctx, requests) {
				respond(n, got)
			}
		}
	}
	o.Metrics.Panics.WithLabelValues(o.Name) // shows 0 from the start
	return &Batcher[Req, Res]{options: o, slots: make(chan struct{}, o.Concurrency), pending: map[string]*bucket[Req, Res]{}}
}

// Do sends a request with others and returns its own response. If the context ends first, the request is removed from
// its batch, unless that has started.
func (b *Batcher[Req, Res]) Do(ctx context.Context, request Req) (Res, error) {
	var none Res
	if err := ctx.Err(); err != nil {
		return none, err
	}
	in, own := b.add(ctx, request)
	select {
	case got := <-own.response:
		return got.Value, got.Err
	case <-ctx.Done():
		b.leaveBucket(in, own)
		return none, ctx.Err()
	}
}

// add puts a request into the bucket it belongs to, which starts with its first request.
func (b *Batcher[Req, Res]) add(ctx context.Context, request Req) (*bucket[Req, Res], *item[Req, Res]) {
	own := &item[Req, Res]{request: request, response: make(chan Result[Res], 1)}
	key := b.options.Bucket(request)
	b.mu.Lock()
	defer b.mu.Unlock()
	in := b.pending[key]
	if in == nil {
		in = &bucket[Req, Res]{key: key, more: make(chan struct{}, 1), full: make(chan struct{})}
		b.pending[key] = in
		// The values of the first caller, such as its logger, but not its end.
		go b.collect(context.WithoutCancel(ctx), in)
	}
	in.items = append(in.items, own)
	if b.options.MaxItems > 0 && len(in.items) >= b.options.MaxItems {
		delete(b.pending, key)
		close(in.full)
		return in, own
	}
	select {
	case in.more <- struct{}{}:
	default:
	}
	return in, own
}

// leaveBucket takes a caller out. The last one ends the batch.
func (b *Batcher[Req, Res]) leaveBucket(in *bucket[Req, Res], own *item[Req, Res]) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.dropItem(in, own)
}

// dropItem removes a request whose caller gave up. If none is left, the batch is cancelled.
func (b *Batcher[Req, Res]) dropItem(in *bucket[Req, Res], own *item[Req, Res]) {
	own.gone = true
	if in.end != nil && !slices.ContainsFunc(in.items, func(i *item[Req, Res]) bool { return !i.gone }) {
		in.end()
	}
}

// collect waits until a bucket is due, and runs it.
func (b *Batcher[Req, Res]) collect(ctx context.Context, in *bucket[Req, Res]) {
	started := time.Now()
	idle, latest := time.NewTimer(b.options.Idle), time.NewTimer(b.options.Max)
	defer idle.Stop()
	defer latest.Stop()
	for due := false; !due; {
		select {
		case <-in.more:
			idle.Reset(b.options.Idle)
		case <-in.full:
			due = true
		case <-idle.C:
			due = true
		case <-latest.C:
			due = true
		}
	}
	b.close(in)
	collected := time.Since(started)
	b.slots <- struct{}{}
	defer func() { <-b.slots }()
	ctx, end := context.WithCancel(ctx)
	defer end()
	items := b.start(in, end)
	if len(items) == 0 {
		return
	}
	b.options.Metrics.BatchTime.WithLabelValues(b.options.Name).Observe(collected.Seconds())
	b.options.Metrics.BatchSize.WithLabelValues(b.options.Name).Observe(float64(len(items)))
	b.run(ctx, in, items)
}

// close stops a bucket from taking requests; the next one opens another.
func (b *Batcher[Req, Res]) close(in *bucket[Req, Res]) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.pending[in.key] == in {
		delete(b.pending, in.key)
	}
}

// start returns the requests that still have a caller, and stores how to cancel them.
func (b *Batcher[Req, Res]) start(in *bucket[Req, Res], end context.CancelFunc) []*item[Req, Res] {
	b.mu.Lock()
	defer b.mu.Unlock()
	in.items = slices.DeleteFunc(in.items, func(i *item[Req, Res]) bool { return i.gone })
	in.end = end
	return slices.Clone(in.items)
}

// run sends a batch and returns a response to every caller, also if Run omits some or panics: one batch must neither
// leave callers waiting nor end the process.
func (b *Batcher[Req, Res]) run(ctx context.Context, in *bucket[Req, Res], items []*item[Req, Res]) {
	missing := fmt.Errorf("%s: the batch has no result for this request", b.options.Name)
	defer func() {
		if cause := recover(); cause != nil {
			missing = fmt.Errorf("%s: panic in a batch: %v", b.options.Name, cause)
			b.options.Metrics.Panics.WithLabelValues(b.options.Name).Inc()
		}
		for _, i := range items {
			b.respond(in, i, Result[Res]{Err: missing})
		}
	}()
	requests := make([]Req, len(items))
	for n, i := range items {
		requests[n] = i.request
	}
	b.options.RunEach(ctx, requests, func(n int, got Result[Res]) {
		if n < len(items) {
			b.respond(in, items[n], got)
		}
	})
}

// respond returns a response to a caller; only the first counts.
func (b *Batcher[Req, Res]) respond(in *bucket[Req, Res], own *item[Req, Res], got Result[Res]) {
	b.mu.Lock()
	defer b.mu.Unlock()
	select {
	case own.response <- got:
		b.dropItem(in, own)
	default: // it has one
	}
}
