package nodes

import (
	"context"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	ctrl "sigs.k8s.io/controller-runtime"

	karpv1 "github.com/dovetail-sh/dovetail/api/v1"
	"github.com/dovetail-sh/dovetail/internal/controller/loop"
	"github.com/dovetail-sh/dovetail/internal/drain"
	"github.com/dovetail-sh/dovetail/internal/metric"
)

const (
	drainsEvery = 10 * time.Second
	drainsOld   = time.Minute // a drain that waits is checked every second
)

// drainJournal keeps what drains wait for, for later queries.
type drainJournal interface {
	Draining(node, claim string, waits []drain.Wait, at time.Time)
}

// Drains records what terminating nodes wait for, and shows it in metrics. It is safe for concurrent use,
// must not be copied, and a nil one knows nothing.
type Drains struct {
	Metrics *metric.Set
	Journal drainJournal // may be nil
	Now     func() time.Time

	mu    sync.Mutex
	nodes map[string]waitingNode
}

// waitingNode is a terminating node that waits.
type waitingNode struct {
	pool  string
	waits []drain.Wait
	seen  time.Time
}

// Register adds the gauges to a manager.
func (d *Drains) Register(mgr ctrl.Manager) error {
	return mgr.Add(&loop.Ticker{Name: "node.termination.waiting", Every: drainsEvery, Metrics: d.Metrics, Pass: func(context.Context) error {
		d.Count()
		return nil
	}})
}

// recordWaits records what a node waits for; nothing means that it does not wait. A claim without a Node has the
// name of the claim.
func (d *Drains) recordWaits(n *corev1.Node, claim *karpv1.NodeClaim, waits []drain.Wait, now time.Time) {
	if d == nil {
		return
	}
	node, name, pool := "", "", ""
	if claim != nil {
		node, name, pool = claim.Name, claim.Name, claim.Labels[karpv1.LabelNodePool]
	}
	if n != nil {
		node, pool = n.Name, n.Labels[karpv1.LabelNodePool]
	}
	d.mu.Lock()
	_, known := d.nodes[node]
	switch {
	case len(waits) == 0:
		delete(d.nodes, node)
	case d.nodes == nil:
		d.nodes = map[string]waitingNode{}
		fallthrough
	default:
		d.nodes[node] = waitingNode{pool: pool, waits: waits, seen: now}
	}
	d.mu.Unlock()
	if d.Journal != nil && (known || len(waits) > 0) {
		d.Journal.Draining(node, name, waits, now)
	}
}

// Count sets the gauges. What is not waited for any more has no series (FM N03).
func (d *Drains) Count() {
	type series struct{ pool, reason string }
	now := d.Now()
	many, longest := map[series]int{}, map[series]time.Duration{}
	d.mu.Lock()
	// any order: they are counted, and the longest wait is kept
	for name, n := range d.nodes {
		if now.Sub(n.seen) > drainsOld { // it is gone
			delete(d.nodes, name)
			continue
		}
		counted := map[series]bool{}
		for i := range n.waits {
			s := series{n.pool, string(n.waits[i].Cause)}
			longest[s] = max(longest[s], now.Sub(n.waits[i].Since))
			if !counted[s] {
				counted[s] = true
				many[s]++
			}
		}
	}
	d.mu.Unlock()
	d.Metrics.NodesDrainBlocked.Reset()
	d.Metrics.NodesDrainBlockedTime.Reset()
	// any order: each has a series of its own
	for s, n := range many {
		d.Metrics.NodesDrainBlocked.WithLabelValues(s.pool, s.reason).Set(float64(n))
		d.Metrics.NodesDrainBlockedTime.WithLabelValues(s.pool, s.reason).Set(longest[s].Seconds())
	}
}
