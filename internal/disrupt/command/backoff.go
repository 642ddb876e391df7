package command

import (
	"maps"
	"slices"
	"time"

	karpv1 "github.com/dovetail-sh/dovetail/api/v1"
	"github.com/dovetail-sh/dovetail/internal/disrupt"
)

// Backoffs delay what failed: commands for nodes, repairs of nodes, and drift of pools.
type Backoffs struct {
	nodes   disrupt.Backoff // by claim: nodes whose command failed
	repairs disrupt.Backoff // by claim: nodes whose repair failed
	drift   disrupt.Backoff // by pool
}

// NewBackoffs returns back-offs that nothing is in. The seed is that of their jitter.
func NewBackoffs(seed uint64) Backoffs {
	return Backoffs{
		nodes:   disrupt.Backoff{Base: PassInterval, Cap: maxCooldown, Seed: seed},
		repairs: disrupt.Backoff{Base: PassInterval, Cap: maxCooldown, Seed: seed},
		drift:   disrupt.Backoff{Base: time.Minute, Cap: 10 * time.Minute, Seed: seed},
	}
}

// RecordFailure backs off nodes that stay although a command was to remove them. Otherwise they would be held
// and released in every pass (G12), and no other node would have its turn (G9). A node that stays for another
// reason may still be repaired.
func (b *Backoffs) RecordFailure(why karpv1.DisruptionReason, now time.Time, nodes ...disrupt.Candidate) {
	for _, n := range nodes {
		b.nodes.RecordFailure(n.Claim, now)
		if why == karpv1.ReasonUnhealthy {
			b.repairs.RecordFailure(n.Claim, now)
		}
	}
}

// RecordDriftFailure backs off drift of the pools of a command that failed because of its replacements. It
// returns the pools for which that counts, by name.
func (b *Backoffs) RecordDriftFailure(c *disrupt.Command, now time.Time) []string {
	if c.Reason != karpv1.ReasonDrifted {
		return nil
	}
	pools := map[string]bool{}
	for _, n := range c.Remove {
		if b.drift.RecordFailure(n.Pool, now) {
			pools[n.Pool] = true
		}
	}
	return slices.Sorted(maps.Keys(pools))
}

// RecordDriftSuccess ends the drift back-off of the pools of a command that removed its last node.
func (b *Backoffs) RecordDriftSuccess(c *disrupt.Command, nodes []disrupt.Candidate) {
	if c.Reason != karpv1.ReasonDrifted {
		return
	}
	for _, n := range nodes {
		b.drift.RecordSuccess(n.Pool)
	}
}

// MarkBackoffs marks the nodes and pools of a view that are in back-off. It reports whether a node is.
func (b *Backoffs) MarkBackoffs(view *disrupt.View, now time.Time) (hidden bool) {
	view.DriftBackoff = b.drift.Deadlines(now)
	nodes, repairs := b.nodes.Deadlines(now), b.repairs.Deadlines(now)
	for i := range view.Nodes {
		n := &view.Nodes[i]
		n.BackingOff, n.RepairBackingOff = !nodes[n.Claim].IsZero(), !repairs[n.Claim].IsZero()
		hidden = hidden || n.BackingOff || n.RepairBackingOff
	}
	return hidden
}
