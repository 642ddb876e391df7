package app

import (
	"context"

	karpv1 "github.com/dovetail-sh/dovetail/api/v1"
	"github.com/dovetail-sh/dovetail/internal/catalog"
	"github.com/dovetail-sh/dovetail/internal/controller/overlays"
	"github.com/dovetail-sh/dovetail/internal/provision"
	"github.com/dovetail-sh/dovetail/internal/resources"
)

// makeOverlays is before the cloud is connected: it needs prices of overlays.
func (c *core) makeOverlays() {
	if c.cfg.Gates.NodeOverlay {
		c.overlays = &overlays.Overlays{
			Client: c.mgr.GetClient(), Reader: c.mgr.GetAPIReader(), Informers: c.mgr.GetCache(), Words: c.driver.Words, Classes: c.classes(), Strict: c.cfg.Compat.Strict,
			Events: c.events, Metrics: c.metrics, Now: c.clock.apiServerTime,
		}
	}
}

// addOverlays adds the controller of NodeOverlays, once there are a cloud and a store.
func (c *core) addOverlays() error {
	if c.overlays == nil {
		return nil
	}
	c.overlays.Store, c.overlays.Types = c.store, c.meteredCloud(overlays.Controller).Types
	c.overlays.Changed = func() { c.batcher.Trigger(provision.Retrigger) }
	return c.overlays.Register(c.mgr)
}

// overlayPrices are the prices of types without one; nil: none.
func (c *core) overlayPrices() func() (map[string]float64, uint64) {
	if c.overlays == nil {
		return nil
	}
	return c.overlays.PreviewPrices
}

// overlaidForLaunch is how NodeOverlays change what a launch chooses from; nil: not at all.
func (c *core) overlaidForLaunch() func(context.Context, *karpv1.NodeClaim, []catalog.InstanceType) ([]catalog.InstanceType, resources.Table, error) {
	if c.overlays == nil {
		return nil
	}
	return c.overlays.Launchable
}
