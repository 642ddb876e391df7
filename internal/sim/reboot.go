package sim

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"

	karpv1 "github.com/dovetail-sh/dovetail/api/v1"
	"github.com/dovetail-sh/dovetail/internal/condition"
	"github.com/dovetail-sh/dovetail/internal/disrupt"
	"github.com/dovetail-sh/dovetail/internal/reboot"
)

const (
	rebootRounds = 4
	rebootRetry  = 10 * time.Second
)

// call is what the cloud said about a reboot. It is only memory.
type call struct {
	request time.Time // of the reboot
	first   time.Time // when the cloud was asked first
	final   error     // it will not do it
}

// toReboot reports whether a claim is to be looked after.
func toReboot(claim *karpv1.NodeClaim) bool {
	_, left := claim.Annotations[karpv1.AnnotationRebootPreBootID]
	return claim.DeletionTimestamp == nil && (left || condition.True(claim.Status.Conditions, karpv1.ConditionRebooting))
}

// requestReboot writes the request of a command down, unless the budget is spent meanwhile (V15-34). It reports
// whether it did.
func (p *process) requestReboot(c disrupt.Command) bool {
	n := c.Remove[0]
	if objections := disrupt.OverBudget([]disrupt.Command{c}, p.store.Disruption(p.types()))[0]; len(objections) > 0 {
		p.recordEvent("node/"+n.Node, "is not rebooted: "+objections[0].Text)
		return false
	}
	claim := p.w.api.claims[n.Claim]
	if claim == nil {
		return false
	}
	want, ok := reboot.Request(claim, c.Bound, c.Because, p.w.now)
	if !ok {
		return false
	}
	p.w.logf("controller: node %s is to be rebooted because of %s", n.Node, c.Because)
	p.update(claim, want, false)
	p.store.Rebooted(claim.UID)
	p.w.stats.Commands[c.Reason]++
	p.w.checks.shapes = nil
	return true
}

// update writes annotations and conditions of a claim, one after the other.
func (p *process) update(have, want *karpv1.NodeClaim, statusFirst bool) *karpv1.NodeClaim {
	parts := []func(*karpv1.NodeClaim){
		func(next *karpv1.NodeClaim) { next.Annotations = maps.Clone(want.Annotations) },
		func(next *karpv1.NodeClaim) { next.Status.Conditions = slices.Clone(want.Status.Conditions) },
	}
	if statusFirst {
		slices.Reverse(parts)
	}
	for _, change := range parts {
		next := have.DeepCopy()
		if change(next); maps.Equal(next.Annotations, have.Annotations) && slices.Equal(next.Status.Conditions, have.Status.Conditions) {
			continue
		}
		p.write(func() { p.w.api.put(next) })
		have = next
	}
	return have
}

// reboot brings a reboot nearer to its end.
func (p *process) reboot(name string) {
	claim := p.w.api.claims[name]
	if claim == nil || !toReboot(claim) {
		return
	}
	facts := reboot.Facts{Claim: claim, Now: p.w.now}
	known := p.rebootCallOf(claim)
	if facts.Asked = known.first; known.final != nil {
		facts.Answer = &reboot.Answer{Err: known.final}
	}
	if list := p.w.api.nodesOf(claim); len(list) == 1 {
		facts.Node, facts.Pods = list[0], p.w.api.podsOn(list[0].Name)
	}
	for range rebootRounds {
		step := reboot.Next(facts)
		if step.Node != nil {
			p.write(func() { p.w.api.put(step.Node) })
			facts.Node = step.Node
		}
		p.evictPods(step.Pods)
		if step.Claim != nil {
			facts.Claim = p.update(facts.Claim, step.Claim, true)
		}
		switch {
		case step.Ask != "":
			facts.Answer = p.askReboot(&facts, step.Ask)
		case step.Retry:
			p.lookAt(rebooting+name, rebootRetry)
			return
		case !step.Again:
			p.endReboot(&facts, &step)
			return
		}
	}
	p.lookAt(rebooting+name, time.Second)
}

// rebootCallOf returns what is known about the calls for the present reboot of a claim.
func (p *process) rebootCallOf(claim *karpv1.NodeClaim) call {
	now := call{}
	if c := condition.Find(claim.Status.Conditions, karpv1.ConditionRebooting); c != nil {
		now.request = c.LastTransitionTime.Time
	}
	if known, found := p.calls[claim.UID]; found && known.request.Equal(now.request) {
		return known
	}
	return now
}

// askReboot asks the cloud, and remembers when it was asked first and what it said for good.
func (p *process) askReboot(facts *reboot.Facts, operation string) *reboot.Answer {
	known := p.rebootCallOf(facts.Claim)
	if known.first.IsZero() {
		known.first = facts.Now
	}
	facts.Asked = known.first
	var err error
	p.write(func() {
		err = p.cloud.Reboot(context.Background(), facts.Claim, operation)
		p.w.checks.rebooted(facts.Claim, operation, err)
	})
	if reboot.Final(err) {
		known.final = err
	}
	p.calls[facts.Claim.UID] = known
	return &reboot.Answer{Err: err}
}

// endReboot deletes the claim of a reboot that failed.
func (p *process) endReboot(facts *reboot.Facts, step *reboot.Step) {
	name := facts.Claim.Name
	if step.Delete {
		p.w.logf("controller: the reboot of claim %s failed", name)
		p.write(func() { p.w.api.delete(p.w.api.claims[name], p.w.now) })
	}
	for _, e := range step.Events {
		p.recordEvent("claim/"+name, e.Text)
	}
	if step.End != nil {
		delete(p.calls, facts.Claim.UID)
	}
	if step.After > 0 {
		p.lookAt(rebooting+name, step.After)
	}
}

func (i *instance) boot() string { return fmt.Sprintf("%s-%d", i.node, i.boots) }

// reboot has a machine boot anew, unless it hangs then.
func (m *simCloud) reboot(i *instance) {
	m.w.stats.Reboots++
	m.w.logf("cloud: %s reboots", i.id)
	i.hung = m.w.faulty(m.w.config.NeverBack)
	m.w.after(m.w.between(time.Second, 5*time.Second), func() { m.w.setStatus(i.node, corev1.ConditionFalse) })
	if i.hung {
		m.w.after(5*time.Minute, func() { m.w.abandon(i.node) })
		return
	}
	m.w.after(m.w.between(20*time.Second, 3*time.Minute), func() { m.w.booted(i) })
}

// booted is a machine that is back. Mostly it is well then.
func (w *World) booted(i *instance) {
	old := w.api.nodes[i.node]
	if old == nil || i.ending || i.dead {
		return
	}
	i.boots++
	next := old.DeepCopy()
	next.Status.NodeInfo.BootID = i.boot()
	if w.rnd.Float64() < w.config.Cures {
		next.Status.Conditions = slices.DeleteFunc(next.Status.Conditions, func(c corev1.NodeCondition) bool { return c.Type != corev1.NodeReady })
	}
	w.api.put(next)
	w.setStatus(i.node, corev1.ConditionTrue)
}
