package sim

import (
	"time"

	karpv1 "github.com/dovetail-sh/dovetail/api/v1"
	"github.com/dovetail-sh/dovetail/internal/condition"
	"github.com/dovetail-sh/dovetail/internal/lifecycle"
)

// losesNodes has users delete Nodes, some of them without their finalizer, so that nothing is drained.
func (m *maker) losesNodes() {
	for range 1 + m.IntN(3) {
		stripped := m.chance(0.5)
		m.change("user: deletes a Node", func(w *World) { w.deleteNode(stripped) })
	}
}

func (w *World) deleteNode(stripped bool) {
	names := sorted(w.api.nodes)
	if len(names) == 0 {
		return
	}
	node := w.api.nodes[names[w.rnd.IntN(len(names))]]
	w.logf("user: deletes Node %s, without its finalizer: %v", node.Name, stripped)
	if stripped {
		w.api.drop(node)
	} else {
		w.api.delete(node, w.now)
	}
}

// nodeGone reports whether the Node of a claim was deleted, as the API server says.
func (p *process) nodeGone(f *lifecycle.Facts) bool {
	if !p.w.config.Steps.NodeMissing(f.Claim, f.Nodes) {
		return false
	}
	node := p.w.api.nodes[f.Claim.Status.NodeName]
	return node == nil || lifecycle.NodeReplaced(f.Claim, node)
}

const noticesLostNode = 2 * time.Minute

// nodeless checks that a claim is deleted whose Node is gone (FM-L12).
func (c *checks) nodeless() {
	p := c.w.process
	up := p != nil && p.synced && c.w.now.Sub(p.started) > noticesLostNode
	for _, name := range c.w.api.claimNames() {
		claim := c.w.api.claims[name]
		lost := up && claim.DeletionTimestamp == nil && len(c.w.api.nodesOf(claim)) == 0 && condition.True(claim.Status.Conditions, karpv1.ConditionRegistered)
		if c.lasts(c.lostNodes, name, lost) > noticesLostNode {
			c.w.broken("FM-L12", "claim %s has no Node any more and is not deleted", name)
		}
	}
}
