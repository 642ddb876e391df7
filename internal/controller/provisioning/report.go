package provisioning

import (
	"context"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/log"

	karpv1 "github.com/dovetail-sh/dovetail/api/v1"
	"github.com/dovetail-sh/dovetail/internal/cluster"
	"github.com/dovetail-sh/dovetail/internal/event"
	"github.com/dovetail-sh/dovetail/internal/execute"
	"github.com/dovetail-sh/dovetail/internal/provision"
	"github.com/dovetail-sh/dovetail/internal/reason"
	"github.com/dovetail-sh/dovetail/internal/solve"
	"github.com/dovetail-sh/dovetail/internal/store"
)

// shownReasons is how many reasons an event about one pod shows at most.
const shownReasons = 6

// emitPodEvent emits an event about a pod, unless the pod is gone.
func (p *Provisioner) emitPodEvent(key cluster.PodKey, e event.Event) {
	if pod := p.Store.Pod(key); pod != nil {
		p.Events.Emit(pod, e)
	}
}

// alteredClaim is the event about a claim that admission changed, and what follows from that (FM A13).
func alteredClaim(name string, parts []string) event.Event {
	return event.Event{Reason: event.FailedScheduling, Key: "altered", Text: "NodeClaim " + name + " was made for the pod, and admission changed its " +
		strings.Join(parts, ", ") + ". If the pod does not fit its node, it waits until that NodeClaim is deleted; look at the webhooks and policies for nodeclaims"}
}

// unschedulable is the event about a pod without a node. Another kind of cause is another event, which is sent at once: the
// pool was not ready a moment ago, and now no instance type fits. The same causes with other amounts are a repeat.
func unschedulable(prefix string, why []reason.Reason) event.Event {
	return event.Event{Reason: event.FailedScheduling, Key: reason.CodesOf(why), Text: prefix + reason.Join(why, shownReasons)}
}

// reportIgnored reports why pods are not planned for (scheduling 3.4).
func (p *Provisioner) reportIgnored(ctx context.Context, pods []cluster.Pod) {
	left := make(map[cluster.PodKey]loggedReason, len(pods))
	for i := range pods {
		text := reason.Join(pods[i].Shape.Invalid, shownReasons)
		p.emitPodEvent(pods[i].Key, unschedulable("Not planned for: ", pods[i].Shape.Invalid))
		left[pods[i].Key] = p.logOnce(ctx, p.ignoredLogged, "ignoring pod", pods[i].Key, text)
	}
	p.ignoredLogged = left
}

// reportUnplaced reports why pods have no node. It leaves out pods that wait for reserved capacity (SC-46), and
// pods that still run on a terminating node.
func (p *Provisioner) reportUnplaced(ctx context.Context, view store.View, plan solve.Plan) {
	quiet, untried := 0, 0
	refusals := make(map[cluster.PodKey]loggedReason, len(plan.Unplaced))
	for _, u := range plan.Unplaced {
		if u.Deferred {
			quiet++
			continue
		}
		if len(u.Why) == 1 && u.Why[0].Code == reason.OutOfTime {
			untried++
			continue
		}
		pod := p.Store.Pod(u.Pod)
		if pod == nil || pod.Spec.NodeName != "" {
			continue
		}
		text := reason.Join(u.Why, shownReasons)
		p.Events.Emit(pod, unschedulable("No node can take the pod: ", u.Why))
		refusals[u.Pod] = p.logOnce(ctx, p.refusalsLogged, "could not schedule pod", u.Pod, text)
	}
	p.refusalsLogged = refusals
	if quiet > 0 {
		log.FromContext(ctx).V(1).Info("deferring scheduling decision for pod(s) to wait for reserved capacity", "pods", quiet)
	}
	if untried > 0 {
		log.FromContext(ctx).V(1).Info("planning took too long and was cut off; the next plans are for the rest", "pods", untried, "limit", provision.PlanTimeout.String())
	}
	p.reportPoolsWithoutTypes(view)
}

// reportPoolsWithoutTypes emits events on pools whose requirements no instance type meets, whatever pods request
// for (SC-09).
func (p *Provisioner) reportPoolsWithoutTypes(view store.View) {
	pools := p.Store.Pools()
	for i := range view.Pools {
		pool := &view.Pools[i]
		if pool.Closed || len(pool.Types) == 0 {
			continue
		}
		k := slices.IndexFunc(pools, func(np *karpv1.NodePool) bool { return np.Name == pool.Name })
		if k < 0 {
			continue
		}
		for _, r := range solve.Misspelt(pool) {
			p.Events.Emit(pools[k], event.Event{Reason: event.DefaultAssumed, Text: r.Text(), Key: r.Have})
		}
		if why, empty := solve.NoTypes(pool, p.Policy); empty {
			p.Events.Emit(pools[k], event.Event{Reason: event.NoCompatibleInstanceTypes, Text: why.Text()})
		}
	}
}

