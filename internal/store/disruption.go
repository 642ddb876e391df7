package store

import (
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"

	karpv1 "github.com/dovetail-sh/dovetail/api/v1"
	"github.com/dovetail-sh/dovetail/internal/budget"
	"github.com/dovetail-sh/dovetail/internal/catalog"
	"github.com/dovetail-sh/dovetail/internal/cluster"
	"github.com/dovetail-sh/dovetail/internal/condition"
	"github.com/dovetail-sh/dovetail/internal/disrupt"
	"github.com/dovetail-sh/dovetail/internal/lifecycle"
)

// Disruption shows the managed nodes as disruption sees them. types holds what each pool could buy; a
// pool that is missing is one of which that is not known.
func (s *Store) Disruption(types map[string][]catalog.InstanceType) disrupt.View {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := s.opts.Now()
	v := disrupt.View{Now: now, Pools: map[string]disrupt.Pool{}}
	for name, p := range s.pools {
		v.Pools[name] = disruptPool(p.effective, len(types[name]) > 0)
	}
	sizes, guards, awaited := newIndex(types), s.guardsByNamespace(), s.awaited()
	for _, p := range s.places {
		if p.claim == nil || p.node == nil {
			continue
		}
		n := disrupt.Node{
			Name: p.node.Name, Claim: p.claim.Name, Pool: p.claim.Labels[karpv1.LabelNodePool],
			Ready:          lifecycle.Ready(p.node),
			Initialized:    p.node.Labels[karpv1.LabelInitialized] == "true",
			Terminating:    condition.True(p.claim.Status.Conditions, karpv1.ConditionInstanceTerminating),
			Going:          p.marked || p.claim.DeletionTimestamp != nil || p.node.DeletionTimestamp != nil,
			Nominated:      now.Before(p.nominated) || awaited[p.claim.Name],
			Protected:      protected(p.node.Annotations),
			Consolidatable: !p.settling(),
		}
		n.Price = sizes.price(&cluster.Node{
			Pool: n.Pool, InstanceType: p.node.Labels[corev1.LabelInstanceTypeStable],
			Zone: p.node.Labels[corev1.LabelTopologyZone], CapacityType: p.node.Labels[karpv1.LabelCapacityType],
		})
		for _, slot := range s.onNode[n.Name] {
			n.Pods = append(n.Pods, s.disruptPod(slot.pod, guards[slot.pod.Namespace], now))
		}
		slices.SortFunc(n.Pods, func(a, b disrupt.Pod) int { return strings.Compare(a.Name, b.Name) })
		v.Nodes = append(v.Nodes, n)
	}
	slices.SortFunc(v.Nodes, func(a, b disrupt.Node) int { return strings.Compare(a.Name, b.Name) })
	return v
}

// awaited returns the claims that pods which wait were promised.
func (s *Store) awaited() map[string]bool {
	out := map[string]bool{}
	for key, claim := range s.promised {
		if s.waiting[key] != nil {
			out[claim] = true
		}
	}
	return out
}

// guard is a PodDisruptionBudget with its selector, read.
type guard struct {
	name     string
	budget   *policyv1.PodDisruptionBudget
	selector cluster.Selector
}

// guardsByNamespace reads the selectors of all budgets, by namespace.
func (s *Store) guardsByNamespace() map[string][]guard {
	out := map[string][]guard{}
	for key, b := range s.budgets {
		if selector, err := cluster.NewSelector(b.Spec.Selector); err == nil {
			out[key.Namespace] = append(out[key.Namespace], guard{key.Namespace + "/" + key.Name, b, selector})
		}
	}
	return out
}

// protected reports whether annotations forbid disruption; the names of old count too (LC-62).
func protected(annotations map[string]string) bool {
	return annotations[karpv1.AnnotationDoNotDisrupt] == "true" || annotations[karpv1.AnnotationDoNotConsolidate] == "true"
}

func disruptPool(p *karpv1.NodePool, known bool) disrupt.Pool {
	_, never, err := p.Spec.Disruption.ConsolidateAfter.ParseOrNever()
	return disrupt.Pool{
		Name: p.Name, Static: p.Spec.Replicas != nil, Never: never || err != nil, Protected: protected(p.Annotations), Known: known,
		Budgets: budget.Of(p.Spec.Disruption.Budgets),
	}
}

// disruptPod reads a pod with the budgets that select it (disruption 6).
func (s *Store) disruptPod(p *corev1.Pod, guards []guard, now time.Time) disrupt.Pod {
	active := p.DeletionTimestamp == nil
	out := disrupt.Pod{
		Name: p.Namespace + "/" + p.Name, Moves: cluster.Reschedulable(p), EvictCost: cluster.EvictCost(p, s.opts.CostManaged),
		Protected: active && cluster.DoNotDisrupt(p, now),
	}
	if !active {
		return out
	}
	for i := range guards {
		if g := &guards[i]; g.selector.Matches(p.Labels) {
			out.Budgets = append(out.Budgets, g.name)
			out.Blocked = out.Blocked || g.budget.Status.DisruptionsAllowed == 0 && !letsUnready(g.budget, p)
		}
	}
	slices.Sort(out.Budgets)
	return out
}

// letsUnready reports whether a budget lets a pod go because it is not ready anyway.
func letsUnready(b *policyv1.PodDisruptionBudget, p *corev1.Pod) bool {
	policy := b.Spec.UnhealthyPodEvictionPolicy
	return policy != nil && *policy == policyv1.AlwaysAllow && cluster.Unready(p)
}
