package controller

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/klog/v2"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	karpv1 "github.com/dovetail-sh/dovetail/api/v1"
	"github.com/dovetail-sh/dovetail/internal/catalog"
	"github.com/dovetail-sh/dovetail/internal/cluster"
	"github.com/dovetail-sh/dovetail/internal/condition"
	disruption "github.com/dovetail-sh/dovetail/internal/disrupt"
	"github.com/dovetail-sh/dovetail/internal/event"
	"github.com/dovetail-sh/dovetail/internal/lifecycle"
	"github.com/dovetail-sh/dovetail/internal/metric"
)

const (
	disruptEvery = 10 * time.Second
	taintSeen    = 5 * time.Second // how long to wait for our own taint to come back through the watch
)

// disruptStore is the memory that disruption decides on.
type disruptStore interface {
	Synced() bool
	Pools() []*karpv1.NodePool
	Disruption(types map[string][]catalog.InstanceType) disruption.View
	Mark(node string, going bool)
	Nominated(node string) bool
}

// Disruption removes nodes of our own will. What it does is written on the objects first: a taint on
// the Node, a condition on the claim. A process that dies in between leaves nothing that the next one
// does not clean up.
type Disruption struct {
	Client  client.Client
	Reader  client.Reader // of the API server itself
	Store   disruptStore
	Cloud   typeSource
	Events  emitter
	Metrics *metric.Set
	Pulse   pulse
	Now     func() time.Time

	CostManaged bool // gate PodDeletionCostManagement

	unpriced map[string]bool // nodes whose price the last pass did not find
}

// Register adds the loop to a manager.
func (d *Disruption) Register(mgr ctrl.Manager) error {
	return mgr.Add(&ticker{name: "disruption", every: disruptEvery, metrics: d.Metrics, pass: func(ctx context.Context) error {
		d.Pulse.Begin()
		defer d.Pulse.Done()
		return d.Pass(ctx)
	}})
}

// Pass cleans up what an earlier process left and removes empty nodes (disruption 3).
func (d *Disruption) Pass(ctx context.Context) error {
	if !d.Store.Synced() {
		return nil
	}
	offers := map[string][]catalog.InstanceType{}
	for _, pool := range d.Store.Pools() {
		if list, err := d.Cloud.Types(ctx, pool); err == nil {
			offers[pool.Name] = list
		}
	}
	view := d.Store.Disruption(offers)
	d.spend(view)
	failed := d.cleanUp(ctx, view)
	start := d.Now()
	decision := disruption.Next(view, func() bool { return ctx.Err() != nil })
	d.count(decision, d.Now().Sub(start))
	d.tell(ctx, decision.Stay)
	for _, c := range decision.Commands {
		failed = errors.Join(failed, d.remove(ctx, c))
	}
	return failed
}

// cleanUp takes the taint and the condition off nodes that nobody is removing (G7). One that cannot be
// written now keeps no other from being released (G9).
func (d *Disruption) cleanUp(ctx context.Context, view disruption.View) error {
	held, err := d.held(ctx)
	if err != nil {
		return err
	}
	var failed []error
	for _, n := range view.Nodes {
		if !n.Going && (held["node/"+n.Name] || held["claim/"+n.Claim]) {
			failed = append(failed, d.release(ctx, disruption.Candidate{Node: n.Name, Claim: n.Claim}))
		}
	}
	return errors.Join(failed...)
}

// held names the nodes with our taint and the claims with our condition. Mostly there are none, which is
// found out without a copy of each object.
func (d *Disruption) held(ctx context.Context) (map[string]bool, error) {
	nodes, claims, held := &corev1.NodeList{}, &karpv1.NodeClaimList{}, map[string]bool{}
	if err := errors.Join(d.Client.List(ctx, nodes, client.UnsafeDisableDeepCopy), d.Client.List(ctx, claims, client.UnsafeDisableDeepCopy)); err != nil {
		return nil, fmt.Errorf("list nodes and claims: %w", err)
	}
	for i := range nodes.Items {
		if n := &nodes.Items[i]; slices.ContainsFunc(n.Spec.Taints, isDisrupted) {
			held["node/"+n.Name] = true
		}
	}
	for i := range claims.Items {
		if c := &claims.Items[i]; condition.Find(c.Status.Conditions, karpv1.ConditionDisruptionReason) != nil {
			held["claim/"+c.Name] = true
		}
	}
	return held, nil
}

