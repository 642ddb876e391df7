package store

import (
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	karpv1 "github.com/dovetail-sh/dovetail/api/v1"
	"github.com/dovetail-sh/dovetail/internal/catalog"
	"github.com/dovetail-sh/dovetail/internal/cluster"
	"github.com/dovetail-sh/dovetail/internal/condition"
)

// Disruption returns the managed nodes as disruption sees them, with a snapshot of the same instant for simulations.
// types holds what each pool could launch; for a pool that is missing, this is not known.
func (s *Store) Disruption(types map[string][]catalog.InstanceType) cluster.DisruptionView {
	v, _ := s.Inspect(types)
	return v
}

// Inspect returns what Disruption and Snapshot return, of the same instant.
func (s *Store) Inspect(types map[string][]catalog.InstanceType) (cluster.DisruptionView, View) {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := s.opts.Now()
	sizes := newIndex(types)
	frozen := s.snapshot(types, sizes, now)
	v := cluster.DisruptionView{Now: now, Pools: map[string]cluster.ManagedPool{}, Cluster: frozen.Snapshot, PodsToPlace: slices.Concat(frozen.Pods, frozen.Virtual)}
	for pod, node := range frozen.PlannedNodes {
		v.PlannedBinds = append(v.PlannedBinds, cluster.Bind{Pod: pod, Node: node})
	}
	slices.SortFunc(v.PlannedBinds, func(a, b cluster.Bind) int { return strings.Compare(a.Pod.String(), b.Pod.String()) })
	for i := range frozen.Pools {
		p := &frozen.Pools[i]
		v.Pools[p.Name] = disruptPool(p, s.pools[p.Name].effective)
	}
	guards, exposed := s.guardsByNamespace(), s.unreplicatedLeaderNode()
	waiting, leaving := s.claimsWithExpectedPods()
	for i := range frozen.Nodes {
		node := &frozen.Nodes[i]
		if node.Claim == "" {
			continue
		}
		p := s.places[claimKey(node.Claim)]
		s.countStatic(v.Pools, p)
		if p.node != nil {
			n := s.disruptNode(p, node, sizes, guards, now)
			n.Nominated, n.ExpectsDisplaced = s.podsExpected(p, now) || waiting[n.Claim], n.ExpectsDisplaced || now.Before(p.displacedUntil) || leaving[n.Claim]
			n.Leading = n.Name == exposed
			v.Nodes = append(v.Nodes, n)
		}
	}
	slices.SortFunc(v.Nodes, func(a, b cluster.ManagedNode) int { return strings.Compare(a.Name, b.Name) })
	return v, frozen
}

// countStatic counts a claim of a static pool.
func (s *Store) countStatic(pools map[string]cluster.ManagedPool, p *place) {
	pool, known := pools[p.claim.Labels[karpv1.LabelNodePool]]
	if !known || !pool.Static {
		return
	}
	pool.Claims++
	if !p.removing && p.claim.DeletionTimestamp == nil && !s.replacesUnmarked(p.claim) {
		pool.Running++
	}
	pools[pool.Name] = pool
}

// disruptNode reads a place that has both a claim and a Node. node is how the snapshot has it.
func (s *Store) disruptNode(p *place, node *cluster.Node, sizes index, guards map[string][]budgetGuard, now time.Time) cluster.ManagedNode {
	labels, conditions := p.node.Labels, p.claim.Status.Conditions
	n := cluster.ManagedNode{
		Node:         *node,
		Reservation:  labels[s.opts.ReservationLabel],
		Created:      p.claim.CreationTimestamp.Time,
		Joined:       p.node.CreationTimestamp.Time,
		BeingRemoved: p.removing || p.isDeleting(),
		Registered:   labels[karpv1.LabelRegistered] == "true",
		Ready:        cluster.NodeReady(p.node),
		Terminating:  condition.True(conditions, karpv1.ConditionInstanceTerminating),
		Commanded:    p.commanded,
		Rebooting:    condition.True(conditions, karpv1.ConditionRebooting),
		ProtectedBy:  cluster.ProtectedBy(p.node.Annotations),
		DoNotRepair:  p.node.Annotations[karpv1.AnnotationDoNotRepair] == "true",
		Health:       p.node.Status.Conditions,
		Reboots:      s.rebootsOf(p.claim.UID, now),
	}
	n.Name = p.node.Name
	if pool := s.pools[n.Pool]; n.Settling && pool != nil {
		n.SettledAt, _ = cluster.ConsolidatableAt(pool.effective, p.claim)
	}
	if after, never, err := p.claim.Spec.ExpireAfter.ParseOrNever(); err == nil && !never {
		n.ExpireAfter = after
	}
	if text := p.claim.Spec.TerminationGracePeriod; text != "" {
		bound, err := text.Parse()
		n.Bounded, n.Bound = err == nil, bound
	}
	if c := condition.Find(conditions, karpv1.ConditionDrifted); c != nil && c.Status == metav1.ConditionTrue {
		n.Drift, n.DriftedAt = c.Reason, c.LastTransitionTime.Time
	}
	if c := condition.Find(conditions, karpv1.ConditionRebooting); c != nil && c.Status == metav1.ConditionFalse {
		n.Rebooted = c.LastTransitionTime.Time
	}
	if t := sizes.find(n.Pool, n.InstanceType); t != nil && n.CapacityType == karpv1.CapacityTypeReserved {
		n.Frees = t.PriceOf(karpv1.CapacityTypeOnDemand, n.Zone)
	}
	n.Pods = make([]cluster.ManagedPod, 0, len(node.Pods))
	for i := range node.Pods {
		pod := &node.Pods[i]
		object := s.pods[pod.Key].pod
		if object.Spec.NodeName != "" {
			n.Pods = append(n.Pods, disruptPod(pod, object, guards[object.Namespace], now))
			continue
		}
		n.ExpectsDisplaced = true // what is about to be bound cannot be evicted, so nothing that guards against that counts
		n.Pods = append(n.Pods, cluster.ManagedPod{Pod: *pod, Moves: cluster.Reschedulable(object)})
	}
	return n
}

