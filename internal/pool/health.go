package pool

import (
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	karpv1 "github.com/dovetail-sh/dovetail/api/v1"
	"github.com/dovetail-sh/dovetail/internal/condition"
)

// RegistrationFailed is the reason for a node that was launched and did not join.
const RegistrationFailed = "RegistrationFailed"

// Launches are the outcomes of the launches of a pool.
type Launches struct {
	Ring    Ring
	Known   bool     // false: the controller started since, and the condition says what was
	Results []Result // new ones, oldest first
}

// Registration is how the nodes of a pool register, for the back-off of its launches.
type Registration int

// Registrations.
const (
	RegistrationOpen    Registration = iota // nothing new is known
	RegistrationHealthy                     // nothing speaks against the pool
	RegistrationFailing                     // its condition is False, and another node did not register
)

// RegistrationOf returns how the nodes of a pool register, given its conditions as decided and the results that they were
// decided with.
func RegistrationOf(conditions []metav1.Condition, results []Result) Registration {
	healthy := condition.Find(conditions, karpv1.ConditionNodeRegistrationHealthy)
	switch {
	case healthy == nil || healthy.Status != metav1.ConditionFalse:
		return RegistrationHealthy
	case slices.ContainsFunc(results, func(result Result) bool { return !result.Registered }):
		return RegistrationFailing
	}
	return RegistrationOpen
}

// DecideHealth decides whether nodes of the pool register (LC-53). Results from before a change of the pool
// or its class say nothing about the present and are dropped.
func DecideHealth(f Facts) (Ring, condition.Change) {
	seen := condition.Find(f.Pool.Status.Conditions, karpv1.ConditionNodeRegistrationHealthy)
	changed := f.Class != nil && f.Pool.Status.NodeClassObservedGeneration != f.Class.Generation
	if seen == nil || seen.ObservedGeneration != f.Pool.Generation || changed {
		return Ring{}, condition.Change{Type: karpv1.ConditionNodeRegistrationHealthy, Status: metav1.ConditionUnknown, Reason: condition.AwaitingReconciliation}
	}
	change := condition.Change{Type: seen.Type, Status: seen.Status, Reason: seen.Reason, Message: seen.Message}
	ring := f.Launches.Ring
	if !f.Launches.Known {
		ring = Seed(seen.Status)
	}
	for _, result := range f.Launches.Results {
		ring = ring.Add(result.Registered)
		status := ring.Status()
		switch {
		case result.Registered && status == metav1.ConditionTrue:
			change = condition.Change{Type: change.Type, Status: status}
		case !result.Registered && status == metav1.ConditionFalse && change.Status != status:
			change.Status, change.Reason, change.Message = status, result.Reason, result.Message
			if change.Reason == "" {
				change.Reason = RegistrationFailed
			}
		}
	}
	return ring, change
}
