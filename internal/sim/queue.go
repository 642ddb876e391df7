package sim

import (
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	karpv1 "github.com/dovetail-sh/dovetail/api/v1"
	"github.com/dovetail-sh/dovetail/internal/condition"
	"github.com/dovetail-sh/dovetail/internal/disrupt"
	"github.com/dovetail-sh/dovetail/internal/lifecycle"
)

const slowestLook = 5 * time.Second // at a command that waits

// holdNode keeps new pods away from a node and says why and for which command.
func (p *process) holdNode(n disrupt.Candidate, token string, why karpv1.DisruptionReason) {
	p.store.SetCommanded(n.Node, true)
	if node := p.w.api.nodes[n.Node]; node != nil {
		next := node.DeepCopy()
		if !karpv1.Disrupted(next) {
			next.Spec.Taints = append(next.Spec.Taints, karpv1.DisruptedTaint())
		}
		metav1.SetMetaDataAnnotation(&next.ObjectMeta, karpv1.AnnotationHeldBy, token)
		p.write(func() { p.w.api.put(next) })
	}
	if claim := p.w.api.claims[n.Claim]; claim != nil {
		next := claim.DeepCopy()
		object := condition.Object{Generation: claim.Generation, Created: claim.CreationTimestamp, Deleting: claim.DeletionTimestamp != nil}
		next.Status.Conditions = lifecycle.Conditions().Apply(next.Status.Conditions, object, metav1.NewTime(p.w.now),
			condition.Change{Type: karpv1.ConditionDisruptionReason, Status: metav1.ConditionTrue, Reason: string(why), Message: string(why)})
		p.write(func() { p.w.api.put(next) })
	}
}

// releaseNode undoes what hold did. A node that is being deleted keeps its taint.
func (p *process) releaseNode(n disrupt.Candidate) {
	node := p.w.api.nodes[n.Node]
	if seen, _ := p.seen[claims][n.Claim].(*karpv1.NodeClaim); node == nil || seen != nil && seen.DeletionTimestamp != nil {
		return
	}
	if _, named := node.Annotations[karpv1.AnnotationHeldBy]; node.DeletionTimestamp == nil && (named || karpv1.Disrupted(node)) {
		next := node.DeepCopy()
		next.Spec.Taints = slices.DeleteFunc(next.Spec.Taints, karpv1.IsDisrupted)
		delete(next.Annotations, karpv1.AnnotationHeldBy)
		p.w.logf("controller: node %s is released", n.Node)
		p.write(func() { p.w.api.put(next) })
	}
	if claim := p.w.api.claims[n.Claim]; claim != nil && claim.DeletionTimestamp == nil && claim.Annotations[karpv1.AnnotationHeldBy] != "" {
		next := claim.DeepCopy()
		delete(next.Annotations, karpv1.AnnotationHeldBy)
		delete(next.Annotations, karpv1.AnnotationTerminationTimestamp)
		p.write(func() { p.w.api.put(next) })
	}
	if claim := p.w.api.claims[n.Claim]; claim != nil && condition.Find(claim.Status.Conditions, karpv1.ConditionDisruptionReason) != nil &&
		!condition.True(claim.Status.Conditions, karpv1.ConditionRebooting) { // a reboot may have been asked for a moment ago
		next := claim.DeepCopy()
		next.Status.Conditions = condition.Remove(next.Status.Conditions, karpv1.ConditionDisruptionReason)
		p.write(func() { p.w.api.put(next) })
	}
}

// releaseNodes gives nodes back.
func (p *process) releaseNodes(list []disrupt.Candidate) {
	for _, n := range list {
		p.releaseNode(n)
		p.store.SetRemoving(n.Node, false)
		p.store.SetCommanded(n.Node, false)
	}
}

