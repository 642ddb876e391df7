package aws

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
	"github.com/dovetail-sh/dovetail/internal/aws/interrupt"
	"github.com/dovetail-sh/dovetail/internal/aws/inventory"
	"github.com/dovetail-sh/dovetail/internal/cloud"
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

// collectorName is the name of its rounds, and its label in metrics.
const collectorName = "instance.garbagecollection"

// collector ends instances of this cluster that no NodeClaim knows (LC-39).
type collector struct {
	inventory instanceInventory
	claims    client.Reader // not the cache: a claim that is missing there costs a node
	directory interrupt.Directory
	client    client.Client
	ledger    *ledger
	synced    func() bool
	started   *leaderSince
	metrics   *metric.Set
	now       func() time.Time

	rounds int
}

// collectOnce ends what is to be ended. If the instances or the claims cannot be listed in full, it does
// nothing (D06, D07).
func (c *collector) collectOnce(ctx context.Context) (time.Duration, error) {
	if !c.synced() {
		return collectOften, nil
	}
	// Instances first: a claim that is written in between is then seen (LC-39).
	instances, err := c.inventory.List(ctx)
	if err != nil {
		return 0, fmt.Errorf("collect instances: %w", err)
	}
	if suspects := c.suspects(ctx, instances); len(suspects) > 0 {
		claims, err := listClaims(ctx, c.claims)
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
func (c *collector) suspects(ctx context.Context, instances []inventory.Instance) []inventory.Instance {
	known := &karpv1.NodeClaimList{}
	if err := c.client.List(ctx, known, client.UnsafeDisableDeepCopy); err != nil { // only read
		return instances
	}
	return c.collectable(instances, known.Items)
}

func (c *collector) collectable(instances []inventory.Instance, claims []karpv1.NodeClaim) []inventory.Instance {
	return collectable(instances, claims, c.ledger.claimsByInstance(), c.started.firstCallAt(c.now), c.now())
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
func collectable(list []inventory.Instance, claims []karpv1.NodeClaim, given map[string]types.UID, started, now time.Time) []inventory.Instance {
	taken, waiting := map[string]bool{}, map[types.UID]*karpv1.NodeClaim{}
	for i := range claims {
		claim := &claims[i]
		if id := inventory.InstanceID(claim.Status.ProviderID); id != "" {
			taken[id] = true
		} else if claim.Status.ProviderID == "" {
			waiting[claim.UID] = claim
		}
	}
	spared := func(i inventory.Instance) bool {
		if owner, promised := given[i.ID]; promised && waiting[owner] != nil {
			return true // the claim has not written it down yet (A02)
		}
		if now.Sub(started) >= adoptionTime {
			return false
		}
		for _, claim := range waiting {
			if claim.CreationTimestamp.Time.Before(started) && claim.DeletionTimestamp.IsZero() && boughtFor(claim, i) {
				return true
			}
		}
		return false
	}
	var out []inventory.Instance
	for _, i := range list {
		// An age below zero, from a clock that is off, is no age (N08).
		if !taken[i.ID] && !i.Terminating() && now.Sub(i.Launched) > orphanAge && !spared(i) {
			out = append(out, i)
		}
	}
	return out
}

func (c *collector) terminateOrphans(ctx context.Context, list []inventory.Instance) {
	var wait sync.WaitGroup
	slots := make(chan struct{}, collectWidth)
	for _, i := range list {
		slots <- struct{}{}
		wait.Go(func() {
			defer func() { <-slots }()
			if err := c.terminateOrphan(ctx, i); err != nil {
				log.FromContext(ctx).Error(err, "collecting an instance without NodeClaim; the next round tries again", "provider-id", i.ProviderID())
			}
		})
	}
	wait.Wait()
}

// terminateOrphan ends one instance and deletes its Node, which would else stay behind.
func (c *collector) terminateOrphan(ctx context.Context, i inventory.Instance) (err error) {
	defer func() {
		if cause := recover(); cause != nil {
			err = fmt.Errorf("panic: %v", cause)
			c.metrics.Panics.WithLabelValues(collectorName).Inc()
		}
	}()
	if err := c.inventory.Terminate(ctx, i.ID); err != nil && !cloud.Is(err, cloud.NotFound) {
		return err
	}
	log.FromContext(ctx).Info("garbage collected cloudprovider instance", "provider-id", i.ProviderID(), "instance-type", i.Type, "zone", i.Zone, "NodePool", klog.KRef("", i.Tags[inventory.TagNodePool]))
	nodes, err := c.directory.Nodes(ctx, i.ID)
	if err != nil {
		return err
	}
	for n := range nodes {
		if !nodes[n].DeletionTimestamp.IsZero() {
			continue
		}
		if err := c.client.Delete(ctx, &nodes[n]); client.IgnoreNotFound(err) != nil {
			return err
		}
		log.FromContext(ctx).Info("garbage collected node", "Node", klog.KRef("", nodes[n].Name), "provider-id", i.ProviderID())
	}
	return nil
}
