package sim

import (
	"context"
	"errors"
	"slices"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	awsv1 "github.com/dovetail-sh/dovetail/api/aws/v1"
	karpv1 "github.com/dovetail-sh/dovetail/api/v1"
	"github.com/dovetail-sh/dovetail/internal/catalog"
	"github.com/dovetail-sh/dovetail/internal/check"
	"github.com/dovetail-sh/dovetail/internal/cluster"
	"github.com/dovetail-sh/dovetail/internal/disrupt"
	"github.com/dovetail-sh/dovetail/internal/disrupt/command"
	"github.com/dovetail-sh/dovetail/internal/execute"
	"github.com/dovetail-sh/dovetail/internal/provision"
	"github.com/dovetail-sh/dovetail/internal/resources"
	"github.com/dovetail-sh/dovetail/internal/solve"
	"github.com/dovetail-sh/dovetail/internal/store"
)

// requestPlan requests a plan for a pod or node. Planning takes no time here, so that a window opens at once.
func (p *process) requestPlan(uid types.UID) {
	if p.window.Trigger(uid, p.w.now) && p.window.Open(p.w.now) {
		p.awaitWindow()
	}
}

// awaitWindow plans when the window closes.
func (p *process) awaitWindow() {
	p.at(p.w.config.Steps.WindowCloses(&p.window), func() {
		if !p.window.Close(p.w.now) {
			p.awaitWindow()
			return
		}
		if p.store.Synced() {
			p.provision()
		}
	})
}

// types is what each pool could launch, less what is backed off.
func (p *process) types() map[string][]catalog.InstanceType {
	out := map[string][]catalog.InstanceType{}
	for _, pool := range p.store.Pools() {
		all, _ := p.cloud.Types(context.Background(), pool) // the market always has a list
		out[pool.Name] = p.w.config.Steps.AvailableTypes(&p.launches, pool.Name, p.overlay(pool, p.withRisk(all)), p.w.now)
	}
	return out
}

// provision makes a plan for pods that have no place, and orders what it says.
func (p *process) provision() {
	p.confirm()
	p.w.checks.plans(p)
	if p.same(&p.planned) {
		return
	}
	view := p.store.Snapshot(p.types())
	if len(view.Pods)+len(view.Virtual) == 0 {
		p.state.RecordNoPods()
		return
	}
	p.w.checks.knowsBuffers(p)
	plan, round := p.plan(view)
	for _, u := range plan.Unplaced {
		if len(u.Why) > 0 {
			p.recordReason("pod/"+u.Pod.Name, u.Why[0])
		}
	}
	for _, b := range plan.Bind {
		p.store.ExpectPod(b.Pod, b.Node, p.w.now.Add(nomination()))
		p.store.RecordPlannedNode(b.Pod, b.Node)
		p.recordEvent("pod/"+b.Pod.Name, "should be scheduled on "+b.Node)
	}
	bound := func(key cluster.PodKey) bool { pod := p.store.Pod(key); return pod != nil && pod.Spec.NodeName != "" }
	for _, e := range p.state.ObserveBinds(view.Snapshot, plan.Bind, bound, p.w.now, nomination()) {
		p.recordEvent("pod/"+e.Pod.Name, e.Event.Text)
	}
	virtual, planned := round.Virtual()
	if planned {
		p.recordBuffers(virtual)
	}
	if plan, _ = round.Launches(plan); len(plan.Create) == 0 {
		return
	}
	created := p.createClaims(execute.Batch{Nodes: plan.Create, Pools: p.poolsByName(), Lanes: view.Resources, Version: view.Version, Reason: execute.Provisioned})
	results := make([]provision.OrderResult, len(created))
	for i := range created {
		results[i] = created[i].Result()
	}
	p.backOffDenied(created)
	if replan := p.w.config.Steps.RecordOrders(&p.state, results, view.Snapshot, p.w.now); replan || round.ReplansAfter(results) {
		p.planned = look{rev: -1}
		p.requestPlan(provision.Retrigger)
	}
}

// plan makes a plan. One that breaks a rule is a violation, although the controller would make another.
func (p *process) plan(view store.View) (solve.Plan, *provision.Round) {
	p.launches.ClosePools(view.Snapshot.Pools, p.w.now)
	round := p.state.Begin(provision.Request{View: view.Snapshot, Pods: view.Pods, Virtual: view.Virtual, PlannedNodes: view.PlannedNodes, Policy: p.w.config.Policy})
	for {
		problem := round.Problem()
		if p.w.config.Log != nil {
			p.w.logf("plan: %d pods, planned before: %v", len(problem.Pods), problem.PlannedBinds)
		}
		verified := check.Sound(problem, func(q solve.Problem) (solve.Problem, solve.Plan) {
			q, plan := solve.PlanAwaitingReplacement(q, view.AwaitingReplacement, func() bool { return false })
			p.w.checks.spreads(q, plan)
			return q, plan
		}, check.Plan)
		for _, fault := range slices.Concat(verified.Rejected...) {
			p.w.broken("plan", "%s", fault)
		}
		if plan, done := round.Take(verified, p.w.now); done {
			return plan, round
		}
	}
}

