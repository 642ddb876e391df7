package sim

import (
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"

	karpv1 "github.com/dovetail-sh/dovetail/api/v1"
	"github.com/dovetail-sh/dovetail/internal/budget"
	"github.com/dovetail-sh/dovetail/internal/cloud"
	"github.com/dovetail-sh/dovetail/internal/cluster"
	"github.com/dovetail-sh/dovetail/internal/condition"
	"github.com/dovetail-sh/dovetail/internal/drain"
	"github.com/dovetail-sh/dovetail/internal/provision"
	"github.com/dovetail-sh/dovetail/internal/reboot"
)

const (
	resized     = 5 * time.Minute  // a static pool has its size after so long
	treated     = 20 * time.Minute // an unhealthy node whose repair is not blocked is repaired within this time
	comesOff    = 2 * time.Minute  // the taint of a reboot that is over
	rebootsLong = reboot.BackTime + 5*time.Minute
)

// rebootCalls is what was requested of the cloud for one reboot.
type rebootCalls struct {
	operation string
	accepted  int // number of the process to which the cloud said yes
}

// rebooted checks that a reboot is requested once: under one name, and not again by the process that was
// informed that it is accepted.
func (c *checks) rebooted(claim *karpv1.NodeClaim, operation string, err error) {
	since := condition.Find(claim.Status.Conditions, karpv1.ConditionRebooting).LastTransitionTime
	key := fmt.Sprint(claim.UID, "/", since.Unix())
	was, again := c.rebootCalls[key]
	switch {
	case again && was.operation != operation:
		c.w.broken("reboot", "one reboot of claim %s is requested as %s and as %s", claim.Name, was.operation, operation)
	case again && was.accepted == c.w.processes:
		c.w.broken("reboot", "a reboot of claim %s is requested twice", claim.Name)
	}
	was.operation = operation
	if err == nil {
		was.accepted = c.w.processes
	}
	c.rebootCalls[key] = was
}

// checkRepairBreakers checks that nothing is repaired when too many nodes are unhealthy: more than a fifth of a pool,
// or most of the cluster unreachable at once.
func (c *checks) checkRepairBreakers(p *process, pool string) {
	all, unhealthy, silent := 0, 0, []time.Time{}
	nodesSeen, claimed := 0, map[string]string{} // pools by machine: nodes that have just joined name none yet
	// any order: an instance has one claim
	for _, obj := range p.seen[claims] {
		claimed[obj.(*karpv1.NodeClaim).Status.ProviderID] = obj.GetLabels()[karpv1.LabelNodePool]
	}
	for _, obj := range p.seen[nodes] {
		node := obj.(*corev1.Node)
		of, known := claimed[node.Spec.ProviderID]
		switch {
		case c.w.config.OldRepair:
			of = node.Labels[karpv1.LabelNodePool]
		case !known: // it is gone
			continue
		}
		if nodesSeen++; of == pool {
			if all++; c.unhealthy(node) {
				unhealthy++
			}
		}
		for _, health := range node.Status.Conditions {
			if health.Type == corev1.NodeReady && health.Status == corev1.ConditionUnknown {
				silent = append(silent, health.LastTransitionTime.Time)
			}
		}
	}
	if 5*unhealthy > all+4 {
		c.w.broken("breaker", "a node of pool %s is repaired although %d of %d are unhealthy", pool, unhealthy, all)
	}
	slices.SortFunc(silent, time.Time.Compare)
	if len(silent) > 2 && 2*len(silent) > nodesSeen && silent[len(silent)-1].Sub(silent[0]) <= 5*time.Minute {
		c.w.broken("breaker", "a node of pool %s is repaired although %d of %d nodes are unreachable", pool, len(silent), nodesSeen)
	}
}

// unhealthy reports whether a node has a condition that policies are about, whatever its reason. Legacy repair
// knows only those that replace a node, and queries their reasons.
func (c *checks) unhealthy(node *corev1.Node) bool {
	for _, health := range node.Status.Conditions {
		for _, r := range c.w.config.Repairs {
			if r.Condition != health.Type || r.Status != health.Status {
				continue
			}
			if !c.w.config.OldRepair || r.Action == cloud.ReplaceNode && slices.Contains([]string{"", ".*", health.Reason}, r.ReasonRegex) {
				return true
			}
		}
	}
	return false
}

