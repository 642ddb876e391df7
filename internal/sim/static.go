package sim

import (
	"slices"

	"sigs.k8s.io/controller-runtime/pkg/client"

	awsv1 "github.com/dovetail-sh/dovetail/api/aws/v1"
	karpv1 "github.com/dovetail-sh/dovetail/api/v1"
	"github.com/dovetail-sh/dovetail/internal/execute"
	"github.com/dovetail-sh/dovetail/internal/pool"
	"github.com/dovetail-sh/dovetail/internal/resources"
	"github.com/dovetail-sh/dovetail/internal/solve"
)

// resize queues both halves of the controller of a static pool.
func (p *process) resize(name string) {
	if of, known := p.seen[pools][name].(*karpv1.NodePool); known && of.Spec.Replicas != nil {
		p.requeueAfter(grow+name, 0)
		p.requeueAfter(shrink+name, 0)
	}
}

// scale makes the claims that a static pool lacks, or deletes those it has too many of.
func (p *process) scale(name string, growing bool) {
	of, known := p.seen[pools][name].(*karpv1.NodePool)
	if !known || of.Spec.Replicas == nil {
		return
	}
	half, decide := shrink, p.w.config.Steps.Shrink
	if growing {
		half, decide = grow, p.w.config.Steps.Grow
	}
	facts := pool.StaticFacts{Pool: p.w.effectivePool(of), Now: p.w.now, BackedOff: p.launches.PoolBackedOff(name, p.w.now)}
	p.count(&facts, objects(p.seen[claims]))
	step := decide(facts)
	if step.Confirm {
		p.count(&facts, objects(p.w.api.claims))
		facts.Live = true
		step = decide(facts)
	}
	if step.AtLimit {
		p.recordEvent("pool/"+name, "is at its node limit")
	}
	if step.Paused {
		p.recordEvent("pool/"+name, "makes no claims: its launches fail")
	}
	for _, claim := range step.Delete {
		p.w.logf("controller: claim %s is too many for pool %s of %d", claim.Name, name, *facts.Pool.Spec.Replicas)
		p.write(func() { p.w.api.delete(p.w.api.claims[claim.Name], p.w.now) })
	}
	if step.Create > 0 {
		p.fill(facts.Pool, step)
	}
	p.requeueAfter(half+name, step.After)
}

// count reads the claims of a static pool.
func (p *process) count(facts *pool.StaticFacts, list []client.Object) {
	facts.Claims, facts.Loads = nil, p.store.Loads(facts.Pool.Name)
	for _, obj := range list {
		if claim := obj.(*karpv1.NodeClaim); claim.Labels[karpv1.LabelNodePool] == facts.Pool.Name {
			_, read := p.effective(claim)
			facts.Claims = append(facts.Claims, read)
		}
	}
}

// fill makes claims straight from the template of a pool.
func (p *process) fill(of *karpv1.NodePool, step pool.StaticStep) {
	lanes := resources.NewTable()
	node, err := execute.FromTemplate(of, awsv1.Vocabulary(), lanes, nil)
	if err != nil {
		p.w.broken("static", "%v", err)
		return
	}
	p.backOffDenied(p.createClaims(execute.Batch{
		Nodes: slices.Repeat([]solve.NewNode{node}, step.Create), Pools: map[string]*karpv1.NodePool{of.Name: of}, Lanes: lanes,
		Reason: execute.Provisioned, Command: step.Order,
	}))
}
