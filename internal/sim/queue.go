package sim

import (
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	karpv1 "github.com/dovetail-sh/dovetail/api/v1"
	"github.com/dovetail-sh/dovetail/internal/disrupt"
	"github.com/dovetail-sh/dovetail/internal/disrupt/command"
	"github.com/dovetail-sh/dovetail/internal/drain"
)

// perform performs the effects of a step. Events on replacements are left out: they are no reason for anything
// that is stuck.
func (p *process) perform(effects []command.Effect) {
	for _, effect := range effects {
		switch e := effect.(type) {
		case command.Release:
			p.releaseNodes(e.Nodes)
		case command.CleanNode:
			p.releaseNode(e.Node)
		case command.UnmarkReplacements:
			for _, name := range e.Claims {
				p.w.checks.failed[name] = true
				p.removeMarks(name)
			}
		case command.DeleteReplacements:
			for _, r := range e.Claims {
				if claim := p.w.api.claims[r.Name]; claim != nil {
					p.write(func() { p.w.api.delete(claim, p.w.now) })
				}
			}
		case command.Delete:
			p.w.checks.deletes(p, &e.Command)
			p.deleteAll(&e.Command)
		case command.BackOff:
			p.w.checks.commands.recordFailure(e.Reason, p.w.now, e.Nodes...)
			p.commands.RecordFailure(e.Reason, p.w.now, e.Nodes...)
		case command.Commit:
			p.commit(&e)
		case command.Resumed:
			p.w.checks.resumed(&e.Command)
			p.markResumed(&e.Command)
		case command.LaunchDenied:
			p.launches.RecordDenied(e.Pool, p.w.now)
		case command.Nominate:
			for _, name := range e.Claims {
				p.store.Nominate(name, p.w.now.Add(nomination()))
			}
		case command.WakePass:
			p.after(command.AfterWake, p.runDisruptionPass)
		case command.Failed:
			p.w.checks.commands.recordFailure(e.Command.Reason, p.w.now, e.Command.Remove...)
			p.undone = append(p.undone, e.Command)
		case command.Objected:
			p.recordEvent("node/"+e.Objection.Node, "stays after all: "+e.Objection.Text)
		case command.Outcome:
			for _, n := range e.Command.Remove { // those that stay
				p.recordEvent("node/"+n.Node, "stays: "+e.Text)
			}
			if len(e.Command.Remove) > 0 {
				p.w.stats.Rollbacks++
			}
		}
	}
}

// holdNode keeps new pods away from a node and says why and for which command. It reports whether it could.
func (p *process) holdNode(n disrupt.Candidate, token string, why karpv1.DisruptionReason) bool {
	p.w.checks.held(n)
	p.store.SetCommanded(n.Node, true)
	node := p.w.api.nodes[n.Node]
	if node == nil {
		return false
	}
	next := node.DeepCopy()
	if write, _ := command.HoldNode(next, token); write {
		p.write(func() { p.w.api.put(next) })
	}
	p.patchClaim(n.Claim, func(claim *karpv1.NodeClaim) bool {
		command.SetReason(claim, why, p.w.now)
		return true
	})
	return true
}

// patchClaim changes a claim if it is there.
func (p *process) patchClaim(name string, change func(*karpv1.NodeClaim) (write bool)) {
	if claim := p.w.api.claims[name]; claim != nil {
		if next := claim.DeepCopy(); change(next) {
			p.write(func() { p.w.api.put(next) })
		}
	}
}

// releaseNode undoes what hold did.
func (p *process) releaseNode(n disrupt.Candidate) {
	node := p.w.api.nodes[n.Node]
	if seen, _ := p.seen[claims][n.Claim].(*karpv1.NodeClaim); node == nil || !command.CanRelease(seen) {
		return
	}
	next := node.DeepCopy()
	if write, _ := command.ReleaseNode(next); write {
		p.w.logf("controller: node %s is released", n.Node)
		p.write(func() { p.w.api.put(next) })
	}
	p.patchClaim(n.Claim, drain.RemoveCommandDeadline)
	p.patchClaim(n.Claim, command.RemoveReason)
}

// releaseNodes gives nodes back.
func (p *process) releaseNodes(list []disrupt.Candidate) {
	for _, n := range list {
		p.releaseNode(n)
		p.store.SetRemoving(n.Node, false)
		p.store.SetCommanded(n.Node, false)
	}
}

// leftovers reads what commands wrote on objects.
func (p *process) leftovers() command.Leftovers {
	l := command.NewLeftovers()
	// any order: objects have names of their own
	for _, obj := range p.seen[nodes] {
		l.AddNode(obj.(*corev1.Node))
	}
	// any order: objects have names of their own
	for _, obj := range p.seen[claims] {
		l.AddClaim(obj.(*karpv1.NodeClaim))
	}
	return l
}

