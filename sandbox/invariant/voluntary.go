package invariant

import (
	"fmt"
	"time"

	karpv1 "github.com/dovetail-sh/dovetail/api/v1"
	"github.com/dovetail-sh/dovetail/internal/condition"
)

// A voluntary disruption starts when the condition DisruptionReason of a claim that is not going becomes
// True. The taint of its Node is written just before; a watch of another kind shows it, sooner or later.

// Blind says that the controller cannot have read all it must know, such as while a test keeps the response
// to a list from it after a restart, until the function that it returns is called.
func (c *Checker) Blind(at time.Time) (sighted func(time.Time)) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.blind++
	c.blindSince = at
	done := false
	return func(time.Time) {
		c.mu.Lock()
		defer c.mu.Unlock()
		if !done {
			done = true
			c.blind--
		}
	}
}

// checkStart judges the moment at which a claim begins to be disrupted: G4. What the process did
// before it was blinded may show a moment later.
func (c *Checker) checkStart(at time.Time, before, now *claim) {
	if before == nil || before.isDisrupted() || !now.isDisrupted() || now.DeletionTimestamp != nil {
		return
	}
	if c.blind > 0 && at.Sub(c.blindSince) > c.options.Limits.WatchLag {
		c.reportViolation(Violation{
			Rule: G4, At: at, Object: claimObject(now.Name), Pool: poolOf(now.NodeClaim),
			What: fmt.Sprintf("its disruption started (%s) while the controller could not know the state of the cluster", now.disruptionReason()),
		})
	}
}

func (c *claim) isDisrupted() bool {
	return condition.True(c.Status.Conditions, karpv1.ConditionDisruptionReason)
}

// disruptionReason is why a claim is disrupted.
func (c *claim) disruptionReason() string {
	if found := condition.Find(c.Status.Conditions, karpv1.ConditionDisruptionReason); found != nil {
		return found.Reason
	}
	return ""
}
