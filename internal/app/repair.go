package app

import (
	"fmt"

	"github.com/dovetail-sh/dovetail/internal/controller/loop"
	"github.com/dovetail-sh/dovetail/internal/controller/nodes"
	"github.com/dovetail-sh/dovetail/internal/disrupt"
	"github.com/dovetail-sh/dovetail/internal/lifecycle"
)

// rebootWorkers is how many reboots are processed at a time (V15-06).
const rebootWorkers = 10

// reboots completes reboots that were requested, also those of an earlier process if repair is disabled in this one
// (V15-35).
func (c *core) reboots(queue *nodes.Evictions) *nodes.Reboots {
	return &nodes.Reboots{
		Client: c.mgr.GetClient(), Provider: c.meteredCloud("nodeclaim.reboot"), Queue: queue, Store: c.store, Events: c.events, Metrics: c.metrics, Remover: c.remover,
		Classes: c.kinds(), Workers: rebootWorkers, Now: c.clock.apiServerTime,
	}
}

// readRepairs checks the repair policies of the cloud. It fails if nodes are to be repaired and they make
// no sense (V15-03, V15-33).
func (c *core) readRepairs() error {
	if !c.cfg.Gates.NodeRepair {
		return nil
	}
	list := c.meteredCloud("node.health").Repairs()
	var err error
	if c.cfg.Compat.LegacyNodeRepair {
		c.legacyPolicies, err = lifecycle.NewAilments(list)
	} else {
		c.repairs, err = disrupt.NewRepairSet(list)
	}
	if err != nil {
		return fmt.Errorf("gate NodeRepair is on, but the repair policies of the cloud cannot be used: %w", err)
	}
	return nil
}

// legacyRepair is the controller that settings can bring back (V15-02).
func (c *core) legacyRepair() []registrant {
	if c.legacyPolicies == nil {
		return nil
	}
	return []registrant{&nodes.NodeHealth{
		Client: c.mgr.GetClient(), Ailments: c.legacyPolicies, Events: c.events, Metrics: c.metrics, Remover: c.remover, Classes: c.kinds(),
		Workers: loop.Workers(10, 1000, c.cfg.Process.CPUMillis), Now: c.clock.apiServerTime,
	}}
}
