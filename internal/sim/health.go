package sim

import (
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	karpv1 "github.com/dovetail-sh/dovetail/api/v1"
	"github.com/dovetail-sh/dovetail/internal/disrupt"
	"github.com/dovetail-sh/dovetail/internal/drain"
	"github.com/dovetail-sh/dovetail/internal/lifecycle"
)

// readRepairs reads the repair policies of a run.
func (w *World) readRepairs() {
	if len(w.config.Repairs) == 0 {
		return
	}
	var err error
	if w.config.OldRepair {
		w.ailments, err = lifecycle.NewAilments(w.config.Repairs)
	} else {
		w.repairs, err = disrupt.NewRepairSet(w.config.Repairs)
	}
	if err != nil {
		w.broken("repair", "%v", err)
	}
}

// forceRepair is the legacy repair controller: a node that was unhealthy for too long is deleted by force (V15-33).
func (p *process) forceRepair(name string) {
	node := p.w.api.nodes[name]
	if node == nil || p.w.ailments == nil {
		return
	}
	var claims []*karpv1.NodeClaim
	if claim := p.w.api.claimOf(node); claim != nil {
		claims = append(claims, claim)
	}
	var all []*corev1.Node
	for _, obj := range objects(p.seen[nodes]) {
		all = append(all, obj.(*corev1.Node))
	}
	repair := disrupt.DecideForcedRepair(p.w.ailments, node, claims, all, p.w.now)
	if repair.Blocked != "" {
		p.recordEvent("node/"+name, "is not repaired: "+repair.Blocked)
	}
	if repair.After > 0 {
		p.requeueAfter(health+name, repair.After)
	}
	if repair.Condition == "" {
		return
	}
	claim := claims[0]
	p.w.logf("controller: node %s is removed because of %s", name, repair.Condition)
	p.w.checks.checkRepairBreakers(p, node.Labels[karpv1.LabelNodePool])
	p.w.checks.repaired()
	if next := claim.DeepCopy(); drain.AdvanceDeadline(next, p.w.now) {
		p.write(func() { p.w.api.put(next) })
	}
	p.write(func() { p.w.api.delete(p.w.api.claims[claim.Name], p.w.now) })
}

// withCondition sets a condition of a node. Its time is kept if it only says the same again.
func withCondition(list []corev1.NodeCondition, c corev1.NodeCondition) []corev1.NodeCondition {
	for i := range list {
		if list[i].Type == c.Type {
			if list[i].Status == c.Status {
				c.LastTransitionTime = list[i].LastTransitionTime
			}
			list[i] = c
			return list
		}
	}
	return append(list, c)
}

// makeUnhealthy sets an unhealthy condition, of a repair policy, on a node. It may clear by itself.
func (w *World) makeUnhealthy() {
	names := sorted(w.api.nodes)
	if len(names) == 0 || len(w.config.Repairs) == 0 {
		return
	}
	name := names[w.rnd.IntN(len(names))]
	policy := w.config.Repairs[w.rnd.IntN(len(w.config.Repairs))]
	reason := []string{"Broken", "Stuck", "Odd"}[w.rnd.IntN(3)]
	passes := time.Duration(0)
	if w.rnd.IntN(3) == 0 {
		passes = w.between(time.Minute, 20*time.Minute)
	}
	w.stats.Unhealthy++
	w.logf("fault: node %s has %s=%s, %s", name, policy.Condition, policy.Status, reason)
	if policy.Condition == corev1.NodeReady {
		w.stopKubelet(name, policy.Status, passes)
		return
	}
	next := w.api.nodes[name].DeepCopy()
	next.Status.Conditions = withCondition(next.Status.Conditions, corev1.NodeCondition{
		Type: policy.Condition, Status: policy.Status, Reason: reason, LastTransitionTime: metav1.NewTime(w.now),
	})
	w.api.put(next)
	if passes > 0 {
		w.after(passes, func() { w.recover(name, policy.Condition) })
	}
}

// recover has a condition of a node be over.
func (w *World) recover(name string, what corev1.NodeConditionType) {
	node := w.api.nodes[name]
	if node == nil {
		return
	}
	next := node.DeepCopy()
	next.Status.Conditions = withCondition(next.Status.Conditions, corev1.NodeCondition{
		Type: what, Status: corev1.ConditionTrue, Reason: "Fine", LastTransitionTime: metav1.NewTime(w.now),
	})
	w.api.put(next)
}

// stopKubelet makes a kubelet unreachable, permanently or for a while.
func (w *World) stopKubelet(name string, status corev1.ConditionStatus, passes time.Duration) {
	i := w.market.byID[w.api.nodes[name].Spec.ProviderID]
	if i == nil {
		return
	}
	i.hung = true
	w.setStatus(name, status)
	w.after(5*time.Minute, func() { w.abandon(name) })
	if passes > 0 {
		w.after(passes, func() {
			i.hung = false
			w.setStatus(name, corev1.ConditionTrue)
		})
	}
}

// disconnectNodes makes most nodes unreachable at once, as a network failure does.
func (w *World) disconnectNodes() {
	share := 0.4 + 0.6*w.rnd.Float64()
	lasts := w.between(2*time.Minute, 25*time.Minute)
	for _, name := range sorted(w.api.nodes) {
		if w.rnd.Float64() < share {
			w.setStatus(name, corev1.ConditionUnknown)
			w.after(lasts, func() { w.setStatus(name, corev1.ConditionTrue) })
		}
	}
}

// makeHealthy has a node be well that nothing would repair.
func (w *World) makeHealthy(name string) {
	node := w.api.nodes[name]
	if i := w.market.byID[node.Spec.ProviderID]; i != nil && len(w.config.Repairs) == 0 {
		i.hung = false
	}
	w.setReady(name, true)
}

// forbidRepair has a user forbid the repair of a node.
func (w *World) forbidRepair() {
	if names := sorted(w.api.nodes); len(names) > 0 {
		next := w.api.nodes[names[w.rnd.IntN(len(names))]].DeepCopy()
		metav1.SetMetaDataAnnotation(&next.ObjectMeta, karpv1.AnnotationDoNotRepair, "true")
		w.api.put(next)
	}
}
