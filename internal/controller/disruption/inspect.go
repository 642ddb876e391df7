package disruption

import (
	"context"

	"github.com/dovetail-sh/dovetail/internal/disrupt"
	"github.com/dovetail-sh/dovetail/internal/inspect"
)

// carried is what a pass hands on for questions: it may not be computed a second time.
type carried struct {
	outcomes map[uint64]disrupt.MoveOutcome
	unpriced bool
}

// Inspect returns the cluster as a pass would see it now. It decides nothing, leaves what passes go by unchanged, and can be
// called at any time: the store is locked once, for as long as a pass locks it.
func (d *Disruption) Inspect(ctx context.Context) *inspect.Cluster {
	d.prepare()
	offers, untyped := d.offers(ctx)
	view, all := d.Store.Inspect(offers)
	c := &inspect.Cluster{View: disrupt.View{DisruptionView: view}, Ignored: all.Ignored, Awaiting: all.AwaitingReplacement, Untyped: untyped}
	d.applySettings(&c.View)
	if last := d.carried.Load(); last != nil {
		c.View.Outcomes, c.View.Unpriced = last.outcomes, last.unpriced
	} else {
		c.View.Unpriced = d.Priced != nil && !d.Priced()
	}
	d.worker.queue.markBackoffs(&c.View, d.Now())
	return c
}

// applySettings sets how is decided.
func (d *Disruption) applySettings(v *disrupt.View) {
	v.Policy, v.Tuning, v.Methods, v.Repairs = d.Policy, d.Tuning, d.Methods, d.Repairs
}