// resumeCommands takes over the commands of an earlier process that can go on.
func (p *process) resumeCommands(view *disrupt.View) bool {
	orders, held := map[string]disrupt.Order{}, map[string]string{}
	for _, name := range sorted(p.seen[claims]) {
		claim := p.seen[claims][name].(*karpv1.NodeClaim)
		if o, read := disrupt.ReadOrder(claim.Annotations); read && claim.DeletionTimestamp == nil {
			orders[name] = o
		}
	}
	if len(orders) == 0 {
		return false
	}
	for i := range view.Nodes {
		n := &view.Nodes[i]
		node, _ := p.seen[nodes][n.Name].(*corev1.Node)
		claim, _ := p.seen[claims][n.Claim].(*karpv1.NodeClaim)
		if node != nil && claim != nil && condition.Find(claim.Status.Conditions, karpv1.ConditionDisruptionReason) != nil && node.Annotations[karpv1.AnnotationHeldBy] != "" {
			held[n.Claim] = node.Annotations[karpv1.AnnotationHeldBy]
		}
	}
	found := disrupt.Recover(disrupt.RecoveryInput{Nodes: view.Nodes, Held: held, Orders: orders, Known: func(token string) bool { return p.commands[token] != nil || p.ended[token] }})
	for _, r := range found {
		p.w.logf("controller: goes on with %s of %v", r.Reason, names(r.Remove))
		c := &command{Running: r, committed: true}
		p.commands[r.Token()] = c
		for _, n := range r.Remove {
			p.store.SetCommanded(n.Node, true)
		}
		p.store.Replace(names(r.Remove), nil)
		p.w.checks.recordReplacement(c)
		p.advanceCommand(c, time.Second)
	}
	return len(found) > 0
}

// cleanUp takes taints and conditions off nodes that nobody removes (G7), and what replacements say of
// commands that are over.
func (p *process) cleanUp(view *disrupt.View) {
	for i := range view.Nodes {
		n := &view.Nodes[i]
		if !n.Deleting && !n.Commanded && !n.Rebooting {
			p.releaseNode(disrupt.Candidate{Node: n.Name, Claim: n.Claim})
		}
	}
	for _, name := range sorted(p.seen[claims]) {
		claim := p.seen[claims][name].(*karpv1.NodeClaim)
		if _, ours := claim.Annotations[karpv1.AnnotationCommand]; ours && claim.DeletionTimestamp == nil {
			if o, read := disrupt.ReadOrder(claim.Annotations); !read || p.commands[o.Token] == nil {
				p.removeCommandAnnotations(name)
			}
		}
	}
}

// removeCommandAnnotations takes off a replacement what it says of its command.
func (p *process) removeCommandAnnotations(name string) {
	claim := p.w.api.claims[name]
	if claim == nil || claim.Annotations[karpv1.AnnotationCommand] == "" {
		return
	}
	next := claim.DeepCopy()
	delete(next.Annotations, karpv1.AnnotationCommand)
	delete(next.Annotations, karpv1.AnnotationReplaces)
	p.write(func() { p.w.api.put(next) })
}

// advanceCommand takes a command as far as it gets now, and looks at it again later.
func (p *process) advanceCommand(c *command, wait time.Duration) {
	if p.commands[c.Token()] != c {
		return
	}
	queued := 0
	for _, other := range p.commands {
		queued += len(other.Remove)
	}
	progress := c.Advance(p.claimStatuses(c), queued, p.w.now)
	for _, name := range c.ReplacementClaims {
		p.store.Nominate(name, p.w.now.Add(nomination))
	}
	p.releaseNodes(progress.Retained)
	switch progress.Stage {
	case disrupt.Waiting:
		p.after(wait, func() { p.advanceCommand(c, min(2*wait, slowestLook)) })
	case disrupt.Ready:
		p.deleteAll(c)
	case disrupt.Over:
		p.finishCommand(c)
	case disrupt.Broken:
		if progress.Replacement {
			p.backOffDrift(&c.Command)
		}
		p.undoCommand(c, progress.Why)
	}
}

// recheckCommandOf has a command looked at whose replacement goes: its pods need no other place, and its nodes are wanted
// back (G8).
func (p *process) recheckCommandOf(claim string) {
	for _, token := range sorted(p.commands) {
		if c := p.commands[token]; slices.Contains(c.ReplacementClaims, claim) {
			p.after(afterWrite, func() { p.advanceCommand(c, slowestLook) })
		}
	}
}

