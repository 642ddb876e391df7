package cluster

import (
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	karpv1 "github.com/dovetail-sh/dovetail/api/v1"
	"github.com/dovetail-sh/dovetail/internal/catalog"
	"github.com/dovetail-sh/dovetail/internal/condition"
	"github.com/dovetail-sh/dovetail/internal/reqs"
	"github.com/dovetail-sh/dovetail/internal/resources"
)

// Pool reads a pool in its effective form. used is the capacity of its nodes and nodes their number,
// without those being deleted (API 4.2). types must have been read with lanes that the Reader started
// from.
func (r *Reader) Pool(np *karpv1.NodePool, types []catalog.InstanceType, used corev1.ResourceList, nodes int64) Pool {
	template := &np.Spec.Template
	pool := Pool{
		Name:          np.Name,
		Taints:        template.Spec.Taints,
		StartupTaints: template.Spec.StartupTaints,
		Types:         types,
	}
	if np.Spec.Weight != nil {
		pool.Weight = *np.Spec.Weight
	}
	var sound bool
	pool.Requirements, sound = r.poolRequirements(np)
	pool.ClosedBy = closedBy(np, sound)
	pool.Closed = pool.ClosedBy != ""
	healthy := condition.Find(np.Status.Conditions, karpv1.ConditionNodeRegistrationHealthy)
	pool.Unhealthy = healthy != nil && healthy.Status == metav1.ConditionFalse

	if limit, limited := np.Spec.Limits[karpv1.LimitNodes]; limited {
		left := max(resources.Whole(limit), 0) - nodes
		pool.NodeLimit = &left
	}
	pool.Limits = r.limits(np.Spec.Limits, used)
	return pool
}

// closedBy says why nothing is launched from a pool, if so.
func closedBy(np *karpv1.NodePool, sound bool) string {
	switch {
	case np.DeletionTimestamp != nil:
		return "it is being deleted"
	case np.Spec.Replicas != nil:
		return "it is static; spec.replicas alone decides how many nodes it has"
	case !sound:
		return "its labels and requirements contradict each other"
	case !condition.True(np.Status.Conditions, karpv1.ConditionReady):
		return NotReady
	}
	return ""
}

// NotReady is said of a pool that is not ready.
const NotReady = "it is not ready; kubectl describe nodepool shows why"

// limits returns what remains of each limited resource. Even a limit of zero needs a lane: it forbids
// every instance type that has some.
func (r *Reader) limits(limits, used corev1.ResourceList) []Limit {
	names := slices.DeleteFunc(resources.Names(limits), func(name corev1.ResourceName) bool { return name == karpv1.LimitNodes })
	r.table = r.table.Extend(names...)
	left := resources.Sub(r.table.Capacity(limits), r.table.Capacity(used))
	var out []Limit
	for _, name := range names {
		lane, _ := r.table.Lane(name)
		out = append(out, Limit{Resource: name, Remaining: left.At(lane)})
	}
	return out
}

// poolRequirements combines requirements, template labels and the name of the pool. A pool whose
// labels and requirements contradict each other can have no node: it is not sound.
func (r *Reader) poolRequirements(np *karpv1.NodePool) (set reqs.Set, sound bool) {
	template := &np.Spec.Template
	set, faults := reqs.FromEntries(karpv1.Entries(template.Spec.Requirements), r.words)
	sound = len(faults) == 0
	labels := reqs.FromLabels(template.ObjectMeta.Labels, r.words)
	for _, key := range labels.Keys() {
		sound = set.Add(key, labels[key]) && sound
	}
	return set, set.Add(karpv1.LabelNodePool, reqs.Req{Values: []string{np.Name}}) && sound
}
