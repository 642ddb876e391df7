package metered

import (
	"cmp"
	"context"
	"slices"
	"time"

	"k8s.io/klog/v2"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	karpv1 "github.com/dovetail-sh/dovetail/api/v1"
	"github.com/dovetail-sh/dovetail/internal/catalog"
	"github.com/dovetail-sh/dovetail/internal/metric"
	"github.com/dovetail-sh/dovetail/internal/resources"
)

// OfferingsController is the controller that sets the metrics of Offerings.
const OfferingsController = "cloudprovider.metrics"

// OfferingsEvery is how often they are set.
const OfferingsEvery = time.Minute

// Offerings sets the metrics of instance types and of what is offered. Its exported fields are set once.
type Offerings struct {
	Pools   client.Reader
	Types   func(ctx context.Context, pool *karpv1.NodePool) ([]catalog.InstanceType, error)
	Strict  bool
	Metrics *metric.Set

	shown     map[string]bool // series that are shown
	offerings map[offeringKey]bool
}

// offeringKey is one way to launch an instance type, as the gauges tell them apart.
type offeringKey struct{ instanceType, capacityType, zone string }

// bestOffering is the best that any pool can have of it.
type bestOffering struct {
	available bool
	price     float64 // the lowest that is known; 0 if none is
	known     bool
}

// Refresh sets the gauges. A pool that cannot be listed does not keep the others' series away.
func (g *Offerings) Refresh(ctx context.Context) error {
	pools := &karpv1.NodePoolList{}
	if err := g.Pools.List(ctx, pools); err != nil {
		return err
	}
	slices.SortFunc(pools.Items, func(a, b karpv1.NodePool) int { return cmp.Compare(a.Name, b.Name) })
	sizes, offered := map[string]catalog.InstanceType{}, map[offeringKey]bestOffering{}
	for i := range pools.Items {
		pool, _ := pools.Items[i].Effective(g.Strict)
		all, err := g.Types(ctx, pool)
		if err != nil {
			// Why is on the pool and its class already.
			log.FromContext(ctx).V(1).Info("no instance types to show for a pool", "NodePool", klog.KRef("", pool.Name), "reason", err.Error())
			continue
		}
		mergeTypes(all, sizes, offered)
	}
	g.setGauges(sizes, offered)
	return nil
}

// mergeTypes merges the types of one pool into those of all. A type that pools see with different sizes has the
// size of the first; an offering has the lowest price that any pool knows for it.
func mergeTypes(all []catalog.InstanceType, sizes map[string]catalog.InstanceType, offered map[offeringKey]bestOffering) {
	for i := range all {
		t := &all[i]
		if _, seen := sizes[t.Name]; !seen {
			sizes[t.Name] = *t
		}
		for _, o := range t.Offerings {
			key := offeringKey{t.Name, o.CapacityType, o.Zone}
			best := offered[key]
			if known := o.Price > 0 || o.Free; known && (!best.known || o.Price < best.price) {
				best.price, best.known = o.Price, true
			}
			best.available = best.available || o.Available
			offered[key] = best
		}
	}
}

// setGauges sets the series of what exists and deletes the others: to empty a gauge first would show as a gap.
func (g *Offerings) setGauges(sizes map[string]catalog.InstanceType, offered map[offeringKey]bestOffering) {
	m := g.Metrics
	// any order: each has a series of its own
	for name, t := range sizes {
		m.InstanceTypeCPU.WithLabelValues(name).Set(float64(t.Capacity.At(resources.CPU)) / 1000)
		m.InstanceTypeMemory.WithLabelValues(name).Set(float64(t.Capacity.At(resources.Memory)))
	}
	// any order: each has a series of its own
	for name := range g.shown {
		if _, still := sizes[name]; !still {
			m.InstanceTypeCPU.DeleteLabelValues(name)
			m.InstanceTypeMemory.DeleteLabelValues(name)
		}
	}
	// any order: each has a series of its own
	for key, o := range offered {
		available := 0.0
		if o.available {
			available = 1
		}
		m.OfferingAvailable.WithLabelValues(key.instanceType, key.capacityType, key.zone).Set(available)
		m.OfferingPrice.WithLabelValues(key.instanceType, key.capacityType, key.zone).Set(o.price)
	}
	// any order: each has a series of its own
	for key := range g.offerings {
		if _, still := offered[key]; !still {
			m.OfferingAvailable.DeleteLabelValues(key.instanceType, key.capacityType, key.zone)
			m.OfferingPrice.DeleteLabelValues(key.instanceType, key.capacityType, key.zone)
		}
	}
	g.shown, g.offerings = map[string]bool{}, map[offeringKey]bool{}
	for name := range sizes {
		g.shown[name] = true
	}
	for key := range offered {
		g.offerings[key] = true
	}
}