// release undoes what hold did.
func (d *Disruption) release(ctx context.Context, n disruption.Candidate) error {
	node := &corev1.Node{}
	if err := d.Client.Get(ctx, client.ObjectKey{Name: n.Node}, node); err != nil {
		return client.IgnoreNotFound(err)
	}
	if i := slices.IndexFunc(node.Spec.Taints, isDisrupted); i >= 0 && node.DeletionTimestamp == nil {
		before := node.DeepCopy()
		node.Spec.Taints = slices.Delete(node.Spec.Taints, i, i+1)
		if err := d.patch(ctx, node, before); err != nil {
			return err
		}
		log.FromContext(ctx).Info("untainted node", "Node", klog.KRef("", n.Node), "taint.Key", karpv1.TaintKeyDisrupted)
	}
	return d.setReason(ctx, n.Claim, "")
}

func isDisrupted(t corev1.Taint) bool {
	return t.Key == karpv1.TaintKeyDisrupted && t.Effect == corev1.TaintEffectNoSchedule
}

func (d *Disruption) patch(ctx context.Context, obj, before client.Object) error {
	return client.IgnoreNotFound(d.Client.Patch(ctx, obj, client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{})))
}

// setReason sets condition DisruptionReason of a claim, or removes it.
func (d *Disruption) setReason(ctx context.Context, name, why string) error {
	claim := &karpv1.NodeClaim{}
	if err := d.Client.Get(ctx, client.ObjectKey{Name: name}, claim); err != nil {
		return client.IgnoreNotFound(err)
	}
	before := claim.DeepCopy()
	if why == "" {
		if condition.Find(claim.Status.Conditions, karpv1.ConditionDisruptionReason) == nil {
			return nil
		}
		claim.Status.Conditions = condition.Remove(claim.Status.Conditions, karpv1.ConditionDisruptionReason)
	} else {
		object := condition.Object{Generation: claim.Generation, Created: claim.CreationTimestamp, Deleting: claim.DeletionTimestamp != nil}
		claim.Status.Conditions = lifecycle.Conditions().Apply(claim.Status.Conditions, object, metav1.NewTime(d.Now()),
			condition.Change{Type: karpv1.ConditionDisruptionReason, Status: metav1.ConditionTrue, Reason: why, Message: why})
	}
	return client.IgnoreNotFound(d.Client.Status().Patch(ctx, claim, client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{})))
}

// remove carries out one command: hold all nodes, look again at the API server itself, and delete the
// claims of those that are still empty. A pod that slipped in keeps its node (FM D01).
func (d *Disruption) remove(ctx context.Context, c disruption.Command) error {
	const why = string(karpv1.ReasonEmpty)
	nodes := c.Remove
	log.FromContext(ctx).Info("disrupting node(s)", "command", "Empty/"+c.ID+": delete", "decision", "delete", "reason", strings.ToLower(why),
		"consolidation-type", "empty", "disrupted-node-count", len(nodes), "replacement-node-count", 0, "pod-count", 0, "disrupted-nodes", shown(nodes))
	var held []disruption.Candidate
	for _, n := range nodes {
		if err := d.hold(ctx, n, why); err != nil {
			log.FromContext(ctx).Error(err, "node stays", "Node", klog.KRef("", n.Node))
			continue
		}
		held = append(held, n)
	}
	d.Metrics.DisruptionDecisions.WithLabelValues("delete", "empty", "empty").Inc()
	for _, n := range held {
		d.Metrics.DisruptionDecisionsByPool.WithLabelValues(n.Pool, "delete", "empty", "empty").Inc()
	}
	var failed []error
	for _, n := range held {
		if err := d.finish(ctx, n, why); err != nil {
			d.Store.Mark(n.Node, false) // the next pass releases the node
			failed = append(failed, err)
		}
	}
	return errors.Join(failed...)
}

