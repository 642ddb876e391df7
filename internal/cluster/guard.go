package cluster

import (
	"time"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
)

// Guards says which pods are held on their nodes, for ReaderOptions.Evictable.
type Guards struct {
	now     time.Time
	budgets map[string][]guard // by namespace
}

type guard struct {
	selector  Selector
	blocks    bool // never allows an eviction
	unhealthy bool // but always one of a pod that is not ready
}

// NewGuards reads the PodDisruptionBudgets in force.
func NewGuards(now time.Time, budgets []*policyv1.PodDisruptionBudget) *Guards {
	g := &Guards{now: now, budgets: map[string][]guard{}}
	for _, b := range budgets {
		selector, err := NewSelector(b.Spec.Selector)
		if err != nil || selector.Inert() {
			continue // selects no pod
		}
		policy := b.Spec.UnhealthyPodEvictionPolicy
		g.budgets[b.Namespace] = append(g.budgets[b.Namespace], guard{
			selector:  selector,
			blocks:    NeverAllows(b),
			unhealthy: policy != nil && *policy == policyv1.AlwaysAllow,
		})
	}
	return g
}

// NeverAllows reports whether a budget allows no eviction however healthy its pods are (disruption 6).
func NeverAllows(b *policyv1.PodDisruptionBudget) bool {
	return isInt(b.Spec.MaxUnavailable, 0) || isPercent(b.Spec.MaxUnavailable, "0%") || isPercent(b.Spec.MinAvailable, "100%")
}

func isInt(v *intstr.IntOrString, n int32) bool {
	return v != nil && v.Type == intstr.Int && v.IntVal == n
}

func isPercent(v *intstr.IntOrString, text string) bool {
	return v != nil && v.Type == intstr.String && v.StrVal == text
}

// Evictable reports whether neither do-not-disrupt nor a budget that never gives way holds the pod
// (scheduling 3.2). Two budgets for one pod hold it whatever they say: the eviction API refuses.
func (g *Guards) Evictable(p *corev1.Pod) bool {
	if p.DeletionTimestamp == nil && DoNotDisrupt(p, g.now) {
		return false
	}
	matching, blocked := 0, false
	for i := range g.budgets[p.Namespace] {
		b := &g.budgets[p.Namespace][i]
		if b.selector.Matches(p.Labels) {
			matching++
			blocked = blocked || b.blocks && !(b.unhealthy && Unready(p))
		}
	}
	return matching < 2 && !blocked
}

// Unready reports whether a pod says that it is not ready.
func Unready(p *corev1.Pod) bool {
	for i := range p.Status.Conditions {
		if p.Status.Conditions[i].Type == corev1.PodReady {
			return p.Status.Conditions[i].Status == corev1.ConditionFalse
		}
	}
	return false
}