// claimStatuses reads the claims of a command.
func (p *process) claimStatuses(c *command) map[string]disrupt.ClaimStatus {
	seen := map[string]disrupt.ClaimStatus{}
	look := func(name, node, pool string) {
		claim, _ := p.seen[claims][name].(*karpv1.NodeClaim)
		if claim == nil {
			claim = p.w.api.claims[name]
		}
		if claim == nil {
			seen[name] = disrupt.ClaimStatus{NotFound: true}
			return
		}
		s := disrupt.ClaimStatus{
			Deleting: claim.DeletionTimestamp != nil,
			Launched: condition.True(claim.Status.Conditions, karpv1.ConditionLaunched), Initialized: condition.True(claim.Status.Conditions, karpv1.ConditionInitialized),
		}
		if node != "" {
			at, _ := p.seen[nodes][node].(*corev1.Node)
			s.Protected = p.disruptionForbiddenBy(at, pool)
		}
		seen[name] = s
	}
	for _, n := range c.Remove {
		look(n.Claim, n.Node, n.Pool)
	}
	for _, name := range c.ReplacementClaims {
		look(name, "", "")
	}
	return seen
}

// disruptionForbiddenBy returns what forbids that a node is disrupted; empty: nothing does.
func (p *process) disruptionForbiddenBy(node *corev1.Node, pool string) string {
	of, _ := p.seen[pools][pool].(*karpv1.NodePool)
	return p.w.config.Steps.NodeForbiddenBy(node, p.w.effectivePool(of))
}

// deleteAll deletes the claims of a command that is ready. What is not held any more is tried again, until
// the command has had its time.
func (p *process) deleteAll(c *command) {
	var rest []disrupt.Candidate
	for _, n := range c.Remove {
		claim, node := p.w.api.claims[n.Claim], p.w.api.nodes[n.Node]
		switch {
		case claim == nil || claim.DeletionTimestamp != nil:
		case condition.Find(claim.Status.Conditions, karpv1.ConditionDisruptionReason) == nil || node != nil && node.Annotations[karpv1.AnnotationHeldBy] != c.Token(),
			c.Reason != karpv1.ReasonUnhealthy && p.disruptionForbiddenBy(node, n.Pool) != "":
			rest = append(rest, n)
			continue
		default:
			p.recordEvent("node/"+n.Node, "is disrupted: "+string(c.Reason))
			p.w.checks.deletes(p, c, node, n.Pool)
			p.writeDrainBound(c, claim)
			p.write(func() { p.w.api.delete(p.w.api.claims[n.Claim], p.w.now) })
		}
		p.store.SetCommanded(n.Node, false) // it stays marked: it goes
	}
	if len(rest) > 0 {
		c.Remove, c.Failed = rest, true
		p.after(slowestLook, func() { p.advanceCommand(c, slowestLook) })
		return
	}
	p.finishCommand(c)
}

// writeDrainBound writes until when a drain may take, if the command has a bound, and that it is of the command. A
// time that is there already is only ever made earlier (V15-26, V15-29).
func (p *process) writeDrainBound(c *command, claim *karpv1.NodeClaim) {
	if c.Bound == nil {
		return
	}
	lasts := *c.Bound
	if own, err := claim.Spec.TerminationGracePeriod.Parse(); err == nil && claim.Spec.TerminationGracePeriod != "" {
		lasts = min(lasts, own)
	}
	at := p.w.now.Add(lasts).UTC()
	if have, err := time.Parse(time.RFC3339, claim.Annotations[karpv1.AnnotationTerminationTimestamp]); err == nil && !have.After(at) {
		return
	}
	next := claim.DeepCopy()
	metav1.SetMetaDataAnnotation(&next.ObjectMeta, karpv1.AnnotationTerminationTimestamp, at.Format(time.RFC3339))
	metav1.SetMetaDataAnnotation(&next.ObjectMeta, karpv1.AnnotationHeldBy, c.Token())
	p.write(func() { p.w.api.put(next) })
}

// finishCommand ends a command that succeeded.
func (p *process) finishCommand(c *command) {
	delete(p.commands, c.Token())
	p.ended[c.Token()] = true
	if c.Reason == karpv1.ReasonDrifted {
		for _, n := range c.Remove {
			p.drift.RecordSuccess(n.Pool)
		}
	}
}

// undoCommand gives a command up: its replacements forget it, and its nodes stay.
func (p *process) undoCommand(c *command, why string) {
	p.w.stats.Rollbacks++
	for _, n := range c.Remove {
		p.recordEvent("node/"+n.Node, "stays: "+why)
	}
	p.recordBackoff(c.Reason, c.Remove)
	for _, name := range c.ReplacementClaims {
		p.w.checks.failed[name] = true
		p.removeCommandAnnotations(name)
	}
	p.releaseNodes(c.Remove)
	delete(p.commands, c.Token())
	p.ended[c.Token()] = true
}