// confirm looks up claims that were created and that no watch has delivered yet.
func (p *process) confirm() {
	for _, name := range p.store.UnwatchedClaims() {
		if claim := p.w.api.claims[name]; claim != nil {
			p.store.ConfirmClaim(name, claim)
		}
	}
}

func (p *process) poolsByName() map[string]*karpv1.NodePool {
	out := map[string]*karpv1.NodePool{}
	for _, pool := range p.store.Pools() {
		out[pool.Name] = pool
	}
	return out
}

// orderAll creates the claims of the replacements of a command.
func (p *process) orderAll(list []solve.NewNode, lanes resources.Table, version uint64, replacing *disrupt.Command) command.Orders {
	return execute.Orders(p.createClaims(execute.Batch{
		Nodes: list, Pools: p.poolsByName(), Lanes: lanes, Version: version, Reason: strings.ToLower(string(replacing.Reason)), Command: replacing.Token(), Marks: replacing.Marks(),
	}))
}

// backOffDenied backs off the pools whose claims were denied.
func (p *process) backOffDenied(created []execute.Created) {
	for _, name := range p.w.config.Steps.DeniedPools(created) {
		p.launches.RecordDenied(name, p.w.now)
	}
}

// createClaims writes the claims of planned nodes, one after another.
func (p *process) createClaims(b execute.Batch) []execute.Created {
	admission := p.slots.Admit(b, p.store)
	defer admission.End()
	defer p.writeBatch()()
	out := make([]execute.Created, len(b.Nodes))
	for i, n := range b.Nodes {
		out[i] = admission.Create(i, awsv1.Vocabulary(), func(claim *karpv1.NodeClaim) (*karpv1.NodeClaim, error) { return p.writeClaim(b, n, claim) })
		admission.Release(i)
		if out[i].Err != nil {
			p.w.logf("controller: no claim for a node of pool %s: %v", n.Pool, out[i].Err)
			continue
		}
		for _, key := range n.Pods {
			p.recordEvent("pod/"+key.Name, "should be scheduled on nodeclaim/"+out[i].Claim.Name)
		}
	}
	return out
}

// writeBatch notes that a batch of claims is being written; what it returns has that end, in some runs after a while.
func (p *process) writeBatch() func() {
	batch := p.batches.Begin()
	if p.w.config.SlowWrites == 0 {
		return func() { p.batches.End(batch) }
	}
	p.w.checks.batch = batch
	return func() {
		p.after(p.w.between(0, p.w.config.SlowWrites), func() {
			p.batches.End(batch)
			if p.w.checks.batch == batch {
				p.w.checks.batch = 0
			}
		})
	}
}

// writeClaim stores a claim, unless its name is taken.
func (p *process) writeClaim(b execute.Batch, n solve.NewNode, claim *karpv1.NodeClaim) (there *karpv1.NodeClaim, err error) {
	if there := p.w.api.claims[claim.Name]; there != nil {
		return there, errors.New("the name is taken")
	}
	if err := p.w.admit(p, n.Pool); err != nil {
		return nil, err
	}
	claim.UID, claim.CreationTimestamp = p.w.api.uid("claim"), metav1.NewTime(p.w.now)
	switch {
	case b.Reason != execute.Provisioned:
	case b.Pools[n.Pool].Spec.Replicas != nil:
		p.w.stats.Sized++
	default:
		p.w.checks.checkLaunch(p, claim, n)
		p.w.checks.ordersHealthy(claim)
		p.w.checks.ordersOverlaid(p, claim, n)
		p.w.checks.ordersDevices(p, claim, n)
	}
	p.w.logf("controller: claim %s is created, %s: %s, %d pods %s", claim.Name, b.Reason, n.Offer.Type, len(n.Pods), n.Pods)
	p.w.checks.orders(claim, n)
	p.w.checks.ordersReserved(claim, n)
	p.write(func() { p.w.api.put(claim) })
	return nil, nil
}

// slowWrites has batches of claims take a while.
func (m *maker) slowWrites() { m.c.SlowWrites = m.time(2*time.Second, 20*time.Second) }
