package sim

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"

	karpv1 "github.com/dovetail-sh/dovetail/api/v1"
	"github.com/dovetail-sh/dovetail/internal/disrupt"
	"github.com/dovetail-sh/dovetail/internal/disrupt/command"
	"github.com/dovetail-sh/dovetail/internal/reboot"
)

// requestReboot writes the request of a command down, unless the budget is spent meanwhile (V15-34). It reports
// whether it did.
func (p *process) requestReboot(c disrupt.Command) bool {
	n := c.Remove[0]
	if node, why := command.RebootRefusal(&c, disrupt.View{DisruptionView: p.store.Disruption(p.types())}); why != "" {
		p.recordEvent("node/"+node, "is not rebooted: "+why)
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
	p.w.checks.requestsReboot(claim)
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
	if claim == nil || !reboot.Pending(claim) {
		return
	}
	facts := reboot.Facts{Claim: claim, Now: p.w.now}
	if list := p.w.api.nodesOf(claim); len(list) == 1 {
		facts.Node, facts.Pods = list[0], p.w.api.podsOn(list[0].Name)
	}
	calls := p.rebootCalls.Of(claim.UID)
	after, err := p.w.config.Steps.AdvanceReboot(context.Background(), facts, &calls, rebootShell{p})
	p.rebootCalls.Record(claim.UID, calls, p.w.now)
	if err != nil {
		p.retry(rebooting+name, reboot.FirstRetry, reboot.LastRetry)
		return
	}
	delete(p.failures, rebooting+name)
	if after > 0 {
		p.requeueAfter(rebooting+name, after)
	}
}

// rebootShell performs the steps of a reboot. It is a reboot.Shell.
type rebootShell struct{ p *process }

// Perform writes a step.
func (r rebootShell) Perform(_ context.Context, f *reboot.Facts, step reboot.Step) error {
	if step.Node != nil {
		r.p.write(func() { r.p.w.api.put(step.Node) })
		f.Node = step.Node
	}
	if f.Node != nil {
		r.p.addEvictions(step.Pods.Evictions(f.Node.Name, step.Limit, string(karpv1.ReasonUnhealthy))...)
	}
	if step.Claim != nil {
		f.Claim = r.p.update(f.Claim, step.Claim, true)
	}
	return nil
}

// Reboot calls the cloud.
func (r rebootShell) Reboot(ctx context.Context, claim *karpv1.NodeClaim, operation string) (err error) {
	r.p.write(func() {
		err = r.p.cloud.Reboot(ctx, claim, operation)
		r.p.w.checks.rebooted(claim, operation, err)
	})
	return err
}

// End deletes the claim of a reboot that failed.
func (r rebootShell) End(_ context.Context, f reboot.Facts, step reboot.Step) error {
	name := f.Claim.Name
	if step.Delete {
		r.p.w.logf("controller: the reboot of claim %s failed", name)
		r.p.write(func() { r.p.w.api.delete(r.p.w.api.claims[name], r.p.w.now) })
	}
	for _, e := range step.Events {
		r.p.recordEvent("claim/"+name, e.Text)
	}
	return nil
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
	if w.rnd.Float64() < w.config.RebootsHelp {
		next.Status.Conditions = slices.DeleteFunc(next.Status.Conditions, func(c corev1.NodeCondition) bool { return c.Type != corev1.NodeReady })
	}
	w.api.put(next)
	w.setStatus(i.node, corev1.ConditionTrue)
}