// overdue reports whether a node has been unhealthy for longer than any policy tolerates.
func (c *checks) overdue(node *corev1.Node, claim *karpv1.NodeClaim) bool {
	if !c.unhealthy(node) {
		return false
	}
	longest := time.Duration(0)
	for _, r := range c.w.config.Repairs {
		longest = max(longest, r.Toleration)
	}
	since := node.CreationTimestamp.Time
	for _, health := range node.Status.Conditions {
		if health.LastTransitionTime.After(since) {
			since = health.LastTransitionTime.Time
		}
	}
	if over := condition.Find(claim.Status.Conditions, karpv1.ConditionRebooting); over != nil && over.LastTransitionTime.After(since) {
		since = over.LastTransitionTime.Time
	}
	return c.w.now.Sub(since) > longest
}

// repairs checks that unhealthy nodes are repaired in time unless that is blocked, and that reboots end.
func (c *checks) repairs() {
	p := c.w.process
	if p == nil || !p.synced || c.w.now.Sub(p.started) < visible {
		clear(c.unhealthySince)
		clear(c.marked)
		return
	}
	for _, name := range c.w.api.nodeNames() {
		node := c.w.api.nodes[name]
		claim := c.w.api.claimOf(node)
		if claim == nil || claim.DeletionTimestamp != nil {
			delete(c.unhealthySince, name)
			delete(c.marked, name)
			continue
		}
		reboots := condition.Find(claim.Status.Conditions, karpv1.ConditionRebooting)
		rebootRuns := reboots != nil && reboots.Status == "True"
		tainted := slices.ContainsFunc(node.Spec.Taints, func(t corev1.Taint) bool { return t.Key == karpv1.TaintKeyRebooting })
		if c.lasts(c.marked, name, tainted && !rebootRuns) > comesOff {
			c.w.broken("G7", "node %s has the taint of a reboot that is over", name)
		}
		if up := condition.Find(claim.Status.Conditions, karpv1.ConditionInitialized); rebootRuns && reboots.Reason == reboot.Issued && up != nil &&
			up.Reason == reboot.Rebooting && c.w.now.Sub(up.LastTransitionTime.Time) > rebootsLong {
			c.w.broken("reboot", "claim %s has been rebooting since %s", claim.Name, up.LastTransitionTime)
		}
		if c.lasts(c.unhealthySince, name, c.w.quiet && !rebootRuns && c.repairDue(p, node, claim)) > treated {
			c.w.broken("repair", "node %s is unhealthy and nothing keeps it from being repaired", name)
			c.unhealthySince[name] = c.w.now
		}
	}
}

// lasts is for how long something has been so.
func (c *checks) lasts(since map[string]time.Time, name string, is bool) time.Duration {
	if !is {
		delete(since, name)
		return 0
	}
	if since[name].IsZero() {
		since[name] = c.w.now
	}
	return c.w.now.Sub(since[name])
}

// repairDue reports whether a node is unhealthy and certainly may be repaired now: drains are bounded, and neither
// breakers, nor budgets, nor limits are in the way.
func (c *checks) repairDue(p *process, node *corev1.Node, claim *karpv1.NodeClaim) bool {
	of := c.w.api.pools[node.Labels[karpv1.LabelNodePool]]
	if !c.overdue(node, claim) || of == nil || len(of.Spec.Limits) > 0 || c.limited() || node.Annotations[karpv1.AnnotationDoNotRepair] != "" || p.busy() {
		return false
	}
	if claim.Spec.TerminationGracePeriod == "" && slices.ContainsFunc(c.w.config.Repairs, func(r cloud.Repair) bool { return r.Bound == nil }) {
		return false
	}
	all, unhealthy, busy := 0, 0, 0
	// any order: they are counted
	for _, other := range c.w.api.nodes {
		if !cluster.NodeReady(other) && other.Name != node.Name {
			return false // maybe silence
		}
		if other.Labels[karpv1.LabelNodePool] != of.Name {
			continue
		}
		if all++; c.unhealthy(other) {
			unhealthy++
		}
		if owner := c.w.api.claimOf(other); owner == nil || owner.DeletionTimestamp != nil || condition.True(owner.Status.Conditions, karpv1.ConditionRebooting) || other.Labels[karpv1.LabelInitialized] != "true" {
			busy++
		}
	}
	effective := c.w.effectivePool(of)
	allowed, _ := budget.Limit(cluster.Budgets(effective.Spec.Disruption.Budgets), string(karpv1.ReasonUnhealthy), all, c.w.now)
	if c.w.config.OldRepair {
		allowed = all
	}
	return 5*unhealthy <= all+4 && busy < allowed && busy == 0
}

