package pool

import (
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	karpv1 "github.com/dovetail-sh/dovetail/api/v1"
	"github.com/dovetail-sh/dovetail/internal/condition"
	"github.com/dovetail-sh/dovetail/internal/event"
	"github.com/dovetail-sh/dovetail/internal/reason"
)

// Reasons of NodeClassReady=False that are not those of the class itself.
const (
	NodeClassNotFound         = "NodeClassNotFound"
	NodeClassTerminating      = "NodeClassTerminating"
	NodeClassReadinessUnknown = "NodeClassReadinessUnknown"
)

// Class is what a pool has to know about its node class.
type Class struct {
	Generation int64
	Deleting   bool
	Conditions []metav1.Condition
	Refusals   []reason.Reason // what the pool requests that nodes of this class cannot be given
}

// together is how long a pool that was just created may be without its class: one manifest makes both, in
// any order.
const together = 5 * time.Second

// expectsClass is for how long nothing is said about a class that does not exist; 0 if it is time to.
func (f Facts) expectsClass() time.Duration {
	age := f.Now.Sub(f.Pool.CreationTimestamp.Time)
	if f.Class != nil || age.Abs() >= together || f.Pool.Generation > 1 {
		return 0
	}
	return together - age
}

// classReady decides whether the node class can be used (LC-52), and what to report when it cannot be
// found.
func classReady(ref karpv1.NodeClassReference, class *Class) (condition.Change, []event.Event) {
	change := condition.Change{Type: karpv1.ConditionNodeClassReady, Status: metav1.ConditionFalse}
	name := ref.Kind + " " + ref.Name
	if class == nil {
		change.Reason = NodeClassNotFound
		change.Message = name + " does not exist; create it, or name another one in spec.template.spec.nodeClassRef"
		return change, []event.Event{{Reason: event.NodeClassNotFound, Text: change.Message, Key: name}}
	}
	if class.Deleting {
		change.Reason = NodeClassTerminating
		change.Message = name + " is being deleted; name another one in spec.template.spec.nodeClassRef, or create it again once it is deleted"
		return change, []event.Event{{Reason: event.NodeClassNotFound, Text: change.Message, Key: name + " deleting"}}
	}
	ready := condition.Find(class.Conditions, karpv1.ConditionReady)
	switch {
	case ready == nil || ready.Status == metav1.ConditionUnknown:
		change.Reason, change.Message = NodeClassReadinessUnknown, name+" has not been checked yet; its conditions say what is missing"
		if details := offenders(class.Conditions); details != "" {
			change.Message = name + " has not been checked completely: " + details
		}
	case ready.Status == metav1.ConditionFalse:
		change.Reason, change.Message = ready.Reason, name+" is not ready"
		if change.Reason == "" {
			change.Reason = string(event.NodeClassNotReady)
		}
		if ready.Message != "" {
			change.Message += ": " + ready.Message
		}
		if details := offenders(class.Conditions); details != "" {
			change.Message += " (" + details + ")"
		}
	default:
		change = condition.Change{Type: change.Type, Status: metav1.ConditionTrue}
	}
	return change, nil
}

// waitsForOthers is the reason of a condition of a class that only repeats that others do not hold.
const waitsForOthers = "DependenciesNotReady"

// offenders are the texts of the conditions that do not hold, so that the pool alone says what to fix.
func offenders(list []metav1.Condition) string {
	var texts []string
	for _, c := range list {
		if c.Type != karpv1.ConditionReady && c.Status != metav1.ConditionTrue && c.Message != "" && c.Reason != waitsForOthers {
			texts = append(texts, c.Type+": "+c.Message)
		}
	}
	return strings.Join(texts, "; ")
}
