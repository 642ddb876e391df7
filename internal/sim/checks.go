package sim

import (
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	karpv1 "github.com/dovetail-sh/dovetail/api/v1"
	"github.com/dovetail-sh/dovetail/internal/budget"
	"github.com/dovetail-sh/dovetail/internal/cluster"
	"github.com/dovetail-sh/dovetail/internal/condition"
	"github.com/dovetail-sh/dovetail/internal/disrupt"
	"github.com/dovetail-sh/dovetail/internal/interruption"
	"github.com/dovetail-sh/dovetail/internal/reboot"
)

const (
	leftoverTaintLimit = 45 * time.Second // a pass, lags of watches, and time to reconcile
	visible            = 5 * time.Minute  // what is stuck for longer has a reason that can be seen (G13)
	comesBack          = 40 * time.Minute // of quiet, in which every pod runs again (G14)
	restBefore         = time.Hour        // the end of a run is at rest for so long
	rounding           = 1e-6             // USD an hour
	holdWindow         = 10 * time.Minute
	mostHolds          = 12               // of a node within that time; a back-off that doubles allows eight
	stirs              = 40 * time.Minute // moves may follow from a command for drift or repair for so long: drains take up to 20 minutes
)

// checks checks the rules during a run, with the state that this needs.
type checks struct {
	w              *World
	launchedFor    map[types.UID]string     // the claim that was last ordered for a pod
	served         map[types.UID][]purchase // claims that this process ordered for pending pods
	tainted        map[string]time.Time     // since when a node has had a taint without a command
	waiting        map[string]time.Time     // since when pods have waited
	idle           map[string]time.Time     // since when nodes have been drifted, terminating, or not up
	shapes         []state                  // of the cluster at rest, in the quiet part of a run
	moved          []string                 // claims that moves set out to remove since then
	drifts         bool                     // nodes have been replaced because of drift since then
	last           time.Time                // of the last move
	stirred        time.Time                // of the last command for drift or repair: moves may follow from it
	swaps          []disrupt.Running        // that had replacements
	failed         map[string]bool          // replacements of commands that were given up
	rebootCalls    map[string]rebootCalls
	unhealthySince map[string]time.Time          // since when nodes could have been repaired
	marked         map[string]time.Time          // since when nodes have had the taint of a reboot that is over
	size           map[string]time.Time          // since when a static pool has been too large or too small
	noticed        map[string]bool               // instances whose interruption notice was handled
	slots          map[string][]string           // claims that were ordered for reservations
	notRegistered  map[string]failedRegistration // by unhealthy pool
	results        map[string]launchResults      // by pool, of this process
	allocated      time.Time                     // when the claim that pods share was last allocated
	risk           uint64                        // version of what counts as risk
	lost           map[string]time.Time          // when the interruption of a reservation was last handled
	holds          map[string][]time.Time        // when commands of this process last held a node
	commands       commandChecks
	evictions      evictionChecks
	refused        map[string]time.Time // since when the cloud has refused to terminate the instances of claims
	accepting      map[string]time.Time // since when it would have accepted that
	lostNodes      map[string]time.Time // since when registered claims have had no Node

	denials  map[string]time.Time // when a claim of a pool was last denied
	batch    int                  // of claims, that is being written and was begun last; 0: none
	planned  time.Time            // when a plan was last due
	refilled int                  // how often room for buffers was launched since the cluster came to rest
	settled  int                  // refilled when the cluster was last seen at rest
}

func newChecks(w *World) checks {
	return checks{
		w: w, commands: newCommandChecks(), evictions: newEvictionChecks(), refused: map[string]time.Time{}, accepting: map[string]time.Time{}, lostNodes: map[string]time.Time{}, noticed: map[string]bool{}, rebootCalls: map[string]rebootCalls{}, unhealthySince: map[string]time.Time{}, marked: map[string]time.Time{}, size: map[string]time.Time{}, holds: map[string][]time.Time{}, slots: map[string][]string{}, notRegistered: map[string]failedRegistration{}, results: map[string]launchResults{}, lost: map[string]time.Time{}, denials: map[string]time.Time{},
		launchedFor: map[types.UID]string{}, served: map[types.UID][]purchase{}, tainted: map[string]time.Time{}, waiting: map[string]time.Time{}, failed: map[string]bool{}, idle: map[string]time.Time{},
	}
}