// sizes checks that static pools have as many claims as they should, or will soon.
func (c *checks) sizes() {
	of, p := c.w.api.pools[fixed], c.w.process
	if of == nil {
		return
	}
	live, both, all, spare := 0, 0, 0, c.surplusReplacements() // without and with replacements of nodes that are still there
	for name, claim := range c.w.api.claims {
		if claim.Labels[karpv1.LabelNodePool] != fixed {
			continue
		}
		all++
		if claim.DeletionTimestamp == nil {
			both++
		}
		if claim.DeletionTimestamp == nil && !spare[name] {
			live++
		}
	}
	want := int(*of.Spec.Replicas)
	if limit, limited := of.Spec.Limits[karpv1.LimitNodes]; limited {
		if all > int(limit.Value()) {
			c.w.broken("static", "pool %s has %d claims, its limit is %d", fixed, all, limit.Value())
		}
		want = min(want, int(limit.Value())-(all-both))
	}
	up := p != nil && p.synced && c.w.now.Sub(p.started) > resized && !c.w.now.Before(p.stalled[claims]) && !c.w.now.Before(p.stalled[pools])
	if c.lasts(c.size, "more", up && live > int(*of.Spec.Replicas)) > resized {
		c.w.broken("static", "pool %s has %d claims and should have %d", fixed, live, *of.Spec.Replicas)
		delete(c.size, "more")
	}
	if c.lasts(c.size, "less", up && c.w.quiet && both < want) > resized+provision.MaxBackoff { // nothing fails any more, so that no back-off lasts longer
		c.w.broken("static", "pool %s has %d claims and should have %d", fixed, both, want)
		delete(c.size, "less")
	}
}

// fits checks a claim of a static pool that is about to be created: with it there are no more than replicas,
// not counting those that a command is about to remove (LC-46).
func (c *checks) fits(claim *karpv1.NodeClaim) {
	name := claim.Labels[karpv1.LabelNodePool]
	of, p := c.w.api.pools[name], c.w.process
	if of == nil || of.Spec.Replicas == nil || p == nil {
		return
	}
	most := *of.Spec.Replicas
	if seen, known := p.seen[pools][name].(*karpv1.NodePool); known && seen.Spec.Replicas != nil {
		most = max(most, *seen.Spec.Replicas)
	}
	count := int64(1)
	for _, other := range c.w.api.claims {
		if other.Labels[karpv1.LabelNodePool] == name && other.DeletionTimestamp == nil &&
			(!condition.True(other.Status.Conditions, karpv1.ConditionDisruptionReason) || condition.True(other.Status.Conditions, karpv1.ConditionRebooting)) {
			count++
		}
	}
	if count > most {
		c.w.broken("static", "claim %s is created for pool %s, which has %d then and should have %d", claim.Name, name, count, most)
	}
}

// detached checks that no volume is left on an instance that is about to be ended, as far as the process
// could know; those of pods that are left there do not come off.
func (c *checks) detached(p *process, node *corev1.Node) {
	left := map[string]bool{}
	for _, pod := range c.w.api.podsOn(node.Name) {
		for _, key := range drain.PodClaims(pod) {
			if claim, known := p.seen[volumeClaims][key.Name].(*corev1.PersistentVolumeClaim); known {
				left[claim.Spec.VolumeName] = true
			}
		}
	}
	for _, name := range sorted(p.seen[attachments]) {
		if a := p.seen[attachments][name].(*storagev1.VolumeAttachment); a.Spec.NodeName == node.Name && !left[*a.Spec.Source.PersistentVolumeName] {
			c.w.broken("volumes", "the instance of node %s is ended while %s is there", node.Name, a.Name)
		}
	}
}

// placed checks that a pod that comes to a node finds its volumes there.
func (c *checks) placed(p *corev1.Pod) {
	node := c.w.api.nodes[p.Spec.NodeName]
	for _, volume := range c.w.volumesOf(p) {
		if zone := c.w.zoneOf(volume); node != nil && zone != node.Labels[corev1.LabelTopologyZone] {
			c.w.broken("volumes", "pod %s is bound to node %s, its volume is in zone %s", p.Name, node.Name, zone)
		}
	}
}
