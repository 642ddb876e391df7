package sim

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	awsv1 "github.com/dovetail-sh/dovetail/api/aws/v1"
	karpv1 "github.com/dovetail-sh/dovetail/api/v1"
	"github.com/dovetail-sh/dovetail/internal/catalog"
	"github.com/dovetail-sh/dovetail/internal/check"
	"github.com/dovetail-sh/dovetail/internal/disrupt"
	"github.com/dovetail-sh/dovetail/internal/execute"
	"github.com/dovetail-sh/dovetail/internal/resources"
	"github.com/dovetail-sh/dovetail/internal/solve"
	"github.com/dovetail-sh/dovetail/internal/store"
)

// batch collects what asks for a plan.
type batch struct {
	open  bool
	first time.Time
	last  time.Time
}

// wake asks for a plan: a second after the last who asked, ten seconds after the first at most.
func (p *process) wake() {
	b := &p.batch
	if b.last = p.w.now; b.open {
		return
	}
	b.open, b.first = true, p.w.now
	p.closing()
}

func (p *process) closing() {
	b := &p.batch
	at := b.last.Add(batchIdle)
	if limit := b.first.Add(batchMax); at.After(limit) {
		at = limit
	}
	p.at(at, func() {
		if p.w.now.Before(b.last.Add(batchIdle)) && p.w.now.Before(b.first.Add(batchMax)) {
			p.closing()
			return
		}
		b.open = false
		if p.store.Synced() {
			p.provision()
		}
	})
}

// types is what each pool could buy.
func (p *process) types() map[string][]catalog.InstanceType {
	out := map[string][]catalog.InstanceType{}
	for _, pool := range p.store.Pools() {
		out[pool.Name] = p.w.market.offers()
	}
	return out
}

// provision makes a plan for pods that have no place, and orders what it says.
func (p *process) provision() {
	p.confirm()
	if p.same(&p.planned) {
		return
	}
	view := p.store.Snapshot(p.types())
	if len(view.Pods) == 0 {
		return
	}
	problem := solve.Problem{View: view.Snapshot, Pods: view.Pods, Policy: p.w.config.Policy, Promised: promised(view)}
	if p.w.config.Log != nil {
		p.w.logf("plan: %d pods, promised %v", len(problem.Pods), problem.Promised)
	}
	plan := solve.Solve(problem, func() bool { return false })
	for _, fault := range check.Plan(problem, plan) {
		p.w.broken("plan", "%s", fault)
	}
	for _, u := range plan.Unplaced {
		if len(u.Why) > 0 {
			p.sayWhy("pod/"+u.Pod.Name, u.Why[0])
		}
	}
	for _, b := range plan.Bind {
		p.store.Expect(b.Pod, b.Node, p.w.now.Add(nomination))
		p.store.Promise(b.Pod, b.Node)
		p.say("pod/"+b.Pod.Name, "should be scheduled on "+b.Node)
	}
	for _, n := range plan.Create {
		p.order(n, view.Resources, fmt.Sprint(p.number, "/", view.Version), nil)
	}
}

func promised(view store.View) []solve.Bind {
	var out []solve.Bind
	for pod, node := range view.Promised {
		out = append(out, solve.Bind{Pod: pod, Node: node})
	}
	slices.SortFunc(out, func(a, b solve.Bind) int { return strings.Compare(a.Pod.Name, b.Pod.Name) })
	return out
}

// confirm looks up claims that were created and that no watch has told of yet.
func (p *process) confirm() {
	for _, name := range p.store.Unseen() {
		if claim := p.w.api.claims[name]; claim != nil {
			p.store.Confirm(name, claim)
		}
	}
}

// order writes the claim of a planned node, for pods that wait or for a command; nil: it may not be bought.
func (p *process) order(n solve.NewNode, lanes resources.Table, seed string, replacing *disrupt.Command) *karpv1.NodeClaim {
	provisioned := replacing == nil
	var pool *karpv1.NodePool
	for _, candidate := range p.store.Pools() {
		if candidate.Name == n.Pool {
			pool = candidate
		}
	}
	if pool == nil || !p.within(pool) || provisioned && !p.wanted(n) {
		return nil
	}
	var marks map[string]string
	if replacing != nil {
		marks = replacing.Marks()
	}
	claim, err := execute.Claim(execute.Order{Pool: pool, Node: n, Lanes: lanes, Words: awsv1.Vocabulary(), Seed: seed, Marks: marks})
	if err != nil {
		p.w.broken("claim", "%v", err)
		return nil
	}
	if p.w.api.claims[claim.Name] != nil {
		return p.w.api.claims[claim.Name]
	}
	claim.UID, claim.CreationTimestamp = p.w.api.uid("claim"), metav1.NewTime(p.w.now)
	why := "for pods that wait"
	if !provisioned {
		why = "as a replacement"
	}
	p.w.logf("controller: claim %s is created %s: %s, %d pods %s", claim.Name, why, n.Offer.Type, len(n.Pods), n.Pods)
	p.w.checks.orders(claim, n, provisioned)
	p.write(func() { p.w.api.put(claim) })
	p.store.Claimed(claim, n.Pods)
	for _, key := range n.Pods {
		p.say("pod/"+key.Name, "should be scheduled on nodeclaim/"+claim.Name)
	}
	return claim
}

// wanted reports whether any pod of a planned node still needs it.
func (p *process) wanted(n solve.NewNode) bool {
	return len(n.Pods) == 0 || slices.ContainsFunc(n.Pods, p.store.NeedsPlace)
}

// within reports whether a pool is within its limits, as far as memory knows.
func (p *process) within(pool *karpv1.NodePool) bool {
	used, count := p.store.Usage(pool.Name)
	for name, limit := range pool.Spec.Limits {
		have := used[name]
		if name == karpv1.LimitNodes {
			have = *resource.NewQuantity(count, resource.DecimalSI)
		}
		if have.Cmp(limit) > 0 {
			return false
		}
	}
	return true
}
