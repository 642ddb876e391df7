package disrupt

import (
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	karpv1 "github.com/dovetail-sh/dovetail/api/v1"
	"github.com/dovetail-sh/dovetail/internal/cluster"
	"github.com/dovetail-sh/dovetail/internal/condition"
	"github.com/dovetail-sh/dovetail/internal/lifecycle"
	"github.com/dovetail-sh/dovetail/internal/reason"
)

// MarkFacts are the inputs of the marks of one claim.
type MarkFacts struct {
	Claim *karpv1.NodeClaim // effective
	Pool  *karpv1.NodePool  // effective
	Drift reason.Reason     // why the claim is not what is wanted now; no code if it is
	// DriftUnknown: it could not be found out, and the condition stays as it is.
	DriftUnknown bool
	Now          time.Time
}

// consolidatableMessage explains Consolidatable. If a node is blocked, an event says so as well: the condition says
// that consolidateAfter has passed, the event what prevents consolidation.
const consolidatableMessage = "no pod came or went for as long as consolidateAfter says, so the node is a candidate for consolidation; if it stays, event Unconsolidatable says why"

// Marks returns the conditions of a claim with Consolidatable and Drifted as they should be (LC-55,
// LC-57), and when to reconcile again; zero: when something changes.
func Marks(f MarkFacts) (list []metav1.Condition, after time.Duration) {
	object := condition.Object{Generation: f.Claim.Generation, Created: f.Claim.CreationTimestamp, Deleting: f.Claim.DeletionTimestamp != nil}
	list = f.Claim.Status.Conditions
	mark := func(name, why, message string) {
		list = lifecycle.Conditions().Apply(list, object, metav1.NewTime(f.Now), condition.Change{Type: name, Status: metav1.ConditionTrue, Reason: why, Message: message})
	}
	due, ever := cluster.ConsolidatableAt(f.Pool, f.Claim)
	switch {
	case ever && !due.After(f.Now):
		if !condition.True(list, karpv1.ConditionConsolidatable) {
			mark(karpv1.ConditionConsolidatable, karpv1.ConditionConsolidatable, consolidatableMessage)
		}
	default:
		list = condition.Remove(list, karpv1.ConditionConsolidatable)
		if ever {
			after = due.Sub(f.Now)
		}
	}
	why, text := string(f.Drift.Code), f.Drift.Text()
	switch have := condition.Find(list, karpv1.ConditionDrifted); {
	case !condition.True(list, karpv1.ConditionLaunched) || why == "" && !f.DriftUnknown:
		list = condition.Remove(list, karpv1.ConditionDrifted)
	case f.DriftUnknown:
	case have == nil || have.Status != metav1.ConditionTrue || have.Reason != why || have.Message != text:
		mark(karpv1.ConditionDrifted, why, text)
	}
	return list, after
}
