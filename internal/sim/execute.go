package sim

import (
	"fmt"
	"slices"
	"time"

	karpv1 "github.com/dovetail-sh/dovetail/api/v1"
	"github.com/dovetail-sh/dovetail/internal/check"
	"github.com/dovetail-sh/dovetail/internal/cluster"
	"github.com/dovetail-sh/dovetail/internal/disrupt"
	"github.com/dovetail-sh/dovetail/internal/execute"
	"github.com/dovetail-sh/dovetail/internal/solve"
)

const (
	taintSeen  = 5 * time.Second // a command does not wait longer for its taints to come back through the watch
	quietFor   = 5 * time.Minute // consolidation looks again although nothing changed
	afterWrite = 100 * time.Millisecond
)

// command is a command that is being carried out.
type command struct {
	disrupt.Running
	committed bool // its nodes count as being removed
}

// runDisruptionPass resumes or cleans up the commands of an earlier process, decides on voluntary disruption, and
// starts the commands (disruption 3).
func (p *process) runDisruptionPass() {
	if !p.store.Synced() || p.starting || p.same(&p.passed) {
		return
	}
	changes := p.store.Changes()
	view := p.store.Disruption(p.types())
	if p.resumeCommands(&view) {
		view = p.store.Disruption(p.types())
	}
	p.cleanUp(&view)
	hidden := p.markBackingOff(&view)
	view.Policy, view.Tuning, view.Methods, view.DriftBackoff = p.w.config.Policy, p.w.config.Tuning, p.w.config.Methods, p.drift.Deadlines(p.w.now)
	view.Repairs = p.w.repairs
	view.Outcomes = p.moveOutcomes.Observe(&view)
	view.Unchanged = changes == p.still.changes && p.w.now.Before(p.still.until)
	decision := p.w.decide(view)
	p.w.stats.Passes++
	p.emitDecisionEvents(&decision)
	switch {
	case len(decision.Commands) > 0 || decision.Limited || hidden:
		p.still = idleConsolidation{}
	case !view.Unchanged:
		p.still = idleConsolidation{changes, p.consolidationIdleUntil(&view)}
	}
	p.moveOutcomes.RecordMoves(&decision)
	p.w.checks.decided(p, decision)
	p.holdCommandNodes(view, decision.Commands)
}

// idleConsolidation is when consolidation last found nothing to do, and the state of the cache then.
type idleConsolidation struct {
	changes uint64
	until   time.Time
}

// consolidationIdleUntil is until when consolidation cannot find anything unless something changes.
func (p *process) consolidationIdleUntil(view *disrupt.View) time.Time {
	until := p.w.now.Add(quietFor)
	for i := range view.Nodes {
		n := &view.Nodes[i]
		if n.Nominated || n.ExpectsDisplaced {
			return p.w.now
		}
		if old := n.Created.Add(p.w.config.Tuning.MinAge); old.After(p.w.now) && old.Before(until) {
			until = old
		}
	}
	return until
}

// markBackingOff marks nodes in back-off after a failed command, and reports whether there are any.
func (p *process) markBackingOff(view *disrupt.View) (hidden bool) {
	backingOff, repairBackingOff := p.backoff.Deadlines(p.w.now), p.repairBackoff.Deadlines(p.w.now)
	for i := range view.Nodes {
		n := &view.Nodes[i]
		n.BackingOff, n.RepairBackingOff = !backingOff[n.Claim].IsZero(), !repairBackingOff[n.Claim].IsZero()
		hidden = hidden || n.BackingOff || n.RepairBackingOff
	}
	return hidden
}

// recordBackoff starts the back-off of nodes whose command failed.
func (p *process) recordBackoff(why karpv1.DisruptionReason, list []disrupt.Candidate) {
	for _, n := range list {
		if p.backoff.RecordFailure(n.Claim, p.w.now); why == karpv1.ReasonUnhealthy {
			p.repairBackoff.RecordFailure(n.Claim, p.w.now)
		}
	}
}

func (w *World) decide(view disrupt.View) disrupt.Decision {
	if w.config.Decide != nil {
		return w.config.Decide(view)
	}
	return disrupt.Next(view, func() bool { return false })
}

// emitDecisionEvents records the events of a decision.
func (p *process) emitDecisionEvents(d *disrupt.Decision) {
	for _, n := range d.Events {
		switch {
		case n.Pool != "":
			p.recordEvent("pool/"+n.Pool, n.Event.Text)
		case n.Node != "":
			p.recordEvent("node/"+n.Node, n.Event.Text)
		default:
			p.recordEvent("claim/"+n.Claim, n.Event.Text)
		}
	}
	for _, r := range d.Refused {
		for _, n := range r.Nodes {
			p.recordReason("node/"+n, r.Why)
		}
	}
}

