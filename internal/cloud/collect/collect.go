package collect

import (
	"context"
	"fmt"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/klog/v2"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	karpv1 "github.com/dovetail-sh/dovetail/api/v1"
	"github.com/dovetail-sh/dovetail/internal/cloud"
	"github.com/dovetail-sh/dovetail/internal/cloud/adopt"
	"github.com/dovetail-sh/dovetail/internal/cloud/directory"
	"github.com/dovetail-sh/dovetail/internal/metric"
)

const (
	orphanAge     = 30 * time.Second // younger instances may still get their claim
	collectOften  = 10 * time.Second
	oftenRounds   = 20 // so many rounds after the start, then more slowly
	collectSlowly = 2 * time.Minute
	collectWidth  = 100             // instances ended at a time
	claimPage     = 500             // claims in one answer of the API server
	adoptionTime  = 2 * time.Minute // after the start, in which claims find the instances of an earlier process
)

// Controller is the name of the collector as a controller, and its label in metrics.
const Controller = "instance.garbagecollection"

// provider is the part of a cloud.Provider that is used.
type provider interface {
	List(ctx context.Context) ([]cloud.Instance, error)
	Terminate(ctx context.Context, id cloud.ID) error
}

// Collector ends instances of this cluster that no NodeClaim knows (LC-39). Its exported fields are set once.
type Collector struct {
	Cloud   provider
	Claims  client.Reader // not the cache: a claim that is missing there costs a node
	Client  client.Client
	Ledger  *adopt.Ledger
	Name    directory.Key // of instances
	Synced  func() bool   // whether memory holds all nodes and claims; nothing is collected before (LC-61)
	Metrics *metric.Set
	Now     func() time.Time

	rounds int
}

// Collect ends what is to be ended. If the instances or the claims cannot be listed in full, it does
// nothing (D06, D07).
func (c *Collector) Collect(ctx context.Context) (time.Duration, error) {
	if !c.Synced() {
		return collectOften, nil
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
		c.terminateOrphans(ctx, c.collectable(suspects, claims))
	}
	if c.rounds++; c.rounds < oftenRounds {
		return collectOften, nil
	}
	return collectSlowly, nil
}

// suspects are the instances that no claim of the cache has. Mostly there are none, and then all claims
// need not be read from the API server: a thousand of them are megabytes. A claim that is in the cache
// and no more in the API server keeps its instance for one round more.
func (c *Collector) suspects(ctx context.Context, instances []cloud.Instance) []cloud.Instance {
	known := &karpv1.NodeClaimList{}
	if err := c.Client.List(ctx, known, client.UnsafeDisableDeepCopy); err != nil { // only read
		return instances
	}
	return c.collectable(instances, known.Items)
}

func (c *Collector) collectable(instances []cloud.Instance, claims []karpv1.NodeClaim) []cloud.Instance {
	return collectable(instances, claims, c.Name, c.Ledger.Owners(), c.Ledger.Started(), c.Now())
}

// listClaims reads all claims from the API server, page by page. A part of them is never an answer.
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

// collectable are the instances that nobody will miss: no claim has them, none was promised one of them,
// they are old enough, and they are not on their way out. Right after the start those are spared that a
// claim without instance may take over (A01).
func collectable(list []cloud.Instance, claims []karpv1.NodeClaim, name directory.Key, given map[string]types.UID, started, now time.Time) []cloud.Instance {
	taken, waiting := map[string]bool{}, map[types.UID]*karpv1.NodeClaim{}
	for i := range claims {
		claim := &claims[i]
		if id := name(claim.Status.ProviderID); id != "" {
			taken[id] = true
		} else if claim.Status.ProviderID == "" {
			waiting[claim.UID] = claim
		}
	}
	spared := func(i cloud.Instance) bool {
		if owner, promised := given[name(string(i.ID))]; promised && waiting[owner] != nil {
			return true // the claim has not written it down yet (A02)
		}
		if now.Sub(started) >= adoptionTime {
			return false
		}
		for _, claim := range waiting {
			if claim.CreationTimestamp.Time.Before(started) && claim.DeletionTimestamp.IsZero() && adopt.BoughtFor(claim, i) {
				return true
			}
		}
		return false
	}
	var out []cloud.Instance
	for _, i := range list {
		// An age below zero, from a clock that is off, is no age (N08).
		if !taken[name(string(i.ID))] && !i.Terminating && now.Sub(i.Launched) > orphanAge && !spared(i) {
			out = append(out, i)
		}
	}
	return out
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
