package disruption

import (
	"context"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/log"
)

// priceWaitTimeout is how long a new leader waits for prices. A price list that cannot be reached may take many
// minutes to fail, and the last known prices are then all there is.
const priceWaitTimeout = 2 * time.Minute

// priceWait is the wait of a new leader for prices. The built-in prices are not those of the region, and nodes
// must not be replaced because of them (FM P05). Pending pods do not wait for prices.
type priceWait struct {
	since time.Time // when it began; zero: it did not
	over  bool
}

// mustWait reports whether decisions that depend on prices have to wait, and logs when that begins and ends.
func (w *priceWait) mustWait(ctx context.Context, priced func() bool, now time.Time) bool {
	if w.over || priced == nil {
		return false
	}
	logger, waited := log.FromContext(ctx), now.Sub(w.since).Round(time.Second).String()
	switch known := priced(); {
	case known && w.since.IsZero():
		w.over = true
	case known:
		w.over = true
		logger.Info("prices of instance types were asked for; consolidation and drift begin", "duration", waited)
	case w.since.IsZero():
		w.since = now
		logger.Info("consolidation and drift wait until prices of instance types were asked for", "longest", priceWaitTimeout.String())
	case now.Sub(w.since) >= priceWaitTimeout:
		w.over = true
		logger.Info("prices of instance types cannot be read so far; consolidation and drift begin with the built-in ones", "duration", waited)
	}
	return !w.over
}