// processEnded drops what a process could not have done while it was down. Its commands that had failed already, or
// had not ordered all of their replacements, cannot be resumed, so their other replacements count as failed.
func (c *checks) processEnded(p *process) {
	clear(c.tainted)
	clear(c.served)
	clear(c.holds)
	clear(c.notRegistered)
	clear(c.results)
	c.batch = 0
	clear(c.evictions.requests)
	c.commands = newCommandChecks()
	there := map[string][]string{} // replacements by command
	for _, name := range c.w.api.claimNames() {
		if order, is := cluster.ReadOrder(c.w.api.claims[name].Annotations); is && c.w.api.claims[name].DeletionTimestamp == nil {
			there[order.Token] = append(there[order.Token], name)
		}
	}
	failed := func(token string, want int, ordered []string) {
		if len(there[token]) == want {
			return
		}
		for _, name := range append(there[token], ordered...) {
			c.failed[name] = true
		}
	}
	running := p.commands.Running()
	for _, cmd := range append(slices.Clone(p.undone), running...) {
		failed(cmd.Token(), len(cmd.ReplacementClaims), cmd.ReplacementClaims)
	}
	for _, cmd := range p.held {
		if !slices.ContainsFunc(running, func(r disrupt.Running) bool { return r.Token() == cmd.Token() }) {
			failed(cmd.Token(), cmd.Replacements(), nil)
		}
	}
}

func (c *checks) changed(obj, before client.Object, gone bool) {
	p, is := obj.(*corev1.Pod)
	switch {
	case !is:
	case gone || p.Spec.NodeName != "":
		if old, was := before.(*corev1.Pod); was && old.Spec.NodeName == "" {
			delete(c.launchedFor, p.UID) // what was launched for it has served
			if !gone {
				c.placed(p)
			}
		}
		delete(c.waiting, p.Name)
	case c.waiting[p.Name].IsZero():
		c.waiting[p.Name] = c.w.now
	}
}

// decided checks a decision against what the process could know: budgets (G5), protected pods (G6),
// complete cache (G4).
func (c *checks) decided(p *process, d disrupt.Decision) {
	if len(d.Commands) > 0 && !p.synced {
		c.w.broken("G4", "%d commands although the cache is not complete", len(d.Commands))
	}
	if len(d.Commands) > 0 {
		c.knowsBuffers(p)
	}
	removing := map[string]bool{}
	for _, other := range p.commands.Running() {
		for _, n := range other.Remove {
			removing[n.Node] = true
		}
	}
	for i := range d.Commands {
		cmd := &d.Commands[i]
		c.decidesPriced(p, cmd)
		for _, n := range cmd.Remove {
			if removing[n.Node] {
				c.w.broken("queue", "node %s is being removed already", n.Node)
			}
			removing[n.Node] = true
			c.protects(p, cmd, n)
			c.backedOff(cmd, n)
			if cmd.Reason == karpv1.ReasonUnhealthy {
				c.checkRepairBreakers(p, n.Pool)
			}
		}
		for _, n := range cmd.Remove {
			if node, _ := p.seen[nodes][n.Node].(*corev1.Node); node != nil && node.Labels[karpv1.LabelInitialized] != "true" {
				continue // it uses no budget
			}
			c.withinBudget(p, cmd.Reason, n.Pool, removing)
		}
	}
}

// committed checks a command whose nodes are about to count as being removed, as decided does: time has passed since
// its decision, and only validation knows what happened meanwhile. Repair does not wait for pods.
func (c *checks) committed(p *process, cmd *disrupt.Running) {
	removing := map[string]bool{}
	for _, other := range append(p.commands.Running(), *cmd) {
		for _, n := range other.Remove {
			removing[n.Node] = true
		}
	}
	for _, n := range cmd.Remove {
		if cmd.Reason != karpv1.ReasonUnhealthy {
			c.protects(p, &cmd.Command, n)
		}
		if node, _ := p.seen[nodes][n.Node].(*corev1.Node); node == nil || node.Labels[karpv1.LabelInitialized] == "true" {
			c.withinBudget(p, cmd.Reason, n.Pool, removing)
		}
	}
}