// holdCommandNodes taints the nodes of commands, and revalidates once the watch has delivered the taints.
func (p *process) holdCommandNodes(decided disrupt.View, list []disrupt.Command) {
	var held []*command
	for _, c := range list {
		if c.Decision == disrupt.Reboot {
			// Whatever comes of it, it is not looked at again before the watch has told of the reboot.
			p.recordBackoff(c.Reason, c.Remove)
			p.requestReboot(c)
			p.after(afterWrite, p.runDisruptionPass)
			continue
		}
		if !p.mayStart(&c) {
			continue
		}
		p.w.logf("controller: %s %s of %s, replaced by %d, %d pods move, saves $%.4f an hour", c.Reason, c.Decision, names(c.Remove), c.Replacements(), c.Moved, c.Saves)
		cmd := &command{Running: disrupt.Running{Command: c, InitializedClaims: map[string]bool{}}}
		p.commands[c.Token()] = cmd
		for _, n := range c.Remove {
			p.holdNode(n, c.Token(), c.Reason)
		}
		held = append(held, cmd)
	}
	if len(held) == 0 {
		return
	}
	p.starting = true
	p.after(min(taintSeen, max(p.w.config.Lag[nodes], p.stalled[nodes].Sub(p.w.now))+50*time.Millisecond), func() {
		p.carryOutCommands(decided, held)
		p.starting = false
		p.passed = look{rev: -1}
	})
}

// carryOutCommands carries out what still holds (disruption 16).
func (p *process) carryOutCommands(decided disrupt.View, held []*command) {
	live := map[string][]disrupt.LivePod{}
	for _, cmd := range held {
		for _, n := range cmd.Remove {
			live[n.Node] = p.livePodsOn(n.Node)
		}
	}
	fresh := p.store.Disruption(p.types())
	for _, cmd := range held {
		p.releaseRetained(cmd, disrupt.Revalidate(cmd.Command, decided, fresh, live))
	}
	for i, fault := range p.judgeCommands(held, fresh) {
		if fault != "" {
			p.releaseRetained(held[i], []disrupt.Objection{{Candidate: held[i].Remove[0], Category: disrupt.Scheduling, Text: fault}})
		}
	}
	list := make([]disrupt.Command, 0, len(held))
	for _, cmd := range held {
		list = append(list, cmd.Command)
	}
	beyond := disrupt.OverBudget(list, fresh)
	for i, cmd := range held {
		p.releaseRetained(cmd, beyond[i])
	}
	for _, cmd := range held {
		if len(cmd.Remove) > 0 {
			p.orderReplacements(cmd, decided, fresh)
		}
	}
}

// mayStart reports whether a command may be started now.
func (p *process) mayStart(c *disrupt.Command) bool {
	c.Remove = slices.Clone(c.Remove)
	if slices.ContainsFunc(c.Remove, func(n disrupt.Candidate) bool { return p.commanded(n.Node) }) ||
		slices.ContainsFunc(c.Template, func(name string) bool { return p.launches.PoolBackedOff(name, p.w.now) }) {
		p.recordBackoff(c.Reason, c.Remove)
		return false
	}
	return len(c.Remove) > 0
}

// commanded reports whether a node is part of a command.
func (p *process) commanded(node string) bool {
	for _, c := range p.commands {
		if slices.ContainsFunc(c.Remove, func(n disrupt.Candidate) bool { return n.Node == node }) {
			return true
		}
	}
	return false
}

func names(list []disrupt.Candidate) []string {
	out := make([]string, 0, len(list))
	for _, n := range list {
		out = append(out, n.Node)
	}
	return out
}

// livePodsOn reads the pods of a node past all caches.
func (p *process) livePodsOn(node string) []disrupt.LivePod {
	out := []disrupt.LivePod{}
	for _, pod := range p.w.api.podsOn(node) {
		out = append(out, disrupt.LivePod{
			Name: namespace + "/" + pod.Name, Moves: cluster.Reschedulable(pod), EvictCost: cluster.EvictCost(pod, false),
			Protected: pod.DeletionTimestamp == nil && cluster.DoNotDisrupt(pod, p.w.now), Mark: cluster.ProtectedBy(pod, p.w.now),
		})
	}
	return out
}

// releaseRetained releases the nodes of a command that stay after all.
func (p *process) releaseRetained(c *command, objections []disrupt.Objection) {
	if len(objections) == 0 {
		return
	}
	stays := map[string]bool{}
	for _, o := range objections {
		stays[o.Claim] = true
		p.recordEvent("node/"+o.Node, "stays after all: "+o.Text)
	}
	back, token, whole := slices.Clone(c.Remove), c.Token(), c.Reason != karpv1.ReasonEmpty
	p.recordBackoff(c.Reason, slices.DeleteFunc(slices.Clone(back), func(n disrupt.Candidate) bool { return !stays[n.Claim] }))
	c.Command = c.Without(func(n disrupt.Candidate) bool { return whole || stays[n.Claim] })
	p.releaseNodes(slices.DeleteFunc(back, func(n disrupt.Candidate) bool { return !whole && !stays[n.Claim] }))
	if len(c.Remove) == 0 {
		p.w.stats.Abandoned++
		delete(p.commands, token)
	}
}

