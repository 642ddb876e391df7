package sim

import (
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	karpv1 "github.com/dovetail-sh/dovetail/api/v1"
	"github.com/dovetail-sh/dovetail/internal/condition"
	"github.com/dovetail-sh/dovetail/internal/resources"
)

// checkCluster checks periodically what can be observed from outside.
func (c *checks) checkCluster() {
	c.w.spend()
	c.taints()
	c.limits()
	c.reasons()
	c.repairs()
	c.sizes()
	c.decays()
	c.buffersWait()
	c.drains()
	c.terminations()
	c.nodeless()
	c.checkStability()
}

// taints checks that a taint without a command is removed soon (G7).
func (c *checks) taints() {
	p := c.w.process
	if p == nil || !p.synced || p.starting {
		clear(c.tainted)
		return
	}
	for _, name := range c.w.api.nodeNames() {
		node := c.w.api.nodes[name]
		claim := c.w.api.claimOf(node)
		if !karpv1.Disrupted(node) || node.DeletionTimestamp != nil || claim == nil || claim.DeletionTimestamp != nil || p.commanded(name) {
			delete(c.tainted, name)
			continue
		}
		if since, known := c.tainted[name]; !known {
			c.tainted[name] = c.w.now
		} else if c.w.now.Sub(since) > leftoverTaintLimit+2*c.w.config.Lag[nodes] && !c.w.now.Before(p.stalled[nodes]) {
			c.w.broken("G7", "node %s has had a taint without a command for %s", name, c.w.now.Sub(since))
		}
	}
}

// limits checks that pools stay within their limits (G10). Replacements of nodes that are
// still there do not count.
func (c *checks) limits() {
	spare, claims := c.surplusReplacements(), c.w.api.claimNames()
	for _, name := range sorted(c.w.api.pools) {
		pool := c.w.api.pools[name]
		for _, what := range resources.Names(pool.Spec.Limits) {
			limit, sum := pool.Spec.Limits[what], resource.Quantity{}
			for _, id := range claims {
				claim := c.w.api.claims[id]
				if claim.Labels[karpv1.LabelNodePool] != name || claim.DeletionTimestamp != nil || spare[claim.Name] {
					continue
				}
				if what == karpv1.LimitNodes {
					sum.Add(*resource.NewQuantity(1, resource.DecimalSI))
				} else {
					sum.Add(claim.Status.Capacity[what])
				}
			}
			if sum.Cmp(limit) > 0 {
				c.w.broken("G10", "pool %s has %s of %s, its limit is %s", name, sum.String(), what, limit.String())
			}
		}
	}
}

// reasons checks that whatever is stuck has a reason that can be seen (G13).
func (c *checks) reasons() {
	p := c.w.process
	if p == nil || !p.synced || c.w.now.Sub(p.started) < visible+time.Minute {
		clear(c.idle)
		return
	}
	now := map[string]string{} // what is stuck, and what was reported about it
	// any order: what is stuck is sorted below
	for name, since := range c.waiting {
		if c.w.now.Sub(since) > visible {
			c.recordStuck(p, "pod/"+name, now, "waits")
		}
	}
	// any order: what is stuck is sorted below
	for name, node := range c.w.api.nodes {
		claim := c.w.api.claimOf(node)
		switch {
		case node.DeletionTimestamp != nil:
			c.recordStuck(p, "node/"+name, now, "drains")
		case claim != nil && claim.DeletionTimestamp == nil && condition.True(claim.Status.Conditions, karpv1.ConditionDrifted) && !p.commanded(name):
			c.recordStuck(p, "node/"+name, now, "is drifted", "pool/"+node.Labels[karpv1.LabelNodePool])
		case claim != nil && claim.DeletionTimestamp == nil && c.overdue(node, claim) && !p.commanded(name) && !condition.True(claim.Status.Conditions, karpv1.ConditionRebooting):
			c.recordStuck(p, "node/"+name, now, "is unhealthy", "pool/"+node.Labels[karpv1.LabelNodePool])
		}
	}
	// any order: what is stuck is sorted below
	for name, claim := range c.w.api.claims {
		if claim.DeletionTimestamp == nil && !condition.True(claim.Status.Conditions, karpv1.ConditionInitialized) &&
			!slices.ContainsFunc(claim.Status.Conditions, func(c metav1.Condition) bool { return c.Status != "True" && c.Message != "" }) {
			c.recordStuck(p, "claim/"+name, now, "is not up")
		}
	}
	for what := range c.idle {
		if _, still := now[what]; !still {
			delete(c.idle, what)
		}
	}
	for _, what := range sorted(now) {
		if c.idle[what].IsZero() {
			c.idle[what] = c.w.now
		} else if now[what] != "" && c.w.now.Sub(c.idle[what]) > visible {
			c.w.broken("G13", "%s %s, and no event says why", what, now[what])
			c.idle[what] = c.w.now
		}
	}
}

// recordStuck records something that is stuck; its text stays empty if a recent event says why.
func (c *checks) recordStuck(p *process, what string, now map[string]string, how string, also ...string) {
	for _, object := range append(also, what) {
		if said, known := p.said[object]; known && c.w.now.Sub(said.at) < visible+c.w.config.Pass+time.Minute {
			now[what] = ""
			return
		}
	}
	now[what] = how
}

