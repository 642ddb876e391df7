package interrupt

import (
	"context"
	"fmt"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/dovetail-sh/dovetail/internal/aws/inventory"
	"github.com/dovetail-sh/dovetail/internal/cloud/cloudtest"
)

// slowFleet is an EC2 that takes its time.
type slowFleet struct {
	fleet

	latency time.Duration
}

func (f slowFleet) Find(ctx context.Context, id string) (inventory.Instance, error) {
	time.Sleep(f.latency)
	return f.fleet.Find(ctx, id)
}

// The calls of the busy account take what they take in a region, in imagined time.
const (
	queueLatency  = 30 * time.Millisecond  // of one call to SQS
	lookupLatency = 500 * time.Millisecond // of one look-up, with the time it waits for its batch
	deleteLatency = 100 * time.Millisecond // of the deletion of a NodeClaim
)

// busyAccount is a queue with messages about instances of others, and then about ours.
func busyAccount(foreign, own int) (*cloudtest.Cluster, *sqsFake, slowFleet) {
	known, ids := fleet{}, make([]string, own)
	for n := range ids {
		ids[n] = fmt.Sprintf("i-own-%d", n)
	}
	c, f := newCluster(ids...), &sqsFake{latency: queueLatency}
	for n := range foreign {
		id := fmt.Sprintf("i-foreign-%d", n)
		known[id] = inventory.Instance{ID: id}
		f.put(spotBody(id))
	}
	for _, id := range ids {
		f.put(spotBody(id))
	}
	return c, f, slowFleet{known, lookupLatency}
}

// The rules of EventBridge match the whole account, so that a busy one sends thousands of messages about instances of
// others: ours come last here, and still every own node is reacted to within five seconds.
func TestTrust_C09_ForeignMessagesDoNotDelayOurs(t *testing.T) {
	t.Parallel()
	const foreign, own, bar = 2000, 200, 5 * time.Second
	synctest.Test(t, func(t *testing.T) {
		c, f, known := busyAccount(foreign, own)
		begun, last := time.Now(), atomic.Int64{} // nanoseconds
		c.OnDelete = func() {
			time.Sleep(deleteLatency)
			last.Store(int64(time.Since(begun)))
		}
		run(t, &Queue{SQS: f, Instances: known}, c, 2*time.Minute)
		if n := c.Count("delete"); n != own {
			t.Errorf("%d of %d claims are deleted", n, own)
		}
		took := time.Duration(last.Load())
		if took > bar {
			t.Errorf("the last own node was reacted to after %s, want %s at most", took, bar)
		}
		t.Logf("the last own node was reacted to after %s, with %d receives", took, f.receives)
		again := 0
		for _, m := range f.messages {
			if !m.deleted {
				t.Errorf("message %s is left", m.id)
			}
			again += m.received - 1
		}
		if again > 0 {
			t.Errorf("%d messages had to come again", again)
		}
	})
}

// How many messages of a busy account a second of one machine is good for, without the time that AWS takes.
func BenchmarkBusyAccount(b *testing.B) {
	const foreign, own = 2000, 200
	for b.Loop() {
		c, f, known := busyAccount(foreign, own)
		f.latency, known.latency = 0, 0
		ctx, cancel := context.WithCancel(b.Context())
		f.remove = func(try int) error {
			if try == foreign+own {
				cancel()
			}
			return nil
		}
		q := &Queue{SQS: f, Instances: known, Name: "Karpenter-sandbox", Cluster: "sandbox", Now: time.Now, Actor: actorOf(c)}
		q.Metrics = q.Actor.Metrics
		if err := q.Start(ctx); err != nil {
			b.Fatal(err)
		}
		if n := c.Count("delete"); n != own {
			b.Fatalf("%d of %d claims are deleted", n, own)
		}
	}
	b.ReportMetric(float64(b.N)*(foreign+own)/b.Elapsed().Seconds(), "messages/s")
}

// An account without news costs one long poll at a time, as before: further receivers end with the messages.
func TestTrust_C09_AQuietQueueHasOneReceiver(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c, f, known := busyAccount(100, 10)
		const settled, quiet = 10 * time.Second, 10 * time.Minute
		before := 0
		time.AfterFunc(settled, func() {
			f.mu.Lock()
			defer f.mu.Unlock()
			before = f.receives
		})
		run(t, &Queue{SQS: f, Instances: known}, c, settled+quiet)
		if rounds, want := f.receives-before, int(quiet/longPoll)+1; before == 0 || rounds > want {
			t.Errorf("%d receives in ten quiet minutes, want %d at most", rounds, want)
		}
	})
}