// held checks that a node whose commands fail is not held again and again (G12): the delay between two commands
// doubles each time.
func (c *checks) held(n disrupt.Candidate) {
	list := slices.DeleteFunc(c.holds[n.Claim], func(at time.Time) bool { return c.w.now.Sub(at) > holdWindow })
	if c.holds[n.Claim] = append(list, c.w.now); len(list) >= mostHolds {
		c.w.broken("G12", "node %s was held %d times within %s", n.Node, len(list)+1, holdWindow)
	}
}

// deletes checks that a command which deletes its nodes has its replacements (disruption 17).
func (c *checks) deletes(p *process, cmd *disrupt.Running) {
	for _, name := range cmd.ReplacementClaims {
		if known := p.observedClaim(name); known == nil || known.DeletionTimestamp != nil {
			c.w.broken("queue", "nodes %v are deleted although replacement %s is lost", names(cmd.Remove), name)
		}
		if claim := c.w.api.claims[name]; claim != nil && claim.DeletionTimestamp == nil && !c.up(claim) {
			c.w.broken("queue", "nodes %v are deleted although replacement %s is not initialized", names(cmd.Remove), name)
		}
	}
}

// withinBudget checks that no more nodes of a pool go than its budgets allow.
func (c *checks) withinBudget(p *process, why karpv1.DisruptionReason, pool string, removing map[string]bool) {
	stored, known := p.seen[pools][pool].(*karpv1.NodePool)
	if !known {
		return
	}
	effective := c.w.effectivePool(stored)
	total, busy := 0, 0
	for name, obj := range p.seen[nodes] {
		node := obj.(*corev1.Node)
		claim := c.seenClaim(p, node)
		if claim == nil {
			continue
		}
		reboots := condition.True(claim.Status.Conditions, karpv1.ConditionRebooting)
		if node.Labels[karpv1.LabelNodePool] != pool || node.Labels[karpv1.LabelInitialized] != "true" && !reboots ||
			condition.True(claim.Status.Conditions, karpv1.ConditionInstanceTerminating) {
			continue
		}
		total++
		if removing[name] || reboots || claim.DeletionTimestamp != nil || node.DeletionTimestamp != nil || !cluster.NodeReady(node) && why != karpv1.ReasonUnhealthy {
			busy++
		}
	}
	if allowed, _ := budget.Limit(cluster.Budgets(effective.Spec.Disruption.Budgets), string(why), total, c.w.now); busy > allowed {
		c.w.broken("G5", "%d of %d nodes of pool %s are being removed or not ready, its budgets allow %d for %s", busy, total, pool, allowed, why)
	}
}

func (c *checks) seenClaim(p *process, node *corev1.Node) *karpv1.NodeClaim {
	for i := range node.OwnerReferences {
		if claim, is := p.seen[claims][node.OwnerReferences[i].Name].(*karpv1.NodeClaim); is {
			return claim
		}
	}
	return nil
}

// protects checks that a node which is removed has no protected pod.
func (c *checks) protects(p *process, cmd *disrupt.Command, n disrupt.Candidate) {
	claim, _ := p.seen[claims][n.Claim].(*karpv1.NodeClaim)
	node, _ := p.seen[nodes][n.Node].(*corev1.Node)
	if claim == nil || node == nil {
		c.w.broken("queue", "node %s is not known", n.Node)
		return
	}
	gentle := cmd.Reason == karpv1.ReasonEmpty || cmd.Reason == karpv1.ReasonUnderutilized
	if cmd.Reason != karpv1.ReasonUnhealthy && (c.mayNotBeDisrupted(p, node, n.Pool) || claim.DeletionTimestamp != nil) {
		c.w.broken("G6", "node %s is protected or terminating", n.Node)
	}
	if !gentle && (claim.Spec.TerminationGracePeriod != "" || cmd.Bound != nil) {
		return
	}
	for _, name := range sorted(p.seen[pods]) {
		pod := p.seen[pods][name].(*corev1.Pod)
		if pod.Spec.NodeName != n.Node || pod.DeletionTimestamp != nil {
			continue
		}
		if cluster.DoNotDisrupt(pod, c.w.now) {
			c.w.broken("G6", "%s of node %s, where pod %s is protected", cmd.Reason, n.Node, pod.Name)
		}
		if b := p.seen[budgets][pod.Labels["app"]]; b != nil && !daemonPod(pod) && c.w.seenAllowed(p, pod) == 0 {
			c.w.broken("G6", "%s of node %s, where the budget of pod %s allows no eviction", cmd.Reason, n.Node, pod.Name)
		}
	}
}