// checkStability checks that a cluster without external changes never returns to an earlier state, nor to the same machines
// in one move, and gets no dearer unless nodes were replaced because of drift.
func (c *checks) checkStability() {
	if !c.w.quiet || c.w.now.Sub(c.w.start) < c.w.config.Active+10*time.Minute || c.w.expires() {
		return
	}
	now := c.shape()
	if now.shape == "" {
		return
	}
	moved := slices.ContainsFunc(c.moved, func(claim string) bool { return c.w.api.claims[claim] == nil })
	drifts, refilled := c.drifts, c.refilled > c.settled // room that a pod took which ended up elsewhere than planned
	c.moved, c.drifts, c.settled = nil, false, c.refilled
	at := slices.IndexFunc(c.shapes, func(s state) bool { return s.shape == now.shape })
	if n := len(c.shapes); n > 0 {
		switch before := c.shapes[n-1]; {
		case at == n-1 && moved && !drifts:
			c.w.broken("no oscillation", "moves brought the cluster to where it was: %s", now.shape)
		case at < n-1 && at >= 0:
			c.w.broken("no oscillation", "the cluster is back at %s, %d shapes ago", now.shape, n-at)
		case now.cost > before.cost+rounding && !drifts && !refilled:
			c.w.broken("no oscillation", "the cluster costs $%.4f an hour, before $%.4f, without a change from outside: %s", now.cost, before.cost, now.shape)
		}
		if at == n-1 {
			return
		}
	}
	c.shapes = append(c.shapes, now)
	c.w.logf("-- at rest for $%.4f an hour: %s", now.cost, now.shape)
}

// expires reports whether nodes of some pool end because of their age: then it is correct that shapes return.
func (w *World) expires() bool {
	for _, p := range w.config.Pools {
		if p.Spec.Template.Spec.ExpireAfter != "Never" {
			return true
		}
	}
	return false
}

// end checks how a run ended: every pod runs, or an event says why not (G14); no loop runs forever.
func (c *checks) end() {
	for _, name := range sorted(c.w.apps) {
		d := c.w.apps[name]
		missing := d.Replicas
		var silent []string
		for pod := range d.pods {
			p := c.w.api.pods[pod]
			switch {
			case p != nil && p.DeletionTimestamp != nil && d.Volumes > 0 && (c.kubeletIsDown(p) || c.w.now.Sub(p.DeletionTimestamp.Time) < time.Minute): // its successor comes when it is gone
				missing--
			case p == nil || p.DeletionTimestamp != nil:
			case c.works(p), c.limited(), d.Shares, // it waits for the node of the others, which may be full
				c.w.now.Sub(p.CreationTimestamp.Time) < comesBack:
				missing--
			default:
				silent = append(silent, pod)
			}
		}
		if c.w.now.Sub(d.left) < time.Second {
			missing-- // its successor comes in a moment
		}
		if missing > 0 {
			slices.Sort(silent)
			c.w.broken("G14", "%d pods of %s do not run: %s", missing, name, strings.Join(silent, " "))
		}
	}
	c.holdBuffers()
	c.relabelled()
	c.annotated()
	if rest := c.w.now.Sub(c.last); c.w.config.Quiet > restBefore && rest < restBefore && !c.w.expires() && c.last.Sub(c.stirred) > stirs {
		c.w.broken("no oscillation", "the last move was %s before the end: %s", rest, fmt.Sprint(c.w.stats.Moves))
	}
	running := map[string]bool{}
	for _, i := range c.w.market.running() {
		running[i.id] = true
		if claim := c.w.api.claims[i.claim]; claim == nil || claim.UID != i.uid {
			c.w.broken("G1", "no claim has instance %s", i.id)
		}
	}
	for _, name := range c.w.api.claimNames() {
		if id := c.w.api.claims[name].Status.ProviderID; id != "" && !running[id] && c.w.api.claims[name].DeletionTimestamp == nil {
			c.w.broken("G1", "claim %s has no instance", name)
		}
	}
}

// works reports whether a pod runs on a machine that runs.
func (c *checks) works(p *corev1.Pod) bool {
	node := c.w.api.nodes[p.Spec.NodeName]
	return running(p) && node != nil && c.w.market.byID[node.Spec.ProviderID] != nil
}

// limited reports whether limits of pools may keep pods waiting.
func (c *checks) limited() bool {
	return slices.ContainsFunc(c.w.config.Pools, func(p *karpv1.NodePool) bool { return len(p.Spec.Limits) > 0 && p.Spec.Replicas == nil })
}

// kubeletIsDown reports whether the machine of a pod no longer reports.
func (c *checks) kubeletIsDown(p *corev1.Pod) bool {
	node := c.w.api.nodes[p.Spec.NodeName]
	if node == nil {
		return false
	}
	i := c.w.market.byID[node.Spec.ProviderID]
	return i != nil && i.hung
}

// seenAllowed is how many evictions the budget of a pod allowed when the process last heard of it.
func (w *World) seenAllowed(p *process, pod *corev1.Pod) int32 {
	b, known := p.seen[budgets][pod.Labels["app"]].(*policyv1.PodDisruptionBudget)
	if !known {
		return 1
	}
	return b.Status.DisruptionsAllowed
}