// reportUnbound emits events on pods that the scheduler does not bind to their expected nodes.
func (p *Provisioner) reportUnbound(view store.View, binds []solve.Bind) {
	arrived := func(key cluster.PodKey) bool {
		pod := p.Store.Pod(key)
		return pod != nil && pod.Spec.NodeName != ""
	}
	for _, e := range p.state.ObserveBinds(view.Snapshot, binds, arrived, p.Now(), p.Nomination) {
		p.emitPodEvent(e.Pod, e.Event)
	}
}

// nominatePods protects the nodes of a plan from disruption until their pods are bound (SC-52).
func (p *Provisioner) nominatePods(view store.View, plan solve.Plan) {
	until := p.Now().Add(p.Nomination)
	for _, b := range plan.Bind {
		p.Store.ExpectPod(b.Pod, b.Node, until)
		p.Store.RecordPlannedNode(b.Pod, b.Node)
		p.emitPodEvent(b.Pod, execute.NominatedOn(placeName(view, b.Node)))
	}
}

// placeName names a place as a node, or as a claim if there is no node yet.
func placeName(view store.View, name string) string {
	i, found := slices.BinarySearchFunc(view.Nodes, name, func(n cluster.Node, name string) int { return strings.Compare(n.Name, name) })
	if found && view.Nodes[i].Claim == name {
		return "nodeclaim/" + name
	}
	return "node/" + name
}

// setPlanMetrics sets the gauges of planning.
func (p *Provisioner) setPlanMetrics(view store.View, plan solve.Plan) {
	m := p.Metrics
	m.SchedulerUnschedulablePods.WithLabelValues(provisioner).Set(float64(len(plan.Unplaced)))
	m.SchedulerPodsByZone.Reset()
	zones := map[string]int{}
	for i := range view.Snapshot.Pending {
		zones[zoneOf(view.Snapshot.Pending[i].Shape)]++
	}
	// any order: each has a series of its own
	for zone, n := range zones {
		m.SchedulerPodsByZone.WithLabelValues(provisioner, zone).Set(float64(n))
	}
	keys := make([]cluster.PodKey, 0, view.Pending)
	for i := range view.Snapshot.Pending {
		keys = append(keys, view.Snapshot.Pending[i].Key)
	}
	for _, waited := range p.Store.Decided(keys) {
		m.PodsSchedulingDecisionDuration.WithLabelValues().Observe(waited.Seconds())
	}
	if p.Planned != nil {
		p.Planned(decisions(plan))
	}
}

// decisions lists the pods that a plan has a place for, and those that it has none for.
func decisions(plan solve.Plan) (placed, refused []cluster.PodKey) {
	for _, b := range plan.Bind {
		placed = append(placed, b.Pod)
	}
	for i := range plan.Create {
		placed = append(placed, plan.Create[i].Pods...)
	}
	for _, u := range plan.Unplaced {
		refused = append(refused, u.Pod)
	}
	return placed, refused
}

// zoneOf is the zone a pod has to be in, "flexible" if there are several, "none" if there is none.
func zoneOf(s *cluster.Shape) string {
	zones := map[string]bool{}
	open := false
	for _, required := range s.Required {
		r, requested := required[corev1.LabelTopologyZone]
		if !requested || r.Not {
			open = true
			continue
		}
		for _, zone := range r.Values {
			zones[zone] = true
		}
	}
	for _, place := range s.Zones {
		r, requested := place[corev1.LabelTopologyZone]
		if !requested || r.Not {
			continue
		}
		open = false
		for _, zone := range r.Values {
			zones[zone] = true
		}
	}
	switch {
	case open || len(zones) > 1:
		return "flexible"
	case len(zones) == 0:
		return "none"
	}
	// any order: there is one
	for zone := range zones {
		return zone
	}
	return "none"
}

// firstPods shows the first five pods and counts the rest.
func firstPods(pods []cluster.Pod) string {
	names := make([]string, 0, len(pods))
	for i := range pods {
		names = append(names, pods[i].Key.String())
	}
	return execute.Few(names)
}

func listFew(names []string) string {
	const few = 3
	if len(names) > few {
		return strings.Join(names[:few], "; ") + "; …"
	}
	return strings.Join(names, "; ")
}

func podsOf(nodes []solve.NewNode) int {
	n := 0
	for i := range nodes {
		n += len(nodes[i].Pods)
	}
	return n
}

func panicked(cause any) error { return fmt.Errorf("panic: %v", cause) }
