package sim

import (
	"fmt"
	"hash/fnv"
	"slices"
	"strconv"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/client"

	awsv1 "github.com/dovetail-sh/dovetail/api/aws/v1"
	karpv1 "github.com/dovetail-sh/dovetail/api/v1"
	"github.com/dovetail-sh/dovetail/internal/execute"
	"github.com/dovetail-sh/dovetail/internal/pool"
	"github.com/dovetail-sh/dovetail/internal/resources"
	"github.com/dovetail-sh/dovetail/internal/solve"
)

const lookAgain = 10 * time.Second

// resize has both halves of a controller look at the size of a pool, if it has one.
func (p *process) resize(name string) {
	if of, known := p.seen[pools][name].(*karpv1.NodePool); known && of.Spec.Replicas != nil {
		p.lookAt(grow+name, 0)
		p.lookAt(shrink+name, 0)
	}
}

// scale makes the claims that a static pool lacks, or deletes those it has too many of. What the cache
// says is asked first, and only if there is something to do the API server, whose answer counts.
func (p *process) scale(name string, growing bool) {
	of, known := p.seen[pools][name].(*karpv1.NodePool)
	if !known || of.Spec.Replicas == nil {
		return
	}
	half := shrink
	if growing {
		half = grow
	}
	effective := p.w.effectivePool(of)
	facts := pool.StaticFacts{Pool: effective, Now: p.w.now}
	var step pool.StaticStep
	for _, list := range []func() []client.Object{func() []client.Object { return objects(p.seen[claims]) }, func() []client.Object { return objects(p.w.api.claims) }} {
		facts.Claims, facts.Loads = nil, p.store.Loads(name)
		for _, obj := range list() {
			if claim := obj.(*karpv1.NodeClaim); claim.Labels[karpv1.LabelNodePool] == name {
				_, read := p.effective(claim)
				facts.Claims = append(facts.Claims, read)
			}
		}
		if step = pool.Scale(facts); step.Create == 0 && len(step.Delete) == 0 {
			break
		}
	}
	if step.AtLimit {
		p.recordEvent("pool/"+name, "is at its node limit")
	}
	switch {
	case !growing:
		for _, claim := range step.Delete {
			p.w.logf("controller: claim %s is too many for pool %s of %d", claim.Name, name, *effective.Spec.Replicas)
			p.write(func() { p.w.api.delete(p.w.api.claims[claim.Name], p.w.now) })
		}
	case step.Create > 0 && p.launches.PoolBackedOff(name, p.w.now):
		p.recordEvent("pool/"+name, "rests: its launches fail")
		step.After = lookAgain
	default:
		p.fill(&facts, step.Create)
	}
	p.lookAt(half+name, step.After)
}

// fill makes claims straight from the template of a pool.
func (p *process) fill(facts *pool.StaticFacts, n int) {
	lanes := resources.NewTable()
	node, err := execute.FromTemplate(facts.Pool, awsv1.Vocabulary(), lanes)
	if err != nil {
		p.w.broken("static", "%v", err)
		return
	}
	p.createClaims(execute.Batch{
		Nodes: slices.Repeat([]solve.NewNode{node}, n), Pools: map[string]*karpv1.NodePool{facts.Pool.Name: facts.Pool}, Lanes: lanes,
		Reason: execute.Provisioned, Command: "static/" + fingerprint(facts.Claims),
	})
}

// fingerprint tells one set of claims from another.
func fingerprint(list []*karpv1.NodeClaim) string {
	names := make([]string, 0, len(list))
	for _, c := range list {
		names = append(names, string(c.UID)+c.Name)
	}
	slices.Sort(names)
	h := fnv.New64a()
	for _, name := range names {
		fmt.Fprintf(h, "%s\x00", name)
	}
	return strconv.FormatUint(h.Sum64(), 36)
}
