package pools

import (
	"context"
	"errors"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	karpv1 "github.com/dovetail-sh/dovetail/api/v1"
	"github.com/dovetail-sh/dovetail/internal/controller/lookup"
	"github.com/dovetail-sh/dovetail/internal/controller/loop"
	"github.com/dovetail-sh/dovetail/internal/metric"
	"github.com/dovetail-sh/dovetail/internal/pool"
)

// countPeriod is how old the numbers in the status of a pool may be.
const countPeriod = 5 * time.Second

// usage knows what the nodes of each pool have; internal/store does.
type usage interface {
	// Usage returns the capacity of the nodes of a pool and their number, nodes in flight included and
	// nodes being deleted left out.
	Usage(pool string) (corev1.ResourceList, int64)
	// Synced reports whether the cache is complete, so that numbers mean something.
	Synced() bool
}

// Counter writes what the nodes of each pool have into its status (LC-54). Decisions never read it from
// there: it is for users (FM M03).
type Counter struct {
	Client  client.Client
	Usage   usage
	Metrics *metric.Set // counts panics
	Classes []lookup.ClassKind
}

// Register adds the loop to a manager; only the leader runs it.
func (c *Counter) Register(mgr ctrl.Manager) error {
	return mgr.Add(&loop.Ticker{Name: "nodepool.counter", Every: countPeriod, Pass: c.Pass, Metrics: c.Metrics})
}

// Pass counts every pool once.
func (c *Counter) Pass(ctx context.Context) error {
	if !c.Usage.Synced() {
		return nil
	}
	list := &karpv1.NodePoolList{}
	if err := c.Client.List(ctx, list); err != nil {
		return fmt.Errorf("list NodePools: %w", err)
	}
	var failures []error
	for _, p := range lookup.ByName(list.Items) {
		if _, ours := lookup.KindOf(c.Classes, lookup.ClassOf(p)); !ours {
			continue
		}
		resources, nodes := c.Usage.Usage(p.Name)
		next, changed := pool.Count(p.Status, resources, nodes)
		if !changed {
			continue
		}
		before := p.DeepCopy()
		p.Status = next
		if err := c.Client.Status().Patch(ctx, p, client.MergeFrom(before)); client.IgnoreNotFound(err) != nil {
			failures = append(failures, fmt.Errorf("write usage of NodePool %s: %w", p.Name, err))
		}
	}
	return errors.Join(failures...)
}