// deletesNode checks that a command deletes no claim whose node may not be disrupted: the user may have said so since the
// decision (G6).
func (c *checks) deletesNode(p *process, cmd *disrupt.Running, node *corev1.Node, pool string) {
	if node != nil {
		c.leavesLeader(p, cmd, node.Name)
	}
	if cmd.Reason != karpv1.ReasonUnhealthy && c.mayNotBeDisrupted(p, node, pool) {
		c.w.broken("G6", "%s of %v, although a user forbids it", cmd.Reason, names(cmd.Remove))
	}
}

// mayNotBeDisrupted reports whether a Node, or its pool as the process knows it, has one of the annotations that forbid
// disruption. It does not use the code of the controller.
func (c *checks) mayNotBeDisrupted(p *process, node *corev1.Node, pool string) bool {
	objects := []client.Object{}
	if node != nil {
		objects = append(objects, node)
	}
	if of, known := p.seen[pools][pool]; known {
		objects = append(objects, of)
	}
	return slices.ContainsFunc(objects, func(obj client.Object) bool {
		a := obj.GetAnnotations()
		return a["karpenter.sh/do-not-disrupt"] == "true" || a["karpenter.sh/do-not-evict"] == "true" || a["karpenter.sh/do-not-consolidate"] == "true"
	})
}

// up reports whether the node of a claim takes pods, or did before it was rebooted: from then on the scheduler
// decides which. Nor does anybody wait for a node that joined and is too small.
func (c *checks) up(claim *karpv1.NodeClaim) bool {
	if i := c.w.market.byID[claim.Status.ProviderID]; i != nil && i.small {
		return true
	}
	return condition.True(claim.Status.Conditions, karpv1.ConditionInitialized) || condition.Find(claim.Status.Conditions, karpv1.ConditionRebooting) != nil || slices.ContainsFunc(c.w.api.nodesOf(claim), cluster.NodeReady)
}

// forces checks that no pod is deleted by force before the deadline of its node comes (G6).
func (c *checks) forces(pod *corev1.Pod) {
	node := c.w.api.nodes[pod.Spec.NodeName]
	if node == nil {
		return
	}
	at := c.deadline(node)
	grace := time.Duration(*pod.Spec.TerminationGracePeriodSeconds) * time.Second
	if at.IsZero() || pod.DeletionTimestamp == nil && c.w.now.Before(at.Add(-grace)) {
		c.w.broken("G6", "pod %s is deleted by force, the deadline of node %s is %s", pod.Name, node.Name, at)
	}
}

// deadline is when the terminationGracePeriod of a node is over; zero: it has none.
func (c *checks) deadline(node *corev1.Node) time.Time {
	claim := c.w.api.claimOf(node)
	if claim == nil {
		return time.Time{}
	}
	at, err := time.Parse(time.RFC3339, claim.Annotations[karpv1.AnnotationTerminationTimestamp])
	if err != nil {
		return time.Time{}
	}
	return at
}

// terminates checks that no pod runs on an instance that is about to be ended, and no volume is there (G6).
func (c *checks) terminates(p *process, node *corev1.Node) {
	if at := c.deadline(node); !at.IsZero() && !c.w.now.Before(at) {
		return
	}
	c.detached(p, node)
	for _, pod := range c.w.api.podsOn(node.Name) {
		stuck := pod.DeletionTimestamp != nil && c.w.now.After(pod.DeletionTimestamp.Add(time.Minute))
		if !daemonPod(pod) && !stuck {
			c.w.broken("G6", "the instance of node %s is ended while pod %s is there", node.Name, pod.Name)
		}
	}
}

// releases checks that an object keeps its finalizer while its instance runs: without the object nothing would terminate
// the instance (G3).
func (c *checks) releases(what, id string) {
	if i := c.w.market.byID[id]; i != nil && !i.ending {
		c.w.broken("G3", "%s is released although instance %s runs", what, id)
	}
}

