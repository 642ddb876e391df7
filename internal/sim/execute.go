package sim

import (
	"fmt"
	"slices"
	"time"

	karpv1 "github.com/dovetail-sh/dovetail/api/v1"
	"github.com/dovetail-sh/dovetail/internal/check"
	"github.com/dovetail-sh/dovetail/internal/cluster"
	"github.com/dovetail-sh/dovetail/internal/disrupt"
	"github.com/dovetail-sh/dovetail/internal/solve"
)

const (
	longest   = 10 * time.Minute // a command waits no longer for its replacements
	taintSeen = 5 * time.Second  // nor for its taints to come back through the watch
	quietFor  = 5 * time.Minute  // consolidation looks again although nothing changed
)

// command is a command that is being carried out.
type command struct {
	disrupt.Running
	committed bool // its nodes count as going
}

// pass takes over or cleans up what an earlier process left, decides what goes of our own will, and
// begins with it (disruption 3).
func (p *process) pass() {
	if !p.store.Synced() || p.starting || p.same(&p.passed) {
		return
	}
	changes := p.store.Changes()
	view := p.store.Disruption(p.types())
	if p.resume(&view) {
		view = p.store.Disruption(p.types())
	}
	p.cleanUp(&view)
	tired := p.tired.Resting(p.w.now)
	for i := range view.Nodes {
		view.Nodes[i].Tired = !tired[view.Nodes[i].Claim].IsZero()
	}
	view.Policy, view.Tuning, view.Methods, view.Resting = p.w.config.Policy, p.w.config.Tuning, p.w.config.Methods, p.drift.Resting(p.w.now)
	view.Promises = p.promises.Observe(&view)
	view.Quiet = changes == p.still.changes && p.w.now.Before(p.still.until)
	decision := p.w.decide(view)
	p.w.stats.Passes++
	p.tell(&decision)
	switch {
	case len(decision.Commands) > 0 || decision.Limited:
		p.still = stillness{}
	case !view.Quiet:
		p.still = stillness{changes, p.w.now.Add(quietFor)}
	}
	p.promises.Note(&decision)
	p.w.checks.decided(p, decision)
	p.start(view, decision.Commands)
}

// stillness is when consolidation last found nothing to do, and what memory was like then.
type stillness struct {
	changes uint64
	until   time.Time
}

func (w *World) decide(view disrupt.View) disrupt.Decision {
	if w.config.Decide != nil {
		return w.config.Decide(view)
	}
	return disrupt.Next(view, func() bool { return false })
}

// tell sends what there is to say about nodes that stay.
func (p *process) tell(d *disrupt.Decision) {
	for _, n := range d.Stay {
		switch {
		case n.Pool != "":
			p.say("pool/"+n.Pool, n.Event.Text)
		case n.Node != "":
			p.say("node/"+n.Node, n.Event.Text)
		default:
			p.say("claim/"+n.Claim, n.Event.Text)
		}
	}
	for _, r := range d.Refused {
		for _, n := range r.Nodes {
			p.sayWhy("node/"+n, r.Why)
		}
	}
}

// start holds the nodes of commands, and looks again once the taints have come back through the watch.
func (p *process) start(decided disrupt.View, list []disrupt.Command) {
	var held []*command
	for _, c := range list {
		if !p.fit(&c) {
			continue
		}
		p.w.logf("controller: %s %s of %s, replaced by %d, %d pods move, saves $%.4f an hour", c.Reason, c.Decision, names(c.Remove), c.Replacements(), c.Moved, c.Saves)
		cmd := &command{Running: disrupt.Running{Command: c, Up: map[string]bool{}}}
		p.commands[c.Token()] = cmd
		for _, n := range c.Remove {
			p.hold(n, c.Token(), c.Reason)
		}
		held = append(held, cmd)
	}
	if len(held) == 0 {
		return
	}
	p.starting = true
	p.after(min(taintSeen, max(p.w.config.Lag[nodes], p.stalled[nodes].Sub(p.w.now))+50*time.Millisecond), func() {
		fresh := p.store.Disruption(p.types())
		live := map[string][]disrupt.Live{}
		for _, cmd := range held {
			for _, n := range cmd.Remove {
				live[n.Node] = p.look(n.Node)
			}
		}
		list := make([]disrupt.Command, 0, len(held))
		for _, cmd := range held {
			list = append(list, cmd.Command)
		}
		beyond := disrupt.Beyond(list, fresh)
		for i, cmd := range held {
			if p.stillHolds(cmd, decided, fresh, live, beyond[i], i == 0) {
				p.commit(cmd, fresh)
			}
		}
		p.starting = false
		p.passed = look{rev: -1}
	})
}

