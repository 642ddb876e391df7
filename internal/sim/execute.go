package sim

import (
	"fmt"
	"slices"
	"time"

	karpv1 "github.com/dovetail-sh/dovetail/api/v1"
	"github.com/dovetail-sh/dovetail/internal/cluster"
	"github.com/dovetail-sh/dovetail/internal/disrupt"
	"github.com/dovetail-sh/dovetail/internal/disrupt/command"
	"github.com/dovetail-sh/dovetail/internal/execute"
	"github.com/dovetail-sh/dovetail/internal/solve"
)

// runDisruptionPass resumes or cleans up the commands of an earlier process, decides on voluntary disruption, and
// starts the commands (disruption 3).
func (p *process) runDisruptionPass() {
	if _, may := command.MayPass(p.store.Synced(), false); !may || p.starting || p.same(&p.passed) {
		return
	}
	changes := p.store.Changes()
	view := disrupt.View{DisruptionView: p.store.Disruption(p.types())}
	left := p.leftovers()
	if resumed := p.commands.Resume(view.Nodes, left); len(resumed) > 0 {
		p.perform(resumed)
		p.wakeQueue(command.AfterWrite)
		view.DisruptionView = p.store.Disruption(p.types())
	}
	p.perform(p.commands.CleanUp(view.Nodes, left))
	view.Unpriced, _, _ = p.prices.Advance(p.priced(), p.w.now)
	hidden := p.commands.MarkBackoffs(&view, p.w.now)
	view.Policy, view.Tuning, view.Methods, view.Repairs = p.w.config.Policy, p.w.config.Tuning, p.w.config.Methods, p.w.repairs
	view.Outcomes = p.moveOutcomes.Observe(&view)
	view.Unchanged, view.SearchCache = p.cooldown.Covers(changes, p.w.now), &p.searchCache
	decision := p.w.decide(view)
	p.w.stats.Passes++
	p.emitDecisionEvents(&decision)
	p.cooldown = p.cooldown.After(&decision, &view, changes, hidden, p.w.now)
	p.moveOutcomes.RecordMoves(&decision)
	p.w.checks.decided(p, decision)
	p.startCommands(view, decision.Commands)
}

// priced reports whether this process has read prices; in some runs that takes a while.
func (p *process) priced() bool { return p.w.now.Sub(p.started) >= p.w.config.PricesAfter }

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

// startCommands holds the nodes of commands, and carries them out once the watch has delivered the taints.
func (p *process) startCommands(decided disrupt.View, list []disrupt.Command) {
	started := 0
	for _, c := range list {
		for _, effect := range p.commands.Begin(c, func(pool string) bool { return p.launches.PoolBackedOff(pool, p.w.now) }, p.w.now) {
			switch e := effect.(type) {
			case command.Refused:
				p.w.checks.commands.recordFailure(e.Command.Reason, p.w.now, e.Command.Remove...)
			case command.RequestReboot:
				p.w.checks.commands.recordFailure(e.Command.Reason, p.w.now, e.Command.Remove...)
				if p.requestReboot(e.Command) {
					started++
				}
			case command.Hold:
				p.holdNodes(e.Command)
			}
		}
	}
	if len(p.held) == 0 {
		p.requestPass(list, started)
		return
	}
	p.starting = true
	p.after(min(command.TaintTimeout, max(p.w.config.Lag[nodes], p.stalled[nodes].Sub(p.w.now))+50*time.Millisecond), func() {
		started += p.carryOutCommands(decided)
		p.held, p.starting = nil, false
		p.requestPass(list, started)
	})
}

// requestPass has the next pass come as soon as commands that were decided request it.
func (p *process) requestPass(decided []disrupt.Command, started int) {
	if in, _ := command.NextPass(decided, started); in < command.PassInterval {
		p.passed = look{rev: -1}
		p.after(in, p.runDisruptionPass)
	}
}

