package sim

import (
	"slices"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	karpv1 "github.com/dovetail-sh/dovetail/api/v1"
	"github.com/dovetail-sh/dovetail/internal/condition"
	"github.com/dovetail-sh/dovetail/internal/lifecycle"
	"github.com/dovetail-sh/dovetail/internal/pool"
)

// recordRegistration counts once how the launch of a claim ended; without a failure its node registered. The condition of its
// pool and the back-off of launches follow (LC-53, RH-02, RH-03).
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
	launches := p.registered.Launches(stored)
	ring, change := pool.DecideHealth(pool.Facts{Pool: stored, Launches: launches})
	next := stored.DeepCopy()
	object := condition.Object{Generation: stored.Generation, Created: stored.CreationTimestamp}
	next.Status.Conditions = pool.Conditions().Apply(stored.Status.Conditions, object, metav1.NewTime(p.w.now), change)
	next.Status.Conditions = slices.DeleteFunc(next.Status.Conditions, func(c metav1.Condition) bool { return c.Type == karpv1.ConditionReady })
	next.Status.Conditions = append(next.Status.Conditions, *condition.Find(stored.Status.Conditions, karpv1.ConditionReady)) // of nothing else a run decides
	p.write(func() { p.w.api.put(next) })
	p.registered.Decided(stored, ring, len(launches.Results))
	p.w.checks.registers(name, next, result)
	switch p.w.config.Steps.RegistrationOf(next.Status.Conditions, launches.Results) {
	case pool.RegistrationHealthy:
		p.launches.RecordHealthy(name)
	case pool.RegistrationFailing:
		p.launches.RecordUnhealthy(name, p.w.now)
	case pool.RegistrationOpen:
	}
}

// For how long no node is launched for pods from an unhealthy pool after another node did not register (RH-02): the first
// time, and at most.
const (
	registrationBackoff        = time.Minute
	longestRegistrationBackoff = 8 * time.Minute
)

// failedRegistration is when nodes of a pool began not to register, and how long failures after it may say nothing new.
type failedRegistration struct {
	at, until time.Time
	length    time.Duration
}

// registers records that a node of a pool registered, or did not.
func (c *checks) registers(name string, p *karpv1.NodePool, result pool.Result) {
	healthy := condition.Find(p.Status.Conditions, karpv1.ConditionNodeRegistrationHealthy)
	switch last := c.notRegistered[name]; {
	case healthy == nil || healthy.Status != metav1.ConditionFalse:
		delete(c.notRegistered, name)
	case !result.Registered && !c.w.now.Before(last.until):
		length := min(max(2*last.length, registrationBackoff), longestRegistrationBackoff)
		c.notRegistered[name] = failedRegistration{at: c.w.now, until: c.w.now.Add(length), length: length}
	}
}

// ordersHealthy checks that no claim for pending pods is of a pool that is backed off because its nodes do not register.
func (c *checks) ordersHealthy(claim *karpv1.NodeClaim) {
	name := claim.Labels[karpv1.LabelNodePool]
	if failed, is := c.notRegistered[name]; is && c.w.now.Sub(failed.at) < registrationBackoff {
		c.w.broken("RH-02", "claim %s is of pool %s, of which a node did not register %s ago", claim.Name, name, c.w.now.Sub(failed.at))
	}
}

// brokenPools makes a part of the machines never join, so that pools become unhealthy and healthy again.
func (m *maker) brokenPools() {
	m.c.Health, m.c.NeverJoins = true, 0.2+0.3*m.Float64()
}
