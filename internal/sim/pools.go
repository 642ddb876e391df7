package sim

import (
	"maps"
	"slices"

	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	awsv1 "github.com/dovetail-sh/dovetail/api/aws/v1"
	karpv1 "github.com/dovetail-sh/dovetail/api/v1"
	"github.com/dovetail-sh/dovetail/internal/lifecycle"
	"github.com/dovetail-sh/dovetail/internal/pool"
)

// putPool stores a pool as a user wrote it. What the controller writes about it takes no time here.
func (w *World) putPool(p *karpv1.NodePool) {
	old := w.api.pools[p.Name]
	switch {
	case old == nil:
		p.UID, p.Generation, p.CreationTimestamp = w.api.uid("pool"), 1, metav1.NewTime(w.now)
	case !equality.Semantic.DeepEqual(old.Spec, p.Spec):
		p.Generation = old.Generation + 1
	}
	launches := pool.Launches{}
	if w.process != nil {
		launches = w.process.registered.Launches(p)
	}
	step := w.decidePool(p, launches)
	w.checks.stampsPool(old, p)
	w.api.put(p)
	if w.process != nil {
		w.process.poolDecided(p, step, launches)
	}
}

// decidePool decides about a pool, and changes it as the controller does.
func (w *World) decidePool(p *karpv1.NodePool, launches pool.Launches) pool.Step {
	class := &pool.Class{Generation: 1, Conditions: []metav1.Condition{{Type: karpv1.ConditionReady, Status: metav1.ConditionTrue}}}
	step, err := w.config.Steps.NextPool(pool.Facts{Pool: p, Class: class, Words: awsv1.Vocabulary(), Now: metav1.NewTime(w.now), Launches: launches})
	if err != nil {
		w.broken("pool", "%v", err)
	}
	p.Annotations = maps.Clone(p.Annotations)
	if p.Annotations == nil {
		p.Annotations = map[string]string{}
	}
	maps.Copy(p.Annotations, step.Annotations)
	p.Status.Conditions, p.Status.NodeClassObservedGeneration = step.Conditions, step.ClassSeen
	w.checks.decidesPool(p)
	return step
}

// poolDecided records a decision about a pool that was written, and what follows for the back-off of launches (RH-02, RH-03).
func (p *process) poolDecided(of *karpv1.NodePool, step pool.Step, launches pool.Launches) {
	p.registered.Decided(of, step.Launches, len(launches.Results))
	switch p.w.config.Steps.RegistrationOf(of.Status.Conditions, launches.Results) {
	case pool.RegistrationHealthy:
		p.launches.RecordHealthy(of.Name)
	case pool.RegistrationFailing:
		p.launches.RecordUnhealthy(of.Name, p.w.now)
	case pool.RegistrationOpen:
	}
}

// recordRegistration counts once how the launch of a claim ended; without a failure its node registered. The pool is decided
// about then (LC-53).
func (p *process) recordRegistration(claim *karpv1.NodeClaim, failure *lifecycle.Failure) {
	result := pool.Result{Registered: failure == nil}
	if failure != nil {
		result.Reason, result.Message = failure.Reason, failure.Message
	}
	if !p.w.config.Health {
		return
	}
	name := p.registered.Record(claim, result)
	stored := p.w.api.pools[name]
	if stored == nil {
		return
	}
	launches, next := p.registered.Launches(stored), stored.DeepCopy()
	step := p.w.decidePool(next, launches)
	p.write(func() { p.w.api.put(next) })
	p.w.checks.registers(name, next, result)
	p.poolDecided(next, step, launches)
}

// lacksNodes reports whether nodes are missing that are launched later, as after a back-off: for buffers, or of a static pool.
func (c *checks) lacksNodes() bool {
	count := int64(0)
	for _, claim := range c.w.api.claims {
		if claim.Labels[karpv1.LabelNodePool] == fixed {
			count++
		}
	}
	of := c.w.api.pools[fixed]
	limit, limited := int64(0), false
	if of != nil {
		q, has := of.Spec.Limits[karpv1.LimitNodes]
		limit, limited = q.Value(), has
	}
	return c.w.process.state.BuffersShort() || of != nil && count < *of.Spec.Replicas && (!limited || count < limit)
}

// decidesPool checks that a pool which can be used says so of its present generation (LC-51, LC-52).
func (c *checks) decidesPool(p *karpv1.NodePool) {
	for _, kind := range []string{karpv1.ConditionReady, karpv1.ConditionValidationSucceeded, karpv1.ConditionNodeClassReady} {
		if !slices.ContainsFunc(p.Status.Conditions, func(c metav1.Condition) bool {
			return c.Type == kind && c.Status == metav1.ConditionTrue && c.ObservedGeneration == p.Generation
		}) {
			c.w.broken("LC-51", "pool %s of generation %d is not %s: %+v", p.Name, p.Generation, kind, p.Status.Conditions)
		}
	}
}

// stampsPool checks that a pool has a hash, and another one if its template has other labels (LC-50).
func (c *checks) stampsPool(before, after *karpv1.NodePool) {
	hash := after.Annotations[karpv1.AnnotationNodePoolHash]
	if hash == "" || before != nil && before.Annotations[karpv1.AnnotationNodePoolHash] == hash &&
		!maps.Equal(before.Spec.Template.ObjectMeta.Labels, after.Spec.Template.ObjectMeta.Labels) {
		c.w.broken("LC-50", "pool %s has hash %q after a change of its template", after.Name, hash)
	}
}