// hold keeps new pods away from a node and says why.
func (d *Disruption) hold(ctx context.Context, n disruption.Candidate, why string) error {
	node := &corev1.Node{}
	if err := d.Client.Get(ctx, client.ObjectKey{Name: n.Node}, node); err != nil {
		return err
	}
	if !slices.ContainsFunc(node.Spec.Taints, isDisrupted) {
		before := node.DeepCopy()
		node.Spec.Taints = append(slices.Clone(node.Spec.Taints), karpv1.DisruptedTaint())
		if err := d.Client.Patch(ctx, node, client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{})); err != nil {
			return fmt.Errorf("taint node %s: %w", n.Node, err)
		}
		log.FromContext(ctx).Info("tainted node", "Node", klog.KRef("", n.Node), "taint.Key", karpv1.TaintKeyDisrupted, "taint.Effect", corev1.TaintEffectNoSchedule)
	}
	if err := d.setReason(ctx, n.Claim, why); err != nil {
		return fmt.Errorf("nodeclaim %s: %w", n.Claim, err)
	}
	d.Store.Mark(n.Node, true)
	return nil
}

// finish deletes the claim of a node that is still empty, and lets go of one that is not.
func (d *Disruption) finish(ctx context.Context, n disruption.Candidate, why string) error {
	d.awaitTaint(ctx, n.Node)
	pods := &corev1.PodList{}
	if err := d.Reader.List(ctx, pods, client.MatchingFields{"spec.nodeName": n.Node}); err != nil {
		return fmt.Errorf("list the pods of node %s: %w", n.Node, err)
	}
	if d.Store.Nominated(n.Node) { // since it was decided that the node goes
		d.Metrics.DisruptionFailedValidations.WithLabelValues("empty").Inc()
		log.FromContext(ctx).Info("a pending pod is expected on the node; it stays", "Node", klog.KRef("", n.Node))
		d.Store.Mark(n.Node, false)
		return d.release(ctx, n)
	}
	for i := range pods.Items {
		p := &pods.Items[i]
		if cluster.Reschedulable(p) && cluster.EvictCost(p, d.CostManaged) > 0 || cluster.DoNotDisrupt(p, d.Now()) {
			d.Metrics.DisruptionFailedValidations.WithLabelValues("empty").Inc()
			log.FromContext(ctx).Info("node is no longer empty; it stays", "Node", klog.KRef("", n.Node), "Pod", klog.KRef(p.Namespace, p.Name))
			d.Store.Mark(n.Node, false)
			return d.release(ctx, n)
		}
	}
	claim, node := &karpv1.NodeClaim{}, &corev1.Node{}
	if err := d.Client.Get(ctx, client.ObjectKey{Name: n.Claim}, claim); err != nil {
		return client.IgnoreNotFound(err)
	}
	if err := d.Client.Get(ctx, client.ObjectKey{Name: n.Node}, node); err != nil {
		return client.IgnoreNotFound(err)
	}
	if err := d.Client.Delete(ctx, claim, client.Preconditions{UID: &claim.UID}); err != nil {
		return client.IgnoreNotFound(err)
	}
	text := event.Event{Reason: event.DisruptionTerminating, Text: "Disrupting the node, reason " + why + ": no pod on it would have to move"}
	d.Events.Emit(claim, text)
	d.Events.Emit(node, text)
	policy := ""
	if pool := d.pool(n.Pool); pool != nil {
		policy = snake(string(pool.Spec.Disruption.ConsolidationPolicy))
	}
	d.Metrics.NodeClaimsDisrupted.WithLabelValues("empty", n.Pool, claim.Labels[karpv1.LabelCapacityType], policy, lifecycle.TerminationMode(claim)).Inc()
	return nil
}