// claimsWithExpectedPods returns the claims planned for pending pods, and those planned for pods of terminating
// nodes.
func (s *Store) claimsWithExpectedPods() (waiting, leaving map[string]bool) {
	waiting, leaving = map[string]bool{}, map[string]bool{}
	for key, claim := range s.plannedClaims {
		switch {
		case s.isUnbound(key):
			waiting[claim] = true
		case s.isDisplaced(key):
			leaving[claim] = true
		}
	}
	return waiting, leaving
}

// budgetGuard is a PodDisruptionBudget with its selector, read.
type budgetGuard struct {
	name     string
	budget   *policyv1.PodDisruptionBudget
	selector cluster.Selector
}

// guardsByNamespace reads the selectors of all budgets, by namespace.
func (s *Store) guardsByNamespace() map[string][]budgetGuard {
	out := map[string][]budgetGuard{}
	// any order: budgets of a pod are sorted when it is read
	for key, b := range s.budgets {
		if selector, err := cluster.NewSelector(b.Spec.Selector); err == nil {
			out[key.Namespace] = append(out[key.Namespace], budgetGuard{key.Namespace + "/" + key.Name, b, selector})
		}
	}
	return out
}

// disruptPool reads a pool. pool is how the snapshot has it.
func disruptPool(pool *cluster.Pool, p *karpv1.NodePool) cluster.ManagedPool {
	_, never, err := p.Spec.Disruption.ConsolidateAfter.ParseOrNever()
	out := cluster.ManagedPool{
		Pool: *pool, Policy: p.Spec.Disruption.ConsolidationPolicy, Static: p.Spec.Replicas != nil, MaxNodes: -1,
		NeverConsolidate: never || err != nil, ProtectedBy: cluster.ProtectedBy(p.Annotations),
		Ready:   p.DeletionTimestamp == nil && condition.True(p.Status.Conditions, karpv1.ConditionReady),
		Budgets: cluster.Budgets(p.Spec.Disruption.Budgets),
	}
	if p.Spec.Replicas != nil {
		out.Replicas = *p.Spec.Replicas
	}
	if limit, set := p.Spec.Limits[karpv1.LimitNodes]; set {
		out.MaxNodes = limit.Value()
	}
	return out
}

// disruptPod reads a pod with the budgets that select it (disruption 6). pod is how the snapshot has it.
func disruptPod(pod *cluster.Pod, object *corev1.Pod, guards []budgetGuard, now time.Time) cluster.ManagedPod {
	out := cluster.NewManagedPod(*pod, object, now)
	if object.DeletionTimestamp != nil || !cluster.DrainWaits(object, karpv1.DisruptedTaint(), now) { // it would not be evicted (disruption 6)
		return out
	}
	for i := range guards {
		if g := &guards[i]; g.selector.Matches(object.Labels) {
			out.Budgets = append(out.Budgets, g.name)
			if g.budget.Status.DisruptionsAllowed == 0 && !allowsUnreadyEviction(g.budget, object) {
				out.Blocked = true
				out.Impossible = out.Impossible || cluster.NeverAllows(g.budget)
			}
		}
	}
	slices.Sort(out.Budgets)
	return out
}

// allowsUnreadyEviction reports whether a budget lets a pod go because it is not ready anyway.
func allowsUnreadyEviction(b *policyv1.PodDisruptionBudget, p *corev1.Pod) bool {
	policy := b.Spec.UnhealthyPodEvictionPolicy
	return policy != nil && *policy == policyv1.AlwaysAllow && cluster.Unready(p)
}