// holdNodes holds the nodes of a command.
func (p *process) holdNodes(c disrupt.Command) {
	p.w.logf("controller: %s %s of %s, replaced by %d, %d pods move, saves $%.4f an hour", c.Reason, c.Decision, names(c.Remove), c.Replacements(), c.Moved, c.Saves)
	p.held = append(p.held, c)
	p.w.checks.commands.known[c.Token()] = true
	lost := map[string]bool{}
	for _, n := range c.Remove {
		if lost[n.Claim] = !p.holdNode(n, c.Token(), c.Reason); lost[n.Claim] {
			p.w.checks.commands.recordFailure(c.Reason, p.w.now, n)
		}
	}
	c, effects := p.commands.Held(c, lost, p.w.now)
	p.perform(effects)
	if p.held[len(p.held)-1] = c; len(c.Remove) == 0 {
		p.held = p.held[:len(p.held)-1]
	}
}

// carryOutCommands carries out what still holds (disruption 16). It returns how many commands it started.
func (p *process) carryOutCommands(decided disrupt.View) (started int) {
	live := map[string][]cluster.ManagedPod{}
	for _, c := range p.held {
		for _, n := range c.Remove {
			live[n.Node] = p.livePodsOn(n.Node)
		}
	}
	fresh := disrupt.View{DisruptionView: p.store.Disruption(p.types())}
	never := func() bool { return false }
	list, effects := p.commands.Validate(p.held, command.SecondLook{
		Decided: decided, Fresh: fresh, Live: live, Policy: p.w.config.Policy, StopPlacing: never, StopChecking: never,
	})
	p.perform(effects)
	for i := range list {
		if len(list[i].Remove) == 0 {
			p.w.stats.Abandoned++
			continue
		}
		if p.orderReplacements(&list[i], decided, fresh) {
			started++
		}
	}
	return started
}

// commanded reports whether a node is part of a command.
func (p *process) commanded(node string) bool {
	is := func(n disrupt.Candidate) bool { return n.Node == node }
	return slices.ContainsFunc(p.commands.Running(), func(r disrupt.Running) bool { return slices.ContainsFunc(r.Remove, is) }) ||
		slices.ContainsFunc(p.held, func(c disrupt.Command) bool { return slices.ContainsFunc(c.Remove, is) })
}

// busy reports whether there are commands.
func (p *process) busy() bool { return len(p.held) > 0 || len(p.commands.Running()) > 0 }

func names(list []disrupt.Candidate) []string {
	out := make([]string, 0, len(list))
	for _, n := range list {
		out = append(out, n.Node)
	}
	return out
}

// livePodsOn reads the pods of a node past all caches.
func (p *process) livePodsOn(node string) []cluster.ManagedPod {
	out := []cluster.ManagedPod{}
	for _, pod := range p.w.api.podsOn(node) {
		out = append(out, disrupt.NewLivePod(pod, false, p.w.now))
	}
	return out
}

// orderReplacements orders the replacements of a command, and reports whether it got all of them.
func (p *process) orderReplacements(c *disrupt.Command, decided, fresh disrupt.View) bool {
	list, err := command.Replacements(c, func(name string) (solve.NewNode, error) {
		of, known := p.seen[pools][name].(*karpv1.NodePool)
		if !known {
			return solve.NewNode{}, fmt.Errorf("nodepool %s is gone", name)
		}
		return execute.FromTemplate(p.w.effectivePool(of), fresh.Cluster.Words, fresh.Cluster.Resources, nil)
	})
	orders := command.Orders{Err: err}
	if err == nil && len(list) > 0 {
		orders = p.orderAll(list, fresh.Cluster.Resources, decided.Cluster.Version, c)
	}
	if orders.Err != nil {
		p.w.checks.commands.recordFailure(c.Reason, p.w.now, c.Remove...)
	}
	p.perform(p.commands.Ordered(*c, orders, p.w.now))
	if orders.Err == nil && len(orders.Created) == 0 {
		p.advanceCommand(c.Token())
	}
	p.wakeQueue(command.AfterWrite)
	return orders.Err == nil
}

// started counts a command that will be carried out.
func (w *World) started(c *disrupt.Running) {
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
