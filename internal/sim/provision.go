package sim

import (
	"fmt"
	"slices"
	"strconv"

	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

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

// requestPlan asks for a plan, on behalf of a pod or node. Nobody plans here for long, so that a window opens at once.
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

// types is what each pool could buy, less what is backed off.
func (p *process) types() map[string][]catalog.InstanceType {
	out := map[string][]catalog.InstanceType{}
	for _, pool := range p.store.Pools() {
		out[pool.Name] = p.launches.WithoutBackedOff(pool.Name, p.w.market.offers(), p.w.now)
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
	problem := solve.Problem{View: view.Snapshot, Pods: view.Pods, Policy: p.w.config.Policy, PlannedBinds: plannedBinds(view)}
	if p.w.config.Log != nil {
		p.w.logf("plan: %d pods, promised %v", len(problem.Pods), problem.PlannedBinds)
	}
	problem, plan := solve.PlanAwaitingReplacement(problem, view.AwaitingReplacement, func() bool { return false })
	for _, fault := range check.Plan(problem, plan) {
		p.w.broken("plan", "%s", fault)
	}
	for _, u := range plan.Unplaced {
		if len(u.Why) > 0 {
			p.recordReason("pod/"+u.Pod.Name, u.Why[0])
		}
	}
	for _, b := range plan.Bind {
		p.store.ExpectPod(b.Pod, b.Node, p.w.now.Add(nomination))
		p.store.RecordPlannedNode(b.Pod, b.Node)
		p.recordEvent("pod/"+b.Pod.Name, "should be scheduled on "+b.Node)
	}
	p.orderAll(plan.Create, view.Resources, view.Version, fmt.Sprint(p.number, "/", view.Version), nil)
}

func plannedBinds(view store.View) []solve.Bind {
	var out []solve.Bind
	for pod, node := range view.PlannedNodes {
		out = append(out, solve.Bind{Pod: pod, Node: node})
	}
	slices.SortFunc(out, func(a, b solve.Bind) int { return a.Pod.Compare(b.Pod) })
	return out
}

// confirm looks up claims that were created and that no watch has told of yet.
func (p *process) confirm() {
	for _, name := range p.store.UnwatchedClaims() {
		if claim := p.w.api.claims[name]; claim != nil {
			p.store.ConfirmClaim(name, claim)
		}
	}
}

// orderAll writes the claims of planned nodes, for pods that wait or for a command. Room in the limits of
// pools is taken before. The claims of those that are not written are nil; outdated says that others were
// faster than some of them.
func (p *process) orderAll(list []solve.NewNode, lanes resources.Table, version uint64, seed string, replacing *disrupt.Command) (out []*karpv1.NodeClaim, outdated bool) {
	known, closed := map[string]*karpv1.NodePool{}, map[string]bool{}
	for _, pool := range p.store.Pools() {
		known[pool.Name], closed[pool.Name] = pool, !p.within(pool)
	}
	var marks map[string]string
	if replacing != nil {
		marks = replacing.Marks()
	}
	late, release := p.store.Reserve(list, marks, version)
	out = make([]*karpv1.NodeClaim, len(list))
	for i, n := range list {
		seed := seed
		if len(n.Pods) == 0 {
			seed += strconv.Itoa(i)
		}
		if pool := known[n.Pool]; pool != nil && !closed[n.Pool] && !p.full(pool) && late[i] == nil && (replacing != nil || p.wanted(n)) {
			out[i] = p.order(pool, n, lanes, seed, replacing)
		}
		release(i)
	}
	return out, len(late) > 0
}

// order writes the claim of one planned node.
func (p *process) order(pool *karpv1.NodePool, n solve.NewNode, lanes resources.Table, seed string, replacing *disrupt.Command) *karpv1.NodeClaim {
	provisioned := replacing == nil
	var marks map[string]string
	if replacing != nil {
		marks = replacing.Marks()
	}
	claim, err := execute.Claim(execute.Order{Pool: pool, Node: n, Lanes: lanes, Words: awsv1.Vocabulary(), Seed: seed, Marks: marks})
	if err != nil {
		p.w.broken("claim", "%v", err)
		return nil
	}
	if there := p.w.api.claims[claim.Name]; there != nil && there.DeletionTimestamp == nil {
		return there
	} else if there != nil {
		return p.order(pool, n, lanes, seed+"+", replacing)
	}
	claim.UID, claim.CreationTimestamp = p.w.api.uid("claim"), metav1.NewTime(p.w.now)
	why := "for pods that wait"
	switch {
	case !provisioned:
		why = "as a replacement"
	case pool.Spec.Replicas != nil:
		why = "for a pool of fixed size"
		p.w.stats.Sized++
	}
	p.w.logf("controller: claim %s is created %s: %s, %d pods %s", claim.Name, why, n.Offer.Type, len(n.Pods), n.Pods)
	p.w.checks.orders(claim, n)
	p.write(func() { p.w.api.put(claim) })
	p.store.RecordCreatedClaim(claim, n.Pods)
	for _, key := range n.Pods {
		p.recordEvent("pod/"+key.Name, "should be scheduled on nodeclaim/"+claim.Name)
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