// markResumed marks the nodes of a command of an earlier process as being removed.
func (p *process) markResumed(r *disrupt.Running) {
	p.w.logf("controller: continues %s of %v", r.Reason, names(r.Remove))
	for _, n := range r.Remove {
		p.store.SetCommanded(n.Node, true)
	}
	p.store.Replace(names(r.Remove), nil)
	p.w.checks.recordReplacement(r)
}

// commit marks the nodes of a command as being removed.
func (p *process) commit(e *command.Commit) {
	p.w.checks.committed(p, &e.Command)
	for _, b := range e.Command.Bind {
		p.store.Nominate(b.Node, p.w.now.Add(nomination()))
	}
	p.store.Replace(names(e.Command.Remove), e.Places())
	p.w.started(&e.Command)
}

// removeMarks removes the marks of its command from a replacement.
func (p *process) removeMarks(name string) { p.patchClaim(name, command.RemoveMarks) }

// wakeQueue has the queue worked on after some time, unless that is due earlier.
func (p *process) wakeQueue(in time.Duration) {
	at := p.w.now.Add(in)
	if !p.worksAt.IsZero() && !at.Before(p.worksAt) {
		return
	}
	p.worksAt = at
	p.at(at, func() {
		if p.worksAt.Equal(at) {
			p.worksAt = time.Time{}
			p.workQueue()
		}
	})
}

// workQueue advances the commands that are due.
func (p *process) workQueue() {
	for _, token := range p.commands.Due(p.w.now) {
		p.advanceCommand(token)
	}
	if in, found := p.commands.NextDue(p.w.now); found {
		p.wakeQueue(in)
	}
}

// advanceCommand takes a command as far as it gets now.
func (p *process) advanceCommand(token string) {
	if r, runs := p.commands.BeginObserve(token, p.w.now); runs {
		p.perform(p.commands.Observe(token, p.claimStatuses(&r), p.w.now))
	}
}

// recheckCommandOf requeues a command whose replacement is deleted.
func (p *process) recheckCommandOf(claim string) {
	if p.commands.RecordLostReplacement(claim) {
		p.wakeQueue(command.AfterWrite)
	}
}

// claimStatuses reads the claims of a command.
func (p *process) claimStatuses(c *disrupt.Running) map[string]disrupt.ClaimStatus {
	seen := map[string]disrupt.ClaimStatus{}
	look := func(name, node, pool string) {
		s := command.Status(p.observedClaim(name))
		if node != "" {
			at, _ := p.seen[nodes][node].(*corev1.Node)
			s.ProtectedBy, s.Leading = p.nodeProtectedBy(at, pool), node == p.store.UnreplicatedLeaderNode()
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

// observedClaim is a claim as a command observes it: that of the cache, or the newest if the cache has none.
func (p *process) observedClaim(name string) *karpv1.NodeClaim {
	if claim, _ := p.seen[claims][name].(*karpv1.NodeClaim); claim != nil {
		return claim
	}
	return p.w.api.claims[name]
}

func (p *process) observedUID(name string) types.UID {
	if claim := p.observedClaim(name); claim != nil {
		return claim.UID
	}
	return ""
}

// nodeProtectedBy returns what protects a node from disruption; empty: nothing does.
func (p *process) nodeProtectedBy(node *corev1.Node, pool string) string {
	of, _ := p.seen[pools][pool].(*karpv1.NodePool)
	return p.w.config.Steps.NodeProtectedBy(node, p.w.effectivePool(of))
}

// deleteAll deletes the claims of a command that is ready. What is not held any more is tried again, until
// the command has had its time.
func (p *process) deleteAll(c *disrupt.Running) {
	failed := map[string]bool{}
	for _, n := range c.Remove {
		claim, node := p.w.api.claims[n.Claim], p.w.api.nodes[n.Node]
		objects := command.HeldObjects{Claim: claim, UID: p.observedUID(n.Claim), Node: node, ProtectedBy: p.nodeProtectedBy(node, n.Pool)}
		remove, why := command.CheckDelete(c, objects)
		if why != nil {
			failed[n.Claim] = true
			continue
		}
		if remove {
			p.recordEvent("node/"+n.Node, "is disrupted: "+string(c.Reason))
			p.w.checks.deletesNode(p, c, node, n.Pool)
			p.writeDrainBound(c, claim)
			p.write(func() { p.w.api.delete(p.w.api.claims[n.Claim], p.w.now) })
		}
		p.store.SetCommanded(n.Node, false) // it stays marked: it terminates
	}
	p.perform(p.commands.Deleted(c.Token(), failed, p.w.now))
}

// writeDrainBound writes until when a drain may take, if the command has a bound (V15-26, V15-29).
func (p *process) writeDrainBound(c *disrupt.Running, claim *karpv1.NodeClaim) {
	at := command.DrainDeadline(c, claim, p.w.now)
	if next := claim.DeepCopy(); !at.IsZero() && drain.AdvanceCommandDeadline(next, at, c.Token()) {
		p.write(func() { p.w.api.put(next) })
	}
}