// judgeCommands has moves judged by rules that were written apart from those that found them. It returns what is
// wrong with each command; empty: nothing.
func (p *process) judgeCommands(held []*command, fresh disrupt.View) []string {
	out, order, list := make([]string, len(held)), []int{}, []string{}
	for i, c := range held {
		if c.Reason == karpv1.ReasonUnderutilized && len(c.Remove) > 0 {
			order, list = append(order, i), append(list, names(c.Remove)...)
		}
	}
	snapshot := fresh.Cluster
	if len(order) > 0 && len(fresh.PodsToPlace) > 0 {
		snapshot = disrupt.PlacePendingPods(fresh, func() bool { return false })
	}
	if len(order) == 0 || snapshot == nil {
		return out
	}
	question := solve.Question{View: snapshot, Candidates: list, Policy: p.w.config.Policy}
	var good []solve.Move
	for _, i := range order {
		c := held[i]
		next := append(slices.Clone(good), solve.Move{Remove: names(c.Remove), Bind: c.Bind, Create: c.Create, Saves: c.Saves, Frees: c.Frees, Moved: c.Moved})
		if out[i] = firstViolation(question, next); out[i] == "" {
			good = next
		}
	}
	return out
}

// firstViolation is what is wrong with moves; what they save was weighed when they were found.
func firstViolation(question solve.Question, moves []solve.Move) string {
	for _, v := range check.Consolidation(question, solve.Consolidation{Moves: moves}) {
		switch v.Code {
		case check.SavesWrong, check.MovedWrong, check.TotalsWrong, check.VerdictMissing, check.BoundWrong:
		default:
			return v.String()
		}
	}
	return ""
}

// orderReplacements orders the replacements of a command and says that its nodes go.
func (p *process) orderReplacements(c *command, decided, fresh disrupt.View) {
	planned := map[cluster.PodKey]string{}
	list := slices.Clone(c.Create)
	for _, name := range c.Template {
		if of, known := p.seen[pools][name].(*karpv1.NodePool); known {
			effective := p.w.effectivePool(of)
			if n, err := execute.FromTemplate(effective, fresh.Cluster.Words, fresh.Cluster.Resources); err == nil {
				list = append(list, n)
			}
		}
	}
	complete := len(list) == c.Replacements()
	made, outdated := p.orderAll(list, fresh.Cluster.Resources, decided.Cluster.Version, &c.Command)
	for i, claim := range made {
		if claim == nil {
			complete = false
			continue
		}
		c.ReplacementClaims = append(c.ReplacementClaims, claim.Name)
		for _, pod := range list[i].Pods {
			planned[pod] = claim.Name
		}
	}
	if !complete {
		p.cancelCommand(c, outdated)
		return
	}
	for _, b := range c.Bind {
		p.store.Nominate(b.Node, p.w.now.Add(nomination))
		planned[b.Pod] = b.Node
	}
	p.store.Replace(names(c.Remove), planned)
	c.committed = true
	p.w.started(c)
	p.advanceCommand(c, time.Second)
}

// cancelCommand gives up a command that does not get all of its replacements, and those that it got. If others were
// faster the next one sees what they did.
func (p *process) cancelCommand(c *command, outdated bool) {
	for _, name := range c.ReplacementClaims {
		if claim := p.w.api.claims[name]; claim != nil {
			p.write(func() { p.w.api.delete(claim, p.w.now) })
		}
	}
	p.undoCommand(c, "its replacement could not be created")
	if !outdated {
		p.backOffDrift(&c.Command)
	}
}

// started counts a command that will be carried out.
func (w *World) started(c *command) {
	w.stats.Commands[c.Reason]++
	if c.Decision == disrupt.TerminateFirst {
		w.stats.Emptied += len(c.Remove)
	}
	w.stats.Removed += len(c.Remove)
	w.stats.Voluntary += c.Moved
	hour := int(w.now.Sub(w.start).Hours())
	for len(w.stats.Moves) <= hour {
		w.stats.Moves = append(w.stats.Moves, 0)
	}
	w.stats.Moves[hour]++
	w.checks.started(c)
}

// backOffDrift has drift of the pools of a command rest.
func (p *process) backOffDrift(c *disrupt.Command) {
	if c.Reason == karpv1.ReasonDrifted {
		for _, n := range c.Remove {
			p.drift.RecordFailure(n.Pool, p.w.now)
		}
	}
}

func (c *command) String() string { return fmt.Sprint(c.Reason, " ", names(c.Remove)) }
