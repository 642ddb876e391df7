package sim

import (
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	karpv1 "github.com/dovetail-sh/dovetail/api/v1"
	"github.com/dovetail-sh/dovetail/internal/condition"
	"github.com/dovetail-sh/dovetail/internal/pool"
)

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

// launchResults are how the last launches of a pool ended, since its last change.
type launchResults struct {
	generation int64
	failed     []bool
}

// registers records that a node of a pool registered, or did not, and checks that the condition says what follows from the
// last four (LC-53).
func (c *checks) registers(name string, p *karpv1.NodePool, result pool.Result) {
	healthy := condition.Find(p.Status.Conditions, karpv1.ConditionNodeRegistrationHealthy)
	seen := c.results[name]
	if seen.generation != p.Generation {
		seen = launchResults{generation: p.Generation}
	}
	const counted = 4
	seen.failed = append(seen.failed, !result.Registered)
	seen.failed = seen.failed[max(0, len(seen.failed)-counted):]
	c.results[name] = seen
	failures := 0
	for _, failed := range seen.failed {
		if failed {
			failures++
		}
	}
	isFalse := healthy != nil && healthy.Status == metav1.ConditionFalse
	if len(seen.failed) == counted && (failures > 1 && !isFalse || failures < 2 && result.Registered && isFalse) {
		c.w.broken("LC-53", "%d of the last %d nodes of pool %s did not register, and NodeRegistrationHealthy is %+v", failures, counted, name, healthy)
	}
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