// checkNotice records that a notice is about to be handled.
func (c *checks) checkNotice(n interruption.Notice) {
	if n.Kind == interruption.RebalanceRecommended {
		return
	}
	c.noticed[n.Instance] = true
	if i := c.w.market.byID[n.Instance]; i != nil && n.Kind == interruption.ReservationInterrupted {
		c.lost[i.reservation] = c.w.now
	}
}

// checkNoticeDeletion checks a claim that is about to be deleted because of a notice: one that recommends to rebalance says that the
// instance may be interrupted, and its node stays (IR-03).
func (c *checks) checkNoticeDeletion(n interruption.Notice, claim *karpv1.NodeClaim) {
	if n.Kind == interruption.RebalanceRecommended {
		c.w.broken("IR-03", "claim %s is deleted because of a rebalance recommendation", claim.Name)
	}
}

// interrupted checks that the claim of an instance that the cloud takes back has been deleted by then, if its notice was
// handled.
func (c *checks) interrupted(i *instance) {
	if claim := c.w.api.claims[i.claim]; c.noticed[i.id] && claim != nil && claim.UID == i.uid && claim.DeletionTimestamp == nil {
		c.w.broken("interruption", "claim %s is not deleted two minutes after the notice of %s", claim.Name, i.id)
	}
}

// started notes a command that is carried out.
func (c *checks) started(cmd *disrupt.Running) {
	switch cmd.Reason {
	case karpv1.ReasonUnderutilized:
		c.last = c.w.now
		for _, n := range cmd.Remove {
			c.moved = append(c.moved, n.Claim)
		}
	case karpv1.ReasonUnhealthy:
		c.repaired()
	case karpv1.ReasonDrifted:
		c.stirred, c.drifts = c.w.now, true
	case karpv1.ReasonEmpty: // nothing moves
	}
	c.recordReplacement(cmd)
}

// repaired records that an unhealthy node is removed, by a command or by legacy repair. That comes from outside, so
// what was before may come back, and moves may follow from it.
func (c *checks) repaired() {
	c.shapes, c.moved, c.stirred = nil, nil, c.w.now
}

// recordReplacement records a command whose replacements stand for its nodes, also one that a process resumed.
func (c *checks) recordReplacement(cmd *disrupt.Running) {
	if len(cmd.ReplacementClaims) > 0 {
		c.swaps = append(c.swaps, *cmd)
	}
}

// surplusReplacements names the replacements of nodes that are still there: a pool may have both for a while, also when
// the process that began with it died. One whose command was not begun yet when that happened says itself what it
// stands for, until a process has taken it over or has found that it cannot (disruption 25.7, 25.8).
func (c *checks) surplusReplacements() map[string]bool {
	out := map[string]bool{}
	stays := func(name string) bool {
		claim := c.w.api.claims[name]
		return claim != nil && claim.DeletionTimestamp == nil
	}
	for name, claim := range c.w.api.claims {
		if order, is := cluster.ReadOrder(claim.Annotations); is {
			out[name] = slices.ContainsFunc(order.Replaces, stays)
		}
	}
	c.swaps = slices.DeleteFunc(c.swaps, func(cmd disrupt.Running) bool {
		there := slices.ContainsFunc(cmd.Remove, func(n disrupt.Candidate) bool { return stays(n.Claim) })
		for _, name := range cmd.ReplacementClaims {
			out[name] = there || out[name]
		}
		return !there
	})
	return out
}

// state is a cluster at rest: what machines there are, and what they cost, USD an hour.
type state struct {
	shape string
	cost  float64
}

// shape is the cluster at rest; its text is empty if it is not at rest.
func (c *checks) shape() (s state) {
	var list []string
	for _, name := range c.w.api.claimNames() {
		claim := c.w.api.claims[name]
		if claim.DeletionTimestamp != nil || reboot.Pending(claim) || !condition.True(claim.Status.Conditions, karpv1.ConditionInitialized) {
			return s
		}
		list = append(list, offering(claim.Labels[corev1.LabelInstanceTypeStable], claim.Labels[corev1.LabelTopologyZone], claim.Labels[karpv1.LabelCapacityType]))
	}
	if len(c.w.pending) > 0 || c.w.process == nil || c.w.process.busy() || c.lacksNodes() {
		return s
	}
	slices.Sort(list)
	return state{strings.Join(list, " ") + ".", c.w.planCost()}
}
