package app

import (
	"context"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/manager"

	karpv1 "github.com/dovetail-sh/dovetail/api/v1"
	"github.com/dovetail-sh/dovetail/internal/cloud"
	"github.com/dovetail-sh/dovetail/internal/cloud/adopt"
	"github.com/dovetail-sh/dovetail/internal/cloud/collect"
	"github.com/dovetail-sh/dovetail/internal/cloud/directory"
	"github.com/dovetail-sh/dovetail/internal/cloud/driver"
	"github.com/dovetail-sh/dovetail/internal/cloud/metered"
	"github.com/dovetail-sh/dovetail/internal/cloud/periodic"
	"github.com/dovetail-sh/dovetail/internal/cloud/respond"
	"github.com/dovetail-sh/dovetail/internal/controller/lookup"
	"github.com/dovetail-sh/dovetail/internal/controller/overlays"
	"github.com/dovetail-sh/dovetail/internal/version"
)

// connectCloud reaches the cloud.
func (c *core) connectCloud(ctx context.Context) error {
	c.ledger = adopt.NewLedger(c.clock.apiServerTime)
	connected, err := c.driver.Connect(ctx, driver.Options{
		Config: c.cfg, Version: version.Get().Version, Kube: c.mgr.GetConfig(), Client: c.mgr.GetClient(), Reader: c.mgr.GetAPIReader(), Events: c.events, Metrics: c.metrics, Now: c.clock.apiServerTime,
		Remover: c.remover, Ledger: c.ledger, OverlayPrices: c.overlayPrices(), Overlaid: c.overlaidForLaunch(),
	})
	if err != nil {
		return err
	}
	c.connected = connected
	return nil
}

// meteredCloud is the cloud as one controller uses it: its calls are measured under its name.
func (c *core) meteredCloud(controller string) cloud.Provider {
	inner := &metered.Provider{Inner: c.connected, Cloud: c.driver.Name, Controller: controller, Metrics: c.metrics, Now: c.clock.apiServerTime}
	if c.overlays == nil || controller == overlays.Controller {
		return inner
	}
	return overlays.Provider{Provider: inner, Overlays: c.overlays}
}

// addCloud adds the controllers that the cloud has, and those that every cloud needs.
func (c *core) addCloud() error {
	if err := directory.Index(context.Background(), c.mgr.GetFieldIndexer(), c.driver.InstanceName); err != nil {
		return err
	}
	offerings := &metered.Offerings{Pools: c.mgr.GetClient(), Types: c.meteredCloud(metered.OfferingsController).Types, Strict: c.cfg.Compat.Strict, Metrics: c.metrics}
	if err := periodic.Add(c.mgr, metered.OfferingsController, periodic.Every(metered.OfferingsEvery, offerings.Refresh)); err != nil {
		return err
	}
	collector := &collect.Collector{
		Cloud: c.connected, Claims: c.mgr.GetAPIReader(), Client: c.mgr.GetClient(), Ledger: c.ledger, Name: c.driver.InstanceName, Synced: c.store.Synced, Metrics: c.metrics, Now: c.clock.apiServerTime,
	}
	if err := periodic.Add(c.mgr, collect.Controller, collector.Collect); err != nil {
		return err
	}
	actor := &respond.Actor{
		Directory: directory.Cache{Reader: c.mgr.GetClient()}, Remover: c.remover, Events: c.events, Metrics: c.metrics, ReservationLabel: c.driver.ReservationLabel, Now: c.clock.apiServerTime,
		SpotLost: c.connected.SpotLost, SpotAtRisk: c.connected.SpotAtRisk, ReservationLost: c.connected.ReservationLost,
	}
	leads := manager.RunnableFunc(func(context.Context) error {
		c.ledger.Started() // which is now
		return nil
	})
	for _, r := range append(c.connected.Interruptions(actor), leads) {
		if err := c.mgr.Add(r); err != nil {
			return err
		}
	}
	return c.connected.Register(c.mgr)
}

// kinds are the kinds of node classes that are ours.
func (c *core) kinds() []schema.GroupKind {
	var out []schema.GroupKind
	for _, k := range c.driver.Classes(c.cfg) {
		out = append(out, k.GroupKind())
	}
	return out
}

// classes are the same, as controllers of pools see them.
func (c *core) classes() []lookup.ClassKind {
	var out []lookup.ClassKind
	for _, k := range c.driver.Classes(c.cfg) {
		out = append(out, lookup.ClassKind{GroupKind: k.GroupKind(), New: k.New, Conditions: k.Conditions, Refusals: k.Refusals})
	}
	return out
}

// versions are the kinds that the cluster has to serve.
func versions(classes []driver.Class) []schema.GroupVersionKind {
	out := []schema.GroupVersionKind{karpv1.GroupVersion().WithKind("NodePool"), karpv1.GroupVersion().WithKind("NodeClaim")}
	for _, k := range classes {
		out = append(out, k.GroupVersionKind)
	}
	return out
}