// fit reports whether a command may be started now.
func (p *process) fit(c *disrupt.Command) bool {
	tired := p.tired.Resting(p.w.now)
	c.Remove = slices.Clone(c.Remove)
	if c.Reason == karpv1.ReasonEmpty {
		c.Remove = slices.DeleteFunc(c.Remove, func(n disrupt.Candidate) bool { return !tired[n.Claim].IsZero() })
	}
	for _, n := range c.Remove {
		if p.commanded(n.Node) || !tired[n.Claim].IsZero() {
			return false
		}
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

// look reads the pods of a node past all caches.
func (p *process) look(node string) []disrupt.Live {
	out := []disrupt.Live{}
	for _, pod := range p.w.api.podsOn(node) {
		out = append(out, disrupt.Live{
			Name: namespace + "/" + pod.Name, Moves: cluster.Reschedulable(pod), EvictCost: cluster.EvictCost(pod, false),
			Protected: pod.DeletionTimestamp == nil && cluster.DoNotDisrupt(pod, p.w.now),
		})
	}
	return out
}

// stillHolds looks at a command again and releases the nodes that stay (disruption 16).
func (p *process) stillHolds(c *command, decided, fresh disrupt.View, live map[string][]disrupt.Live, beyond []disrupt.Objection, first bool) bool {
	objections := slices.Concat(disrupt.Again(c.Command, decided, fresh, live), beyond)
	if len(objections) == 0 && first {
		objections = p.recheck(&c.Command, fresh)
	}
	if len(objections) == 0 {
		return true
	}
	stays := map[string]bool{}
	for _, o := range objections {
		stays[o.Claim] = true
		p.tired.Failed(o.Claim, p.w.now)
		p.say("node/"+o.Node, "stays after all: "+o.Text)
	}
	back := slices.Clone(c.Remove)
	if c.Reason == karpv1.ReasonEmpty {
		back = slices.DeleteFunc(back, func(n disrupt.Candidate) bool { return !stays[n.Claim] })
		c.Remove = slices.DeleteFunc(c.Remove, func(n disrupt.Candidate) bool { return stays[n.Claim] })
	} else {
		c.Remove = nil
	}
	p.letGo(back)
	if len(c.Remove) == 0 {
		p.w.stats.Abandoned++
		delete(p.commands, c.Token())
	}
	return len(c.Remove) > 0
}

// recheck has a move judged by rules that were written apart from those that found it.
func (p *process) recheck(c *disrupt.Command, fresh disrupt.View) []disrupt.Objection {
	if c.Reason != karpv1.ReasonUnderutilized || len(fresh.Homeless) > 0 {
		return nil
	}
	list := names(c.Remove)
	faults := check.Move(solve.Question{View: fresh.Cluster, Candidates: list, Policy: p.w.config.Policy},
		solve.Move{Remove: list, Bind: c.Bind, Create: c.Create, Saves: c.Saves, Moved: c.Moved})
	faults = slices.DeleteFunc(faults, func(v check.Violation) bool { return v.Code == check.SavesWrong || v.Code == check.MovedWrong })
	if len(faults) == 0 {
		return nil
	}
	return []disrupt.Objection{{Candidate: c.Remove[0], Category: disrupt.Scheduling, Text: faults[0].String()}}
}

// commit orders the replacements of a command and says that its nodes go.
func (p *process) commit(c *command, fresh disrupt.View) {
	planned := map[cluster.PodKey]string{}
	for _, n := range c.Create {
		claim := p.order(n, fresh.Cluster.Resources, c.Token(), &c.Command)
		if claim == nil {
			p.setBack(&c.Command)
			p.undo(c, "its replacement could not be created")
			return
		}
		c.Wait = append(c.Wait, claim.Name)
		for _, pod := range n.Pods {
			planned[pod] = claim.Name
		}
	}
	p.store.Replace(names(c.Remove), planned)
	c.committed = true
	for _, b := range c.Bind {
		p.store.Nominate(b.Node, p.w.now.Add(nomination))
	}
	p.w.started(c)
	p.advance(c, time.Second)
}

// started counts a command that will be carried out.
func (w *World) started(c *command) {
	w.stats.Commands[c.Reason]++
	w.stats.Removed += len(c.Remove)
	w.stats.Voluntary += c.Moved
	hour := int(w.now.Sub(w.start).Hours())
	for len(w.stats.Moves) <= hour {
		w.stats.Moves = append(w.stats.Moves, 0)
	}
	w.stats.Moves[hour]++
	w.checks.started(c)
}

// setBack has drift of the pools of a command rest.
func (p *process) setBack(c *disrupt.Command) {
	if c.Reason == karpv1.ReasonDrifted {
		for _, n := range c.Remove {
			p.drift.Failed(n.Pool, p.w.now)
		}
	}
}

func (c *command) String() string { return fmt.Sprint(c.Reason, " ", names(c.Remove)) }
