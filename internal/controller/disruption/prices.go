package disruption

import (
	"context"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/dovetail-sh/dovetail/internal/disrupt"
)

// waitForPrices reports whether decisions that depend on prices have to wait, and logs when that begins and ends.
func (d *Disruption) waitForPrices(ctx context.Context) bool {
	if d.Priced == nil {
		return false
	}
	wait, change, waited := d.prices.Advance(d.Priced(), d.Now())
	logger, duration := log.FromContext(ctx), waited.Round(time.Second).String()
	switch change {
	case disrupt.PriceWaitBegan:
		logger.Info("consolidation and drift wait until prices of instance types were queried", "longest", disrupt.PriceWaitTimeout.String())
	case disrupt.PriceWaitEnded:
		logger.Info("prices of instance types were queried; consolidation and drift begin", "duration", duration)
	case disrupt.PriceWaitTimedOut:
		logger.Info("prices of instance types cannot be read so far; consolidation and drift begin with the built-in ones", "duration", duration)
	}
	return wait
}
