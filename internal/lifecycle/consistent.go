package lifecycle

import (
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	karpv1 "github.com/dovetail-sh/dovetail/api/v1"
	"github.com/dovetail-sh/dovetail/internal/condition"
	"github.com/dovetail-sh/dovetail/internal/event"
)

// ConsistencyCheckFailed is the reason of ConsistentStateFound=False.
const ConsistencyCheckFailed = "ConsistencyCheckFailed"

// minResourcePercent is the percentage of what was expected of a resource that passes.
const minResourcePercent = 90

// Consistent compares a node with what was expected of it (LC-40). It returns the conditions of the
// claim as wanted, and events. Claims that are not initialized, or are terminating, stay as they are.
func Consistent(claim *karpv1.NodeClaim, node *corev1.Node, now time.Time) ([]metav1.Condition, []event.Event) {
	list := claim.Status.Conditions
	if claim.DeletionTimestamp != nil || node == nil || !condition.True(list, karpv1.ConditionInitialized) {
		return list, nil
	}
	change := condition.Change{Type: karpv1.ConditionConsistentStateFound, Status: metav1.ConditionTrue}
	var events []event.Event
	if short := shortages(claim, node); len(short) > 0 {
		change.Status, change.Reason, change.Message = metav1.ConditionFalse, ConsistencyCheckFailed, Cut(strings.Join(short, "; "))
		events = append(events, event.Event{Reason: event.FailedConsistencyCheck, Text: Cut("Node " + node.Name + " is smaller than planned: " + strings.Join(short, "; "))})
	}
	object := condition.Object{Generation: claim.Generation, Created: claim.CreationTimestamp}
	return Conditions().Apply(list, object, metav1.NewTime(now), change), events
}

func shortages(claim *karpv1.NodeClaim, node *corev1.Node) []string {
	var out []string
	for _, name := range slices.Sorted(maps.Keys(claim.Spec.Resources.Requests)) {
		requested, expected, found := claim.Spec.Resources.Requests[name], claim.Status.Capacity[name], node.Status.Capacity[name]
		if requested.IsZero() || expected.IsZero() {
			continue
		}
		share := 100 * found.AsApproximateFloat64() / expected.AsApproximateFloat64()
		if share < minResourcePercent {
			text := "expected " + expected.String() + " of " + string(name) + ", found " + found.String() + " (" + strconv.FormatFloat(share, 'f', 1, 64) + "%)"
			if name == corev1.ResourceMemory {
				text += "; raise the setting vmMemoryOverheadPercent if nodes of this kind always have less"
			}
			out = append(out, text)
		}
	}
	return out
}
