package cloud

import (
	"time"

	corev1 "k8s.io/api/core/v1"
)

// RepairAction is what helps a node.
type RepairAction string

// Actions, the more disruptive one first.
const (
	ReplaceNode RepairAction = "ReplaceNode"
	RebootNode  RepairAction = "RebootNode"
)

// Repair is a policy: what is done about a node with a certain condition (V15-17).
type Repair struct {
	Condition   corev1.NodeConditionType
	Status      corev1.ConditionStatus
	ReasonRegex string         // found anywhere in the reason of the condition; empty: the fallback
	Toleration  time.Duration  // how long the condition may last
	Bound       *time.Duration // the drain takes no longer; nil: as the claim says
	Priority    int            // 0 to 100
	Action      RepairAction
}