// awaitTaint waits until the watch has told of the taint: then the scheduler, which watches too, is
// unlikely not to know of it.
func (d *Disruption) awaitTaint(ctx context.Context, name string) {
	const poll = 50 * time.Millisecond
	tick := time.NewTicker(poll)
	defer tick.Stop()
	limit := time.NewTimer(taintSeen)
	defer limit.Stop()
	for {
		node := &corev1.Node{}
		if err := d.Client.Get(ctx, client.ObjectKey{Name: name}, node); err != nil || slices.ContainsFunc(node.Spec.Taints, isDisrupted) {
			return
		}
		select {
		case <-tick.C:
		case <-limit.C:
			return
		case <-ctx.Done():
			return
		}
	}
}

func (d *Disruption) pool(name string) *karpv1.NodePool {
	for _, p := range d.Store.Pools() {
		if p.Name == name {
			return p
		}
	}
	return nil
}

// tell sends what there is to say about nodes that stay.
func (d *Disruption) tell(ctx context.Context, news []disruption.News) {
	for _, n := range news {
		if n.Pool != "" {
			if pool := d.pool(n.Pool); pool != nil {
				d.Events.Emit(pool, n.Event)
			}
			continue
		}
		node, claim := &corev1.Node{}, &karpv1.NodeClaim{}
		if d.Client.Get(ctx, client.ObjectKey{Name: n.Node}, node) == nil {
			d.Events.Emit(node, n.Event)
		}
		if d.Client.Get(ctx, client.ObjectKey{Name: n.Claim}, claim) == nil {
			d.Events.Emit(claim, n.Event)
		}
	}
}

// count keeps the gauges of disruption. Pools that are gone leave no series behind (FM N03).
func (d *Disruption) count(decision disruption.Decision, took time.Duration) {
	d.Metrics.DisruptionEvaluationDuration.WithLabelValues("empty", "empty").Observe(took.Seconds())
	d.Metrics.PoolsAllowedDisruptions.Reset()
	d.Metrics.PoolsNodesConsumingBudgets.Reset()
	for why, pools := range decision.Allowed {
		d.Metrics.DisruptionEligibleNodes.WithLabelValues(strings.ToLower(string(why))).Set(float64(decision.Eligible[why]))
		for pool, n := range pools {
			d.Metrics.PoolsAllowedDisruptions.WithLabelValues(pool, strings.ToLower(string(why))).Set(float64(n))
			d.Metrics.PoolsNodesConsumingBudgets.WithLabelValues(pool, strings.ToLower(string(why))).Set(float64(decision.Busy[why][pool]))
		}
	}
}

// spend keeps the gauge of what pools cost. A node without a known price is counted once.
func (d *Disruption) spend(view disruption.View) {
	costs, unpriced := map[string]float64{}, map[string]bool{}
	for pool := range view.Pools {
		costs[pool] = 0
	}
	for _, n := range view.Nodes {
		costs[n.Pool] += n.Price
		if n.Price > 0 {
			continue
		}
		unpriced[n.Name] = true
		if !d.unpriced[n.Name] {
			d.Metrics.PoolsCostErrors.WithLabelValues(n.Pool).Inc()
		}
	}
	d.unpriced = unpriced
	d.Metrics.PoolsCost.Reset()
	for pool, cost := range costs {
		d.Metrics.PoolsCost.WithLabelValues(pool).Set(cost)
	}
}

func shown(nodes []disruption.Candidate) string {
	names := make([]string, 0, len(nodes))
	for _, n := range nodes {
		names = append(names, n.Node)
	}
	return strings.Join(names, ", ")
}

// snake turns CamelCase into snake_case.
func snake(camel string) string {
	var b strings.Builder
	for i, r := range camel {
		if i > 0 && r >= 'A' && r <= 'Z' {
			b.WriteByte('_')
		}
		b.WriteRune(r)
	}
	return strings.ToLower(b.String())
}
