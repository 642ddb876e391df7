package sim

import (
	"errors"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"

	karpv1 "github.com/dovetail-sh/dovetail/api/v1"
	"github.com/dovetail-sh/dovetail/internal/disrupt"
)

// admit is an admission webhook, which denies the claims of some pools for some time.
func (w *World) admit(p *process, pool string) error {
	w.checks.ordersDenied(p, pool)
	if !w.now.Before(w.denied[pool]) {
		return nil
	}
	w.checks.denials[pool] = w.now
	return apierrors.NewForbidden(schema.GroupResource{Group: karpv1.Group, Resource: "nodeclaims"}, "", errors.New("admission denies it"))
}

// denials has admission deny the claims of pools for some time.
func (m *maker) denials() {
	for range 2 + m.IntN(3) {
		pool, lasts := m.c.Pools[m.IntN(len(m.c.Pools))].Name, m.time(5*time.Minute, 30*time.Minute)
		m.change("fault: admission denies the claims of "+pool, func(w *World) { w.denied[pool] = w.now.Add(lasts) })
	}
}

// What the rule of denied claims says: for how long a pool is backed off at least, and how long it may take until a command
// that was begun before that orders its replacements.
const (
	denialBackoff = time.Minute
	begunEarlier  = 8 * time.Second
)

// ordersDenied checks that no claim is requested of a pool whose claims were denied a moment ago (FM-A14).
func (c *checks) ordersDenied(p *process, pool string) {
	last, denied := c.denials[pool]
	if since := c.w.now.Sub(last); denied && last.After(p.started) && since > begunEarlier && since < denialBackoff {
		c.w.broken("FM-A14", "a claim of pool %s is requested, %s after one was denied", pool, since)
	}
}

// deletesLaunching has users delete claims whose instance is being launched, or has just been.
func (m *maker) deletesLaunching() {
	for range 1 + m.IntN(3) {
		m.change("user: waits for a claim to delete", func(w *World) { w.deleteLaunching(600) })
	}
}

// deleteLaunching deletes the next claim whose instance is being launched, within some seconds.
func (w *World) deleteLaunching(seconds int) {
	for _, name := range w.api.claimNames() {
		if claim := w.api.claims[name]; w.process != nil && w.process.launching[claim.UID] && claim.DeletionTimestamp == nil {
			w.after(w.between(0, 4*time.Second), func() {
				if now := w.api.claims[name]; now != nil && now.UID == claim.UID {
					w.logf("user: deletes claim %s", name)
					w.api.delete(now, w.now)
				}
			})
			return
		}
	}
	if seconds > 0 && !w.quiet {
		w.after(time.Second, func() { w.deleteLaunching(seconds - 1) })
	}
}

// latePrices has processes read prices some time after their start, or after they stop waiting for that.
func (m *maker) latePrices() { m.c.PricesAfter = m.time(20*time.Second, 4*time.Minute) }

// decidesPriced checks that a process which has read no prices does not disrupt for a price, for two minutes (FM-P05). Empty
// nodes, static pools and repairs do not wait.
func (c *checks) decidesPriced(p *process, cmd *disrupt.Command) {
	const longest = 2 * time.Minute
	of, _ := p.seen[pools][cmd.Remove[0].Pool].(*karpv1.NodePool)
	waits := cmd.Reason == karpv1.ReasonUnderutilized || cmd.Reason == karpv1.ReasonDrifted && of != nil && of.Spec.Replicas == nil
	if since := c.w.now.Sub(p.started); waits && !p.priced() && since < longest {
		c.w.broken("FM-P05", "%s of %v, %s after the start and before prices were read", cmd.Reason, names(cmd.Remove), since)
	}
}
