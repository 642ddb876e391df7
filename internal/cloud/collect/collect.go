package collect

import (
	"context"
	"fmt"
	"sync"
	"time"

	"k8s.io/klog/v2"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	karpv1 "github.com/dovetail-sh/dovetail/api/v1"
	"github.com/dovetail-sh/dovetail/internal/cloud"
	"github.com/dovetail-sh/dovetail/internal/cloud/adopt"
	"github.com/dovetail-sh/dovetail/internal/cloud/directory"
	"github.com/dovetail-sh/dovetail/internal/lifecycle"
	"github.com/dovetail-sh/dovetail/internal/metric"
)

const (
	collectWidth = 100 // instances terminated at a time
	claimPage    = 500 // claims in one response of the API server
)

// Controller is the name of the collector as a controller, and its label in metrics.
const Controller = "instance.garbagecollection"

// provider is the part of a cloud.Provider that is used.
type provider interface {
	List(ctx context.Context) ([]cloud.Instance, error)
	Terminate(ctx context.Context, id cloud.ID) error
}

// Collector terminates instances of this cluster that no NodeClaim has (LC-39). Its exported fields are set once.
type Collector struct {
	Cloud   provider
	Claims  client.Reader // not the cache: a claim that is missing there costs a node
	Client  client.Client
	Ledger  *adopt.Ledger
	Name    directory.Key // of instances
	Synced  func() bool   // whether the cache has all nodes and claims; nothing is collected before (LC-61)
	Metrics *metric.Set
	Now     func() time.Time

	rounds int
}

// Collect terminates orphans. If the instances or the claims cannot be listed in full, it does
// nothing (D06, D07).
func (c *Collector) Collect(ctx context.Context) (time.Duration, error) {
	if !c.Synced() {
		return lifecycle.OrphanInterval(0), nil
	}
	// Instances first: a claim that is written in between is then seen (LC-39).
	instances, err := c.Cloud.List(ctx)
	if err != nil {
		return 0, fmt.Errorf("collect instances: %w", err)
	}
	if suspects := c.suspects(ctx, instances); len(suspects) > 0 {
		claims, err := listClaims(ctx, c.Claims)
		if err != nil {
			return 0, fmt.Errorf("collect instances: list NodeClaims: %w", err)
		}
		c.terminateOrphans(ctx, c.orphans(suspects, claims))
	}
	c.rounds++
	return lifecycle.OrphanInterval(c.rounds), nil
}

// suspects are the instances that no claim of the cache has. Mostly there are none, and then all claims
// need not be read from the API server: a thousand of them are megabytes. A claim that is in the cache
// and no more in the API server keeps its instance for one round more.
func (c *Collector) suspects(ctx context.Context, instances []cloud.Instance) []cloud.Instance {
	known := &karpv1.NodeClaimList{}
	if err := c.Client.List(ctx, known, client.UnsafeDisableDeepCopy); err != nil { // only read
		return instances
	}
	return c.orphans(instances, known.Items)
}

func (c *Collector) orphans(instances []cloud.Instance, claims []karpv1.NodeClaim) []cloud.Instance {
	return lifecycle.Orphans(lifecycle.OrphanFacts{
		Instances: instances, Claims: claims, Name: c.Name, Owners: c.Ledger.Owners(), Started: c.Ledger.Started(), Now: c.Now(),
	})
}

// listClaims reads all claims from the API server, page by page. A part of them is never a result.
func listClaims(ctx context.Context, reader client.Reader) ([]karpv1.NodeClaim, error) {
	var all []karpv1.NodeClaim
	for token := ""; ; {
		page := &karpv1.NodeClaimList{}
		if err := reader.List(ctx, page, client.Limit(claimPage), client.Continue(token)); err != nil {
			return nil, err
		}
		all = append(all, page.Items...)
		if token = page.Continue; token == "" {
			return all, nil
		}
	}
}

func (c *Collector) terminateOrphans(ctx context.Context, list []cloud.Instance) {
	var wait sync.WaitGroup
	slots := make(chan struct{}, collectWidth)
	for _, i := range list {
		slots <- struct{}{}
		wait.Go(func() {
			defer func() { <-slots }()
			if err := c.terminateOrphan(ctx, i); err != nil {
				log.FromContext(ctx).Error(err, "collecting an instance without NodeClaim; the next round tries again", "provider-id", i.ID)
			}
		})
	}
	wait.Wait()
}

// terminateOrphan ends one instance and deletes its Node, which would else stay behind.
func (c *Collector) terminateOrphan(ctx context.Context, i cloud.Instance) (err error) {
	defer func() {
		if cause := recover(); cause != nil {
			err = fmt.Errorf("panic: %v", cause)
			c.Metrics.Panics.WithLabelValues(Controller).Inc()
		}
	}()
	if err := c.Cloud.Terminate(ctx, i.ID); err != nil && !cloud.Is(err, cloud.NotFound) {
		return err
	}
	log.FromContext(ctx).Info("garbage collected cloudprovider instance", "provider-id", i.ID, "instance-type", i.Type, "zone", i.Zone, "NodePool", klog.KRef("", i.Pool))
	nodes, err := directory.Cache{Reader: c.Client}.Nodes(ctx, c.Name(string(i.ID)))
	if err != nil {
		return err
	}
	for n := range nodes {
		if !nodes[n].DeletionTimestamp.IsZero() {
			continue
		}
		if err := c.Client.Delete(ctx, &nodes[n]); client.IgnoreNotFound(err) != nil {
			return err
		}
		log.FromContext(ctx).Info("garbage collected node", "Node", klog.KRef("", nodes[n].Name), "provider-id", i.ID)
	}
	return nil
}
